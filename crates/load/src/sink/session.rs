//! One connection.

use super::message::Incoming;
use super::replies::domain_of;
use super::{Phase, Sink};
use crate::dialogue::{Dialogue, DialogueEvent};
use crate::wire::Wire;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// What to do after input was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SessionAction {
    Read,
    /// Write the replies, then close.
    Close,
    /// Write the reply, then encrypt.
    Encrypt,
    /// Close at once.
    Break,
}

struct Session {
    dialogue: Dialogue,
    message: Incoming,
    /// The content of the present message is to be cut off.
    cut: bool,
}

/// Serves one connection to its end. An error of the network ends it like the peer's closing does.
pub(super) async fn serve(stream: TcpStream, sink: &Sink) {
    let mut stream = Wire::Clear(stream);
    let dialogue = Dialogue::new(sink.offer);
    let mut session = Session { dialogue, message: Incoming::default(), cut: false };
    let mut next = SessionAction::Read;
    if let Some(reply) = sink.reply(Phase::Connect, "") {
        session.dialogue.greet_in_words(&reply.wire(""));
        next = SessionAction::Close;
    }
    while next != SessionAction::Break {
        let output = session.dialogue.output();
        if !output.is_empty() {
            if !sink.latency.is_zero() {
                tokio::time::sleep(sink.latency).await;
            }
            if stream.write_all(output).await.is_err() || stream.flush().await.is_err() {
                return;
            }
            output.clear();
            // Only now: the last reply must be out before the sink ends.
            sink.arrivals.end_if_complete();
        }
        if next == SessionAction::Close {
            return;
        }
        if next == SessionAction::Encrypt {
            let (Wire::Clear(clear), Some(server)) = (stream, &sink.tls) else { return };
            let Ok(encrypted) = server.encrypt(clear, &sink.handshakes).await else { return };
            session.dialogue.encrypted();
            stream = Wire::Encrypted(Box::new(encrypted));
        }
        match sink.reading.read(&mut stream, |input| session.take(sink, input)).await {
            Ok(after) => next = after,
            Err(_) => return,
        }
    }
    // A break is a reset, not a polite end.
    let _ = socket2::SockRef::from(stream.socket()).set_linger(Some(std::time::Duration::ZERO));
}

impl Session {
    /// Takes all of the input.
    fn take(&mut self, sink: &Sink, mut input: &[u8]) -> SessionAction {
        if input.is_empty() {
            return SessionAction::Close;
        }
        loop {
            let (used, event) = self.dialogue.advance(input, &mut self.message);
            input = input.get(used..).unwrap_or_default();
            if self.cut && self.message.bytes > 0 {
                return SessionAction::Break;
            }
            let phase = match event {
                DialogueEvent::Input => return SessionAction::Read,
                DialogueEvent::Quit => return SessionAction::Close,
                // RFC 3207 §4.2: what a stranger could have put behind it is no part of the session.
                DialogueEvent::StartTls if !input.is_empty() => return SessionAction::Break,
                DialogueEvent::StartTls => {
                    self.dialogue.accept();
                    return SessionAction::Encrypt;
                }
                DialogueEvent::Hello => Phase::Ehlo,
                DialogueEvent::Mail => Phase::Mail,
                DialogueEvent::Rcpt => Phase::Rcpt,
                DialogueEvent::Data => Phase::Data,
                DialogueEvent::Message => Phase::Dot,
            };
            if sink.drops(phase) {
                return SessionAction::Break;
            }
            if let Some(code) = sink.refusal(phase) {
                self.dialogue.refuse(code);
                continue;
            }
            if let Some(reply) = self.reply(sink, phase) {
                // RFC 5321 §3.8: 421 ends the session.
                if reply == 421 {
                    return SessionAction::Close;
                }
                continue;
            }
            match event {
                DialogueEvent::Data => {
                    self.message.clear();
                    self.cut = sink.drops(Phase::Content);
                }
                DialogueEvent::Message => self.record(sink),
                _ => {}
            }
            self.dialogue.accept();
        }
    }

    /// Refuses in the words that were drawn, if any; the code.
    fn reply(&mut self, sink: &Sink, phase: Phase) -> Option<u16> {
        if sink.replies.is_empty() {
            return None;
        }
        let recipient = match phase {
            Phase::Rcpt => self.dialogue.candidate(),
            _ => self.dialogue.recipients().next().unwrap_or_default(),
        };
        let recipient = String::from_utf8_lossy(recipient).into_owned();
        let reply = sink.reply(phase, domain_of(&recipient))?;
        self.dialogue.refuse_in_words(reply.code, &reply.wire(&recipient));
        Some(reply.code)
    }

    /// Counts a message and writes it down. Its reply goes out only after this.
    fn record(&mut self, sink: &Sink) {
        let (id, state) = (self.message.id(), self.message.state());
        sink.arrivals.record(id, self.dialogue.recipients(), (self.message.bytes, state));
    }
}
