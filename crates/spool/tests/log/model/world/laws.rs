//! What must be true after a restart, message by message.

use super::{Msg, Sure, World, content, envelope};
use mail::Wall;
use spool::{Completion, LoadedBody, RecoveredMessage, Request, Ticket, checksums};
use std::collections::BTreeMap;

impl World {
    pub(super) fn check(&mut self, found: &[RecoveredMessage]) {
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

    pub(super) fn load_all(&mut self, found: &[RecoveredMessage]) {
        for message in found {
            self.next_ticket += 1;
            let ticket = Ticket(self.next_ticket);
            self.spool.handle_request(Request::Load {
                ticket,
                id: message.id,
                bytes_max: u64::MAX,
            });
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
