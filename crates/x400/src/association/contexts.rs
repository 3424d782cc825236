//! Presentation contexts of an association.

use crate::acse;
use crate::rtse::{MTA_RTSE, MTSE};

/// The numbers of the contexts in normal mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contexts {
    pub(super) acse: i64,
    pub(super) rtse: i64,
    pub(super) mtse: i64,
}

impl Contexts {
    /// Ours, when we propose them; the same numbers as others use.
    pub(super) const OURS: Contexts = Contexts { acse: 1, rtse: 3, mtse: 5 };

    pub(super) fn proposal(self) -> [(i64, &'static [u8]); 3] {
        [(self.acse, acse::ABSTRACT_SYNTAX), (self.rtse, MTA_RTSE), (self.mtse, MTSE)]
    }
}
