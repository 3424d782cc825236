//! The log as its driver sees it.
use crate::{
    Completion, Disk, Io, IoDone, RecoveredMessage, RecoveryReport, Request, SpoolConfig,
    SpoolError, SpoolStatus, Ticket,
};

/// One log.
#[derive(Debug)]
pub struct Spool {}

impl Spool {
    /// Recovers what is on the disk, handing over each message that has open recipients, and makes
    /// the log ready. Blocks.
    ///
    /// # Errors
    /// When the disk fails, or holds something else.
    pub fn open(
        _disk: &dyn Disk,
        _config: SpoolConfig,
        _recovered: &mut dyn FnMut(RecoveredMessage),
    ) -> Result<(Spool, RecoveryReport), SpoolError> {
        Ok((Spool {}, RecoveryReport::default()))
    }
    /// First message sequence that was never used in this log. The caller counts on from here.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        1
    }
    /// First blob number that was never used in this log. The caller counts on from here.
    #[must_use]
    pub fn next_blob(&self) -> u64 {
        1
    }
    /// Takes a request.
    pub fn handle_request(&mut self, _request: Request) {}
    /// Something waits for the disk that somebody waits for: an accept. Otherwise the next batch
    /// may be put off for a few milliseconds to gather more.
    #[must_use]
    pub fn has_urgent(&self) -> bool {
        false
    }
    /// The next batch, if one is due and none is under way; closes the batch.
    pub fn poll_log_io(&mut self) -> Option<Io> {
        None
    }
    /// The next operation for the bulk lane.
    pub fn poll_bulk_io(&mut self) -> Option<Io> {
        None
    }
    /// The next operation of either lane.
    pub fn poll_io(&mut self) -> Option<Io> {
        None
    }
    /// Takes the result of an operation.
    pub fn handle_io_done(&mut self, _done: IoDone) {}
    /// The next answer.
    pub fn poll_completion(&mut self) -> Option<(Ticket, Completion)> {
        None
    }
    /// Nothing is under way or waiting.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        true
    }
    /// How the log is doing.
    #[must_use]
    pub fn status(&self) -> SpoolStatus {
        SpoolStatus::default()
    }
}
