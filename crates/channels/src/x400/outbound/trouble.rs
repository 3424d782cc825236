//! Failures for a peer's refusals and timeouts, with the peer's reason as far as it gave one.

use crate::x400::section::X400Peer;
use mail::{Class, Culprit, EnhancedStatus, Failure};
use x400::association::{AssociationEnd, BindError, ExceptionReason, Refusal};

/// The peer refused an APDU, for now.
pub(super) fn not_taken(peer: &str, reason: ExceptionReason) -> Failure {
    let why = match reason {
        ExceptionReason::Unspecified => "without a reason".to_owned(),
        ExceptionReason::TemporarilyUnable => "temporarily unable".to_owned(),
        ExceptionReason::SequenceError => "sequence error".to_owned(),
        ExceptionReason::LocalError => "local error of the peer".to_owned(),
        ExceptionReason::Unrecoverable => "unrecoverable error".to_owned(),
        ExceptionReason::DemandDataToken => "the peer requests the turn".to_owned(),
        ExceptionReason::Other(code) => format!("reason {code}"),
    };
    said(peer, EnhancedStatus::new(4, 3, 2), format!("the peer did not accept the message: {why}"))
}

/// The association ended before the peer's reply to an APDU, or during its opening.
pub(in crate::x400) fn ended(peer: &str, end: &AssociationEnd, settings: &X400Peer) -> Failure {
    match end {
        AssociationEnd::Refused(refusal) => refused(peer, refusal, settings),
        AssociationEnd::AbortedByPeer { .. } => {
            said(peer, EnhancedStatus::new(4, 4, 2), format!("the association was {end}"))
        }
        AssociationEnd::Violation(_) => said(peer, EnhancedStatus::new(4, 5, 0), end.to_string()),
        AssociationEnd::Released
        | AssociationEnd::TimedOut(_)
        | AssociationEnd::AbortedByUs(_)
        | AssociationEnd::Lost => {
            Failure::network(peer, EnhancedStatus::new(4, 4, 2), end.to_string())
        }
    }
}

fn refused(peer: &str, refusal: &Refusal, settings: &X400Peer) -> Failure {
    let X400Peer { name, our_name, .. } = settings;
    let why = match refusal.error {
        Some(BindError::Authentication) => format!(
            "authentication failed for our name \"{our_name}\" with our password (`our_name` and \
             `our_password` of peer \"{name}\")"
        ),
        Some(BindError::Busy) => "the peer is busy".to_owned(),
        Some(BindError::DialogueMode) => "the peer does not support the dialogue mode".to_owned(),
        Some(
            BindError::CannotRecover
            | BindError::SecurityContext
            | BindError::Confidentiality
            | BindError::Other(_),
        )
        | None => format!("{}: {}", refusal.layer, refusal.text),
    };
    said(peer, EnhancedStatus::new(4, 4, 1), format!("association rejected: {why}"))
}

/// Another MTA than the peer answers.
pub(super) fn stranger(peer: &str, shown: Option<&str>, settings: &X400Peer) -> Failure {
    let X400Peer { name, their_name, .. } = settings;
    // An IA5String (X.411, MTAName).
    let is_shown = |c: &char| c.is_ascii_graphic() || *c == ' ';
    let shown: String = shown.unwrap_or_default().chars().filter(is_shown).take(64).collect();
    let text = format!(
        "the peer identifies as \"{shown}\" or with another password, not as \"{their_name}\" \
         (`their_name` and `their_password` of peer \"{name}\")"
    );
    said(peer, EnhancedStatus::new(4, 7, 8), text)
}

/// A refusal by the peer is always temporary. Mail must not be returned because a configured peer refuses it.
fn said(peer: &str, status: EnhancedStatus, text: String) -> Failure {
    Failure {
        class: Class::Transient,
        culprit: Culprit::Peer(peer.into()),
        status,
        reply: None,
        heard: None,
        step: None,
        text: text.into(),
    }
}
