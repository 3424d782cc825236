//! Signature fields: DKIM-Signature (RFC 6376 §3.5), and the similar ones of ARC (RFC 8617 §4.1).

use super::canonical::Canonicalization;
use crate::records::is_at_or_below;
use crate::tags::{Tags, is_blank, listed, without_blanks};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Maximum number of fields named by one signature; a signature with more is invalid.
const SIGNED_FIELDS_MAX: usize = 100;

/// Maximum length of a DNS name (RFC 1035 §3.1, written with dots).
const NAME_BYTES_MAX: usize = 253;

/// Signature algorithms. RFC 8301 §3.1 allows no other: rsa-sha1 is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    RsaSha256,
    /// RFC 8463.
    Ed25519Sha256,
}

impl Algorithm {
    pub(crate) fn parse(text: &str) -> Option<Algorithm> {
        match text {
            "rsa-sha256" => Some(Algorithm::RsaSha256),
            "ed25519-sha256" => Some(Algorithm::Ed25519Sha256),
            _ => None,
        }
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::RsaSha256 => "rsa-sha256",
            Algorithm::Ed25519Sha256 => "ed25519-sha256",
        }
    }
}

/// Tags common to all kinds of signatures.
#[derive(Clone, Debug)]
pub(crate) struct Seal {
    pub(crate) algorithm: Algorithm,
    /// `b`.
    pub(crate) signature: Vec<u8>,
    /// `d`, in lower case.
    pub(crate) domain: String,
    /// `s`.
    pub(crate) selector: String,
}

impl Seal {
    pub(crate) fn parse(tags: &Tags<'_>) -> Result<Seal, &'static str> {
        let wanted = |name| tags.get(name).filter(|value| !value.is_empty());
        let algorithm = wanted("a").ok_or("no a=")?;
        let signature = wanted("b").ok_or("no b=")?;
        let domain = wanted("d").ok_or("no d=")?;
        let selector = wanted("s").ok_or("no s=")?;
        let seal = Seal {
            algorithm: Algorithm::parse(algorithm).ok_or("unsupported algorithm")?,
            signature: decoded(signature).ok_or("b= is not base64")?,
            domain: name(domain).ok_or("d= is not a domain")?,
            selector: name(selector).ok_or("s= is not a selector")?,
        };
        match seal.key_name().len() {
            ..=NAME_BYTES_MAX => Ok(seal),
            _ => Err("s= and d= are too long for a name"),
        }
    }

    /// DNS name of its key (RFC 6376 §3.6.2.1).
    pub(crate) fn key_name(&self) -> String {
        format!("{}._domainkey.{}", self.selector, self.domain)
    }
}

/// A signature over content.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub(crate) seal: Seal,
    pub(crate) header_form: Canonicalization,
    pub(crate) body_form: Canonicalization,
    /// `bh`.
    pub(crate) body_hash: Vec<u8>,
    /// `l`: the number of signed octets of the canonical body, if limited.
    pub(crate) body_length: Option<u64>,
    /// `h`.
    pub(crate) fields: Vec<String>,
    /// The domain of `i`, by default that of `d`.
    pub(crate) agent_domain: String,
    /// `x`, in seconds since 1970.
    pub(crate) expires_at: Option<u64>,
}

impl Signature {
    /// Reads a DKIM-Signature.
    pub(crate) fn parse(value: &[u8]) -> Result<Signature, &'static str> {
        let text = std::str::from_utf8(value).map_err(|_| "not UTF-8")?;
        let tags = Tags::parse(text).ok_or("not a tag list")?;
        if tags.get("v") != Some("1") {
            return Err("not version 1");
        }
        let methods = tags.get("q").unwrap_or("dns/txt");
        if !listed(methods).any(|method| method.starts_with("dns/txt")) {
            return Err("q= has no supported method");
        }
        Signature::of_tags(&tags)
    }

    /// Parses the tags about content, here and in ARC-Message-Signature.
    pub(crate) fn of_tags(tags: &Tags<'_>) -> Result<Signature, &'static str> {
        let seal = Seal::parse(tags)?;
        let forms = tags.get("c").unwrap_or("simple/simple");
        let (header, body) = forms.split_once('/').unwrap_or((forms, "simple"));
        let form = |text| Canonicalization::parse(text).ok_or("unknown c=");
        let fields: Vec<String> =
            listed(tags.get("h").ok_or("no h=")?).map(str::to_owned).collect();
        if fields.len() > SIGNED_FIELDS_MAX {
            return Err("too many fields in h=");
        }
        // RFC 6376 §5.4.
        if !fields.iter().any(|field| field.eq_ignore_ascii_case("From")) {
            return Err("From is not signed");
        }
        let agent = tags.get("i").and_then(|agent| agent.rsplit_once('@')).map(|(_, of)| of);
        let agent_domain = match agent {
            Some(domain) => name(domain).ok_or("i= has no domain")?,
            None => seal.domain.clone(),
        };
        // RFC 6376 §3.5: the domain of d= or a subdomain.
        if !is_at_or_below(&agent_domain, &seal.domain) {
            return Err("i= is not in d= or a subdomain");
        }
        Ok(Signature {
            header_form: form(header)?,
            body_form: form(body)?,
            body_hash: tags.get("bh").and_then(decoded).ok_or("bh= is not base64")?,
            body_length: number(tags, "l")?,
            expires_at: number(tags, "x")?,
            fields,
            agent_domain,
            seal,
        })
    }
}

fn number(tags: &Tags<'_>, tag: &str) -> Result<Option<u64>, &'static str> {
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number too large for its type is replaced by the maximum.
        is_number.then(|| text.parse().unwrap_or(u64::MAX)).ok_or("invalid number")
    };
    tags.get(tag).map(number).transpose()
}

pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(without_blanks(text)).ok().filter(|bytes| !bytes.is_empty())
}

fn name(text: &str) -> Option<String> {
    mail::Domain::dns_name(text.trim_matches(is_blank))
}

/// The value of a signature field without its signature (RFC 6376 §3.7). Blanks before and after it remain.
pub(crate) fn without_signature(field: &[u8]) -> Vec<u8> {
    let colon = field.iter().position(|byte| *byte == b':').map_or(field.len(), |at| at + 1);
    let (head, value) = field.split_at(colon);
    let mut out = head.to_vec();
    for (n, tag) in value.split(|byte| *byte == b';').enumerate() {
        if n > 0 {
            out.push(b';');
        }
        let equals = tag.iter().position(|byte| *byte == b'=');
        match equals.filter(|at| tag[..*at].trim_ascii() == b"b") {
            Some(at) => {
                out.extend_from_slice(&tag[..=at]);
                // The field's own line end is not part of the value.
                if tag.ends_with(b"\r\n") {
                    out.extend_from_slice(b"\r\n");
                }
            }
            None => out.extend_from_slice(tag),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "v=1; a=rsa-sha256; d=Example.org; s=one; h=From:To; bh=YQ==; b=Y Q==";

    #[test]
    fn a_signature_is_read() {
        let signature = Signature::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(signature.seal.key_name(), "one._domainkey.example.org");
        assert_eq!(signature.fields, ["From", "To"]);
        assert_eq!(
            (signature.header_form, signature.body_form),
            (Canonicalization::Simple, Canonicalization::Simple)
        );
        assert_eq!(signature.agent_domain, "example.org");
        let relaxed =
            format!("{GOOD}; c=relaxed; i=me@a.example.org; l=12; x=99999999999999999999");
        let signature = Signature::parse(relaxed.as_bytes()).unwrap();
        assert_eq!(
            (signature.header_form, signature.body_form),
            (Canonicalization::Relaxed, Canonicalization::Simple)
        );
        assert_eq!((signature.body_length, signature.expires_at), (Some(12), Some(u64::MAX)));
    }

    #[test]
    fn what_is_no_signature_is_said() {
        let without = |tag: &str| {
            let tags = GOOD.split("; ").filter(|piece| !piece.starts_with(tag));
            tags.collect::<Vec<_>>().join("; ")
        };
        for bad in [
            without("v="),
            without("a="),
            without("b="),
            without("bh="),
            without("d="),
            without("s="),
            without("h="),
            GOOD.replace("From:", ""),
            GOOD.replace("rsa-sha256", "rsa-sha1"),
            format!("{GOOD}; i=@other.org"),
            format!("{GOOD}; i=@badexample.org"),
            format!("{GOOD}; l=-1"),
            format!("{GOOD}; c=nowsp"),
            format!("{GOOD}; q=dns/cert"),
            format!("{GOOD}; s=two"),
            GOOD.replace("To;", &format!("{};", "To:".repeat(SIGNED_FIELDS_MAX))),
        ] {
            assert!(Signature::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_signature_itself_is_not_signed() {
        for (field, expected) in [
            ("DKIM-Signature: v=1; b=abc\r\n de=; bh=x\r\n", "DKIM-Signature: v=1; b=; bh=x\r\n"),
            ("D: a=b;\r\n b = xyz\r\n", "D: a=b;\r\n b =\r\n"),
            ("D:b=x", "D:b="),
        ] {
            assert_eq!(without_signature(field.as_bytes()), expected.as_bytes());
        }
    }
}
