//! DNS lists of clients and domains (RFC 5782), with scores.

mod entry;
mod name;

pub use entry::{AnswerFilter, DnsblEntry, SCORE_MAX};
pub use name::{DnsblSubject, NAME_BYTES_MAX, TestPoint, ZONE_BYTES_MAX};

use crate::tags;
use std::net::Ipv4Addr;

/// Length at which a list's text is cut, in octets.
pub const TEXT_BYTES_MAX: usize = 200;

/// The identity looked up in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DnsblIdentity {
    /// The client's address.
    Client,
    /// The client's own name.
    Helo,
    /// The domain of the sender.
    Sender,
}

/// A list, queried once for all entries about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsList {
    pub zone: Box<str>,
    pub by: DnsblIdentity,
    /// Scores of answers; at least one.
    weights: Vec<(AnswerFilter, i32)>,
}

/// Evaluation of a list's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weighed {
    /// The first answer with a score, and the total score.
    pub listed: Option<(Ipv4Addr, i32)>,
    /// The first answer that is invalid, or that refuses the query.
    pub senseless: Option<Ipv4Addr>,
}

impl DnsList {
    /// The lists of several entries: each zone is queried once.
    #[must_use]
    pub fn of(entries: impl IntoIterator<Item = (DnsblIdentity, DnsblEntry)>) -> Vec<DnsList> {
        let mut lists: Vec<DnsList> = Vec::new();
        for (by, DnsblEntry { zone, wanted, score }) in entries {
            match lists.iter_mut().find(|list| list.zone == zone && list.by == by) {
                Some(list) => list.weights.push((wanted, score)),
                None => lists.push(DnsList { zone, by, weights: vec![(wanted, score)] }),
            }
        }
        lists
    }

    /// Returns true if it can favour a client.
    #[must_use]
    pub fn may_allow(&self) -> bool {
        self.weights.iter().any(|(_, score)| *score < 0)
    }

    /// Scores its answers. Each entry counts once, however many answers match it.
    #[must_use]
    pub fn weigh(&self, answers: &[Ipv4Addr]) -> Weighed {
        let mut weighed = Weighed::default();
        for (wanted, score) in &self.weights {
            if let Some(answer) = answers.iter().find(|answer| wanted.has(**answer)) {
                let (_, sum) = weighed.listed.get_or_insert((*answer, 0));
                *sum = sum.saturating_add(*score);
            }
        }
        let is_wanted = |answer| self.weights.iter().any(|(wanted, _)| wanted.has(answer));
        let is_senseless = |answer: &&Ipv4Addr| {
            !answer.is_loopback() || entry::is_refusal(**answer) && !is_wanted(**answer)
        };
        weighed.senseless = answers.iter().find(is_senseless).copied();
        weighed
    }
}

/// Combined result of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsblResult {
    /// None has the client, or none answered.
    None,
    /// The score favours the client.
    Allowed,
    /// The score is against the client, but below the threshold.
    Below,
    /// They do.
    Listed,
}

impl DnsblResult {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DnsblResult::None => "none",
            DnsblResult::Allowed => "allowed",
            DnsblResult::Below => "below",
            DnsblResult::Listed => "listed",
        }
    }
}

/// A match in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub zone: Box<str>,
    pub by: DnsblIdentity,
    pub answer: Ipv4Addr,
    pub score: i32,
}

/// All lists that have a client or one of its domains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsblListings(pub Vec<Listing>);

impl DnsblListings {
    /// The total score.
    #[must_use]
    pub fn score(&self) -> i32 {
        self.0.iter().fold(0, |sum, listing| sum.saturating_add(listing.score))
    }

    /// The result, given `threshold`.
    #[must_use]
    pub fn verdict(&self, threshold: i32) -> DnsblResult {
        match self.score() {
            _ if self.0.is_empty() => DnsblResult::None,
            score if score >= threshold => DnsblResult::Listed,
            score if score < 0 => DnsblResult::Allowed,
            _ => DnsblResult::Below,
        }
    }

    /// The list with the highest score against the client, the first of several.
    #[must_use]
    pub fn worst(&self) -> Option<&Listing> {
        let against = self.0.iter().filter(|listing| listing.score > 0);
        against.reduce(|worst, other| if other.score > worst.score { other } else { worst })
    }
}

/// A list's text, made fit for a reply: printable ASCII of limited length. It may contain third-party text, and is
/// included in reports by the client's server. `None` if empty.
#[must_use]
pub fn printable(text: &[u8]) -> Option<String> {
    let said = text.get(..TEXT_BYTES_MAX).unwrap_or(text);
    let text = tags::printable(&String::from_utf8_lossy(said));
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
