//! A model of what the spool promised, held against what it does.

mod laws;
mod traffic;

use bytes::Bytes;
use mail::{BodyType, Envelope, Mailbox, MessageId, Notify, Recipient};
use spool::memdisk::{Faults, MemDisk};
use spool::{
    Completion, DiskErrorKind, Io, RecoveredMessage, RecoveryReport, Refusal, Spool, SpoolConfig,
    Ticket,
};
use std::collections::BTreeMap;

/// A small log, so that everything happens soon.
pub(crate) fn tiny() -> SpoolConfig {
    SpoolConfig {
        node: 7,
        log: 3,
        salt: 0x5eed,
        segment_bytes: 16 << 10,
        first_segment_bytes: 16 << 10,
        block_bytes: 512,
        batch_bytes_max: 4 << 10,
        reserve_bytes: 40 << 10,
        index_every_bytes: 2 << 10,
        compact_step_bytes: 2 << 10,
        ..SpoolConfig::default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sure {
    /// Submitted, no answer yet (or "nobody knows").
    Maybe,
    Yes,
}

/// A recipient's end.
#[derive(Clone, Debug, Default)]
struct Rcpt {
    settled: Option<Sure>,
    /// Attempts that a recovery may find: the last one known durable, and those submitted since.
    attempts: Vec<u16>,
}

#[derive(Clone, Debug)]
struct Msg {
    accepted: Sure,
    body_bytes: usize,
    blob: bool,
    rcpts: Vec<Rcpt>,
    /// As `attempts`.
    holds: Vec<Option<String>>,
    /// The message and recipient whose settle came with this accept.
    dsn_of: Option<(u64, u32)>,
}

enum Submitted {
    Accept(u64),
    Settle(u64, Vec<u32>),
    Dsn(u64, u32, u64),
    Attempt(u64, Vec<u32>, u16),
    Hold(u64, Option<String>),
}

pub(crate) struct World {
    pub(crate) disk: MemDisk,
    pub(crate) config: SpoolConfig,
    pub(crate) spool: Spool,
    pub(crate) poisoned: bool,
    pub(crate) report: RecoveryReport,
    msgs: BTreeMap<u64, Msg>,
    submitted: BTreeMap<u64, Submitted>,
    ios: Vec<Io>,
    next_ticket: u64,
    next_sequence: u64,
    next_blob: u64,
    random: u64,
    pub(crate) durable_count: u64,
    pub(crate) full_count: u64,
    /// Starts that fail before one that does not, at most.
    pub(crate) failing_starts_max: usize,
}

pub(crate) fn envelope(count: u32) -> Envelope {
    let mailbox = |text: &str| Mailbox::parse(text, false).expect("a good address");
    let recipients = (0..count)
        .map(|n| Recipient {
            mailbox: mailbox(&format!("user{n}@Domain{}.example", n % 3)),
            notify: Notify::UNSPECIFIED,
            orcpt: None,
        })
        .collect();
    Envelope {
        reverse_path: Some(mailbox("sender@example.org")),
        recipients,
        body: BodyType::SevenBit,
        smtputf8: false,
        ret: None,
        envid: None,
    }
}

pub(crate) fn content(id: u64, bytes: usize) -> Bytes {
    (0..bytes).map(|at| (id as usize * 31 + at * 7) as u8).collect::<Vec<_>>().into()
}

impl World {
    pub(crate) fn new(config: SpoolConfig, capacity_bytes: u64, seed: u64) -> World {
        let disk = MemDisk::new(seed, capacity_bytes);
        let (spool, report) =
            Spool::open(&disk, config.clone(), &mut |_| panic!("nothing there")).expect("opens");
        let (next_sequence, next_blob) = (spool.next_sequence(), spool.next_blob());
        World {
            disk,
            config,
            spool,
            poisoned: false,
            report,
            msgs: BTreeMap::new(),
            submitted: BTreeMap::new(),
            ios: Vec::new(),
            next_ticket: 0,
            next_sequence,
            next_blob,
            random: seed,
            durable_count: 0,
            full_count: 0,
            failing_starts_max: 3,
        }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) as usize % bound.max(1)
    }

    /// Submits that were never answered.
    pub(crate) fn unanswered_count(&self) -> usize {
        self.submitted.len()
    }

    /// How many messages have open recipients.
    pub(crate) fn open_count(&self) -> usize {
        self.open_ones(true).len()
    }

    fn gather(&mut self) {
        if self.below(16) == 0 {
            self.spool.handle_tick();
        }
        while let Some(io) = self.spool.poll_bulk_io() {
            self.ios.push(io);
        }
        // Sometimes gather more before the batch is closed.
        if self.below(3) > 0
            && let Some(io) = self.spool.poll_log_io()
        {
            self.ios.push(io);
        }
    }

    /// Performs one operation, any of those that are due, and takes the answers.
    fn step_io(&mut self, keep: bool) -> Vec<(Ticket, Completion)> {
        if !self.ios.is_empty() {
            let at = self.below(self.ios.len());
            let io = self.ios.remove(at);
            let done = io.perform(&self.disk);
            self.spool.handle_io_done(done);
        }
        let mut others = Vec::new();
        while let Some((ticket, completion)) = self.spool.poll_completion() {
            match self.submitted.remove(&ticket.0) {
                Some(what) => self.answered(what, &completion),
                None if keep => others.push((ticket, completion)),
                None => {}
            }
        }
        others
    }

    fn answered(&mut self, what: Submitted, completion: &Completion) {
        match completion {
            Completion::Durable { position } => {
                assert!(*position > 0);
                self.durable_count += 1;
                self.now_durable(what);
            }
            Completion::Refused(Refusal::Poisoned) => self.poisoned = true,
            Completion::Refused(Refusal::Full | Refusal::Scarce) => {
                self.full_count += 1;
                self.never_was(what);
            }
            other => panic!("unexpected {other:?}"),
        }
    }

    fn now_durable(&mut self, what: Submitted) {
        let (id, settled) = match what {
            Submitted::Accept(id) => {
                self.msgs.get_mut(&id).expect("known").accepted = Sure::Yes;
                return;
            }
            Submitted::Dsn(id, index, dsn) => {
                self.msgs.get_mut(&dsn).expect("known").accepted = Sure::Yes;
                (id, vec![index])
            }
            Submitted::Settle(id, recipients) => (id, recipients),
            Submitted::Attempt(id, recipients, attempts) => {
                for rcpt in recipients {
                    let known = &mut self.msgs.get_mut(&id).expect("known").rcpts[rcpt as usize];
                    prune(&mut known.attempts, &attempts);
                }
                return;
            }
            Submitted::Hold(id, hold) => {
                prune(&mut self.msgs.get_mut(&id).expect("known").holds, &hold);
                return;
            }
        };
        for index in settled {
            self.msgs.get_mut(&id).expect("known").rcpts[index as usize].settled = Some(Sure::Yes);
        }
    }

    /// Refused for lack of space: certainly not there.
    fn never_was(&mut self, what: Submitted) {
        match what {
            Submitted::Accept(id) => {
                self.msgs.remove(&id);
            }
            Submitted::Dsn(id, index, dsn) => {
                self.msgs.remove(&dsn);
                self.msgs.get_mut(&id).expect("known").rcpts[index as usize].settled = None;
            }
            // Attempts are as if they had not been made; a hold is told to have failed.
            Submitted::Attempt(id, recipients, attempts) => {
                for rcpt in recipients {
                    let known = &mut self.msgs.get_mut(&id).expect("known").rcpts[rcpt as usize];
                    known.attempts.retain(|&known| known != attempts);
                }
            }
            Submitted::Hold(id, hold) => {
                let holds = &mut self.msgs.get_mut(&id).expect("known").holds;
                if let Some(at) = holds.iter().rposition(|known| *known == hold) {
                    holds.remove(at);
                }
            }
            Submitted::Settle(..) => panic!("settles are never refused for lack of room"),
        }
    }

    /// Performs up to `count` operations.
    pub(crate) fn pump(&mut self, count: usize) {
        for _ in 0..count {
            self.gather();
            self.step_io(false);
        }
    }

    /// Until nothing is left to do.
    pub(crate) fn drain(&mut self) {
        let mut ticks = 0;
        for _ in 0..200_000 {
            self.gather();
            if let Some(io) = self.spool.poll_log_io() {
                self.ios.push(io);
            }
            if self.ios.is_empty() {
                self.step_io(false);
                if ticks == 3 && !self.spool.is_stalled() {
                    return;
                }
                ticks += u32::from(!self.spool.is_stalled());
                self.spool.handle_tick();
            }
            self.step_io(false);
        }
        panic!("the spool never comes to rest");
    }

    /// An orderly stop.
    pub(crate) fn stop(&mut self) {
        for _ in 0..1_000 {
            self.gather();
            self.step_io(false);
            if self.spool.is_idle() {
                break;
            }
        }
        let last = self.spool.close();
        // What was begun is ended; whether it succeeded nobody will know.
        for io in std::mem::take(&mut self.ios).into_iter().chain(last) {
            let _ = io.perform(&self.disk);
        }
    }

    /// Power loss (or a kill of the process), restart, and all the laws.
    pub(crate) fn restart(&mut self, power_loss: bool) {
        if power_loss {
            self.disk.crash();
        } else {
            self.disk.kill();
        }
        self.disk.clear_failure();
        self.disk.set_faults(Faults::default());
        self.ios.clear();
        self.submitted.clear();
        self.poisoned = false;
        for _ in 0..self.below(self.failing_starts_max + 1) {
            self.start_and_fail();
        }
        let found = self.open();
        self.check(&found);
        let again = self.open();
        let key = |m: &RecoveredMessage| (m.id, m.open.clone(), m.hold.clone(), m.body_bytes);
        let sorted = |found: &[RecoveredMessage]| {
            let mut all: Vec<_> = found.iter().map(key).collect();
            all.sort_by_key(|m| m.0);
            all
        };
        assert_eq!(sorted(&found), sorted(&again), "a second recovery differs");
        self.load_all(&again);
    }

    /// A start that ends early, with the process or the machine, or on a disk that fails.
    fn start_and_fail(&mut self) {
        match self.below(3) {
            0 => self.disk.set_faults(Faults {
                sync_permille: 60,
                write_permille: 30,
                ..Faults::default()
            }),
            1 => {
                let (at, forever) = (self.below(60) as u64, self.below(2) == 0);
                let kind = [DiskErrorKind::Failed, DiskErrorKind::Full][self.below(2)];
                self.disk.set_failure(at, kind, forever);
            }
            _ => {
                let fuse = self.below(60) as u64;
                self.disk.set_fuse(fuse);
            }
        }
        let config = SpoolConfig { salt: self.random, ..self.config.clone() };
        // What can't be read just then is told as damage; nothing may come of it.
        let _ = Spool::open(&self.disk, config, &mut |_| ());
        self.disk.clear_failure();
        self.disk.set_faults(Faults::default());
        if self.below(3) == 0 { self.disk.kill() } else { self.disk.crash() }
    }

    /// Recovers with an operation that fails, that one or all from then on, and once more without.
    /// `false` when there are fewer operations.
    pub(crate) fn restart_failing_at(
        &mut self,
        at: u64,
        kind: DiskErrorKind,
        forever: bool,
        power_loss: bool,
    ) -> bool {
        self.disk.kill();
        self.disk.set_failure(at, kind, forever);
        let config = SpoolConfig { salt: self.random, ..self.config.clone() };
        // What can't be read just then is told as damage; nothing may come of it.
        let _ = Spool::open(&self.disk, config, &mut |_| ());
        let is_over = !forever && self.disk.clear_failure();
        self.restart(power_loss);
        !is_over
    }

    fn open(&mut self) -> Vec<RecoveredMessage> {
        let mut found = Vec::new();
        let config = SpoolConfig { salt: self.random, ..self.config.clone() };
        let (spool, report) =
            Spool::open(&self.disk, config, &mut |message| found.push(message)).expect("recovers");
        assert_eq!(report.damaged_count, 0, "{:?}", report.damage);
        assert_eq!(report.live_count, found.len() as u64);
        assert!(spool.next_sequence() <= self.next_sequence);
        let acked =
            self.msgs.iter().filter(|(_, msg)| msg.accepted == Sure::Yes).map(|(&id, _)| id);
        if let Some(id) = acked.max() {
            assert!(spool.next_sequence() > MessageId(id).sequence(), "an id could be used again");
        }
        self.next_sequence = spool.next_sequence();
        self.next_blob = spool.next_blob();
        self.spool = spool;
        self.report = report;
        let verified = spool::verify(&self.disk).expect("verifies");
        assert_eq!(verified.damaged_count, 0, "{:?}", verified.damage);
        assert_eq!(verified.live_count, found.len() as u64);
        found
    }

    fn wait_for(&mut self, ticket: Ticket) -> Completion {
        for _ in 0..10_000 {
            self.gather();
            for (found, completion) in self.step_io(true) {
                if found == ticket {
                    return completion;
                }
            }
        }
        panic!("no answer");
    }
}

/// What came before `value` can't be found any more.
fn prune<T: PartialEq>(allowed: &mut Vec<T>, value: &T) {
    if let Some(at) = allowed.iter().position(|v| v == value) {
        allowed.drain(..at);
    }
}
