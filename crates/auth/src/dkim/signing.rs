//! Signing: the signed content and the fields that carry the signature (RFC 6376 §5). ARC sets use the same functions
//! (RFC 8617 §4.1).

use super::canonical::{BodyDigest, Canonicalization, is_called, write_field};
use super::private_key::{SigningError, SigningKey};
use super::{write_last_field, write_named};
use crate::scan::Scanned;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail::header;
use std::sync::Arc;

/// Named once more than present, so that an added field breaks the signature (RFC 6376 §8.15).
const OVERSIGNED: [&str; 6] = ["From", "To", "Cc", "Subject", "Date", "Reply-To"];

/// Signed as often as present.
const SIGNED: [&str; 23] = [
    "Message-ID",
    "In-Reply-To",
    "References",
    "Sender",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Content-ID",
    "Content-Description",
    "Content-Disposition",
    "Content-Language",
    "List-Id",
    "List-Help",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "List-Subscribe",
    "List-Post",
    "List-Owner",
    "List-Archive",
    "Feedback-ID",
    "CFBL-Address",
    // RFC 8460 §5.3: in TLS reports.
    "TLS-Report-Domain",
    "TLS-Report-Submitter",
];

/// Maximum number of fields named by one signature; further ones are not signed. Verifiers stop at a hundred.
const NAMED_MAX: usize = 90;

/// Maximum length of a field's line, including the tab that folds it (RFC 5322 §2.1.1).
const LINE_BYTES_MAX: usize = 76;

/// Signing domain and key.
#[derive(Clone, Debug)]
pub struct SigningIdentity {
    /// `d`, in ASCII and lower case.
    pub domain: String,
    /// `s`.
    pub selector: String,
    pub key: Arc<SigningKey>,
}

impl SigningIdentity {
    /// The tags that every signature has, in two lines.
    pub(crate) fn tags(&self, now: u64) -> [String; 2] {
        let (domain, selector) = (&self.domain, &self.selector);
        let algorithm = self.key.algorithm().as_str();
        [format!("a={algorithm}; t={now}; d={domain};"), format!("s={selector};")]
    }

    /// Completes a field, given as lines with its name in the first, by the signature. It covers `before` (other signed
    /// data in canonical form) and the field itself.
    ///
    /// # Errors
    /// Returns an error if the key fails to sign.
    pub(crate) fn end(
        &self,
        mut lines: Vec<String>,
        mut before: Vec<u8>,
    ) -> Result<Vec<String>, SigningError> {
        lines.push("b=".to_owned());
        write_last_field(&folded(&lines), Canonicalization::Relaxed, &mut before);
        lines.pop();
        let signature = STANDARD.encode(self.key.sign(&before)?);
        lines.extend(wrapped("b=", signature.as_bytes()));
        Ok(lines)
    }
}

/// Signs a message for each signer, in order. Returns the `DKIM-Signature` fields, each as lines to fold. The canonical
/// data is computed once for all. `added`: whole fields that will precede those of the message, in final order. `now`
/// is in seconds since 1970.
///
/// # Errors
/// Returns an error, and no signature, if a key fails to sign, if the message was not scanned for signing, or if its
/// header is unreadable.
pub fn sign(
    signers: &[SigningIdentity],
    message: &Scanned,
    added: &[u8],
    now: u64,
) -> Result<Vec<Vec<String>>, SigningError> {
    let body =
        message.body_to_sign().filter(|_| message.unreadable.is_none()).ok_or(SigningError)?;
    let (content, signed) = content_tags([added, &message.header], "", body);
    let field = |signer: &SigningIdentity| {
        let mut lines = vec!["DKIM-Signature: v=1;".to_owned()];
        lines.extend(signer.tags(now));
        lines.extend_from_slice(&content);
        signer.end(lines, signed.clone())
    };
    signers.iter().map(field).collect()
}

/// The tags about content, with both forms relaxed, and the signed data of the header. The header comes in parts, each
/// of whole fields, the upper ones first. `more`: a field to sign beside the usual ones.
pub(crate) fn content_tags(
    header: [&[u8]; 2],
    more: &str,
    body: &BodyDigest,
) -> (Vec<String>, Vec<u8>) {
    let fields: Vec<&[u8]> = header
        .iter()
        .flat_map(|part| header::fields(part).filter_map(|field| part.get(field.range)))
        .collect();
    let names = names_of(&fields, more);
    let mut signed = Vec::with_capacity(1024);
    write_named(&fields, names.iter().copied(), Canonicalization::Relaxed, &mut signed);
    let mut lines = vec!["c=relaxed/relaxed;".to_owned()];
    lines.extend(listed(&names));
    lines.push(format!("bh={};", STANDARD.encode(&body.hash)));
    (lines, signed)
}

/// The names of a signature's fields, each with the number of its repetitions.
fn names_of(fields: &[&[u8]], more: &str) -> Vec<&'static str> {
    let count =
        |name: &str| fields.iter().filter(|field| is_called(field, name.as_bytes())).count();
    let mut names = Vec::with_capacity(24);
    // RFC 6409 §8.2: a next hop may add a missing Date, which must not break the signature.
    for name in OVERSIGNED.into_iter().filter(|name| *name != "Date" || count(name) > 0) {
        names.extend(std::iter::repeat_n(name, (count(name) + 1).min(NAMED_MAX)));
    }
    let of_arc = ["DKIM-Signature"].into_iter().filter(|name| *name == more);
    for name in SIGNED.into_iter().chain(of_arc) {
        names.extend(std::iter::repeat_n(name, count(name).min(NAMED_MAX)));
    }
    names.truncate(NAMED_MAX);
    names
}

/// `h=` in lines.
fn listed(names: &[&str]) -> Vec<String> {
    let mut lines = vec!["h=".to_owned()];
    for (n, name) in names.iter().enumerate() {
        let end = if n + 1 < names.len() { ':' } else { ';' };
        match lines.last_mut().filter(|line| line.len() + name.len() + 1 < LINE_BYTES_MAX) {
            Some(line) => {
                line.push_str(name);
                line.push(end);
            }
            None => lines.push(format!("{name}{end}")),
        }
    }
    lines
}

/// A long value in lines.
fn wrapped(tag: &str, value: &[u8]) -> Vec<String> {
    let pieces = value.chunks(LINE_BYTES_MAX - 1 - tag.len());
    let text = |piece: &[u8]| String::from_utf8_lossy(piece).into_owned();
    let mut lines: Vec<String> = pieces.map(text).collect();
    if let Some(first) = lines.first_mut() {
        first.insert_str(0, tag);
    }
    lines
}

/// Joins lines into a field, with every line but the first folded.
pub(crate) fn folded(lines: &[String]) -> Vec<u8> {
    let mut field = lines.join("\r\n\t").into_bytes();
    field.extend_from_slice(b"\r\n");
    field
}

/// Appends a field in its canonical form to the signed data.
pub(crate) fn write_folded(lines: &[String], signed: &mut Vec<u8>) {
    write_field(&folded(lines), Canonicalization::Relaxed, signed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dkim::{Algorithm, DkimResult, SigningKey, verify};
    use crate::scan::{Scan, ScanOptions};
    use crate::testing::{self, Zone};

    #[test]
    fn what_matters_is_named_once_more_than_it_is_there() {
        let header: &[u8] = b"From: a\r\nto: b\r\nTo: c\r\nX: y\r\nMessage-ID: z\r\n";
        let parts: Vec<&[u8]> =
            header::fields(header).filter_map(|field| header.get(field.range)).collect();
        assert_eq!(
            names_of(&parts, "").join(":"),
            "From:From:To:To:To:Cc:Subject:Reply-To:Message-ID",
            "a next hop may add Date"
        );
        let dated: Vec<&[u8]> = [&parts[..], &[b"Date: x\r\n"]].concat();
        assert_eq!(
            names_of(&dated, "").join(":"),
            "From:From:To:To:To:Cc:Subject:Date:Date:Reply-To:Message-ID"
        );
        let many = b"DKIM-Signature: x\r\n".repeat(200);
        let parts: Vec<&[u8]> = many.chunks(19).collect();
        assert_eq!(names_of(&parts, "").len(), OVERSIGNED.len() - 1, "without Date");
        assert_eq!(names_of(&parts, "DKIM-Signature").len(), NAMED_MAX);
        let many = b"From: x\r\n".repeat(200);
        let parts: Vec<&[u8]> = many.chunks(9).collect();
        assert_eq!(names_of(&parts, ""), ["From"; NAMED_MAX]);
    }

    #[test]
    fn what_is_signed_for_several_verifies_for_each_and_not_when_changed() {
        let signer = |domain: &str, algorithm| {
            let key = Arc::new(SigningKey::generate(algorithm).unwrap());
            SigningIdentity { domain: domain.to_owned(), selector: "s".to_owned(), key }
        };
        let signers =
            [signer("a.test", Algorithm::RsaSha256), signer("b.test", Algorithm::Ed25519Sha256)];
        let record = |n: usize| signers[n].key.record().unwrap();
        let zone = Zone::of(&[
            ("s._domainkey.a.test", record(0).as_str()),
            ("s._domainkey.b.test", record(1).as_str()),
        ]);
        let scanned = |wanted, message: &str| {
            let mut scan = Scan::new(wanted);
            scan.push(message.as_bytes());
            scan.finish()
        };
        let message = "From: a@a.test\r\nTo: b@b.test\r\nSubject: one\r\n\r\nHello \r\n";
        let to_sign = scanned(ScanOptions { to_sign: true, ..ScanOptions::default() }, message);
        let fields = sign(&signers, &to_sign, b"Date: now\r\n", 1_000).unwrap();
        let text: Vec<u8> = fields.iter().flat_map(|lines| folded(lines)).collect();
        let signed = String::from_utf8(text).unwrap() + "Date: now\r\n" + message;
        let verdicts = |message: &str| {
            let message = scanned(ScanOptions { dkim: true, ..ScanOptions::default() }, message);
            let outcomes = testing::now(verify(&zone, &message, 1_000));
            outcomes.into_iter().map(|outcome| outcome.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&signed), [DkimResult::Pass; 2], "{signed}");
        for (from, to) in [
            ("Hello", "Hallo"),
            ("Subject: one", "Subject: two"),
            ("Date: now", "Date: then"),
            ("Date: now", "Cc: c@c.test\r\nDate: now"),
            ("From: a@", "From: b@b.test\r\nFrom: a@"),
        ] {
            let changed = signed.replacen(from, to, 1);
            assert_eq!(verdicts(&changed), [DkimResult::Fail; 2], "{from}");
        }
        // One that was not read to be signed is not.
        let read = scanned(ScanOptions { dkim: true, ..ScanOptions::default() }, message);
        assert_eq!(sign(&signers, &read, b"", 1_000), Err(SigningError));
    }

    #[test]
    fn no_line_is_long() {
        let names = ["Content-Transfer-Encoding"; NAMED_MAX];
        let lines = listed(&names).into_iter().chain(wrapped("b=", &[b'x'; 700]));
        let lines: Vec<String> = lines.collect();
        assert!(lines.iter().all(|line| line.len() < LINE_BYTES_MAX), "{lines:?}");
        assert_eq!(lines.concat().matches("Content").count(), NAMED_MAX);
        assert_eq!(lines.concat().matches('x').count(), 700);
        assert_eq!(folded(&["A: b".into(), "c".into()]), b"A: b\r\n\tc\r\n");
    }
}
