//! What waits to be written, and how urgent it is.

use crate::record::{Record, SettleKind};
use crate::request::Ticket;

/// What waits to be written.
#[derive(Debug)]
pub(super) struct Submit {
    pub ticket: Ticket,
    pub records: Vec<Record>,
    /// Records and index entries, at most.
    pub bytes: u64,
    pub kind: SubmitKind,
}

/// What a submit does to the space, the more urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SubmitKind {
    /// It ends recipients and adds no message: what makes room. Only a disk that fails refuses it.
    Settle,
    /// It ends recipients that can't be settled without the message that comes with it.
    Report,
    /// It adds no message and frees nothing: attempts, notices, an operator's hold.
    Advice,
    /// It adds a message.
    Accept,
}

impl SubmitKind {
    pub(super) fn of(records: &[Record]) -> SubmitKind {
        let is_failed = |kind: SettleKind| matches!(kind, SettleKind::Failed | SettleKind::Expired);
        let (mut accepts, mut settles, mut fails) = (false, false, false);
        for record in records {
            match record {
                Record::Accept(_) => accepts = true,
                Record::Settle(settle) => {
                    settles = true;
                    fails |= settle.recipients.iter().any(|&(_, kind)| is_failed(kind));
                }
                Record::Attempt(_) | Record::State(_) => {}
            }
        }
        match (accepts, settles) {
            (false, true) => SubmitKind::Settle,
            (false, false) => SubmitKind::Advice,
            (true, _) if fails => SubmitKind::Report,
            (true, _) => SubmitKind::Accept,
        }
    }

    pub(super) fn has_accept(self) -> bool {
        matches!(self, SubmitKind::Report | SubmitKind::Accept)
    }

    /// The next more urgent one.
    pub(super) fn above(self) -> Option<SubmitKind> {
        match self {
            SubmitKind::Settle => None,
            SubmitKind::Report => Some(SubmitKind::Settle),
            SubmitKind::Advice => Some(SubmitKind::Report),
            SubmitKind::Accept => Some(SubmitKind::Advice),
        }
    }
}
