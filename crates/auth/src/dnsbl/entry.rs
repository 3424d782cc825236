//! A list as it is written: `zone`, `zone=answers`, `zone=answers*score`.

use super::Wanted;
use super::name::ZONE_BYTES_MAX;

/// No list weighs more, for or against.
pub const SCORE_MAX: i32 = 100;

/// A list, what is wanted of it and what that weighs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// In lower case, without a dot at its end.
    pub zone: Box<str>,
    pub wanted: Wanted,
    /// Below 0 it speaks for the client.
    pub score: i32,
}

impl Entry {
    /// Reads an entry as Postfix writes them (`postscreen_dnsbl_sites`). Without answers all that list
    /// something count, without a score it is 1.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Entry, String> {
        let (text, score) = match text.rsplit_once('*') {
            Some((text, score)) => (text, score_of(score)?),
            None => (text, 1),
        };
        let (zone, wanted) = match text.split_once('=') {
            Some((zone, wanted)) => {
                let parsed = Wanted::parse(wanted);
                (zone, parsed.ok_or_else(|| format!("\"{wanted}\" are no answers"))?)
            }
            None => (text, Wanted::Any),
        };
        let zone = zone.trim_end_matches('.').to_ascii_lowercase();
        if !is_zone(&zone) {
            return Err(format!("\"{zone}\" is not the name of a list"));
        }
        Ok(Entry { zone: zone.into(), wanted, score })
    }
}

fn score_of(text: &str) -> Result<i32, String> {
    let score: Option<i32> = text.parse().ok();
    score
        .filter(|score| *score != 0 && score.abs() <= SCORE_MAX)
        .ok_or_else(|| format!("\"{text}\" is not a score from -{SCORE_MAX} to {SCORE_MAX}, but 0"))
}

/// At least two labels, so that a name can be put before it.
fn is_zone(zone: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(is_plain)
    };
    zone.len() <= ZONE_BYTES_MAX && zone.contains('.') && zone.split('.').all(is_label)
}
