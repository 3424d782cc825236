//! Sessions of one domain, counted.

use super::session::{Details, Policy, TlsSession};
use serde::{Deserialize, Serialize};

/// Policies of one domain: hosts with TLSA records of their own are one each.
pub const POLICIES_MAX: usize = 64;

/// Maximum number of failure kinds reported per policy.
pub const DETAILS_MAX: usize = 100;

/// Counts for one domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub(super) policies: Vec<PolicyCounts>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PolicyCounts {
    pub(super) policy: Policy,
    pub(super) successes: u64,
    pub(super) failures: u64,
    pub(super) details: Vec<(Details, u64)>,
}

/// Result of counting a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// Counted, with this many additional bytes.
    Whole(usize),
    /// Counted, but the failure's details did not fit.
    InPart,
    /// Not counted: it did not fit.
    Nothing,
}

impl Counts {
    /// Counts a session, if its new data fits into `room` bytes.
    pub fn add(&mut self, session: &TlsSession, room: usize) -> Added {
        let known = self.policies.iter().position(|counted| counted.policy == session.policy);
        let (at, added) = match known {
            Some(at) => (at, 0),
            None => {
                let bytes = session.policy.bytes() + 100;
                if self.policies.len() >= POLICIES_MAX || bytes > room {
                    return Added::Nothing;
                }
                let policy = session.policy.clone();
                self.policies.push(PolicyCounts {
                    policy,
                    successes: 0,
                    failures: 0,
                    details: Vec::new(),
                });
                (self.policies.len() - 1, bytes)
            }
        };
        let Some(counted) = self.policies.get_mut(at) else { return Added::Nothing };
        match &session.failure {
            None => {
                counted.successes += 1;
                Added::Whole(added)
            }
            Some(details) => counted.fail(details, room - added, added),
        }
    }

    /// Approximate size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of = |counted: &PolicyCounts| {
            counted.policy.bytes()
                + 100
                + counted.details.iter().map(|(details, _)| details.bytes()).sum::<usize>()
        };
        self.policies.iter().map(of).sum()
    }

    /// Sessions that are in it: as they should be, and failed.
    #[must_use]
    pub fn sessions(&self) -> (u64, u64) {
        let sums = self.policies.iter().map(|counted| (counted.successes, counted.failures));
        sums.fold((0, 0), |(good, bad), (more, failed)| (good + more, bad + failed))
    }
}

impl PolicyCounts {
    fn fail(&mut self, details: &Details, room: usize, added: usize) -> Added {
        self.failures += 1;
        if let Some((_, count)) = self.details.iter_mut().find(|(known, _)| known == details) {
            *count += 1;
            return Added::Whole(added);
        }
        let bytes = details.bytes();
        if self.details.len() >= DETAILS_MAX || bytes > room {
            return Added::InPart;
        }
        self.details.push((details.clone(), 1));
        Added::Whole(added + bytes)
    }
}
