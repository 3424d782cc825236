//! Who answers for content: DKIM signatures (RFC 6376, RFC 8301, RFC 8463).

pub(crate) mod canonical;
pub(crate) mod key;
mod private_key;
mod published;
pub(crate) mod signature;
pub(crate) mod signing;

pub use private_key::{KeyError, SigningKey};
pub use published::{Finding, findings};
pub use signature::Algorithm;
pub use signing::{SigningIdentity, Unsigned, sign};

use crate::records::Records;
use crate::scan::Scanned;
use crate::together::all;
use canonical::{Form, is_called, write_field};
use key::Key;
use signature::{Seal, Signature, without_signature};

/// What came of a signature, by the names of RFC 8601 §2.7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is none.
    None,
    Pass,
    /// It does not fit the message.
    Fail,
    /// It is good, and does not cover the message.
    Policy,
    /// It is none, by its form.
    Neutral,
    TempError,
    /// Its key can't be used.
    PermError,
}

impl Verdict {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::None => "none",
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Policy => "policy",
            Verdict::Neutral => "neutral",
            Verdict::TempError => "temperror",
            Verdict::PermError => "permerror",
        }
    }
}

/// One signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Verdict,
    /// What is wrong with it; empty if nothing is.
    pub reason: String,
    /// Who signed; `None` where that can't be read.
    pub signer: Option<Signer>,
}

/// Who signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// `d`, in ASCII and lower case.
    pub domain: String,
    /// `s`.
    pub selector: String,
    pub algorithm: Algorithm,
}

impl Outcome {
    fn unsigned(verdict: Verdict, reason: &str) -> Outcome {
        Outcome { verdict, reason: reason.to_owned(), signer: None }
    }
}

/// What the signatures of a message come to together: pass if one passes, else what may yet become of
/// one, else what is wrong with the first.
#[must_use]
pub fn overall(outcomes: &[Outcome]) -> Verdict {
    let has = |verdict| outcomes.iter().any(|outcome| outcome.verdict == verdict);
    match outcomes.first() {
        _ if has(Verdict::Pass) => Verdict::Pass,
        _ if has(Verdict::TempError) => Verdict::TempError,
        Some(first) => first.verdict,
        None => Verdict::None,
    }
}

/// Verifies the first signatures of a message; none if it has none. `now` is in seconds since 1970.
pub async fn verify<R: Records>(records: &R, message: &Scanned, now: u64) -> Vec<Outcome> {
    if let Some(why) = message.unreadable {
        return vec![Outcome::unsigned(Verdict::PermError, why)];
    }
    // All at once: a name server that is slow to give one key must not take the time of the others.
    let verify = async |(field, signature): &(usize, Result<Signature, &str>)| match signature {
        Ok(signature) => verify_one(records, message, *field, signature, now).await,
        Err(wrong) => Outcome::unsigned(Verdict::Neutral, wrong),
    };
    all(message.signatures.iter().map(verify)).await
}

async fn verify_one<R: Records>(
    records: &R,
    message: &Scanned,
    field: usize,
    signature: &Signature,
    now: u64,
) -> Outcome {
    let of = |(verdict, reason): (Verdict, String)| Outcome {
        verdict,
        reason,
        signer: Some(Signer {
            domain: signature.seal.domain.clone(),
            selector: signature.seal.selector.clone(),
            algorithm: signature.seal.algorithm,
        }),
    };
    // RFC 6376 §3.5, x=.
    if signature.expires_at.is_some_and(|expires_at| expires_at < now) {
        return of((Verdict::Fail, "the signature has expired".into()));
    }
    let is_whole = match fits_body(message, signature) {
        Ok(is_whole) => is_whole,
        Err((verdict, reason)) => return of((verdict, reason.into())),
    };
    let signed = signed_header(message, field, signature);
    match verify_seal(records, &signature.seal, &signed, Some(signature)).await {
        // RFC 6376 §8.15: one that was added is what readers may show.
        Ok(()) if has_unsigned_author(message, signature) => {
            of((Verdict::Policy, "there is a From that is not signed".into()))
        }
        Ok(()) if is_whole => of((Verdict::Pass, String::new())),
        Ok(()) => of((Verdict::Policy, "l= leaves an end of the body unsigned".into())),
        Err(wrong) => of(wrong),
    }
}

fn has_unsigned_author(message: &Scanned, signature: &Signature) -> bool {
    let is_from = |name: &&String| name.eq_ignore_ascii_case("From");
    message.values("From").count() > signature.fields.iter().filter(is_from).count()
}

/// Whether the body is the one that was signed (RFC 6376 §6.1.3), and all of it.
pub(crate) fn fits_body(
    message: &Scanned,
    signature: &Signature,
) -> Result<bool, (Verdict, &'static str)> {
    let Some(body) = message.body(signature) else {
        return Err((Verdict::Policy, "too many ways to hash the body"));
    };
    let length = signature.body_length.unwrap_or(body.length);
    if length > body.length || body.hash != signature.body_hash {
        return Err((Verdict::Fail, "the body was changed"));
    }
    Ok(length == body.length)
}

/// What is signed of the header: the fields that are named, from the bottom up, and the signature's own
/// without its value (RFC 6376 §3.7, §5.4.2).
pub(crate) fn signed_header(message: &Scanned, own: usize, signature: &Signature) -> Vec<u8> {
    let mut signed = Vec::with_capacity(1024);
    let fields: Vec<&[u8]> = (0..message.fields.len()).map(|index| message.field(index)).collect();
    let names = signature.fields.iter().map(String::as_str);
    write_named(&fields, names, signature.header_form, &mut signed);
    write_last_field(message.field(own), signature.header_form, &mut signed);
    signed
}

/// Those of the fields that are named, from the bottom up; a name once more than there are fields of it
/// stands for none.
fn write_named<'n>(
    fields: &[&[u8]],
    names: impl Iterator<Item = &'n str>,
    form: Form,
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

/// The field of a signature, which goes without its value and its line end.
pub(crate) fn write_last_field(field: &[u8], form: Form, signed: &mut Vec<u8>) {
    write_field(&without_signature(field), form, signed);
    if signed.ends_with(b"\r\n") {
        signed.truncate(signed.len() - 2);
    }
}

/// Whether what is signed fits the key in the DNS. `signature`: with what else it must fit.
pub(crate) async fn verify_seal<R: Records>(
    records: &R,
    seal: &Seal,
    signed: &[u8],
    signature: Option<&Signature>,
) -> Result<(), (Verdict, String)> {
    let found = records.txt(&seal.key_name()).await;
    let found = found.map_err(|unanswered| (Verdict::TempError, unanswered.to_string()))?;
    let unusable = |wrong: &'static str| (Verdict::PermError, wrong.to_owned());
    let key = Key::find(&found).map_err(unusable)?;
    // RFC 6376 §3.6.1: what fails while its domain is testing is as good as unsigned.
    let of_key = |(verdict, reason): (Verdict, String)| match key.is_testing {
        true => (Verdict::None, format!("{reason}; its domain is testing (t=y)")),
        false => (verdict, reason),
    };
    let is_other = |signature: &Signature| signature.agent_domain != seal.domain;
    if key.is_strict && signature.is_some_and(is_other) {
        return Err(of_key((Verdict::PermError, "the key is for d= itself, not for i=".into())));
    }
    match key.verify(seal.algorithm, signed, &seal.signature) {
        Ok(true) => Ok(()),
        Ok(false) => Err(of_key((Verdict::Fail, "the signature does not fit the header".into()))),
        Err(wrong) => Err(of_key(unusable(wrong))),
    }
}

#[cfg(test)]
mod tests;
