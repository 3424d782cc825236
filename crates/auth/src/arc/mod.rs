//! What others said of a message before they passed it on: ARC chains (RFC 8617).

mod sealing;
pub(crate) mod sets;

pub use sealing::{Sealed, Sealing, Unsealed, seal};
pub use sets::SETS_MAX;

use crate::dkim::canonical::{Form, write_field};
use crate::dkim::{
    Verdict as SealVerdict, fits_body, signed_header, verify_seal, write_last_field,
};
use crate::records::Records;
use crate::scan::Scanned;
use sets::{Chain, Said, Whole};

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
