//! What is set before an association, and what is agreed.

use crate::x224::TPDU_BYTES_MAX;
use std::fmt;
use std::time::Duration;

/// Which protocols run above the session. Peers can't negotiate it: it is agreed by telephone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// RTSE's normal mode over presentation and ACSE (X.419 §13.1): 1988 and later.
    Normal,
    /// RTSE's X.410 mode with the protocol of 1988: application protocol 12 (X.419 §13.2).
    X410,
    /// RTSE's X.410 mode with the protocol of 1984: application protocol 1.
    X410Of1984,
}

impl Mode {
    /// The application protocol that X.410 mode names.
    #[must_use]
    pub const fn application_protocol(self) -> Option<u32> {
        match self {
            Mode::Normal => None,
            Mode::X410 => Some(12),
            Mode::X410Of1984 => Some(1),
        }
    }
}

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

/// A transport or presentation selector: ISO 8073 says 32; a CR has at most 128 octets.
pub const SELECTOR_BYTES_MAX: usize = 32;
/// A session selector (X.225 §8.3.1.10).
pub const S_SELECTOR_BYTES_MAX: usize = 16;

/// A password, which nothing prints.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub Vec<u8>);

impl Password {
    /// Whether it is this one; how long that takes doesn't depend on where they differ.
    #[must_use]
    pub fn is(&self, other: &[u8]) -> bool {
        let differences = self.0.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
        self.0.len() == other.len() && differences == 0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// Who an MTA says it is (X.411 §12.1.1): simple credentials, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The MTA's name; `None` binds without authentication.
    pub name: Option<String>,
    /// Its password.
    pub password: Option<Password>,
}

/// How long each phase may take without progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the connection to the end of the bind, however steadily octets come.
    pub bind: Duration,
    /// Nothing comes within an activity that the peer has begun, or between parts of what it says.
    pub receive: Duration,
    /// The window is full and no checkpoint is acknowledged.
    pub window: Duration,
    /// The whole APDU is sent and not acknowledged; it is being made durable.
    pub acknowledge: Duration,
    /// Other answers within the association: to a token, to a discarded activity, to a release.
    pub answer: Duration,
    /// Nothing is transferred: the responder ends such an association. The initiator's caller decides.
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

/// What a responder says and accepts, whoever calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponderSettings {
    /// The T-selectors that are ours; when there are none, any is.
    pub t_selectors: Vec<Vec<u8>>,
    /// The largest TPDU that we agree to, from [`TPDU_BYTES_MIN`](crate::x224::TPDU_BYTES_MIN) to
    /// [`TPDU_BYTES_MAX`].
    pub tpdu_bytes: usize,
    /// Checkpoints at least every so many times 1,024 octets; 0 leaves it to the initiator.
    pub checkpoint_kib: u32,
    /// Two-way alternate dialogues are agreed to; otherwise refused.
    pub two_way: bool,
    /// How long what may take.
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

/// What an initiator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitiatorSettings {
    /// What runs above the session.
    pub mode: Mode,
    /// The peer's selectors.
    pub called: Selectors,
    /// Ours.
    pub calling: Selectors,
    /// Who we say we are.
    pub identity: Identity,
    /// Checkpoints every so many times 1,024 octets; 0 for none. What the responder says in return counts.
    pub checkpoint_kib: u32,
    /// Unacknowledged checkpoints at most, from 1 to [`WINDOW_MAX`].
    pub window: u32,
    /// Offer the peer to take its turn on this association (two-way alternate).
    pub two_way: bool,
    /// The largest TPDU to offer.
    pub tpdu_bytes: usize,
    /// The UTCTime of this association's reference, `YYMMDDhhmmssZ`.
    pub reference_time: String,
    /// How long what may take.
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
