//! What others said of a message before they passed it on: ARC chains (RFC 8617).

mod sealing;

pub use sealing::{Sealed, Sealing, Unsealed, seal};

use crate::dkim::canonical::{Form, write_field};
use crate::dkim::signature::{Seal, Signature};
use crate::dkim::{
    Verdict as SealVerdict, fits_body, signed_header, verify_seal, write_last_field,
};
use crate::records::Records;
use crate::scan::Scanned;
use crate::tags::{Tags, is_blank};
use mail::header::Field;
use std::collections::BTreeMap;

/// Sets of one chain; one more makes it fail (RFC 8617 §4.2.1).
pub const SETS_MAX: u32 = 50;

/// RFC 8617 §4.4, by the names of RFC 8601.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is no chain.
    None,
    Pass,
    Fail,
    TempError,
}

impl Verdict {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::None => "none",
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::TempError => "temperror",
        }
    }
}

/// What came of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Verdict,
    /// What is wrong with it; empty if nothing is.
    pub reason: String,
    /// Those who sealed it, the first one first, as far as it is whole.
    pub sealers: Vec<String>,
}

/// The set with the highest instance, whatever is wrong with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    instance: u32,
    /// Its seal says that the chain before it is broken: nothing more is to be said of it.
    says_fail: bool,
}

/// The fields of one set as they turn up.
#[derive(Default)]
struct Set {
    results: Option<usize>,
    signature: Option<(usize, Result<Signature, &'static str>)>,
    seal: Option<(usize, Result<SealField, &'static str>)>,
}

struct SealField {
    seal: Seal,
    /// `cv=`.
    says: Said,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    None,
    Pass,
    Fail,
}

/// The sets of a header by their instances.
#[derive(Default)]
pub(crate) struct Sets {
    by_instance: BTreeMap<u32, Set>,
    mistake: Option<&'static str>,
}

/// A chain whose form is looked at.
pub(crate) enum Chain {
    None,
    /// By its form it is none, and why.
    Broken(&'static str),
    /// Its sets in order.
    Whole(Vec<Whole>),
}

pub(crate) struct Whole {
    results: usize,
    signature: (usize, Signature),
    seal: (usize, SealField),
}

impl Sets {
    /// Takes note of a field, if it is one of ARC's.
    pub(crate) fn note(&mut self, index: usize, field: &Field<'_>) {
        let text = || std::str::from_utf8(field.value).unwrap_or_default();
        if field.is("ARC-Authentication-Results") {
            let instance = text().split(';').next().and_then(|first| first.split_once('='));
            let instance = instance.filter(|(name, _)| name.trim_matches(is_blank) == "i");
            let Some(set) = self.set(instance.map(|(_, number)| number)) else { return };
            let is_twice = set.results.replace(index).is_some();
            self.refuse(is_twice, "an instance has several ARC-Authentication-Results");
        } else if field.is("ARC-Message-Signature") {
            let tags = Tags::parse(text());
            let instance = tags.as_ref().and_then(|tags| tags.get("i"));
            let Some(set) = self.set(instance) else { return };
            let parsed = tags.as_ref().ok_or("no list of tags").and_then(message_signature);
            let is_twice = set.signature.replace((index, parsed)).is_some();
            self.refuse(is_twice, "an instance has several ARC-Message-Signatures");
        } else if field.is("ARC-Seal") {
            let tags = Tags::parse(text());
            let instance = tags.as_ref().and_then(|tags| tags.get("i"));
            let Some(set) = self.set(instance) else { return };
            let parsed = tags.as_ref().ok_or("no list of tags").and_then(seal_field);
            let is_twice = set.seal.replace((index, parsed)).is_some();
            self.refuse(is_twice, "an instance has several ARC-Seals");
        }
    }

    fn refuse(&mut self, is_wrong: bool, mistake: &'static str) {
        if is_wrong {
            self.mistake.get_or_insert(mistake);
        }
    }

    fn set(&mut self, instance: Option<&str>) -> Option<&mut Set> {
        let instance = instance.and_then(|text| text.trim_matches(is_blank).parse::<u32>().ok());
        match instance {
            Some(instance @ 1..=SETS_MAX) => Some(self.by_instance.entry(instance).or_default()),
            Some(_) => {
                self.refuse(true, "an instance below 1 or beyond 50");
                None
            }
            None => {
                self.refuse(true, "a field without an instance");
                None
            }
        }
    }

    /// The one whose body hash counts (RFC 8617 §5.2, step 4).
    pub(crate) fn newest_signature(&self) -> Option<&Signature> {
        let (_, newest) = self.by_instance.last_key_value()?;
        newest.signature.as_ref().and_then(|(_, parsed)| parsed.as_ref().ok())
    }

    pub(crate) fn newest(&self) -> Option<Newest> {
        let (instance, set) = self.by_instance.last_key_value()?;
        let seal = set.seal.as_ref().and_then(|(_, parsed)| parsed.as_ref().ok());
        let says_fail = seal.is_some_and(|seal| seal.says == Said::Fail);
        Some(Newest { instance: *instance, says_fail })
    }

    /// RFC 8617 §5.2, steps 1 to 3.
    pub(crate) fn into_chain(self) -> Chain {
        if let Some(mistake) = self.mistake {
            return Chain::Broken(mistake);
        }
        let mut sets = Vec::with_capacity(self.by_instance.len());
        for (number, set) in (1..).zip(self.by_instance) {
            let (instance, Set { results, signature, seal }) = set;
            if instance != number {
                return Chain::Broken("an instance is missing");
            }
            let (Some(results), Some(signature), Some(seal)) = (results, signature, seal) else {
                return Chain::Broken("a set is not complete");
            };
            match (signature, seal) {
                ((at, Ok(signature)), (seal_at, Ok(seal))) => {
                    let seal = (seal_at, seal);
                    sets.push(Whole { results, signature: (at, signature), seal });
                }
                ((_, Err(wrong)), _) | (_, (_, Err(wrong))) => return Chain::Broken(wrong),
            }
        }
        if sets.is_empty() { Chain::None } else { Chain::Whole(sets) }
    }
}

/// RFC 8617 §4.1.2: as of DKIM, but without a version, and it may not sign seals.
fn message_signature(tags: &Tags<'_>) -> Result<Signature, &'static str> {
    // `i` is the instance here, not who signs.
    let signature = Signature::of_tags(&tags.without("i"))?;
    if signature.fields.iter().any(|field| field.eq_ignore_ascii_case("ARC-Seal")) {
        return Err("a seal is signed");
    }
    Ok(signature)
}

/// RFC 8617 §4.1.3.
fn seal_field(tags: &Tags<'_>) -> Result<SealField, &'static str> {
    if tags.get("h").is_some() || tags.get("bh").is_some() {
        return Err("a seal with h= or bh=");
    }
    let says = match tags.get("cv") {
        Some("none") => Said::None,
        Some("pass") => Said::Pass,
        Some("fail") => Said::Fail,
        _ => return Err("a seal without cv="),
    };
    Ok(SealField { seal: Seal::parse(tags)?, says })
}

/// Verifies the chain of a message (RFC 8617 §5.2).
pub async fn verify<R: Records>(records: &R, message: &Scanned) -> Outcome {
    let fails = |reason: &str| Outcome {
        verdict: Verdict::Fail,
        reason: reason.to_owned(),
        sealers: Vec::new(),
    };
    if let Some(why) = message.unreadable {
        return fails(why);
    }
    let sets = match &message.chain {
        Chain::None => {
            let (reason, sealers) = (String::new(), Vec::new());
            return Outcome { verdict: Verdict::None, reason, sealers };
        }
        Chain::Broken(mistake) => return fails(mistake),
        Chain::Whole(sets) => sets,
    };
    match verify_sets(records, message, sets).await {
        Ok(()) => Outcome {
            verdict: Verdict::Pass,
            reason: String::new(),
            sealers: sets.iter().map(|set| set.seal.1.seal.domain.clone()).collect(),
        },
        Err((SealVerdict::TempError, reason)) => {
            Outcome { verdict: Verdict::TempError, reason, sealers: Vec::new() }
        }
        Err((_, reason)) => fails(&reason),
    }
}

async fn verify_sets<R: Records>(
    records: &R,
    message: &Scanned,
    sets: &[Whole],
) -> Result<(), (SealVerdict, String)> {
    let fail = |reason: String| (SealVerdict::Fail, reason);
    for (set, number) in sets.iter().zip(1..) {
        let expected = if number == 1 { Said::None } else { Said::Pass };
        if set.seal.1.says != expected {
            return Err(fail(format!("seal {number} says that the chain before it is broken")));
        }
    }
    let Some(newest) = sets.last() else { return Ok(()) };
    let (at, signature) = &newest.signature;
    match fits_body(message, signature) {
        Ok(true) => {}
        Ok(false) => return Err(fail("l= leaves an end of the body unsigned".into())),
        Err((verdict, reason)) => return Err((verdict, reason.into())),
    }
    let of = |what: &str, number: usize| {
        let what = format!("{what} {number}");
        move |(verdict, reason): (SealVerdict, String)| (verdict, format!("{what}: {reason}"))
    };
    let signed = signed_header(message, *at, signature);
    let verified = verify_seal(records, &signature.seal, &signed, None).await;
    verified.map_err(of("message signature", sets.len()))?;
    let mut signed = Vec::with_capacity(2048);
    for (set, number) in sets.iter().zip(1..) {
        // RFC 8617 §5.1.1: all sets so far, in order, each with its seal at the end.
        write_field(message.field(set.results), Form::Relaxed, &mut signed);
        write_field(message.field(set.signature.0), Form::Relaxed, &mut signed);
        let before = signed.len();
        write_last_field(message.field(set.seal.0), Form::Relaxed, &mut signed);
        let verified = verify_seal(records, &set.seal.1.seal, &signed, None).await;
        verified.map_err(of("seal", number))?;
        signed.truncate(before);
        write_field(message.field(set.seal.0), Form::Relaxed, &mut signed);
    }
    Ok(())
}
