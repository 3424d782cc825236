//! What is submitted: mail, settles, reports, attempts, holds.

use super::{Msg, Rcpt, Submitted, Sure, World, content, envelope};
use bytes::Bytes;
use mail::{ContentFacts, MessageId, Wall};
use spool::{
    Accept, Attempt, BlobId, Body, BodyChecksums, Completion, Meta, Record, Request, Settle,
    SettleKind, State, Ticket,
};
use std::sync::Arc;

impl World {
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
    pub(super) fn open_ones(&self, messages: bool) -> Vec<(u64, Vec<u32>)> {
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
            overrides: None,
            delay_notice_sent: None,
        });
        self.submit(Submitted::Hold(id, hold), vec![record]);
    }
}
