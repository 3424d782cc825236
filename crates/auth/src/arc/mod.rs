//! ARC chains (RFC 8617): authentication results recorded by earlier handlers of a message.

mod sealing;
pub(crate) mod sets;

pub use sealing::{Sealed, Sealing, Unsealed, seal};
pub use sets::SETS_MAX;

use crate::dkim::canonical::{Canonicalization, write_field};
use crate::dkim::key::VerificationKey;
use crate::dkim::{
    DkimResult as SealVerdict, find_key, fits_body, header_cost, signed_header, verify_seal,
    write_last_field,
};
use crate::records::{Records, verdicts};
use crate::scan::Scanned;
use crate::together::WorkBudget;
use aws_lc_rs::digest::{Context, SHA256, digest};
use sets::{ArcSet, Chain, ChainStatus};

verdicts! {
    /// Results of RFC 8617 §4.4, with the names of RFC 8601.
    enum ArcResult {
        /// No chain.
        None = "none",
        Pass = "pass",
        Fail = "fail",
    }
}

/// Result of validating a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArcValidation {
    pub verdict: ArcResult,
    /// The error; empty without one.
    pub reason: String,
    /// Domains of the sealers, first one first, as far as the chain is whole.
    pub sealers: Vec<String>,
}

/// Verifies the chain of a message (RFC 8617 §5.2).
pub async fn verify<R: Records>(records: &R, message: &Scanned) -> ArcValidation {
    let fails = |reason: &str| ArcValidation {
        verdict: ArcResult::Fail,
        reason: reason.to_owned(),
        sealers: Vec::new(),
    };
    if let Some(why) = message.unreadable {
        return fails(why);
    }
    let sets = match &message.chain {
        Chain::None => {
            let (reason, sealers) = (String::new(), Vec::new());
            return ArcValidation { verdict: ArcResult::None, reason, sealers };
        }
        Chain::Broken(mistake) => return fails(mistake),
        Chain::Whole(sets) => sets,
    };
    match verify_sets(records, message, sets).await {
        Ok(()) => ArcValidation {
            verdict: ArcResult::Pass,
            reason: String::new(),
            sealers: sets.iter().map(|set| set.seal.1.seal.domain.clone()).collect(),
        },
        Err((SealVerdict::TempError, reason)) => {
            ArcValidation { verdict: ArcResult::TempError, reason, sealers: Vec::new() }
        }
        Err((SealVerdict::CutShort, reason)) => {
            ArcValidation { verdict: ArcResult::CutShort, reason, sealers: Vec::new() }
        }
        Err((_, reason)) => fails(&reason),
    }
}

/// Maximum DNS lookups for a chain: a key for the newest message signature, and one for each seal.
pub const LOOKUPS_MAX: u32 = 1 + SETS_MAX;

/// Maximum work for a chain, in units of [`WorkBudget`]: fifty sets with RSA keys of 2,048 bits, or fifteen with 4,096.
/// Real chains have three or four sets; the result of a longer one is not worth its cost.
const COST_MAX: u32 = 256;

/// The rest of [`COST_MAX`].
struct Budget {
    left: u32,
    pace: WorkBudget,
}

impl Budget {
    /// Deducts the cost of a verification with this key.
    async fn spend(&mut self, key: &VerificationKey) -> Result<(), (SealVerdict, String)> {
        let cost = key.cost();
        self.left = self.left.checked_sub(cost).ok_or_else(|| {
            (SealVerdict::Fail, "the chain is too expensive to verify".to_owned())
        })?;
        self.pace.spend(cost).await;
        Ok(())
    }
}

async fn verify_sets<R: Records>(
    records: &R,
    message: &Scanned,
    sets: &[ArcSet],
) -> Result<(), (SealVerdict, String)> {
    let fail = |reason: String| (SealVerdict::Fail, reason);
    for (set, number) in sets.iter().zip(1..) {
        let expected = if number == 1 { ChainStatus::None } else { ChainStatus::Pass };
        if set.seal.1.says != expected {
            return Err(fail(format!("seal {number} reports a broken chain")));
        }
    }
    let Some(newest) = sets.last() else { return Ok(()) };
    let (at, signature) = &newest.signature;
    match fits_body(message, signature) {
        Ok(true) => {}
        Ok(false) => return Err(fail("the end of the body is not signed".into())),
        Err((verdict, reason)) => return Err((verdict, reason.into())),
    }
    let of = |what: &str, number: usize| {
        let what = format!("{what} {number}");
        move |(verdict, reason): (SealVerdict, String)| (verdict, format!("{what}: {reason}"))
    };
    let mut budget = Budget { left: COST_MAX, pace: WorkBudget::default() };
    let key =
        find_key(records, &signature.seal).await.map_err(of("message signature", sets.len()))?;
    budget.spend(&key).await?;
    budget.pace.spend(header_cost(message)).await;
    let hash = digest(&SHA256, &signed_header(message, *at, signature));
    verify_seal(&key, &signature.seal, &hash, None).map_err(of("message signature", sets.len()))?;
    // RFC 8617 §5.1.1: a seal signs all sets so far, in order, each with its seal at the end. Each set is hashed only
    // once.
    let mut before = Context::new(&SHA256);
    let mut signed = Vec::with_capacity(2048);
    for (set, number) in sets.iter().zip(1..) {
        let seal = &set.seal.1.seal;
        let key = find_key(records, seal).await.map_err(of("seal", number))?;
        budget.spend(&key).await?;
        signed.clear();
        write_field(message.field(set.results), Canonicalization::Relaxed, &mut signed);
        write_field(message.field(set.signature.0), Canonicalization::Relaxed, &mut signed);
        before.update(&signed);
        signed.clear();
        write_last_field(message.field(set.seal.0), Canonicalization::Relaxed, &mut signed);
        let mut whole = before.clone();
        whole.update(&signed);
        verify_seal(&key, seal, &whole.finish(), None).map_err(of("seal", number))?;
        signed.clear();
        write_field(message.field(set.seal.0), Canonicalization::Relaxed, &mut signed);
        before.update(&signed);
    }
    Ok(())
}
