//! A model of what the spool promised, held against what it does.

use bytes::Bytes;
use mail::{BodyType, ContentFacts, Envelope, Mailbox, MessageId, Notify, Recipient, Wall};
use spool::memdisk::{Faults, MemDisk};
use spool::{
    Accept, Attempt, BlobId, Body, BodyChecksums, Completion, DiskErrorKind, Io, LoadedBody, Meta,
    Record, RecoveredMessage, RecoveryReport, Refusal, Request, Settle, SettleKind, Spool,
    SpoolConfig, State, Ticket, checksums,
};
use std::collections::BTreeMap;
use std::sync::Arc;

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

    fn submit(&mut self, what: Submitted, records: Vec<Record>) {
        self.next_ticket += 1;
        self.submitted.insert(self.next_ticket, what);
        self.spool.handle_request(Request::Submit { ticket: Ticket(self.next_ticket), records });
    }

    fn accept_record(&mut self, count: u32, body: Body, bytes: usize) -> (u64, Record) {
        let id = MessageId::new(self.config.node, self.config.log, self.next_sequence);
        self.next_sequence += 1;
        let accept = Accept {
            id,
            received_at: Wall(1_000 + id.sequence()),
            envelope: Arc::new(envelope(count)),
            meta: Meta {
                fields: vec![(9, Bytes::from_static(b"192.0.2.1")), (4242, content(1, 9))],
            },
            prefix: Bytes::from_static(b"Received: from a by b\r\n"),
            body,
            facts: ContentFacts { body_bytes: bytes as u64, ..ContentFacts::default() },
        };
        (id.0, Record::Accept(Box::new(accept)))
    }

    fn new_msg(&mut self, id: u64, count: u32, bytes: usize, blob: bool) {
        let rcpts = vec![Rcpt { settled: None, attempts: vec![0] }; count as usize];
        self.msgs.insert(
            id,
            Msg {
                accepted: Sure::Maybe,
                body_bytes: bytes,
                blob,
                rcpts,
                holds: vec![None],
                dsn_of: None,
            },
        );
    }

    pub(crate) fn accept(&mut self, count: u32, bytes: usize) {
        let sequence = MessageId::new(self.config.node, self.config.log, self.next_sequence).0;
        let body = content(sequence, bytes);
        let half = bytes / 2;
        let body = Body::Memory(vec![body.slice(..half), body.slice(half..)]);
        let (id, record) = self.accept_record(count, body, bytes);
        self.new_msg(id, count, bytes, false);
        self.submit(Submitted::Accept(id), vec![record]);
    }

    /// Streams a blob and accepts a message with it, if the blob could be written.
    pub(crate) fn accept_blob(&mut self, count: u32, bytes: usize) {
        let blob = BlobId(self.next_blob);
        self.next_blob += 1;
        let sequence = MessageId::new(self.config.node, self.config.log, self.next_sequence).0;
        let body = content(sequence, bytes);
        let half = bytes / 2;
        let mut tickets = Vec::new();
        for data in [body.slice(..half), body.slice(half..)] {
            self.next_ticket += 1;
            tickets.push(self.next_ticket);
            let ticket = Ticket(self.next_ticket);
            self.spool.handle_request(Request::BlobAppend { ticket, blob, data });
        }
        self.next_ticket += 1;
        let seal = self.next_ticket;
        self.spool.handle_request(Request::BlobSeal { ticket: Ticket(seal), blob });
        tickets.push(seal);
        let mut good = 0;
        while !tickets.is_empty() {
            self.gather();
            let answer = self.step_io(true);
            for (ticket, completion) in answer {
                if let Some(at) = tickets.iter().position(|t| *t == ticket.0) {
                    tickets.remove(at);
                    good += usize::from(matches!(completion, Completion::BlobDone));
                }
            }
        }
        if good < 3 || bytes == 0 {
            self.spool.handle_request(Request::BlobDrop { blob });
            return;
        }
        let mut checksums = BodyChecksums::default();
        checksums.push(&body);
        let body = Body::Blob { blob, body_bytes: bytes as u64 };
        let (id, mut record) = self.accept_record(count, body, bytes);
        if let Record::Accept(accept) = &mut record {
            accept.meta.fields.push(checksums.finish());
        }
        self.new_msg(id, count, bytes, true);
        self.submit(Submitted::Accept(id), vec![record]);
    }

    /// A message that is known to be accepted, and its recipients without a submitted settle.
    fn pick(&mut self) -> Option<(u64, Vec<u32>)> {
        let live: Vec<(u64, Vec<u32>)> = self
            .msgs
            .iter()
            .filter(|(_, msg)| msg.accepted == Sure::Yes)
            .map(|(&id, msg)| {
                let open = |at: &u32| msg.rcpts[*at as usize].settled.is_none();
                (id, (0..msg.rcpts.len() as u32).filter(open).collect::<Vec<_>>())
            })
            .filter(|(_, open)| !open.is_empty())
            .collect();
        let at = self.below(live.len());
        live.into_iter().nth(at)
    }

    fn settle_record(id: u64, recipients: &[u32], how: SettleKind) -> Record {
        let recipients = recipients.iter().map(|&index| (index, how)).collect();
        Record::Settle(Settle { id: MessageId(id), at: Wall(5), recipients })
    }

    pub(crate) fn settle(&mut self, part: bool) {
        let Some((id, mut open)) = self.pick() else { return };
        if part {
            open.truncate(1 + self.below(open.len()));
        }
        self.mark_settling(id, &open);
        let record = World::settle_record(id, &open, SettleKind::Relayed);
        self.submit(Submitted::Settle(id, open), vec![record]);
    }

    pub(crate) fn settle_all(&mut self) {
        while self.pick().is_some() {
            self.settle(false);
        }
    }

    fn mark_settling(&mut self, id: u64, recipients: &[u32]) {
        if let Some(msg) = self.msgs.get_mut(&id) {
            for &index in recipients {
                msg.rcpts[index as usize].settled = Some(Sure::Maybe);
            }
        }
    }

    /// One recipient fails and the sender is told: both or neither.
    pub(crate) fn dsn(&mut self) {
        if let Some((id, open)) = self.pick() {
            self.report(id, open[0], 300);
        }
    }

    /// Messages (`false`: reports) that are known to be accepted, with their open recipients.
    fn open_ones(&self, messages: bool) -> Vec<(u64, Vec<u32>)> {
        let ones = self
            .msgs
            .iter()
            .filter(|(_, msg)| msg.accepted == Sure::Yes && msg.dsn_of.is_none() == messages);
        let open = |msg: &Msg| {
            let of = |at: &u32| msg.rcpts[*at as usize].settled.is_none();
            (0..msg.rcpts.len() as u32).filter(of).collect::<Vec<_>>()
        };
        ones.map(|(&id, msg)| (id, open(msg))).filter(|(_, open)| !open.is_empty()).collect()
    }

    /// Submits that were never answered.
    pub(crate) fn unanswered_count(&self) -> usize {
        self.submitted.len()
    }

    /// How many messages have open recipients.
    pub(crate) fn open_count(&self) -> usize {
        self.open_ones(true).len()
    }

    /// The first open recipient of each of `count` messages fails.
    pub(crate) fn bounce(&mut self, count: usize, bytes: usize) {
        for (id, open) in self.open_ones(true).into_iter().take(count) {
            self.report(id, open[0], bytes);
        }
    }

    /// Reports arrive.
    pub(crate) fn deliver_reports(&mut self) {
        for (id, open) in self.open_ones(false) {
            self.mark_settling(id, &open);
            let record = World::settle_record(id, &open, SettleKind::Relayed);
            self.submit(Submitted::Settle(id, open), vec![record]);
        }
    }

    fn report(&mut self, id: u64, index: u32, bytes: usize) {
        self.mark_settling(id, &[index]);
        let settle = World::settle_record(id, &[index], SettleKind::Failed);
        let body = Body::Memory(vec![content(self.next_sequence_id(), bytes)]);
        let (dsn, accept) = self.accept_record(1, body, bytes);
        self.new_msg(dsn, 1, bytes, false);
        if let Some(msg) = self.msgs.get_mut(&dsn) {
            msg.dsn_of = Some((id, index));
        }
        self.submit(Submitted::Dsn(id, index, dsn), vec![settle, accept]);
    }

    fn next_sequence_id(&self) -> u64 {
        MessageId::new(self.config.node, self.config.log, self.next_sequence).0
    }

    pub(crate) fn attempt(&mut self) {
        let Some((id, mut open)) = self.pick() else { return };
        open.truncate(1 + self.below(open.len()));
        self.next_ticket += 1;
        let attempts = (self.next_ticket % 60_000) as u16 + 1;
        if let Some(msg) = self.msgs.get_mut(&id) {
            open.iter().for_each(|&at| msg.rcpts[at as usize].attempts.push(attempts));
        }
        let record = Record::Attempt(Attempt {
            id: MessageId(id),
            at: Wall(9),
            recipients: open.clone(),
            attempts,
            next_try: Wall(u64::from(attempts) * 1_000),
            reason: format!("refused {}", attempts % 5).into(),
        });
        self.submit(Submitted::Attempt(id, open, attempts), vec![record]);
    }

    pub(crate) fn hold(&mut self, release: bool) {
        let Some((id, _)) = self.pick() else { return };
        let hold = (!release).then(|| format!("hold {}", self.next_ticket));
        if let Some(msg) = self.msgs.get_mut(&id) {
            msg.holds.push(hold.clone());
        }
        let record = Record::State(State {
            id: MessageId(id),
            hold: Some(hold.as_deref().map(Box::from)),
            next_try: None,
            route_override: None,
            delay_notice_sent: None,
        });
        self.submit(Submitted::Hold(id, hold), vec![record]);
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

    fn check(&mut self, found: &[RecoveredMessage]) {
        let mut by_id: BTreeMap<u64, &RecoveredMessage> = BTreeMap::new();
        for message in found {
            assert!(by_id.insert(message.id.0, message).is_none(), "handed over twice");
            assert!(self.msgs.contains_key(&message.id.0), "{} was never sent", message.id);
        }
        let ids: Vec<u64> = self.msgs.keys().copied().collect();
        let closed_before: BTreeMap<u64, Vec<bool>> = self
            .msgs
            .iter()
            .map(|(&id, m)| (id, m.rcpts.iter().map(|r| r.settled == Some(Sure::Yes)).collect()))
            .collect();
        for id in ids {
            let msg = self.msgs.get_mut(&id).expect("known");
            let message = by_id.get(&id);
            check_message(id, msg, message.copied());
            if msg.rcpts.iter().all(|r| r.settled.is_some()) && message.is_none()
                || msg.accepted == Sure::Maybe && message.is_none()
            {
                let msg = msg.clone();
                self.check_dsn(&msg, false, &closed_before);
                if msg.accepted == Sure::Maybe {
                    self.msgs.remove(&id);
                }
                continue;
            }
            msg.accepted = Sure::Yes;
            let msg = msg.clone();
            self.check_dsn(&msg, true, &closed_before);
        }
    }

    /// A DSN that was not answered is there exactly if its settle is.
    fn check_dsn(&self, dsn: &Msg, is_there: bool, before: &BTreeMap<u64, Vec<bool>>) {
        let Some((id, index)) = dsn.dsn_of else { return };
        if dsn.accepted == Sure::Yes && !is_there {
            return;
        }
        let was_closed = before.get(&id).is_some_and(|m| m[index as usize]);
        let is_closed = self
            .msgs
            .get(&id)
            .is_none_or(|msg| msg.rcpts[index as usize].settled == Some(Sure::Yes));
        if !was_closed {
            assert_eq!(is_there, is_closed, "a DSN without its settle, or the other way round");
        }
    }

    fn load_all(&mut self, found: &[RecoveredMessage]) {
        for message in found {
            self.next_ticket += 1;
            let ticket = Ticket(self.next_ticket);
            self.spool.handle_request(Request::Load { ticket, id: message.id });
            let Completion::Loaded(loaded) = self.wait_for(ticket) else { panic!("not loaded") };
            let msg = &self.msgs[&message.id.0];
            let (bytes, count) = (msg.body_bytes, msg.rcpts.len());
            assert_eq!(*loaded.envelope, envelope(count as u32));
            assert_eq!(&loaded.prefix[..], b"Received: from a by b\r\n");
            assert_eq!(loaded.meta, message.meta);
            let body = match loaded.body {
                LoadedBody::Memory(body) => body,
                LoadedBody::Blob { blob, body_bytes } => {
                    assert!(msg.blob);
                    self.next_ticket += 1;
                    let ticket = Ticket(self.next_ticket);
                    let piece = checksums::piece(&loaded.meta, body_bytes, 0).expect("good");
                    assert!(piece.checksum.is_some());
                    let request = Request::BlobRead { ticket, blob, offset: 0, piece };
                    self.spool.handle_request(request);
                    let Completion::BlobData(data) = self.wait_for(ticket) else {
                        panic!("no blob")
                    };
                    data
                }
            };
            assert_eq!(body, content(message.id.0, bytes));
        }
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

/// The laws for one message; what recovery found is sure from now on.
fn check_message(id: u64, msg: &mut Msg, message: Option<&RecoveredMessage>) {
    for (index, rcpt) in msg.rcpts.iter_mut().enumerate() {
        let open = message.and_then(|m| m.open.iter().find(|r| r.index as usize == index));
        match (open, rcpt.settled) {
            (None, None) => assert!(
                msg.accepted == Sure::Maybe && message.is_none(),
                "recipient {index} of {id:x} is lost"
            ),
            (None, Some(_)) => rcpt.settled = Some(Sure::Yes),
            (Some(_), Some(Sure::Yes)) => panic!("recipient {index} of {id:x} came back"),
            (Some(open), _) => {
                rcpt.settled = None;
                assert!(rcpt.attempts.contains(&open.attempts), "{:?} {open:?}", rcpt.attempts);
                let due = (open.attempts > 0).then(|| Wall(u64::from(open.attempts) * 1_000));
                assert_eq!(open.next_try, due);
                assert_eq!(open.domain.as_str(), format!("domain{}.example", index % 3));
                rcpt.attempts = vec![open.attempts];
            }
        }
    }
    if let Some(message) = message {
        let hold = message.hold.as_deref().map(String::from);
        assert!(msg.holds.contains(&hold), "{:?} {hold:?}", msg.holds);
        msg.holds = vec![hold];
        assert_eq!(message.body_bytes, msg.body_bytes as u64);
        assert_eq!(message.received_at, Wall(1_000 + message.id.sequence()));
    }
}
