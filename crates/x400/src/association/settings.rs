//! Settings before an association, and agreed terms.

use crate::acse;
use crate::rtse::{Identity, MTA_RTSE, MTSE, Mode};
use crate::x224::TPDU_BYTES_MAX;
use std::time::Duration;

/// The selectors of one end: octets, often ASCII, often none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    /// Transport (X.224), at most [`SELECTOR_BYTES_MAX`].
    pub t: Vec<u8>,
    /// Session (X.225), at most 16 octets.
    pub s: Vec<u8>,
    /// Presentation (X.226), at most [`SELECTOR_BYTES_MAX`].
    pub p: Vec<u8>,
}

/// A transport or presentation selector: ISO 8073 allows 32; a CR has at most 128 octets.
pub const SELECTOR_BYTES_MAX: usize = 32;
/// A session selector (X.225 §8.3.1.10).
pub const S_SELECTOR_BYTES_MAX: usize = 16;

/// Timeout of each phase without progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the connection to the end of the bind, whatever octets arrive.
    pub bind: Duration,
    /// No input within an activity begun by the peer, or between the parts of a PDU.
    pub receive: Duration,
    /// The window is full and no checkpoint is acknowledged.
    pub window: Duration,
    /// The whole APDU is sent and not acknowledged; it is being made durable.
    pub acknowledge: Duration,
    /// Other answers within the association: to a token, to a discarded activity, to a release.
    pub answer: Duration,
    /// No transfer: the responder ends the association. For the initiator, the caller decides.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            bind: Duration::from_secs(60),
            receive: Duration::from_secs(180),
            window: Duration::from_secs(180),
            acknowledge: Duration::from_secs(600),
            answer: Duration::from_secs(60),
            idle: Duration::from_secs(600),
        }
    }
}

/// The most unacknowledged checkpoints that we agree to.
pub const WINDOW_MAX: u32 = 64;
/// The largest distance of checkpoints that we agree to, in units of 1,024 octets.
pub const CHECKPOINT_KIB_MAX: u32 = 1_048_576;

/// Settings of a responder, for all callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponderSettings {
    /// T-selectors of this end; any if empty.
    pub t_selectors: Vec<Vec<u8>>,
    /// The largest TPDU that we agree to, from [`TPDU_BYTES_MIN`](crate::x224::TPDU_BYTES_MIN) to
    /// [`TPDU_BYTES_MAX`].
    pub tpdu_bytes: usize,
    /// Checkpoints at least every so many times 1,024 octets; 0 leaves it to the initiator.
    pub checkpoint_kib: u32,
    /// Accept two-way alternate dialogues.
    pub two_way: bool,
    /// Timeouts of the phases.
    pub timeouts: Timeouts,
}

impl Default for ResponderSettings {
    fn default() -> Self {
        ResponderSettings {
            t_selectors: Vec::new(),
            tpdu_bytes: TPDU_BYTES_MAX,
            checkpoint_kib: 0,
            two_way: true,
            timeouts: Timeouts::default(),
        }
    }
}

/// Settings of an initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitiatorSettings {
    /// The protocols above the session.
    pub mode: Mode,
    /// The peer's selectors.
    pub called: Selectors,
    /// Ours.
    pub calling: Selectors,
    /// Identity of this end.
    pub identity: Identity,
    /// Checkpoint distance in units of 1,024 octets; 0 for none. The responder's answer counts.
    pub checkpoint_kib: u32,
    /// Unacknowledged checkpoints at most, from 1 to [`WINDOW_MAX`].
    pub window: u32,
    /// Offer the peer the turn on this association (two-way alternate).
    pub two_way: bool,
    /// The largest TPDU to offer.
    pub tpdu_bytes: usize,
    /// The UTCTime of this association's reference, `YYMMDDhhmmssZ`.
    pub reference_time: String,
    /// Timeouts of the phases.
    pub timeouts: Timeouts,
}

impl Default for InitiatorSettings {
    fn default() -> Self {
        InitiatorSettings {
            mode: Mode::Normal,
            called: Selectors::default(),
            calling: Selectors::default(),
            identity: Identity::default(),
            checkpoint_kib: 0,
            window: 3,
            two_way: false,
            tpdu_bytes: TPDU_BYTES_MAX,
            reference_time: "700101000000Z".into(),
            timeouts: Timeouts::default(),
        }
    }
}

/// The numbers of the contexts in normal mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contexts {
    pub(super) acse: i64,
    pub(super) rtse: i64,
    pub(super) mtse: i64,
}

impl Contexts {
    /// Contexts proposed by this end; the numbers are those of other implementations.
    pub(super) const OURS: Contexts = Contexts { acse: 1, rtse: 3, mtse: 5 };

    pub(super) fn proposal(self) -> [(i64, &'static [u8]); 3] {
        [(self.acse, acse::ABSTRACT_SYNTAX), (self.rtse, MTA_RTSE), (self.mtse, MTSE)]
    }
}
