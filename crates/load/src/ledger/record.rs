//! The lines of the two files, written and read.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// What became of a message, as its source saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A 2yz reply came after the content: these recipients must get it.
    Acked,
    /// Refused with this code, at whatever stage.
    Refused(u16),
    /// The connection broke after the content was begun and before the reply: it may arrive.
    Unknown,
    /// The connection broke earlier: it must not arrive.
    Unsent,
}

/// A line of the source's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<'a> {
    /// The message.
    pub id: &'a str,
    /// What became of it.
    pub fate: Fate,
    /// Accepted recipients (`Acked`), or those that were not refused (`Unknown`), one space
    /// between two.
    pub recipients: &'a str,
}

/// Whether content came as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalState {
    /// Its length and checksum are those that its header tells.
    Whole,
    /// They are not.
    Damaged,
}

/// A line of the sink's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// The message; `-` when it carries no id.
    pub id: &'a str,
    /// Who it was for.
    pub recipient: &'a str,
    /// Whether it is whole.
    pub state: ArrivalState,
}

impl<'a> Sent<'a> {
    /// Reads a line; `None` if it isn't one.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Sent<'a>> {
        let (id, rest) = line.split_once(' ')?;
        let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (fate, recipients) = match word {
            "acked" => (Fate::Acked, rest),
            "refused" => (Fate::Refused(rest.parse().ok()?), ""),
            "unknown" => (Fate::Unknown, rest),
            "unsent" => (Fate::Unsent, ""),
            _ => return None,
        };
        Some(Sent { id, fate, recipients })
    }
}

impl<'a> Arrival<'a> {
    /// Reads a line; `None` if it isn't one.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Arrival<'a>> {
        let mut words = line.split(' ');
        let (id, recipient) = (words.next()?, words.next()?);
        let state = match words.next() {
            None => ArrivalState::Whole,
            Some("damaged") => ArrivalState::Damaged,
            Some(_) => return None,
        };
        Some(Arrival { id, recipient, state })
    }
}

/// Writes either file. Lines wait in memory until [`LedgerWriter::flush`] or until there are many;
/// the last are written when it is dropped.
#[derive(Debug)]
pub struct LedgerWriter {
    file: Option<BufWriter<File>>,
    /// The first error; told at the end, a run is not broken off for it.
    error: Option<io::Error>,
}

impl LedgerWriter {
    /// Creates the file anew. Without a path, writes nothing.
    pub fn create(path: Option<&Path>) -> io::Result<LedgerWriter> {
        let file = path.map(File::create).transpose()?;
        Ok(LedgerWriter {
            file: file.map(|file| BufWriter::with_capacity(256 * 1024, file)),
            error: None,
        })
    }

    /// Adds a line of the source's.
    pub fn sent(&mut self, sent: Sent<'_>) {
        let Sent { id, fate, recipients } = sent;
        self.write(|file| match fate {
            Fate::Acked => writeln!(file, "{id} acked {recipients}"),
            Fate::Refused(code) => writeln!(file, "{id} refused {code}"),
            Fate::Unknown => writeln!(file, "{id} unknown {recipients}"),
            Fate::Unsent => writeln!(file, "{id} unsent"),
        });
    }

    /// Adds a line of the sink's. The recipient comes from the network: bytes that are not UTF-8
    /// become U+FFFD.
    pub fn arrived(&mut self, id: &[u8], recipient: &[u8], state: ArrivalState) {
        self.write(|file| {
            for (word, end) in [(id, &b" "[..]), (recipient, b"")] {
                match std::str::from_utf8(word) {
                    Ok(_) => file.write_all(word)?,
                    Err(_) => file.write_all(String::from_utf8_lossy(word).as_bytes())?,
                }
                file.write_all(end)?;
            }
            file.write_all(match state {
                ArrivalState::Whole => b"\n",
                ArrivalState::Damaged => b" damaged\n",
            })
        });
    }

    fn write(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if let Some(file) = &mut self.file
            && let Err(error) = write(file)
        {
            self.error.get_or_insert(error);
        }
    }

    /// Hands all lines to the operating system; an error is kept for [`LedgerWriter::flush`].
    pub fn write_out(&mut self) {
        self.write(BufWriter::flush);
    }

    /// Hands all lines to the operating system, and tells the first error there was.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write(BufWriter::flush);
        self.error.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrival, ArrivalState, Fate, LedgerWriter, Sent};

    #[test]
    fn what_is_written_is_read_again() {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let path = directory.path().join("ledger");
        let sent = [
            Sent { id: "r-1", fate: Fate::Acked, recipients: "a@b c@d" },
            Sent { id: "r-2", fate: Fate::Refused(452), recipients: "" },
            Sent { id: "r-3", fate: Fate::Unknown, recipients: "a@b" },
            Sent { id: "r-4", fate: Fate::Unsent, recipients: "" },
        ];
        let mut writer = LedgerWriter::create(Some(&path)).expect("created");
        sent.iter().for_each(|&line| writer.sent(line));
        writer.flush().expect("written");
        let text = std::fs::read_to_string(&path).expect("readable");
        assert_eq!(text.lines().map(Sent::parse).collect::<Vec<_>>(), sent.map(Some));

        let mut writer = LedgerWriter::create(Some(&path)).expect("created");
        writer.arrived(b"r-1", b"a@b", ArrivalState::Whole);
        writer.arrived(b"-", b"\xff@b", ArrivalState::Damaged);
        drop(writer);
        let text = std::fs::read_to_string(&path).expect("readable");
        let arrivals = [
            Arrival { id: "r-1", recipient: "a@b", state: ArrivalState::Whole },
            Arrival { id: "-", recipient: "\u{fffd}@b", state: ArrivalState::Damaged },
        ];
        assert_eq!(text.lines().map(Arrival::parse).collect::<Vec<_>>(), arrivals.map(Some));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in ["", "x", "x y", "x refused", "x refused abc"] {
            assert_eq!(Sent::parse(line), None, "{line}");
        }
        for line in ["", "x", "x y z", "x y damagedx"] {
            assert_eq!(Arrival::parse(line), None, "{line}");
        }
    }
}
