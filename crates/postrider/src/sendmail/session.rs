//! The client's side of SMTP at the server's Unix socket.

use crate::socket_file::SUBMITTED_FOR;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use smtp::client::DotStuffer;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Exit codes of sysexits.h, which callers of `sendmail` know.
pub(crate) mod exit_code {
    /// Done.
    pub(crate) const OK: u8 = 0;
    /// The command line is wrong.
    pub(crate) const USAGE: u8 = 64;
    /// The message or an address is wrong.
    pub(crate) const DATA_ERROR: u8 = 65;
    /// A recipient does not exist.
    pub(crate) const NO_USER: u8 = 67;
    /// The domain of a recipient does not exist.
    pub(crate) const NO_HOST: u8 = 68;
    /// The server refused, or does not answer.
    pub(crate) const UNAVAILABLE: u8 = 69;
    /// Standard input or output failed.
    pub(crate) const IO_ERROR: u8 = 74;
    /// Try again later: the message was not accepted.
    pub(crate) const TEMPORARY: u8 = 75;
    /// The user may not do this.
    pub(crate) const NO_PERMISSION: u8 = 77;
    /// The configuration is wrong.
    pub(crate) const CONFIG: u8 = 78;
}

/// Timeout for a reply. The server's checks before the last one may take minutes (RFC 5321 §4.5.3.2.6).
const REPLY_TIMEOUT: Duration = Duration::from_secs(600);
/// Content is read and written in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;
/// Maximum length of a reply line; longer ones are no SMTP.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Sender, recipients and wishes of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SubmittedEnvelope {
    /// Without brackets. Empty: the null sender.
    pub(crate) sender: String,
    pub(crate) recipients: Vec<String>,
    pub(crate) is_8bit: bool,
    /// NOTIFY.
    pub(crate) notify: Option<String>,
    /// RET.
    pub(crate) ret: Option<String>,
    /// ENVID as xtext.
    pub(crate) envid: Option<String>,
}

impl SubmittedEnvelope {
    /// Checks that its texts can stand in commands: a file may have any.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let parameters = [&self.notify, &self.ret, &self.envid];
        let is_word = |text: &String| text.bytes().all(|byte| byte.is_ascii_graphic());
        match is_printable(&self.sender) && parameters.into_iter().flatten().all(is_word) {
            true => Ok(()),
            false => Err("its envelope has invalid characters"),
        }
    }
}

/// Content with CRLF line ends. A message with many recipients has several transactions, which read it again.
pub(crate) struct SubmittedContent<R> {
    source: R,
    start: u64,
    bytes: u64,
}

impl<R: Read + Seek> SubmittedContent<R> {
    /// Octets of `source` from `start` on.
    pub(crate) fn new(source: R, start: u64, bytes: u64) -> SubmittedContent<R> {
        SubmittedContent { source, start, bytes }
    }

    /// Up to `bytes` octets from the start.
    ///
    /// # Errors
    /// The source fails.
    pub(crate) fn beginning(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        let mut read = Vec::new();
        self.source.seek(SeekFrom::Start(self.start))?;
        let bytes = self.bytes.min(bytes as u64);
        self.source.by_ref().take(bytes).read_to_end(&mut read)?;
        Ok(read)
    }

    /// Writes all with dots doubled at line starts, and the end (RFC 5321 §4.5.2).
    fn write_stuffed(&mut self, to: &mut impl Write) -> io::Result<()> {
        self.source.seek(SeekFrom::Start(self.start))?;
        let mut stuffer = DotStuffer::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut wire = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 64);
        let mut left = self.bytes;
        while left > 0 {
            let next = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let part = piece.get_mut(..next).unwrap_or_default();
            // A file that became shorter: without the end, the server does not accept the message.
            self.source.read_exact(part)?;
            wire.clear();
            stuffer.slices(part).for_each(|slice| wire.extend_from_slice(slice));
            to.write_all(&wire)?;
            left -= next as u64;
        }
        to.write_all(b".\r\n")
    }
}

/// A reply of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubmitReply {
    pub(crate) code: u16,
    /// Without the codes of the line; lines are joined by blanks.
    pub(crate) text: String,
}

impl SubmitReply {
    pub(crate) fn is_temporary(&self) -> bool {
        self.code / 100 == 4
    }

    fn is_ok(&self) -> bool {
        self.code / 100 <= 3
    }

    /// The exit code for a refusal (sysexits.h), by its enhanced status (RFC 3463).
    pub(super) fn exit_code(&self) -> u8 {
        let status = self.text.split(' ').next().unwrap_or_default();
        match (self.code, status) {
            (400..=499, _) => exit_code::TEMPORARY,
            (_, "5.1.1") => exit_code::NO_USER,
            (_, "5.1.2") => exit_code::NO_HOST,
            (_, "5.1.3" | "5.1.7" | "5.3.4" | "5.5.2" | "5.5.4" | "5.6.0" | "5.6.7") => {
                exit_code::DATA_ERROR
            }
            (_, status) if status.starts_with("5.7.") => exit_code::NO_PERMISSION,
            _ => exit_code::UNAVAILABLE,
        }
    }
}

/// The result of a message.
#[derive(Debug, Default)]
pub(crate) struct SubmitOutcome {
    /// Number of accepted recipients.
    pub(crate) accepted: usize,
    /// Recipients refused for good, with the replies. The recipient is empty where the message was refused.
    pub(crate) refused: Vec<(String, SubmitReply)>,
    /// Recipients that may be tried again, and the last reason.
    pub(crate) deferred: Vec<String>,
    pub(crate) reason: Option<String>,
}

impl SubmitOutcome {
    fn defer(&mut self, recipients: &[String], reason: impl ToString) {
        self.deferred.extend(recipients.iter().cloned());
        self.reason = Some(reason.to_string());
    }

    /// Counts deferred recipients as refused.
    pub(crate) fn give_up(&mut self) {
        let text = self.reason.take().unwrap_or_default();
        let refused = |recipient| (recipient, SubmitReply { code: 451, text: text.clone() });
        self.refused.extend(self.deferred.drain(..).map(refused));
    }

    fn settle(&mut self, recipients: &[String], reply: SubmitReply) {
        if reply.is_temporary() {
            self.defer(recipients, &reply.text);
        } else {
            self.refused.push((String::new(), reply));
        }
    }
}

/// A session with the server.
pub(crate) struct SubmitSession {
    stream: BufReader<UnixStream>,
    extensions: Vec<String>,
    /// The connection failed, perhaps within content: no further command makes sense.
    is_broken: bool,
}

impl SubmitSession {
    /// Connects for another user, with the right of the server's own user to do that.
    ///
    /// # Errors
    /// Error of the operating system.
    pub(crate) fn connect_as(socket: &Path, user: u32) -> io::Result<UnixStream> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let name = format!("\0{SUBMITTED_FOR}{user}-{:016x}", u64::from_be_bytes(random));
        let own = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        own.bind(&SockAddr::unix(name)?)?;
        own.connect(&SockAddr::unix(socket)?)?;
        Ok(own.into())
    }

    /// Greets the server. The inner error is its refusal.
    ///
    /// # Errors
    /// The connection fails.
    pub(crate) fn open(stream: UnixStream) -> io::Result<Result<SubmitSession, SubmitReply>> {
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        let stream = BufReader::new(stream);
        let mut session = SubmitSession { stream, extensions: Vec::new(), is_broken: false };
        let (greeting, _) = session.reply()?;
        if greeting.code != 220 {
            return Ok(Err(greeting));
        }
        session.send(b"EHLO localhost\r\n")?;
        let (reply, lines) = session.reply()?;
        if reply.code != 250 {
            return Ok(Err(reply));
        }
        session.extensions = lines.iter().skip(1).map(|line| line.to_ascii_uppercase()).collect();
        Ok(Ok(session))
    }

    /// Sends a message in as many transactions as the server's limit of recipients needs. Recipients without a
    /// reply are deferred.
    pub(crate) fn submit<R: Read + Seek>(
        &mut self,
        envelope: &SubmittedEnvelope,
        content: &mut SubmittedContent<R>,
    ) -> SubmitOutcome {
        let mut outcome = SubmitOutcome::default();
        let mut left = envelope.recipients.clone();
        loop {
            let before = outcome.accepted;
            let tried = std::mem::take(&mut left);
            let sent = self.transaction(envelope, &tried, content, (&mut outcome, false));
            if let Err(error) = sent {
                // Without the last reply, the message may be accepted or not. A second copy is better than none.
                self.is_broken = true;
                outcome.deferred = tried;
                outcome.reason = Some(error.to_string());
                return outcome;
            }
            let is_over = outcome.deferred.is_empty() || outcome.accepted == before;
            if is_over || outcome.deferred.len() >= tried.len() {
                return outcome;
            }
            left = std::mem::take(&mut outcome.deferred);
        }
    }

    /// Sends a message in one transaction, or not at all if a recipient is deferred.
    pub(crate) fn submit_whole<R: Read + Seek>(
        &mut self,
        envelope: &SubmittedEnvelope,
        content: &mut SubmittedContent<R>,
    ) -> SubmitOutcome {
        let mut outcome = SubmitOutcome::default();
        let recipients = &envelope.recipients;
        if let Err(error) = self.transaction(envelope, recipients, content, (&mut outcome, true)) {
            self.is_broken = true;
            outcome = SubmitOutcome::default();
            outcome.defer(recipients, error);
        }
        outcome
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn transaction<R: Read + Seek>(
        &mut self,
        envelope: &SubmittedEnvelope,
        recipients: &[String],
        content: &mut SubmittedContent<R>,
        (outcome, is_whole): (&mut SubmitOutcome, bool),
    ) -> io::Result<()> {
        let reply = self.command(&self.mail(envelope, recipients, content.bytes))?;
        if !reply.is_ok() {
            outcome.settle(recipients, reply);
            return Ok(());
        }
        let mut accepted: Vec<String> = Vec::new();
        for recipient in recipients {
            let reply = self.recipient(envelope, recipient)?;
            if reply.is_ok() {
                accepted.push(recipient.clone());
            } else if reply.is_temporary() {
                outcome.defer(std::slice::from_ref(recipient), &reply.text);
            } else {
                outcome.refused.push((recipient.clone(), reply));
            }
        }
        if accepted.is_empty() || is_whole && !outcome.deferred.is_empty() {
            self.command("RSET")?;
            return Ok(());
        }
        let reply = self.command("DATA")?;
        if reply.code != 354 {
            outcome.settle(&accepted, reply);
            return Ok(());
        }
        content.write_stuffed(self.stream.get_mut())?;
        let (reply, _) = self.reply()?;
        if reply.is_ok() {
            outcome.accepted += accepted.len();
        } else {
            outcome.settle(&accepted, reply);
        }
        Ok(())
    }

    /// Asks for each recipient if it would be accepted.
    ///
    /// # Errors
    /// The connection fails.
    pub(super) fn verify(
        &mut self,
        envelope: &SubmittedEnvelope,
    ) -> io::Result<Vec<(String, SubmitReply)>> {
        let reply = self.command(&self.mail(envelope, &envelope.recipients, 0))?;
        let mut replies = Vec::new();
        for recipient in &envelope.recipients {
            let answer = match reply.is_ok() {
                true => self.recipient(envelope, recipient)?,
                false => reply.clone(),
            };
            replies.push((recipient.clone(), answer));
        }
        Ok(replies)
    }

    pub(crate) fn quit(&mut self) {
        if !self.is_broken {
            // The reply changes nothing.
            let _ = self.command("QUIT");
        }
    }

    fn mail(&self, envelope: &SubmittedEnvelope, recipients: &[String], bytes: u64) -> String {
        let mut command = format!("MAIL FROM:<{}>", envelope.sender);
        // So that the server refuses large content before it is sent (RFC 1870 §6).
        if bytes > 0 && self.offers("SIZE") {
            command.push_str(&format!(" SIZE={bytes}"));
        }
        if envelope.is_8bit && self.offers("8BITMIME") {
            command.push_str(" BODY=8BITMIME");
        }
        let is_ascii = envelope.sender.is_ascii() && recipients.iter().all(|one| one.is_ascii());
        if !is_ascii && self.offers("SMTPUTF8") {
            command.push_str(" SMTPUTF8");
        }
        if self.offers("DSN") {
            for (key, value) in [("RET", &envelope.ret), ("ENVID", &envelope.envid)] {
                value.iter().for_each(|value| command.push_str(&format!(" {key}={value}")));
            }
        }
        command
    }

    fn recipient(
        &mut self,
        envelope: &SubmittedEnvelope,
        recipient: &str,
    ) -> io::Result<SubmitReply> {
        if !is_printable(recipient) {
            let text = "5.1.3 Bad recipient address syntax".to_owned();
            return Ok(SubmitReply { code: 501, text });
        }
        let mut command = format!("RCPT TO:<{recipient}>");
        if let Some(notify) = envelope.notify.as_ref().filter(|_| self.offers("DSN")) {
            command.push_str(&format!(" NOTIFY={notify}"));
        }
        self.command(&command)
    }

    fn offers(&self, extension: &str) -> bool {
        self.extensions.iter().any(|line| line.split(' ').next() == Some(extension))
    }

    fn command(&mut self, command: &str) -> io::Result<SubmitReply> {
        self.send(format!("{command}\r\n").as_bytes())?;
        Ok(self.reply()?.0)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// A whole reply, and the texts of its lines.
    fn reply(&mut self) -> io::Result<(SubmitReply, Vec<String>)> {
        let invalid =
            || io::Error::new(io::ErrorKind::InvalidData, "invalid SMTP reply of the server");
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            let mut limited = self.stream.by_ref().take(LINE_BYTES_MAX);
            if limited.read_until(b'\n', &mut line)? == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the server closed the connection",
                ));
            }
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            let code: u16 = line.get(..3).and_then(|code| code.parse().ok()).ok_or_else(invalid)?;
            lines.push(line.get(4..).unwrap_or_default().to_owned());
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok((SubmitReply { code, text: lines.join(" ") }, lines));
            }
        }
    }
}

/// Returns true if a text can stand in a command: no control characters, which would begin another one.
pub(super) fn is_printable(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() || matches!(c, '<' | '>'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_doubled() {
        let stuffed = |text: &[u8]| {
            let source = io::Cursor::new([b"head", text].concat());
            let mut content = SubmittedContent::new(source, 4, text.len() as u64);
            let mut wire = Vec::new();
            content.write_stuffed(&mut wire).unwrap();
            wire
        };
        assert_eq!(stuffed(b".\r\na.\r\n..b\r\n"), b"..\r\na.\r\n...b\r\n.\r\n");
        assert_eq!(stuffed(b""), b".\r\n");
        // Pieces may be split before a dot.
        let long = [vec![b'x'; PIECE_BYTES - 2], b"\r\n.\r\n".to_vec()].concat();
        assert!(stuffed(&long).ends_with(b"x\r\n..\r\n.\r\n"));
    }

    #[test]
    fn shortened_content_has_no_end() {
        let mut content = SubmittedContent::new(io::Cursor::new(b"A: b\r\n"), 0, 7);
        let mut wire = Vec::new();
        content.write_stuffed(&mut wire).unwrap_err();
        assert_eq!(wire, b"");
    }

    #[test]
    fn refusals_have_exit_codes() {
        let code = |code, text: &str| SubmitReply { code, text: text.to_owned() }.exit_code();
        assert_eq!(code(550, "5.1.1 User unknown"), exit_code::NO_USER);
        assert_eq!(code(550, "5.1.2 Bad domain"), exit_code::NO_HOST);
        assert_eq!(code(552, "5.3.4 Too large"), exit_code::DATA_ERROR);
        assert_eq!(code(550, "5.7.1 Rejected"), exit_code::NO_PERMISSION);
        assert_eq!(code(452, "4.3.1 Full"), exit_code::TEMPORARY);
        assert_eq!(code(550, "no status"), exit_code::UNAVAILABLE);
    }
}
