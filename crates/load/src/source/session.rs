//! One session: connects, sends, connects again.

use super::content::{Bodies, PreparedBody};
use super::course::SourceRun;
use super::fields::ExtraFields;
use super::pace::Ticket;
use super::recipients::Recipients;
use super::reply::{Offered, ReplyReader};
use super::span::Span;
use crate::ledger::{Fate, Sent};
use crate::random::Random;
use crate::tls::{HandshakeCount, TlsClient};
use crate::wire::Wire;
use bytes::Buf;
use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Bodies up to this size are copied behind their header and go out as one slice.
const COPY_BYTES_MAX: usize = 8 * 1024;

/// The waits between tries to connect: from the shortest, doubled, to the longest.
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// What all sessions of a run share.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) to: SocketAddr,
    pub(super) from: String,
    pub(super) recipients: Recipients,
    /// Beside those that each message has.
    pub(super) fields: ExtraFields,
    pub(super) bodies: Bodies,
    /// What is drawn.
    pub(super) random: RefCell<Random>,
    /// RFC 5322 date-time, the same in all messages.
    pub(super) date: String,
    /// Unlike that of any other run: an id is never sent twice.
    pub(super) run_id: String,
    pub(super) per_session: Span,
    pub(super) pipelining: bool,
    pub(super) chunking: bool,
    /// Connections are encrypted.
    pub(super) tls: Option<TlsClient>,
    pub(super) handshakes: HandshakeCount,
    /// How long a session tries to connect without a success.
    pub(super) reconnect: Duration,
    /// For a connection to be ready and for a transaction to end.
    pub(super) timeout: Duration,
    pub(super) course: SourceRun,
    pub(super) next_id: Cell<u64>,
}

/// A message between the choice of its id and the record of its fate. However the session ends,
/// also by being dropped, the fate is recorded.
struct Message<'a> {
    run: &'a Run,
    ticket: Ticket,
    number: u64,
    id: String,
    body: &'a PreparedBody,
    /// Address and whether it was refused.
    recipients: Vec<(String, bool)>,
    /// Content may have gone out.
    begun: bool,
    /// When its last byte was handed to the kernel.
    written: Option<Instant>,
    settled: bool,
}

impl<'a> Message<'a> {
    fn new(run: &'a Run, ticket: Ticket) -> Message<'a> {
        let number = run.next_id.get();
        run.next_id.set(number + 1);
        let mut id = String::with_capacity(run.run_id.len() + 12);
        let _ = write!(id, "{}-{number}", run.run_id);
        let recipient = |index| {
            let mut address = String::with_capacity(40);
            run.recipients.write(number, index, &mut address);
            (address, false)
        };
        let recipients = (0..run.recipients.per_message()).map(recipient).collect();
        let body = run.bodies.draw(&mut run.random.borrow_mut());
        Message {
            run,
            ticket,
            number,
            id,
            body,
            recipients,
            begun: false,
            written: None,
            settled: false,
        }
    }

    /// Records the fate and counts it under the phase that decided it.
    fn settle(&mut self, fate: Fate, phase: &'static str) {
        self.settled = true;
        let mut list = String::new();
        if matches!(fate, Fate::Acked | Fate::Unknown) {
            for (address, _) in self.recipients.iter().filter(|(_, refused)| !refused) {
                if !list.is_empty() {
                    list.push(' ');
                }
                list.push_str(address);
            }
        }
        self.run.course.ledger.borrow_mut().sent(Sent { id: &self.id, fate, recipients: &list });
        let accepted = self.recipients.iter().filter(|(_, refused)| !refused).count() as u64;
        let (bytes, intended) = (self.body.raw.len(), self.ticket.intended);
        self.run.course.tally.borrow_mut().settle(fate, phase, accepted, bytes, intended);
    }

    fn refused(&mut self, code: u16, phase: &'static str) {
        self.settle(Fate::Refused(code), phase);
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.settle(if self.begun { Fate::Unknown } else { Fate::Unsent }, "");
        }
    }
}

/// A connection after EHLO.
struct Connection {
    stream: Wire,
    offered: Offered,
    /// Messages begun on it.
    sent: u64,
    /// How many there may be.
    sent_max: u64,
}

/// What a reply leaves of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionUse {
    Usable,
    /// The transaction was opened and not finished: RSET comes first.
    NeedsReset,
    /// 421 was said.
    Closing,
}

fn after(code: u16) -> ConnectionUse {
    if code == 421 { ConnectionUse::Closing } else { ConnectionUse::Usable }
}

fn is_positive(code: u16) -> bool {
    (200..300).contains(&code)
}

/// A session with its buffers.
pub(super) struct Session {
    run: Rc<Run>,
    /// Remembers sessions of its own, as a client of its own would.
    tls: Option<TlsClient>,
    replies: ReplyReader,
    out: Vec<u8>,
    connection: Option<Connection>,
    /// Since when nothing has succeeded.
    failing_since: Option<Instant>,
    backoff: Duration,
}

impl Session {
    pub(super) fn new(run: Rc<Run>) -> Session {
        Session {
            tls: run.tls.as_ref().map(TlsClient::another),
            run,
            replies: ReplyReader::default(),
            out: Vec::new(),
            connection: None,
            failing_since: None,
            backoff: Duration::ZERO,
        }
    }

    /// Sends until there are no tickets left, or no connection can be had.
    pub(super) async fn run(mut self) {
        let run = Rc::clone(&self.run);
        while let Some(ticket) = run.course.pace.next().await {
            if !self.send(&run, ticket).await {
                break;
            }
        }
        self.quit().await;
    }

    /// Sends one message, with as many ids as it takes until the content of one was begun. `false`:
    /// gave up.
    async fn send(&mut self, run: &Run, ticket: Ticket) -> bool {
        loop {
            if run.course.pace.stopped() {
                return false;
            }
            let Some(mut connection) = self.connect(run).await else { return false };
            connection.sent += 1;
            let mut message = Message::new(run, ticket);
            let transaction = self.transact(&mut connection, &mut message);
            let result = tokio::time::timeout(run.timeout, transaction).await;
            let done = message.settled || message.begun;
            drop(message);
            match result {
                Ok(Ok(ConnectionUse::Usable)) => self.connection = Some(connection),
                Ok(Ok(ConnectionUse::NeedsReset)) => self.clear(connection).await,
                // The peer said that it closes: no breakage.
                Ok(Ok(ConnectionUse::Closing)) => {}
                Ok(Err(error)) => run.course.tally.borrow_mut().broken(&error.to_string()),
                Err(_elapsed) => run.course.tally.borrow_mut().broken("timed out"),
            }
            if done {
                self.failing_since = None;
                self.backoff = Duration::ZERO;
                let full = |connection: &Connection| connection.sent >= connection.sent_max;
                if self.connection.as_ref().is_some_and(full) {
                    self.quit().await;
                }
                return true;
            }
            if !self.wait(run).await {
                return false;
            }
        }
    }

    /// Waits before another try; `false` when the time for trying is over.
    async fn wait(&mut self, run: &Run) -> bool {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if since.elapsed() + self.backoff > run.reconnect {
            run.course.tally.borrow_mut().gave_up += 1;
            return false;
        }
        tokio::time::sleep(self.backoff).await;
        self.backoff = (self.backoff * 2).clamp(BACKOFF_MIN, BACKOFF_MAX);
        true
    }

    /// The open connection, or a new one.
    async fn connect(&mut self, run: &Run) -> Option<Connection> {
        if let Some(connection) = self.connection.take() {
            return Some(connection);
        }
        loop {
            let begun = Instant::now();
            let result = tokio::time::timeout(run.timeout, self.try_connect(run)).await;
            let result = result.unwrap_or_else(|_| Err("timed out".to_owned()));
            match result {
                Ok(connection) => {
                    run.course.tally.borrow_mut().connected(begun.elapsed());
                    return Some(connection);
                }
                Err(error) => run.course.tally.borrow_mut().connect_failed(error),
            }
            if run.course.pace.stopped() || !self.wait(run).await {
                return None;
            }
        }
    }

    async fn try_connect(&mut self, run: &Run) -> Result<Connection, String> {
        let text = |error: io::Error| error.to_string();
        self.replies.reset();
        let stream = TcpStream::connect(run.to).await.map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        let mut stream = Wire::Clear(stream);
        let greeting = self.replies.read(&mut stream, |_| {}).await.map_err(text)?;
        if !is_positive(greeting) {
            return Err(format!("{greeting} at the greeting"));
        }
        let mut offered = self.hello(&mut stream).await?;
        if self.tls.is_some() {
            stream = self.encrypt(stream, offered, &run.handshakes).await?;
            // RFC 3207 §4.2: what was offered before is void.
            offered = self.hello(&mut stream).await?;
        }
        run.course.tally.borrow_mut().lacks(
            run.pipelining && !offered.pipelining,
            run.chunking && !offered.chunking,
            run.bodies.eight_bit() && !offered.eight_bit,
        );
        let sent_max = run.per_session.draw(&mut run.random.borrow_mut());
        Ok(Connection { stream, offered, sent: 0, sent_max })
    }

    async fn hello(&mut self, stream: &mut Wire) -> Result<Offered, String> {
        let text = |error: io::Error| error.to_string();
        let mut offered = Offered::default();
        write(stream, b"EHLO postrider-lab.invalid\r\n").await.map_err(text)?;
        let mut code = self.replies.read(stream, |line| offered.take(line)).await.map_err(text)?;
        if (500..600).contains(&code) {
            offered = Offered::default();
            write(stream, b"HELO postrider-lab.invalid\r\n").await.map_err(text)?;
            code = self.replies.read(stream, |_| {}).await.map_err(text)?;
        }
        if !is_positive(code) {
            return Err(format!("{code} at EHLO"));
        }
        Ok(offered)
    }

    async fn encrypt(
        &mut self,
        stream: Wire,
        offered: Offered,
        count: &HandshakeCount,
    ) -> Result<Wire, String> {
        let text = |error: io::Error| error.to_string();
        let (Wire::Clear(mut stream), Some(client)) = (stream, &self.tls) else {
            return Err("it is encrypted".to_owned());
        };
        if !offered.starttls {
            return Err("STARTTLS is not offered".to_owned());
        }
        stream.write_all(b"STARTTLS\r\n").await.map_err(text)?;
        let code = self.replies.read(&mut stream, |_| {}).await.map_err(text)?;
        if code != 220 {
            return Err(format!("{code} at STARTTLS"));
        }
        if self.replies.has_more() {
            return Err("clear bytes behind the reply to STARTTLS".to_owned());
        }
        let stream = client.encrypt(stream, count).await;
        Ok(Wire::Encrypted(Box::new(stream.map_err(|error| format!("TLS: {error}"))?)))
    }

    /// Ends a half-done transaction, so that the connection can be used again.
    async fn clear(&mut self, mut connection: Connection) {
        let reset = async {
            write(&mut connection.stream, b"RSET\r\n").await?;
            self.replies.read(&mut connection.stream, |_| {}).await
        };
        let result = tokio::time::timeout(self.run.timeout, reset).await;
        if matches!(result, Ok(Ok(code)) if is_positive(code)) {
            self.connection = Some(connection);
        }
    }

    async fn quit(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let quit = async {
            write(&mut connection.stream, b"QUIT\r\n").await?;
            self.replies.read(&mut connection.stream, |_| {}).await
        };
        // Everything was answered: whether QUIT is changes nothing.
        let _ = tokio::time::timeout(self.run.timeout, quit).await;
        // The last word was said on both sides. Closing without TIME_WAIT, as smtp-source does,
        // lets one machine open more than its 28,000 ports' worth of connections a minute.
        let _ = socket2::SockRef::from(connection.stream.socket()).set_linger(Some(Duration::ZERO));
    }

    async fn transact(
        &mut self,
        connection: &mut Connection,
        message: &mut Message<'_>,
    ) -> io::Result<ConnectionUse> {
        let run = message.run;
        let chunking = run.chunking && connection.offered.chunking;
        let pipelining = run.pipelining && connection.offered.pipelining;
        self.out.clear();
        mail_command(run, message.body, connection.offered, &mut self.out);
        if !pipelining {
            return self.transact_stepwise(connection, message, chunking).await;
        }
        for (address, _) in &message.recipients {
            rcpt_command(address, &mut self.out);
        }
        if chunking {
            message.begun = true;
            self.write_content(connection, message, true).await?;
        } else {
            self.out.extend_from_slice(b"DATA\r\n");
            self.flush(connection).await?;
        }
        let refusal = self.read_envelope(connection, message).await?;
        if chunking {
            return self.finish(connection, message, refusal).await;
        }
        let code = self.replies.read(&mut connection.stream, |_| {}).await?;
        match (code, refusal) {
            (354, None) => {
                message.begun = true;
                self.out.clear();
                self.write_content(connection, message, false).await?;
                self.finish(connection, message, None).await
            }
            (354, Some(_)) => {
                // RFC 2920 §3.1: with all recipients refused and 354 all the same, an empty
                // message is sent, which the server must refuse.
                self.out.clear();
                self.out.extend_from_slice(b".\r\n");
                self.flush(connection).await?;
                self.finish(connection, message, refusal).await
            }
            (code, refusal) => {
                let (code, phase) = refusal.unwrap_or((code, "DATA"));
                message.refused(code, phase);
                Ok(if after(code) == ConnectionUse::Usable {
                    ConnectionUse::NeedsReset
                } else {
                    ConnectionUse::Closing
                })
            }
        }
    }

    /// Reads the replies to MAIL and each RCPT: the refusal of the message, with the command that met it.
    async fn read_envelope(
        &mut self,
        connection: &mut Connection,
        message: &mut Message<'_>,
    ) -> io::Result<Option<(u16, &'static str)>> {
        let stream = &mut connection.stream;
        let mail = self.replies.read(stream, |_| {}).await?;
        let mut refusal = (!is_positive(mail)).then_some((mail, "MAIL"));
        for (_, refused) in &mut message.recipients {
            let code = self.replies.read(stream, |_| {}).await?;
            *refused = !is_positive(code);
            if *refused {
                message.run.course.tally.borrow_mut().recipient_refused(code);
            }
            // If no recipient is left the last refusal is the message's.
            if *refused && refusal.is_none_or(|(_, phase)| phase == "RCPT") {
                refusal = Some((code, "RCPT"));
            }
        }
        let accepted = is_positive(mail) && message.recipients.iter().any(|(_, refused)| !refused);
        Ok(refusal.filter(|_| !accepted))
    }

    /// One command, one reply. MAIL is in the output.
    async fn transact_stepwise(
        &mut self,
        connection: &mut Connection,
        message: &mut Message<'_>,
        chunking: bool,
    ) -> io::Result<ConnectionUse> {
        let code = self.ask(connection).await?;
        if !is_positive(code) {
            message.refused(code, "MAIL");
            return Ok(after(code));
        }
        let mut refusal = None;
        for index in 0..message.recipients.len() {
            let (address, refused) = &mut message.recipients[index];
            rcpt_command(address, &mut self.out);
            let code = self.ask(connection).await?;
            *refused = !is_positive(code);
            if *refused {
                message.run.course.tally.borrow_mut().recipient_refused(code);
                refusal = Some(code);
            }
            if code == 421 {
                break;
            }
        }
        if let Some(code) = refusal
            && (code == 421 || message.recipients.iter().all(|(_, refused)| *refused))
        {
            message.refused(code, "RCPT");
            return Ok(if code == 421 {
                ConnectionUse::Closing
            } else {
                ConnectionUse::NeedsReset
            });
        }
        if !chunking {
            self.out.extend_from_slice(b"DATA\r\n");
            let code = self.ask(connection).await?;
            if code != 354 {
                message.refused(code, "DATA");
                return Ok(if code == 421 {
                    ConnectionUse::Closing
                } else {
                    ConnectionUse::NeedsReset
                });
            }
        }
        message.begun = true;
        self.write_content(connection, message, chunking).await?;
        self.finish(connection, message, None).await
    }

    /// Writes what is in the output and reads one reply.
    async fn ask(&mut self, connection: &mut Connection) -> io::Result<u16> {
        self.flush(connection).await?;
        self.replies.read(&mut connection.stream, |_| {}).await
    }

    async fn flush(&mut self, connection: &mut Connection) -> io::Result<()> {
        write(&mut connection.stream, &self.out).await?;
        self.out.clear();
        Ok(())
    }

    /// Writes what is in the output and the content behind it: with the final dot, or as one BDAT.
    async fn write_content(
        &mut self,
        connection: &mut Connection,
        message: &mut Message<'_>,
        chunking: bool,
    ) -> io::Result<()> {
        let run = message.run;
        let to = message.recipients.first().map_or("", |(address, _)| address);
        let content = message.body;
        let body = if chunking { &content.raw } else { &content.wire };
        if chunking {
            let mut header = Vec::with_capacity(512);
            run.fields.write(message.number, &mut header);
            content.write_header(&mut header, &message.id, &run.from, to, &run.date);
            let length = header.len() + body.len();
            self.out.extend_from_slice(format!("BDAT {length} LAST\r\n").as_bytes());
            self.out.extend_from_slice(&header);
        } else {
            run.fields.write(message.number, &mut self.out);
            content.write_header(&mut self.out, &message.id, &run.from, to, &run.date);
        }
        if body.len() <= COPY_BYTES_MAX {
            self.out.extend_from_slice(body);
            self.flush(connection).await?;
        } else {
            let mut bytes = self.out.as_slice().chain(body.as_slice());
            connection.stream.write_all_buf(&mut bytes).await?;
            connection.stream.flush().await?;
            self.out.clear();
        }
        message.written = Some(Instant::now());
        Ok(())
    }

    /// Reads the reply to the content. With a `refusal` that came before, a positive one would be
    /// a reply to nothing.
    async fn finish(
        &mut self,
        connection: &mut Connection,
        message: &mut Message<'_>,
        refusal: Option<(u16, &'static str)>,
    ) -> io::Result<ConnectionUse> {
        let code = self.replies.read(&mut connection.stream, |_| {}).await?;
        match refusal {
            Some((code, phase)) => message.refused(code, phase),
            None if is_positive(code) => {
                let time = message.written.map_or(Duration::ZERO, |written| written.elapsed());
                message.run.course.tally.borrow_mut().acceptance.record(time);
                message.settle(Fate::Acked, "");
            }
            None => message.refused(code, "content"),
        }
        Ok(match (after(code), refusal) {
            (ConnectionUse::Usable, Some(_)) => ConnectionUse::NeedsReset,
            (after, _) => after,
        })
    }
}

/// Writes all, also what TLS would hold back.
async fn write(stream: &mut Wire, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

fn mail_command(run: &Run, body: &PreparedBody, offered: Offered, out: &mut Vec<u8>) {
    out.extend_from_slice(b"MAIL FROM:<");
    out.extend_from_slice(run.from.as_bytes());
    let eight_bit = body.eight_bit && offered.eight_bit;
    out.extend_from_slice(if eight_bit { b"> BODY=8BITMIME\r\n" } else { b">\r\n" });
}

fn rcpt_command(address: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"RCPT TO:<");
    out.extend_from_slice(address.as_bytes());
    out.extend_from_slice(b">\r\n");
}
