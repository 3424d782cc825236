//! Sealing: adds a set to a message that was verified and is forwarded (RFC 8617 §5.1).

use super::ArcResult;
use super::sets::{Chain, Newest, SETS_MAX};
use crate::checks::Verdicts;
use crate::dkim::canonical::{Canonicalization, write_field};
use crate::dkim::signing::{content_tags, write_folded};
use crate::dkim::{SigningError, SigningIdentity};
use crate::results::lines_of_set;
use crate::scan::Scanned;

/// Input of sealing.
#[derive(Clone, Copy)]
pub struct Sealing<'a> {
    pub signer: &'a SigningIdentity,
    /// The authserv-id of this server, for its results.
    pub server: &'a str,
    /// Results of the checks, including ARC.
    pub verdicts: &'a Verdicts,
    /// The message as received.
    pub message: &'a Scanned,
    /// Fields to be put above those of the message, as whole lines.
    pub added: &'a [u8],
    /// Seconds since 1970.
    pub now: u64,
}

/// The reason why a message gets no seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsealed {
    /// The chain was not completely verified.
    Unverified,
    /// The newest seal marks the chain as broken, and no set may be added to it (RFC 8617 §5.1, step 2).
    Ended,
    /// The chain has fifty sets (RFC 8617 §4.2.1).
    Full,
    /// The header is too long to be read.
    HeaderUnreadable,
    /// Signing with the key failed.
    Unsigned,
}

impl Unsealed {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Unsealed::Unverified => "its chain was not verified",
            Unsealed::Ended => "its newest seal reports a broken chain",
            Unsealed::Full => "its chain has the maximum of 50 sets",
            Unsealed::HeaderUnreadable => "its header is malformed",
            Unsealed::Unsigned => "signing failed",
        }
    }
}

impl From<SigningError> for Unsealed {
    fn from(_: SigningError) -> Unsealed {
        Unsealed::Unsigned
    }
}

/// A new set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its statement about the chain before it (`cv`).
    pub says: ArcResult,
    /// Its three fields, each as lines to fold, the lowest field first.
    pub fields: [Vec<String>; 3],
}

/// Creates a new set.
///
/// # Errors
/// Returns the reason why no set can be added.
pub fn seal(sealing: &Sealing<'_>) -> Result<Sealed, Unsealed> {
    let Sealing { signer, message, now, .. } = *sealing;
    let (instance, says) = place(sealing)?;
    let body = message.body_to_sign().ok_or(Unsealed::Unverified)?;
    let results = lines_of_set(instance, sealing.server, sealing.verdicts);
    let header = [sealing.added, message.header.as_slice()];
    let (tags, signed) = content_tags(header, "DKIM-Signature", body);
    let mut signature = vec![format!("ARC-Message-Signature: i={instance};")];
    signature.extend(signer.tags(now));
    signature.extend(tags);
    let signature = signer.end(signature, signed)?;
    let mut signed = match says {
        // RFC 8617 §5.1.2: treated as the only set.
        ArcResult::Fail => Vec::with_capacity(1024),
        _ => sets_before(message),
    };
    write_folded(&results, &mut signed);
    write_folded(&signature, &mut signed);
    let mut seal = vec![format!("ARC-Seal: i={instance}; cv={};", says.as_str())];
    seal.extend(signer.tags(now));
    let seal = signer.end(seal, signed)?;
    Ok(Sealed { says, fields: [results, signature, seal] })
}

/// The instance of the new set, and its statement about the earlier ones (RFC 8617 §5.1, steps 2 and 3).
fn place(sealing: &Sealing<'_>) -> Result<(u32, ArcResult), Unsealed> {
    let message = sealing.message;
    if message.unreadable.is_some() {
        return Err(Unsealed::HeaderUnreadable);
    }
    let verdict = sealing.verdicts.arc.as_ref().map(|outcome| outcome.verdict);
    let says = match verdict {
        Some(says @ (ArcResult::None | ArcResult::Pass | ArcResult::Fail)) => says,
        // A statement in a seal would be permanent.
        Some(ArcResult::TempError | ArcResult::CutShort) | None => {
            return Err(Unsealed::Unverified);
        }
    };
    match message.newest_set {
        None => Ok((1, says)),
        Some(Newest { says_fail: true, .. }) => Err(Unsealed::Ended),
        Some(Newest { instance: SETS_MAX.., .. }) => Err(Unsealed::Full),
        Some(Newest { instance, .. }) => Ok((instance + 1, says)),
    }
}

/// RFC 8617 §5.1.1: all sets so far, in order, each with its seal at the end.
fn sets_before(message: &Scanned) -> Vec<u8> {
    let mut signed = Vec::with_capacity(4096);
    let Chain::Whole(sets) = &message.chain else { return signed };
    for set in sets {
        for field in [set.results, set.signature.0, set.seal.0] {
            write_field(message.field(field), Canonicalization::Relaxed, &mut signed);
        }
    }
    signed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arc;
    use crate::checks::{CheckSelection, Subject, check};
    use crate::dkim::SigningKey;
    use crate::dkim::signing::folded;
    use crate::testing::{Zone, now};
    use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _, RsaKeyPair};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use std::sync::Arc;

    const NAME: &str = "s._domainkey.mx.test";
    const ASKED: CheckSelection =
        CheckSelection { spf: false, dkim: true, dmarc: false, arc: true, iprev: false };

    /// Who seals, and where the key is.
    fn signer() -> (SigningIdentity, Zone) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
        let public = STANDARD.encode(pair.public_key().as_ref());
        let der = pair.to_pkcs8v1().unwrap();
        let key = Arc::new(SigningKey::from_der(der.as_ref()).unwrap());
        let zone = Zone::of(&[(NAME, &format!("v=DKIM1; k=ed25519; p={public}"))]);
        (SigningIdentity { domain: "mx.test".into(), selector: "s".into(), key }, zone)
    }

    fn verify(zone: &Zone, message: &str) -> (Scanned, Verdicts) {
        let mut scan = ASKED.scan_to_sign();
        scan.push(message.as_bytes());
        let message = scan.finish();
        let subject = Subject { question: None, message: &message, now: 1_000, chance: 0 };
        let verdicts = now(check(zone, ASKED, subject));
        (message, verdicts)
    }

    /// The message after one hop that adds these fields.
    fn hop(
        signer: &SigningIdentity,
        zone: &Zone,
        message: &str,
        added: &str,
    ) -> Result<String, Unsealed> {
        let (scanned, verdicts) = verify(zone, message);
        let sealing = Sealing {
            signer,
            server: "mx.test",
            verdicts: &verdicts,
            message: &scanned,
            added: added.as_bytes(),
            now: 1_000,
        };
        let set = seal(&sealing)?;
        let fields = set.fields.iter().rev().map(|lines| String::from_utf8(folded(lines)).unwrap());
        Ok(fields.collect::<String>() + added + message)
    }

    fn verdict(zone: &Zone, message: &str) -> (arc::ArcResult, String) {
        let outcome = verify(zone, message).1.arc.unwrap();
        (outcome.verdict, outcome.reason)
    }

    const MESSAGE: &str = "From: a@a.test\r\nSubject: one\r\nDKIM-Signature: v=1\r\n\r\nHello \r\n";

    #[test]
    fn a_chain_grows_to_fifty_sets_and_no_further() {
        let (signer, zone) = signer();
        let mut message = MESSAGE.to_owned();
        for instance in 1..=SETS_MAX {
            message = hop(&signer, &zone, &message, "Received: by mx\r\n").unwrap();
            assert!(message.starts_with(&format!("ARC-Seal: i={instance}; cv=")), "{message}");
            if instance < 4 || instance == SETS_MAX {
                assert_eq!(verdict(&zone, &message).0, arc::ArcResult::Pass, "{instance}");
            }
        }
        assert_eq!(hop(&signer, &zone, &message, ""), Err(Unsealed::Full));
    }

    #[test]
    fn a_chain_that_costs_too_much_fails() {
        let pair = RsaKeyPair::generate(KeySize::Rsa4096).unwrap();
        let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
        let key = Arc::new(SigningKey::from_der(der.as_ref()).unwrap());
        let zone = Zone::of(&[(NAME, &key.record().unwrap())]);
        let signer = SigningIdentity { domain: "mx.test".into(), selector: "s".into(), key };
        let mut message = MESSAGE.to_owned();
        for instance in 1..=16 {
            message = hop(&signer, &zone, &message, "").unwrap();
            let expected = match instance {
                // Its seals, and the message signature.
                ..=15 => (arc::ArcResult::Pass, String::new()),
                _ => (arc::ArcResult::Fail, "the chain is too expensive to verify".to_owned()),
            };
            assert_eq!(verdict(&zone, &message), expected, "{instance}");
        }
        assert!(hop(&signer, &zone, &message, "").unwrap().starts_with("ARC-Seal: i=17; cv=fail"));
    }

    #[test]
    fn what_was_sealed_can_not_be_changed() {
        let (signer, zone) = signer();
        let sealed = hop(&signer, &zone, MESSAGE, "Comments: ours\r\n").unwrap();
        assert_eq!(verdict(&zone, &sealed), (arc::ArcResult::Pass, String::new()));
        for (from, to) in [
            ("Hello ", "Hallo "),
            ("Subject: one", "Subject: two"),
            ("From: a@", "From: b@a.test\r\nFrom: a@"),
            ("Hello", "more\r\nHello"),
            ("DKIM-Signature: v=1", "DKIM-Signature: v=2"),
            ("dkim=neutral", "dkim=pass"),
            ("t=1000", "t=1001"),
        ] {
            let changed = sealed.replacen(from, to, 1);
            assert_ne!(changed, sealed, "{from}");
            assert_eq!(verdict(&zone, &changed).0, arc::ArcResult::Fail, "{from}");
        }
        // What the relaxed form lets pass, and what nobody signs.
        let harmless = sealed.replace("Hello ", "Hello").replace("Comments: ours", "X: theirs");
        assert_eq!(verdict(&zone, &harmless).0, arc::ArcResult::Pass);
        // A field that is added here is signed where its name matters.
        let added = hop(&signer, &zone, MESSAGE, "Reply-To: b@b.test\r\n").unwrap();
        let changed = added.replace("Reply-To: b@", "Reply-To: c@");
        assert_eq!(verdict(&zone, &added).0, arc::ArcResult::Pass);
        assert_eq!(verdict(&zone, &changed).0, arc::ArcResult::Fail);
    }

    #[test]
    fn a_broken_chain_is_said_to_be_broken_once() {
        let (signer, zone) = signer();
        let once = hop(&signer, &zone, MESSAGE, "").unwrap();
        let changed = once.replace("Hello", "Hallo");
        let twice = hop(&signer, &zone, &changed, "").unwrap();
        assert!(twice.starts_with("ARC-Seal: i=2; cv=fail;"), "{twice}");
        let (verdict, reason) = verdict(&zone, &twice);
        assert_eq!(verdict, arc::ArcResult::Fail);
        assert_eq!(reason, "seal 2 reports a broken chain");
        assert_eq!(hop(&signer, &zone, &twice, ""), Err(Unsealed::Ended));
        // RFC 8617 §5.1.2: the newest set alone is sealed.
        let alone = twice.split("ARC-Seal: i=1").next().unwrap().replace("i=2", "i=1");
        assert!(alone.contains("arc=fail"), "{alone}");
        let missing = once.replace("ARC-Seal: i=1", "ARC-Seal: i=7");
        assert!(hop(&signer, &zone, &missing, "").unwrap().starts_with("ARC-Seal: i=8; cv=fail"));
        let headless = "ARC-Seal: nothing\r\n".to_owned() + MESSAGE;
        assert!(hop(&signer, &zone, &headless, "").unwrap().starts_with("ARC-Seal: i=1; cv=fail"));
    }

    #[test]
    fn without_a_verdict_there_is_no_seal() {
        let (signer, zone) = signer();
        let once = hop(&signer, &zone, MESSAGE, "").unwrap();
        let silent = Zone::of(&[(NAME, "?")]);
        assert_eq!(hop(&signer, &silent, &once, ""), Err(Unsealed::Unverified));
        let long = format!("X: {}\r\n{MESSAGE}", "y".repeat(crate::scan::HEADER_BYTES_MAX));
        assert_eq!(hop(&signer, &zone, &long, ""), Err(Unsealed::HeaderUnreadable));
    }
}
