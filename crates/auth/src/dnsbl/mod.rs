//! Lists of clients and domains in the DNS (RFC 5782): who is on one, and how much that weighs.

mod entry;
mod name;

pub use entry::{AnswerFilter, DnsblEntry, SCORE_MAX};
pub use name::{DnsblSubject, NAME_BYTES_MAX, TestPoint, ZONE_BYTES_MAX};

use crate::tags;
use std::net::Ipv4Addr;

/// What lists say in words is cut here, in octets.
pub const TEXT_BYTES_MAX: usize = 200;

/// What is looked up in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DnsblIdentity {
    /// The client's address.
    Client,
    /// The name that it gives itself.
    Helo,
    /// The domain of the sender.
    Sender,
}

/// A list that is asked, once, whatever is wanted of its answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsList {
    pub zone: Box<str>,
    pub by: DnsblIdentity,
    /// What answers weigh; at least one.
    weights: Vec<(AnswerFilter, i32)>,
}

/// What the answers of a list come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weighed {
    /// The first answer that weighs something, and what all do together.
    pub listed: Option<(Ipv4Addr, i32)>,
    /// The first answer that no list may give, or that says that the list does not answer us.
    pub senseless: Option<Ipv4Addr>,
}

impl DnsList {
    /// The lists of several entries: each zone is asked once.
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

    /// Whether it could speak for a client.
    #[must_use]
    pub fn may_allow(&self) -> bool {
        self.weights.iter().any(|(_, score)| *score < 0)
    }

    /// What its answers weigh. Each of its entries counts once, however many answers it wants.
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

/// What came of asking lists, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsblResult {
    /// None has the client, or none answered.
    None,
    /// Lists speak for it more than against it.
    Allowed,
    /// Lists speak against it, and not enough.
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

/// A list that has what was looked up.
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
    /// What all of them weigh.
    #[must_use]
    pub fn score(&self) -> i32 {
        self.0.iter().fold(0, |sum, listing| sum.saturating_add(listing.score))
    }

    /// What follows where `threshold` is enough.
    #[must_use]
    pub fn verdict(&self, threshold: i32) -> DnsblResult {
        match self.score() {
            _ if self.0.is_empty() => DnsblResult::None,
            score if score >= threshold => DnsblResult::Listed,
            score if score < 0 => DnsblResult::Allowed,
            _ => DnsblResult::Below,
        }
    }

    /// The list that speaks against the client most, the first of several.
    #[must_use]
    pub fn worst(&self) -> Option<&Listing> {
        let against = self.0.iter().filter(|listing| listing.score > 0);
        against.reduce(|worst, other| if other.score > worst.score { other } else { worst })
    }
}

/// What a list says in words, fit for a reply: printable ASCII, not too long. It may repeat what a
/// stranger wrote, and lands in a report of the client's server. `None`: it says nothing.
#[must_use]
pub fn printable(text: &[u8]) -> Option<String> {
    let said = text.get(..TEXT_BYTES_MAX).unwrap_or(text);
    let text = tags::printable(&String::from_utf8_lossy(said));
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
