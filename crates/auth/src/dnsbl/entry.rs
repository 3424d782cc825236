//! A list as it is written: `zone`, `zone=answers`, `zone=answers*score`.

use super::name::ZONE_BYTES_MAX;
use std::net::Ipv4Addr;

/// No list weighs more, for or against.
pub const SCORE_MAX: i32 = 100;

/// A list, with the answers that count and their score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsblEntry {
    /// In lower case, without a dot at its end.
    pub zone: Box<str>,
    pub wanted: AnswerFilter,
    /// Negative scores favour the client.
    pub score: i32,
}

impl DnsblEntry {
    /// Parses an entry in Postfix's syntax (`postscreen_dnsbl_sites`). Without answers all listings count; without a
    /// score it is 1.
    ///
    /// # Errors
    /// Returns the error.
    pub fn parse(text: &str) -> Result<DnsblEntry, String> {
        let (text, score) = match text.rsplit_once('*') {
            Some((text, score)) => (text, score_of(score)?),
            None => (text, 1),
        };
        let (zone, wanted) = match text.split_once('=') {
            Some((zone, wanted)) => {
                let parsed = AnswerFilter::parse(wanted);
                (zone, parsed.ok_or_else(|| format!("\"{wanted}\" is not a set of answers"))?)
            }
            None => (text, AnswerFilter::Any),
        };
        let zone = zone.trim_end_matches('.').to_ascii_lowercase();
        if !is_zone(&zone) {
            return Err(format!("\"{zone}\" is not a DNSBL zone"));
        }
        Ok(DnsblEntry { zone: zone.into(), wanted, score })
    }
}

fn score_of(text: &str) -> Result<i32, String> {
    let score: Option<i32> = text.parse().ok();
    score
        .filter(|score| *score != 0 && score.abs() <= SCORE_MAX)
        .ok_or_else(|| format!("\"{text}\" is not a score: -{SCORE_MAX} to {SCORE_MAX}, except 0"))
}

/// At least two labels, so that a name can be prepended.
fn is_zone(zone: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(is_plain)
    };
    zone.len() <= ZONE_BYTES_MAX && zone.contains('.') && zone.split('.').all(is_label)
}

/// Numbers that an octet may have, from and to.
type Octet = Vec<(u8, u8)>;

/// The answers that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerFilter {
    /// All answers that are listings.
    Any,
    /// Matching answers.
    Pattern([Octet; 4]),
}

/// 127.0.0.1 is never a listing (RFC 5782 §5). With 127.255.255.0/24 lists report a wrong query, too many queries, or a
/// refused resolver.
pub(super) fn is_refusal(answer: Ipv4Addr) -> bool {
    matches!(answer.octets(), [127, 0, 0, 1] | [127, 255, 255, _])
}

impl AnswerFilter {
    /// Reads `127.0.0.2`, `127.0.0.[2..11]`, `127.0.[0..255].[1;3]`.
    pub(super) fn parse(text: &str) -> Option<AnswerFilter> {
        let mut octets = [const { Octet::new() }; 4];
        let mut rest = text;
        for (at, octet) in octets.iter_mut().enumerate() {
            if at > 0 {
                rest = rest.strip_prefix('.')?;
            }
            (*octet, rest) = one_octet(rest)?;
        }
        rest.is_empty().then_some(AnswerFilter::Pattern(octets))
    }

    /// Returns true if an answer counts. RFC 5782 §2.1: only addresses in 127.0.0.0/8 are answers of a list.
    pub(super) fn has(&self, answer: Ipv4Addr) -> bool {
        match self {
            _ if !answer.is_loopback() => false,
            AnswerFilter::Any => !is_refusal(answer),
            AnswerFilter::Pattern(octets) => {
                octets.iter().zip(answer.octets()).all(|(ranges, octet)| {
                    ranges.iter().any(|(from, to)| (*from..=*to).contains(&octet))
                })
            }
        }
    }
}

/// Parses a number, or `[` numbers and ranges `]`; also returns the text after it.
fn one_octet(text: &str) -> Option<(Octet, &str)> {
    if let Some(inner) = text.strip_prefix('[') {
        let (inner, rest) = inner.split_once(']')?;
        let range = |part: &str| {
            let (from, to) = part.split_once("..").unwrap_or((part, part));
            let (from, to) = (number(from)?, number(to)?);
            (from <= to).then_some((from, to))
        };
        return Some((inner.split(';').map(range).collect::<Option<Octet>>()?, rest));
    }
    let end = text.find('.').unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    let number = number(digits)?;
    Some((vec![(number, number)], rest))
}

fn number(digits: &str) -> Option<u8> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
