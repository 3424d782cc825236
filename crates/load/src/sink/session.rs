//! One connection.

use super::message::Incoming;
use super::replies::domain_of;
use super::{Phase, Sink};
use crate::dialogue::{Dialogue, Event};
use crate::wire::Wire;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// What to do after input was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
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
    let mut next = Next::Read;
    if let Some(reply) = sink.reply(Phase::Connect, "") {
        session.dialogue.greet_in_words(&reply.wire(""));
        next = Next::Close;
    }
    while next != Next::Break {
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
        if next == Next::Close {
            return;
        }
        if next == Next::Encrypt {
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
    fn take(&mut self, sink: &Sink, mut input: &[u8]) -> Next {
        if input.is_empty() {
            return Next::Close;
        }
        loop {
            let (used, event) = self.dialogue.advance(input, &mut self.message);
            input = input.get(used..).unwrap_or_default();
            if self.cut && self.message.bytes > 0 {
                return Next::Break;
            }
            let phase = match event {
                Event::Input => return Next::Read,
                Event::Quit => return Next::Close,
                // RFC 3207 §4.2: what a stranger could have put behind it is no part of the session.
                Event::StartTls if !input.is_empty() => return Next::Break,
                Event::StartTls => {
                    self.dialogue.accept();
                    return Next::Encrypt;
                }
                Event::Hello => Phase::Ehlo,
                Event::Mail => Phase::Mail,
                Event::Rcpt => Phase::Rcpt,
                Event::Data => Phase::Data,
                Event::Message => Phase::Dot,
            };
            if sink.drops(phase) {
                return Next::Break;
            }
            if let Some(code) = sink.refusal(phase) {
                self.dialogue.refuse(code);
                continue;
            }
            if let Some(reply) = self.reply(sink, phase) {
                // RFC 5321 §3.8: 421 ends the session.
                if reply == 421 {
                    return Next::Close;
                }
                continue;
            }
            match event {
                Event::Data => {
                    self.message.clear();
                    self.cut = sink.drops(Phase::Content);
                }
                Event::Message => self.record(sink),
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
