//! What is remembered of a next hop from one connection to another.

use super::failed_addresses::FailedAddresses;
use super::lacking::Lacking;
use super::lessons::Lessons;
use super::moves::{Avoided, Moves};
use super::refusals::Refusals;
use super::tls_lessons::TlsLessons;
use mail::Domain;
use std::cell::RefCell;

/// Kept beside the next hop, and dropped with it.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) lessons: Lessons,
    pub(super) tls: TlsLessons,
    pub(super) addresses: FailedAddresses,
    pub(super) refusals: Refusals,
    pub(super) moves: Moves,
    pub(super) avoided: Avoided,
    pub(super) lacking: Lacking,
    /// Whose mail was refused last on account of the sender, since any was taken; `None` stands for reports.
    pub(super) refused_sender: RefCell<Option<Option<Domain>>>,
}
