//! The client's side of SMTP at the server's Unix socket.

use super::exit_code;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Timeout for a reply. The server's checks before the last one may take minutes (RFC 5321 §4.5.3.2.6).
const REPLY_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum length of a reply line; longer ones are no SMTP.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Sender, recipients and wishes of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
}

impl SubmitSession {
    /// Greets the server. The inner error is its refusal.
    ///
    /// # Errors
    /// The connection fails.
    pub(crate) fn open(stream: UnixStream) -> io::Result<Result<SubmitSession, SubmitReply>> {
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        let mut session = SubmitSession { stream: BufReader::new(stream), extensions: Vec::new() };
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
    /// reply are deferred. The content has CRLF line ends.
    pub(crate) fn submit(&mut self, envelope: &SubmittedEnvelope, content: &[u8]) -> SubmitOutcome {
        let mut outcome = SubmitOutcome::default();
        let mut left = envelope.recipients.clone();
        loop {
            let before = outcome.accepted;
            let tried = std::mem::take(&mut left);
            if let Err(error) = self.transaction(envelope, &tried, content, &mut outcome) {
                // Without the last reply, the message may be accepted or not. A second copy is better than none.
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

    fn transaction(
        &mut self,
        envelope: &SubmittedEnvelope,
        recipients: &[String],
        content: &[u8],
        outcome: &mut SubmitOutcome,
    ) -> io::Result<()> {
        let reply = self.command(&self.mail(envelope, recipients, content))?;
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
        if accepted.is_empty() {
            self.command("RSET")?;
            return Ok(());
        }
        let reply = self.command("DATA")?;
        if reply.code != 354 {
            outcome.settle(&accepted, reply);
            return Ok(());
        }
        self.send(&stuffed(content))?;
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
        let reply = self.command(&self.mail(envelope, &envelope.recipients, &[]))?;
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
        // The reply changes nothing.
        let _ = self.command("QUIT");
    }

    fn mail(&self, envelope: &SubmittedEnvelope, recipients: &[String], content: &[u8]) -> String {
        let mut command = format!("MAIL FROM:<{}>", envelope.sender);
        let is_8bit = envelope.is_8bit || !content.is_ascii();
        if is_8bit && self.offers("8BITMIME") {
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
            let mut limited = io::Read::take(&mut self.stream, LINE_BYTES_MAX);
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

/// Content with dots doubled at line starts, and its end (RFC 5321 §4.5.2).
fn stuffed(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + content.len() / 64 + 5);
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            out.push(b'.');
        }
        out.extend_from_slice(line);
    }
    out.extend_from_slice(b".\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_doubled() {
        assert_eq!(stuffed(b".\r\na.\r\n..b\r\n"), b"..\r\na.\r\n...b\r\n.\r\n");
        assert_eq!(stuffed(b""), b".\r\n");
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
