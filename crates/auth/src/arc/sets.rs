//! The fields of a chain, collected while a header passes.

use crate::dkim::signature::{Seal, Signature};
use crate::tags::{Tags, is_blank};
use mail::header::Field;
use std::collections::BTreeMap;

/// Maximum number of sets in a valid chain (RFC 8617 §4.2.1).
pub const SETS_MAX: u32 = 50;

/// The set with the highest instance, whatever errors the rest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(super) instance: u32,
    /// Its seal marks the chain before it as broken: no set may follow.
    pub(super) says_fail: bool,
}

/// The fields of a set, as far as found.
#[derive(Default)]
struct Set {
    results: Option<usize>,
    signature: Option<(usize, Result<Signature, &'static str>)>,
    seal: Option<(usize, Result<SealField, &'static str>)>,
}

pub(super) struct SealField {
    pub(super) seal: Seal,
    /// `cv=`.
    pub(super) says: ChainStatus,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChainStatus {
    None,
    Pass,
    Fail,
}

/// The sets of a header by instance.
#[derive(Default)]
pub(crate) struct Sets {
    by_instance: BTreeMap<u32, Set>,
    mistake: Option<&'static str>,
}

/// A chain with a checked structure.
pub(crate) enum Chain {
    None,
    /// It is malformed, with the reason.
    Broken(&'static str),
    /// Its sets in order.
    Whole(Vec<ArcSet>),
}

pub(crate) struct ArcSet {
    pub(super) results: usize,
    pub(super) signature: (usize, Signature),
    pub(super) seal: (usize, SealField),
}

impl Sets {
    /// Records a field if it belongs to ARC.
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
            let parsed = tags.as_ref().ok_or("malformed tag list").and_then(message_signature);
            let is_twice = set.signature.replace((index, parsed)).is_some();
            self.refuse(is_twice, "an instance has several ARC-Message-Signatures");
        } else if field.is("ARC-Seal") {
            let tags = Tags::parse(text());
            let instance = tags.as_ref().and_then(|tags| tags.get("i"));
            let Some(set) = self.set(instance) else { return };
            let parsed = tags.as_ref().ok_or("malformed tag list").and_then(seal_field);
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
        let digits = instance.map(|text| text.trim_matches(is_blank));
        // RFC 8617 §4.2.1: digits without a sign.
        let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let instance = digits.and_then(|text| text.parse::<u32>().ok());
        match instance {
            Some(instance @ 1..=SETS_MAX) => Some(self.by_instance.entry(instance).or_default()),
            Some(_) => {
                self.refuse(true, "an instance outside 1 to 50");
                None
            }
            None => {
                self.refuse(true, "a field without an instance");
                None
            }
        }
    }

    /// The signature with the body hash that counts (RFC 8617 §5.2, step 4).
    pub(crate) fn newest_signature(&self) -> Option<&Signature> {
        let (_, newest) = self.by_instance.last_key_value()?;
        newest.signature.as_ref().and_then(|(_, parsed)| parsed.as_ref().ok())
    }

    pub(crate) fn newest(&self) -> Option<Newest> {
        let (instance, set) = self.by_instance.last_key_value()?;
        let seal = set.seal.as_ref().and_then(|(_, parsed)| parsed.as_ref().ok());
        let says_fail = seal.is_some_and(|seal| seal.says == ChainStatus::Fail);
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
                return Chain::Broken("a set is incomplete");
            };
            match (signature, seal) {
                ((at, Ok(signature)), (seal_at, Ok(seal))) => {
                    let seal = (seal_at, seal);
                    sets.push(ArcSet { results, signature: (at, signature), seal });
                }
                ((_, Err(wrong)), _) | (_, (_, Err(wrong))) => return Chain::Broken(wrong),
            }
        }
        if sets.is_empty() { Chain::None } else { Chain::Whole(sets) }
    }
}

/// RFC 8617 §4.1.2: as in DKIM, but without a version, and seals must not be signed.
fn message_signature(tags: &Tags<'_>) -> Result<Signature, &'static str> {
    // `i` is the instance here, not the identity.
    let signature = Signature::of_tags(&tags.without("i"))?;
    if signature.fields.iter().any(|field| field.eq_ignore_ascii_case("ARC-Seal")) {
        return Err("a signature covers ARC-Seal");
    }
    Ok(signature)
}

/// RFC 8617 §4.1.3.
fn seal_field(tags: &Tags<'_>) -> Result<SealField, &'static str> {
    if tags.get("h").is_some() || tags.get("bh").is_some() {
        return Err("a seal with h= or bh=");
    }
    let says = match tags.get("cv") {
        Some("none") => ChainStatus::None,
        Some("pass") => ChainStatus::Pass,
        Some("fail") => ChainStatus::Fail,
        _ => return Err("a seal without cv="),
    };
    Ok(SealField { seal: Seal::parse(tags)?, says })
}
