//! Events of an association.

use super::Selectors;
use crate::rtse::{AbortReason, BindError, Identity, Mode};
use crate::session::ExceptionReason;
use bytes::Bytes;
use std::fmt;

/// An event, in order of occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Responder: a peer binds. Answer with `accept` or `refuse`, at once or later.
    Bind(Box<BindRequest>),
    /// Initiator: the peer accepted, with its identity. `transfer` may be called from here on.
    Bound(Box<Binding>),
    /// The peer begins an activity: an APDU follows.
    ActivityStarted,
    /// The next octets of the APDU, in pieces cut anywhere.
    Content(Bytes),
    /// The APDU is complete. Answer with `acknowledge` once it is durable, or with `refuse_apdu`.
    ApduComplete,
    /// The activity ended without an APDU: drop its content. It may also follow `ApduComplete`; an acknowledgement then
    /// has no effect.
    ActivityDropped,
    /// The peer acknowledged the APDU that was transferred: it is the peer's from here on.
    Acknowledged,
    /// The peer did not take the APDU. The association can be used further.
    NotTaken(ExceptionReason),
    /// The turn is ours: `transfer` may be called.
    TurnTaken,
    /// The turn is the peer's.
    TurnGiven,
    /// The association is over. A pending APDU, in either direction, was not transferred. Flush the output and continue
    /// until `is_closed`.
    Ended(AssociationEnd),
}

/// A bind request (responder).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// The protocols above the session.
    pub mode: Mode,
    /// The claimed identity.
    pub identity: Identity,
    /// It has credentials of another kind than a password.
    pub has_strong_credentials: bool,
    /// The selectors that it called.
    pub called: Selectors,
    /// Its own.
    pub calling: Selectors,
    /// Its checkpoints, in units of 1,024 octets; 0 for none.
    pub checkpoint_kib: u32,
    /// Its window.
    pub window: u32,
    /// True if it offers turns to this end.
    pub two_way: bool,
}

/// The agreed terms (initiator).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The peer's claimed identity. The caller must check it, and `abort` if it is not the expected one.
    pub identity: Identity,
    /// The selectors with which it answered.
    pub responding: Selectors,
    /// Checkpoint distance in units of 1,024 octets; 0 for none.
    pub checkpoint_kib: u32,
    /// Unacknowledged checkpoints at most.
    pub window: u32,
    /// The largest TPDU that we send.
    pub tpdu_bytes: usize,
}

/// A protocol layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// TPKT and X.224.
    Transport,
    /// X.225.
    Session,
    /// X.226.
    Presentation,
    /// X.227.
    Association,
    /// X.228.
    ReliableTransfer,
    /// X.411: the MTA itself.
    Transfer,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Transport => "transport",
            Layer::Session => "session",
            Layer::Presentation => "presentation",
            Layer::Association => "ACSE",
            Layer::ReliableTransfer => "RTSE",
            Layer::Transfer => "MTA",
        })
    }
}

/// The phase that timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The connection and the bind.
    Bind,
    /// The rest of an activity.
    Receive,
    /// A checkpoint to be acknowledged.
    Window,
    /// The APDU to be acknowledged.
    Acknowledge,
    /// Another answer.
    Answer,
    /// An activity.
    Idle,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Bind => "the bind",
            Phase::Receive => "more of the activity",
            Phase::Window => "a checkpoint to be acknowledged",
            Phase::Acknowledge => "the APDU to be acknowledged",
            Phase::Answer => "an answer",
            Phase::Idle => "an activity",
        })
    }
}

/// The end of an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssociationEnd {
    /// In order.
    Released,
    /// The bind was refused: by the peer (initiator), or by us (responder).
    Refused(Refusal),
    /// The peer aborted.
    AbortedByPeer {
        /// The peer's layer.
        layer: Layer,
        /// RTSE's reason, if it gave one.
        reason: Option<AbortReason>,
    },
    /// The peer broke a protocol: we aborted with that layer's reason.
    Violation(Violation),
    /// A timeout: this end aborted.
    TimedOut(Phase),
    /// Aborted by the caller.
    AbortedByUs(AbortReason),
    /// The connection is gone: closed by the peer where it may not, or its transport disconnected.
    Lost,
}

/// A bind that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The refusing layer.
    pub layer: Layer,
    /// The MTA's reason, if it was the MTA that refused.
    pub error: Option<BindError>,
    /// A retry is useless until a setting is changed.
    pub is_permanent: bool,
    /// Explanation for a log; printable.
    pub text: String,
}

/// A breach of protocol by the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The layer of the protocol.
    pub layer: Layer,
    /// The violation, for a log; printable.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.layer, self.text)
    }
}

impl fmt::Display for AssociationEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AssociationEnd::Released => f.write_str("released"),
            AssociationEnd::Refused(refusal) => {
                write!(f, "refused ({}): {}", refusal.layer, refusal.text)
            }
            AssociationEnd::AbortedByPeer { layer, reason: Some(reason) } => {
                write!(f, "aborted by the peer ({layer}): {reason:?}")
            }
            AssociationEnd::AbortedByPeer { layer, reason: None } => {
                write!(f, "aborted by the peer ({layer})")
            }
            AssociationEnd::Violation(violation) => write!(f, "protocol error: {violation}"),
            AssociationEnd::TimedOut(phase) => write!(f, "timed out: waited for {phase}"),
            AssociationEnd::AbortedByUs(reason) => write!(f, "aborted: {reason:?}"),
            AssociationEnd::Lost => f.write_str("the connection is lost"),
        }
    }
}
