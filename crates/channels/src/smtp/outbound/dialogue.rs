//! Dialogue on an open connection: writes the session's output and reads the peer's replies.

use super::content::{self, SmtpTransport, WriteError};
use super::held::HeldContent;
use super::patience::Stir;
use super::transcript::Transcript;
use mail::{ByMode, DeliverBy, Mono, Wall};
use mta::delivery::Slot;
use mta::message::Message;
use mta::seams::{Stream, World};
use queue::TransactionWork;
use smtp::client::{ClientEvent, Outgoing, OutgoingRecipient, Output, RequireTls};
use smtp::wishes::ByParameter;
use spool::LoadError;
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

/// An open connection and the state of its transaction.
pub(super) struct SmtpDialogue<W: World> {
    pub(super) wire: SmtpTransport<W>,
    /// Reused buffer for the pieces to write.
    plan: Vec<Output>,
    /// The content of the last started transaction, until it is written.
    pub(super) content: Option<HeldContent>,
    /// Progress of the dialogue with the peer.
    pub(super) stir: Rc<Stir>,
    /// Error that cut off that content, until it is taken.
    unreadable: Option<LoadError>,
    /// Commands and replies of the opening or of the last transactions. It outlives a dialogue that fails.
    pub(super) transcript: Rc<RefCell<Transcript>>,
}

impl<W: World> SmtpDialogue<W> {
    /// A dialogue before its first command.
    pub(super) fn new(
        wire: SmtpTransport<W>,
        stir: Rc<Stir>,
        transcript: Rc<RefCell<Transcript>>,
    ) -> SmtpDialogue<W> {
        SmtpDialogue { wire, plan: Vec::new(), content: None, stir, unreadable: None, transcript }
    }

    /// Error that cut off the content of the last transaction, if one occurred since the previous call.
    pub(super) fn take_unreadable(&mut self) -> Option<LoadError> {
        self.unreadable.take()
    }

    /// Sends QUIT and waits for the reply, with a short timeout.
    pub(super) async fn quit(&mut self, slot: &Slot<W>) {
        self.wire.session.quit(slot.now());
        while !matches!(self.next_event(slot).await, ClientEvent::Closed(_)) {}
    }

    /// Ready when the peer sends anything or closes the connection. It should do neither between transactions.
    pub(super) fn poll_quiet(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut byte = [0];
        self.wire.stream.poll_read(cx, &mut byte).map(|_| ())
    }

    /// Writes and reads until the session has an event.
    pub(super) async fn next_event(&mut self, slot: &Slot<W>) -> ClientEvent {
        loop {
            if let Some(event) = self.wire.session.poll_event() {
                return event;
            }
            if self.write(slot).await {
                continue;
            }
            if let Err(error) = poll_fn(|cx| self.poll_input(slot, cx)).await {
                self.broken(slot, &error);
            }
        }
    }

    /// Writes the session's output. Returns true if there was any.
    pub(super) async fn write(&mut self, slot: &Slot<W>) -> bool {
        self.wire.session.poll_output(&mut self.plan);
        if self.plan.is_empty() {
            return false;
        }
        let plan = std::mem::take(&mut self.plan);
        for piece in &plan {
            if let Output::Bytes { start, end } = *piece
                && let Some(commands) = self.wire.session.buffer().get(start..end)
            {
                self.transcript.borrow_mut().sent(commands);
            }
        }
        let has_content = plan.iter().any(|piece| !matches!(piece, Output::Bytes { .. }));
        // // Written content is not needed any more: a connection that waits for the final reply holds none.
        let content = if has_content { self.content.take() } else { None };
        if has_content {
            self.stir.commit(true);
        }
        let stir = Rc::clone(&self.stir);
        let written = content::write_plan(slot, (&mut self.wire, &stir), &plan, content).await;
        self.plan = plan;
        match written {
            Ok(()) => self.wire.session.handle_written(slot.now()),
            Err(WriteError::Io(error)) => self.broken(slot, &error),
            Err(WriteError::Unreadable(why)) => self.cut(slot, why),
        }
        true
    }

    /// Ends the session within a content that can't be read further. Without the final dot, or the octets announced by
    /// BDAT, the peer has no message (RFC 5321 §4.1.1.4, RFC 3030 §2).
    fn cut(&mut self, slot: &Slot<W>, why: LoadError) {
        self.wire.session.handle_broken(slot.now(), "cannot read the rest of a body");
        self.unreadable = Some(why);
    }

    fn broken(&mut self, slot: &Slot<W>, error: &std::io::Error) {
        let now = slot.now();
        if error.kind() == std::io::ErrorKind::TimedOut && now >= self.wire.session.deadline() {
            self.wire.session.handle_timeout(now);
        } else {
            self.wire.session.handle_broken(now, &error.to_string());
        }
    }

    /// Feeds the session with the peer's input, or with a timeout.
    fn poll_input(&mut self, slot: &Slot<W>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let mut scratch = slot.scratch();
        match self.wire.stream.poll_read(cx, &mut scratch) {
            Poll::Ready(Ok(0)) => {
                self.wire.session.handle_broken(slot.now(), "the peer closed the connection");
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(Ok(n)) => {
                let (now, session) = (slot.now(), &mut self.wire.session);
                self.transcript.borrow_mut().received(&scratch[..n]);
                let before = session.replies();
                session.handle_input(now, &scratch[..n]);
                if session.replies() != before {
                    self.stir.note(now);
                }
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => {}
        }
        if self.wire.alarm.poll(cx, self.wire.session.deadline()).is_ready() {
            self.wire.session.handle_timeout(slot.now());
            return Poll::Ready(Ok(()));
        }
        #[cfg(feature = "planted")]
        if slot.has_planted(mta::planted::Planted::HoldOn) {
            return Poll::Pending;
        }
        let look_at = match &mut self.content {
            Some(content) => content.poll_give_way(cx, || slot.now()),
            None => Mono::NEVER,
        };
        if self.wire.alarm.poll(cx, look_at).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// Transaction parameters of a message at this time, without those that depend on the next hop and the recipient.
pub(super) fn outgoing(message: &Message, work: &TransactionWork, now: Wall) -> Outgoing {
    let envelope = &message.envelope;
    let recipients = work
        .entries
        .iter()
        .filter_map(|(_, index, _)| envelope.recipients.get(*index as usize))
        .map(|recipient| OutgoingRecipient {
            mailbox: recipient.mailbox.clone(),
            notify: recipient.notify,
            orcpt: recipient.orcpt.clone(),
        })
        .collect();
    Outgoing {
        reverse_path: None,
        recipients,
        body: envelope.body,
        smtputf8: envelope.smtputf8,
        require_tls: RequireTls::Off,
        priority: message.priority(),
        deliver_by: message.deliver_by().map(|by| left_of(by, now)),
        ret: envelope.ret,
        envid: envelope.envid.clone(),
        facts: message.sent_facts(),
        header_is_8bit: false,
        expires: Mono::NEVER,
        eight_bit_as_is: false,
        prefix_bytes: message.prefix.len() as u64,
    }
}

/// RFC 2852 §4.1.3: the remaining time. It is positive with mode R: an expired message would have been returned.
fn left_of(by: DeliverBy, now: Wall) -> ByParameter {
    let seconds = |time: std::time::Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let left = seconds(by.at.since(now)) - seconds(now.since(by.at));
    let least = if by.mode == ByMode::Return { 1 } else { i64::MIN };
    ByParameter { seconds: left.max(least), mode: by.mode, is_traced: by.is_traced }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_in_seconds() {
        let left = |at: u64, mode| {
            let by = DeliverBy { at: Wall(at), mode, is_traced: true };
            let by = left_of(by, Wall(100_000));
            (by.seconds, by.is_traced)
        };
        assert_eq!(left(107_900, ByMode::Return), (7, true));
        assert_eq!(left(100_100, ByMode::Return), (1, true));
        assert_eq!(left(107_000, ByMode::Notify), (7, true));
        assert_eq!(left(95_000, ByMode::Notify), (-5, true));
    }
}
