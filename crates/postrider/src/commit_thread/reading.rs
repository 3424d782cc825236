//! Reads messages back while the commit thread writes: a delivery that has to read its message first
//! does not wait for a batch that others fill, nor for a segment that is being prepared.

use super::{Core, completions_of};
use spool::{Io, IoDone, Request};
use std::sync::{Arc, mpsc};

/// Requests that are looked up in one go.
const REQUESTS_MAX: usize = 64;
/// Reads after which shards are told: each telling wakes them.
const READS_TOLD: usize = 8;

/// What the read thread is asked to do.
pub(super) enum ReadJob {
    /// A message, or a piece of one, is wanted.
    Request(Request),
    /// The spool wants something read.
    Io(Io),
    /// The log has stopped.
    Stop,
}

/// The read thread of a log.
pub(super) struct Reader {
    pub(super) core: Arc<Core>,
    pub(super) jobs: mpsc::Receiver<ReadJob>,
}

impl Reader {
    pub(super) fn run(self) {
        while let Ok(job) = self.jobs.recv() {
            let (mut requests, mut reads, mut stops) = (Vec::new(), Vec::new(), false);
            for job in std::iter::once(job).chain(self.jobs.try_iter().take(REQUESTS_MAX)) {
                match job {
                    ReadJob::Request(request) => requests.push(request),
                    ReadJob::Io(io) => reads.push(io),
                    ReadJob::Stop => stops = true,
                }
            }
            self.look_up(requests, &mut reads);
            while !reads.is_empty() {
                let rest = reads.split_off(READS_TOLD.min(reads.len()));
                self.read(std::mem::replace(&mut reads, rest));
            }
            if stops {
                return;
            }
        }
    }

    /// Asks the spool where what is wanted lies.
    fn look_up(&self, requests: Vec<Request>, reads: &mut Vec<Io>) {
        let mut spool = self.core.lock();
        for request in requests {
            spool.handle_request(request);
        }
        self.core.sort_io(&mut spool, |io| reads.push(io));
        let completions = completions_of(&mut spool);
        drop(spool);
        self.core.tell_shards(completions);
    }

    fn read(&self, reads: Vec<Io>) {
        let done: Vec<IoDone> = reads.into_iter().map(|io| io.perform(&*self.core.disk)).collect();
        let mut spool = self.core.lock();
        for done in done {
            spool.handle_io_done(done);
        }
        self.core.send_io(&mut spool);
        let completions = completions_of(&mut spool);
        drop(spool);
        self.core.tell_shards(completions);
    }
}
