//! The records of a Postfix queue file. Each has a type, a length (seven bits in an octet, the low ones first), and data.
//!
//! The file has three parts: the envelope, the content after a record `M`, and facts from its header after `X`. It ends with `E`. A record `p` continues at another place of the file: header checks and milters change messages
//! so. The format is that of Postfix 2.3 and later (`rec_type(3h)` in its sources names the types).

use mail::{Ret, Wall};
use std::fmt;
use std::mem;

/// A queue file that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CorruptFile {
    /// Offset of the record in bytes.
    offset: usize,
    what: &'static str,
}

impl fmt::Display for CorruptFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CorruptFile { offset, what } = self;
        write!(f, "corrupt at byte {offset}: {what}")
    }
}

/// A message as Postfix has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueuedMail {
    /// Without quotes in its local part; empty is the null sender.
    pub(super) sender: String,
    pub(super) arrived_at: Wall,
    /// Recipients that are not done.
    pub(super) open: Vec<QueuedRecipient>,
    /// Number of recipients that are done, or were removed.
    pub(super) done_count: usize,
    /// Header and body with CRLF.
    pub(super) content: Vec<u8>,
    /// 8BITMIME.
    pub(super) is_8bit: bool,
    /// Bits of ESMTP options: [`SMTPUTF8`], [`REQUIRETLS`], [`TLS_NOT_REQUIRED`].
    pub(super) options: u32,
    pub(super) ret: Option<Ret>,
    /// ENVID, decoded.
    pub(super) envid: Option<String>,
    /// The sender was notified of a delay.
    pub(super) is_warned: bool,
    /// Destination of `content_filter`, which it has not passed.
    pub(super) filter: Option<String>,
    /// Destination of all its recipients (REDIRECT).
    pub(super) redirect: Option<String>,
    /// Delimiters of a variable envelope return path (XVERP).
    pub(super) verp: Option<String>,
    pub(super) client_address: Option<String>,
    pub(super) helo: Option<String>,
    pub(super) login: Option<String>,
}

/// SMTPUTF8 was requested.
pub(super) const SMTPUTF8: u32 = 1;
/// `TLS-Required: No` is in the header.
pub(super) const TLS_NOT_REQUIRED: u32 = 1 << 4;
/// REQUIRETLS was requested.
pub(super) const REQUIRETLS: u32 = 1 << 5;

/// A recipient of a queued message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueuedRecipient {
    pub(super) address: String,
    /// The recipient before Postfix rewrote it.
    pub(super) original: Option<String>,
    /// ORCPT, decoded.
    pub(super) orcpt: Option<String>,
    /// NOTIFY: 1 never, 2 success, 4 failure, 8 delay.
    pub(super) notify: Option<u32>,
}

/// Reads the records of a file one after the other.
struct Records<'a> {
    file: &'a [u8],
    at: usize,
    /// Octets that may still be read: more than the file has are a loop of pointers.
    left: usize,
}

impl<'a> Records<'a> {
    /// The offset, type and data of the next record. Pointers are followed, and deleted records skipped.
    fn next(&mut self) -> Result<(usize, u8, &'a [u8]), CorruptFile> {
        loop {
            let offset = self.at;
            let wrong = |what| CorruptFile { offset, what };
            let kind = *self.file.get(offset).ok_or(wrong("it ends within the message"))?;
            let (length, start) = self.length(offset + 1).ok_or(wrong("no length"))?;
            let end = start.checked_add(length).ok_or(wrong("a record is too long"))?;
            let data = self.file.get(start..end).ok_or(wrong("it ends within a record"))?;
            let left = self.left.checked_sub(end - offset);
            self.left = left.ok_or(wrong("its pointers form a loop"))?;
            self.at = end;
            match kind {
                b'p' => {
                    let place: usize = decimal(data).ok_or(wrong("a pointer is no number"))?;
                    // Zero: nothing was added here.
                    if place > 0 {
                        self.at = place;
                    }
                }
                // Deleted text, and records that no longer count.
                b'w' | b'K' => {}
                _ => return Ok((offset, kind, data)),
            }
        }
    }

    /// A length, and the offset behind it.
    fn length(&self, at: usize) -> Option<(usize, usize)> {
        let mut length = 0_usize;
        for (index, byte) in self.file.get(at..)?.iter().take(5).enumerate() {
            length |= usize::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Some((length, at + index + 1));
            }
        }
        None
    }
}

/// A number in decimal digits with blanks around it.
fn decimal<T: std::str::FromStr>(data: &[u8]) -> Option<T> {
    std::str::from_utf8(data).ok()?.trim_matches(' ').parse().ok()
}

/// Reads a queue file.
///
/// # Errors
/// Returns the place and the reason why it is not whole.
pub(super) fn read(file: &[u8]) -> Result<QueuedMail, CorruptFile> {
    let mut records = Records { file, at: 0, left: file.len() };
    let mut reading = Reading::default();
    let (offset, kind, size) = records.next()?;
    let wrong = |what| CorruptFile { offset, what };
    if kind != b'C' {
        return Err(wrong("it does not begin with its size: it is no queue file"));
    }
    reading.size(size).ok_or(wrong("its size is missing: Postfix had not finished it"))?;
    loop {
        let (offset, kind, data) = records.next()?;
        match kind {
            b'M' => break,
            b'E' => return Err(CorruptFile { offset, what: "it has no content" }),
            _ => reading.envelope(offset, kind, data)?,
        }
    }
    reading.content(&mut records)?;
    loop {
        let (offset, kind, data) = records.next()?;
        match kind {
            b'E' => return reading.finish(offset),
            _ => reading.envelope(offset, kind, data)?,
        }
    }
}

/// A message while it is read.
#[derive(Default)]
struct Reading {
    mail: QueuedMail,
    has_sender: bool,
    /// Facts that precede their recipient.
    next: QueuedRecipient,
}

impl Reading {
    /// Sizes of the parts, a number of recipients, and hints. All are blank before the file is complete.
    fn size(&mut self, data: &[u8]) -> Option<()> {
        let text = std::str::from_utf8(data).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        let content_bytes = numbers.next()?.ok()?;
        let options = numbers.nth(4).and_then(Result::ok).unwrap_or(0);
        self.mail.options = u32::try_from(options).unwrap_or(0);
        (content_bytes > 0).then_some(())
    }

    fn envelope(&mut self, offset: usize, kind: u8, data: &[u8]) -> Result<(), CorruptFile> {
        let wrong = |what| CorruptFile { offset, what };
        let text = || {
            let text = std::str::from_utf8(data).ok().filter(|text| !text.contains('\0'));
            text.map(str::to_owned).ok_or(wrong("a text is not UTF-8"))
        };
        let mail = &mut self.mail;
        match kind {
            b'T' => mail.arrived_at = time(data).ok_or(wrong("its time is no number"))?,
            b'S' if !self.has_sender => (mail.sender, self.has_sender) = (text()?, true),
            b'R' => {
                let address = text()?;
                mail.open.push(QueuedRecipient { address, ..mem::take(&mut self.next) });
            }
            b'D' | b'/' => {
                mail.done_count += 1;
                self.next = QueuedRecipient::default();
            }
            b'O' => self.next.original = Some(text()?),
            b'W' => mail.is_warned = decimal(data) == Some(0_u64),
            b'L' => mail.filter = Some(text()?),
            b'>' => mail.redirect = Some(text()?),
            b'V' => mail.verp = Some(text()?),
            b'A' => {
                let attribute = text()?;
                let (name, value) = attribute.split_once('=').ok_or(wrong("no attribute"))?;
                self.attribute(name.trim(), value.trim_start());
            }
            // The submitter's name, hints to cleanup(8) and qmgr(8), the number of milters, fields of the header.
            b'S' | b'c' | b'F' | b'I' | b'f' | b'd' | b'm' | b'r' | b'e' | b'P' => {}
            _ => return Err(wrong("a record of unknown type")),
        }
        Ok(())
    }

    fn attribute(&mut self, name: &str, value: &str) {
        let (mail, some) = (&mut self.mail, || Some(value.to_owned()));
        match name {
            "encoding" => mail.is_8bit = value == "8bit",
            "envelope_id" => mail.envid = some(),
            "ret_flags" => {
                mail.ret = match value {
                    "1" => Some(Ret::Full),
                    "2" => Some(Ret::Headers),
                    _ => None,
                }
            }
            "dsn_orig_rcpt" => self.next.orcpt = some(),
            "notify_flags" => self.next.notify = value.parse().ok().filter(|bits| *bits < 16),
            "log_client_address" => mail.client_address = some(),
            "log_helo_name" => mail.helo = some(),
            "sasl_username" => mail.login = some(),
            // Names and ports of clients, and protocols: for Postfix's log.
            _ => {}
        }
    }

    /// Lines: a record `N` is one, or the end of one; `L` is a piece of a long one.
    fn content(&mut self, records: &mut Records<'_>) -> Result<(), CorruptFile> {
        let content = &mut self.mail.content;
        content.reserve(records.file.len());
        let mut is_line_open = false;
        loop {
            let (offset, kind, data) = records.next()?;
            match kind {
                b'N' | b'L' => content.extend_from_slice(data),
                b'X' => break,
                _ => return Err(CorruptFile { offset, what: "the content has a foreign record" }),
            }
            is_line_open = kind == b'L';
            if !is_line_open {
                content.extend_from_slice(b"\r\n");
            }
        }
        // As Postfix sends it: the final dot needs its own line.
        if is_line_open {
            content.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    fn finish(self, offset: usize) -> Result<QueuedMail, CorruptFile> {
        let wrong = |what| CorruptFile { offset, what };
        if !self.has_sender {
            return Err(wrong("it has no sender"));
        }
        if self.mail.arrived_at == Wall(0) {
            return Err(wrong("it has no time of arrival"));
        }
        Ok(self.mail)
    }
}

/// Seconds, and microseconds if there are any.
fn time(data: &[u8]) -> Option<Wall> {
    let text = std::str::from_utf8(data).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let seconds = numbers.next()?.ok()?;
    let micros = numbers.next().transpose().ok()?.unwrap_or(0).min(999_999);
    Some(Wall(seconds.checked_mul(1_000)? + micros / 1_000))
}

#[cfg(test)]
mod tests;
