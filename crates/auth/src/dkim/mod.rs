//! DKIM signatures (RFC 6376, RFC 8301, RFC 8463).

pub(crate) mod canonical;
pub(crate) mod key;
mod private_key;
mod published;
pub(crate) mod signature;
pub(crate) mod signing;

pub use private_key::{KeyError, SigningError, SigningKey};
pub use published::{KeyFinding, findings};
pub use signature::Algorithm;
pub use signing::{SigningIdentity, sign};

use crate::records::{Records, is_at_or_below, verdicts};
use crate::scan::{SIGNATURES_MAX, Scanned};
use crate::together::{WorkBudget, all};
use aws_lc_rs::digest::{Digest, SHA256, digest};
use canonical::{Canonicalization, is_called, write_field};
use key::VerificationKey;
use signature::{Seal, Signature, without_signature};

verdicts! {
    /// Result of a signature, with the names of RFC 8601 §2.7.1.
    enum DkimResult {
        /// No signature.
        None = "none",
        Pass = "pass",
        /// It does not match the message.
        Fail = "fail",
        /// It is valid, but does not cover the message.
        Policy = "policy",
        /// The signature is malformed.
        Neutral = "neutral",
        /// Its key is unusable.
        PermError = "permerror",
    }
}

/// One signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DkimVerification {
    pub verdict: DkimResult,
    /// The error; empty without one.
    pub reason: String,
    /// The signer; `None` if unreadable.
    pub signer: Option<Signer>,
}

/// Identity of a signer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// `d`, in ASCII and lower case.
    pub domain: String,
    /// `s`.
    pub selector: String,
    pub algorithm: Algorithm,
}

impl DkimVerification {
    fn unsigned(verdict: DkimResult, reason: &str) -> DkimVerification {
        DkimVerification { verdict, reason: reason.to_owned(), signer: None }
    }
}

/// The combined result of a message's signatures: pass if one passes, else an unfinished result, else that of the
/// first.
#[must_use]
pub fn overall(outcomes: &[DkimVerification]) -> DkimResult {
    let has = |verdict| outcomes.iter().any(|outcome| outcome.verdict == verdict);
    match outcomes.first() {
        _ if has(DkimResult::Pass) => DkimResult::Pass,
        _ if has(DkimResult::CutShort) => DkimResult::CutShort,
        _ if has(DkimResult::TempError) => DkimResult::TempError,
        Some(first) => first.verdict,
        None => DkimResult::None,
    }
}

/// Maximum DNS lookups for a message: a key for each signature.
pub const LOOKUPS_MAX: u32 = SIGNATURES_MAX as u32;

/// Result of a signature, and its reason.
type ResultReason = (DkimResult, String);

/// Verifies the first signatures of a message, if any. `now` is in seconds since 1970.
pub async fn verify<R: Records>(records: &R, message: &Scanned, now: u64) -> Vec<DkimVerification> {
    if let Some(why) = message.unreadable {
        return vec![DkimVerification::unsigned(DkimResult::PermError, why)];
    }
    let mut signatures: Vec<_> = message.signatures.iter().enumerate().collect();
    // Signatures of the author's domain first: they are relevant for DMARC.
    let author = if signatures.len() > 1 { author_of(message) } else { None };
    let is_of_author = |signature: &Signature| {
        author.as_deref().is_some_and(|author| is_same_branch(&signature.seal.domain, author))
    };
    signatures.sort_by_key(|(_, (_, read))| !read.as_ref().is_ok_and(is_of_author));
    // All queries are concurrent: a slow name server for one key must not delay the rest.
    let keys = signatures.iter().map(|(_, (_, read))| key_for(records, message, read, now));
    let keys = all(keys).await;
    let pace = WorkBudget::default();
    let mut outcomes = Vec::with_capacity(signatures.len());
    for ((place, (field, read)), key) in signatures.into_iter().zip(keys) {
        let outcome = match read {
            Ok(signature) => verify_one(message, *field, signature, key, &pace).await,
            Err(wrong) => DkimVerification::unsigned(DkimResult::Neutral, wrong),
        };
        outcomes.push((place, outcome));
    }
    outcomes.sort_by_key(|(place, _)| *place);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// The domain of the first author, if readable.
fn author_of(message: &Scanned) -> Option<String> {
    let field = message.values("From").next()?;
    crate::authors::domains(field).into_iter().next().flatten()
}

/// Returns true if two domains are equal or one is below the other.
fn is_same_branch(one: &str, other: &str) -> bool {
    is_at_or_below(one, other) || is_at_or_below(other, one)
}

/// The key of a signature, and true if the signature covers the whole body. No query is made for an invalid signature.
async fn key_for<R: Records>(
    records: &R,
    message: &Scanned,
    read: &Result<Signature, &'static str>,
    now: u64,
) -> Result<(VerificationKey, bool), ResultReason> {
    let signature = read.as_ref().map_err(|wrong| (DkimResult::Neutral, (*wrong).to_owned()))?;
    // RFC 6376 §3.5, x=.
    if signature.expires_at.is_some_and(|expires_at| expires_at < now) {
        return Err((DkimResult::Fail, "the signature has expired".into()));
    }
    let is_whole =
        fits_body(message, signature).map_err(|(verdict, reason)| (verdict, reason.into()))?;
    Ok((find_key(records, &signature.seal).await?, is_whole))
}

async fn verify_one(
    message: &Scanned,
    field: usize,
    signature: &Signature,
    key: Result<(VerificationKey, bool), ResultReason>,
    pace: &WorkBudget,
) -> DkimVerification {
    let verified = match key {
        Ok((key, is_whole)) => {
            pace.spend(key.cost() + header_cost(message)).await;
            let hash = digest(&SHA256, &signed_header(message, field, signature));
            let verified = verify_seal(&key, &signature.seal, &hash, Some(signature));
            verified.map(|()| is_whole)
        }
        Err(wrong) => Err(wrong),
    };
    let (verdict, reason) = match verified {
        // RFC 6376 §8.15: readers may display an added From.
        Ok(_) if has_unsigned_author(message, signature) => {
            (DkimResult::Policy, "a From field is not signed".into())
        }
        Ok(true) => (DkimResult::Pass, String::new()),
        Ok(false) => (DkimResult::Policy, "the end of the body is not signed".into()),
        Err(wrong) => wrong,
    };
    let signer = Signer {
        domain: signature.seal.domain.clone(),
        selector: signature.seal.selector.clone(),
        algorithm: signature.seal.algorithm,
    };
    DkimVerification { verdict, reason, signer: Some(signer) }
}

/// Maximum work of canonicalizing a header, in units of [`WorkBudget`].
pub(crate) fn header_cost(message: &Scanned) -> u32 {
    const BYTES_OF_UNIT: usize = 4_096;
    u32::try_from(message.header.len() / BYTES_OF_UNIT).unwrap_or(u32::MAX)
}

fn has_unsigned_author(message: &Scanned, signature: &Signature) -> bool {
    let is_from = |name: &&String| name.eq_ignore_ascii_case("From");
    message.values("From").count() > signature.fields.iter().filter(is_from).count()
}

/// Checks that the body is the signed one (RFC 6376 §6.1.3). Returns true if all octets are covered.
pub(crate) fn fits_body(
    message: &Scanned,
    signature: &Signature,
) -> Result<bool, (DkimResult, &'static str)> {
    let Some(body) = message.body(signature) else {
        return Err((DkimResult::Policy, "too many different body hashes"));
    };
    let length = signature.body_length.unwrap_or(body.length);
    if length > body.length || body.hash != signature.body_hash {
        return Err((DkimResult::Fail, "the body was changed"));
    }
    Ok(length == body.length)
}

/// The signed data of the header: the named fields, from the bottom up, and the signature's own field without its value
/// (RFC 6376 §3.7, §5.4.2).
pub(crate) fn signed_header(message: &Scanned, own: usize, signature: &Signature) -> Vec<u8> {
    let mut signed = Vec::with_capacity(1024);
    let fields: Vec<&[u8]> = (0..message.fields.len()).map(|index| message.field(index)).collect();
    let names = signature.fields.iter().map(String::as_str);
    write_named(&fields, names, signature.header_form, &mut signed);
    write_last_field(message.field(own), signature.header_form, &mut signed);
    signed
}

/// Writes the named fields, from the bottom up. A name repeated more often than its field writes no further field.
fn write_named<'n>(
    fields: &[&[u8]],
    names: impl Iterator<Item = &'n str>,
    form: Canonicalization,
    signed: &mut Vec<u8>,
) {
    let mut is_used = vec![false; fields.len()];
    for name in names {
        let is_next =
            |(is_used, field): (&bool, &&[u8])| !is_used && is_called(field, name.as_bytes());
        let index = is_used.iter().zip(fields).rposition(is_next);
        if let Some((is_used, field)) = index.and_then(|i| is_used.get_mut(i).zip(fields.get(i))) {
            *is_used = true;
            write_field(field, form, signed);
        }
    }
}

/// The field of a signature, written without its value and its line end.
pub(crate) fn write_last_field(field: &[u8], form: Canonicalization, signed: &mut Vec<u8>) {
    write_field(&without_signature(field), form, signed);
    if signed.ends_with(b"\r\n") {
        signed.truncate(signed.len() - 2);
    }
}

/// Looks up the key of a signature in the DNS.
pub(crate) async fn find_key<R: Records>(
    records: &R,
    seal: &Seal,
) -> Result<VerificationKey, ResultReason> {
    let found = records.txt(&seal.key_name()).await;
    let found =
        found.map_err(|unanswered| (DkimResult::of(&unanswered), unanswered.to_string()))?;
    VerificationKey::find(&found).map_err(|wrong| (DkimResult::PermError, wrong.to_owned()))
}

/// Checks the signature over this hash. `signature`: further constraints.
pub(crate) fn verify_seal(
    key: &VerificationKey,
    seal: &Seal,
    hash: &Digest,
    signature: Option<&Signature>,
) -> Result<(), ResultReason> {
    // RFC 6376 §3.6.1: a failed signature of a testing domain counts as none.
    let of_key = |(verdict, reason): ResultReason| match key.is_testing {
        true => (DkimResult::None, format!("{reason}; its domain is in test mode")),
        false => (verdict, reason),
    };
    let is_other = |signature: &Signature| signature.agent_domain != seal.domain;
    if key.is_strict && signature.is_some_and(is_other) {
        return Err(of_key((
            DkimResult::PermError,
            "the key allows i= in d= only, not in a subdomain".into(),
        )));
    }
    match key.verify(seal.algorithm, hash, &seal.signature) {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(of_key((DkimResult::Fail, "the signature does not match the header".into())))
        }
        Err(wrong) => Err(of_key((DkimResult::PermError, wrong.to_owned()))),
    }
}

#[cfg(test)]
mod tests;
