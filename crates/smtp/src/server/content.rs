//! End and facts of content: the reader of DATA (RFC 5321 §4.1.1.4, §4.5.2) and of BDAT (RFC 3030 §2).
//!
//! A line of content ends with CRLF. DATA ends with a line that is a dot alone: CRLF . CRLF, the first CRLF being that
//! of the DATA command if the content is empty. Other sequences look like the end to some implementations (`\n.\n`,
//! `\n.\r\n`, `\r.\r\n`, `\r\n.\n`, `\r\n.\r\r\n`, …). Each contains a bare CR or a bare LF (RFC 5321 §2.3.8 forbids
//! both). It is content here, and is refused or normalised, so that it is never relayed unchanged.
//!
//! A dot is stuffed where it stands first on a line, that is directly after a true CRLF. One is removed only there,
//! even if a bare newline follows it. A dot after a bare newline is kept, and counted as the dot line that it becomes
//! by normalisation.
//!
//! NULs are removed last, after content and line starts are known. The rest of a line may begin with a dot then, but
//! never ends the content.
//!
//! One pass finds all facts; they are those that [`mail::ContentScanner`] finds in the output to the sink. (Content
//! with removed NULs is scanned once more.)

use super::{BareNewline, ContentSink, Nul};
use mail::{ContentFacts, ContentScanner, Reply};

/// Position of the reader in the stream. Withheld bytes are not in the sink yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamPosition {
    /// DATA only: first on a line.
    LineStart,
    /// DATA only: after a dot at the start of a line; it is withheld.
    LineStartDot,
    /// DATA only: behind a line-start dot and a CR; both are withheld.
    LineStartDotCr,
    /// At any other position.
    Text,
    /// After a CR that is withheld.
    Cr,
}

/// Reads the content of a message.
#[derive(Debug)]
pub(super) struct ContentReader {
    at: StreamPosition,
    /// DATA: dots are stuffed and end the content. BDAT: they are plain octets.
    dots: bool,
    /// DATA from a client with command lines ending in LF alone: content lines and the content may end so too.
    ///
    /// This is not applied to other clients. A server with proper lines may relay a bare LF written by a third party,
    /// and with it a forged end of content.
    takes_lf: bool,
    bare_newline: BareNewline,
    nul: Nul,
    /// For [`Nul::Strip`]: finds the facts of the remaining content.
    stripped: Option<Box<ContentScanner>>,
    bytes_max: u64,
    line_bytes_max: u64,
    facts: ContentFacts,
    /// Bytes of the stored line that is open, newline excluded.
    line_bytes: u64,
    longest_line: u64,
    has_bare_newline: bool,
    /// The content is known to be refused: the sink gets no more data.
    refused: bool,
}

impl ContentReader {
    /// A reader for the content after 354.
    pub(super) fn data(config: &super::ServerConfig, takes_lf: bool) -> ContentReader {
        ContentReader {
            at: StreamPosition::LineStart,
            dots: true,
            takes_lf,
            ..ContentReader::bdat(config)
        }
    }

    /// A reader for all chunks of a message.
    pub(super) fn bdat(config: &super::ServerConfig) -> ContentReader {
        ContentReader {
            at: StreamPosition::Text,
            dots: false,
            takes_lf: false,
            bare_newline: config.bare_newline,
            nul: config.nul,
            stripped: (config.nul == Nul::Strip).then(Box::default),
            bytes_max: config.message_bytes_max,
            line_bytes_max: match config.content_line_bytes_max {
                0 => u64::MAX,
                max => max,
            },
            facts: ContentFacts::default(),
            line_bytes: 0,
            longest_line: 0,
            has_bare_newline: false,
            refused: false,
        }
    }

    /// Takes content. `Some` is the index after the end of DATA; never for BDAT.
    pub(super) fn push(&mut self, input: &[u8], sink: &mut dyn ContentSink) -> Option<usize> {
        // `input[run..at]` was examined and goes to the sink in one piece.
        let (mut run, mut at) = (0, 0);
        while let Some(&byte) = input.get(at) {
            match self.at {
                StreamPosition::Text => {
                    let rest = input.get(at..).unwrap_or_default();
                    let whole = self.whole_lines(rest);
                    if whole > 0 {
                        at += whole;
                        self.at = self.behind_crlf();
                        continue;
                    }
                    let Some(length) = memchr::memchr2(b'\r', b'\n', rest) else {
                        self.extend_line(byte, rest.len());
                        break;
                    };
                    self.extend_line(byte, length);
                    let newline = at + length;
                    if rest.get(length) == Some(&b'\r') && rest.get(length + 1) == Some(&b'\n') {
                        at = newline + 2;
                        self.end_line();
                        self.at = self.behind_crlf();
                        continue;
                    }
                    self.emit(input.get(run..newline).unwrap_or_default(), sink);
                    at = newline + 1;
                    run = at;
                    if rest.get(length) == Some(&b'\r') {
                        self.at = StreamPosition::Cr;
                    } else {
                        self.bare(sink);
                        self.at = self.behind_lf();
                    }
                }
                StreamPosition::LineStart if byte == b'.' => {
                    self.emit(input.get(run..at).unwrap_or_default(), sink);
                    at += 1;
                    run = at;
                    self.at = StreamPosition::LineStartDot;
                }
                StreamPosition::LineStartDot if byte == b'\r' => {
                    at += 1;
                    run = at;
                    self.at = StreamPosition::LineStartDotCr;
                }
                StreamPosition::LineStartDot if byte == b'\n' && self.takes_lf => {
                    return Some(at + 1);
                }
                StreamPosition::LineStart | StreamPosition::LineStartDot => {
                    self.at = StreamPosition::Text
                }
                StreamPosition::LineStartDotCr if byte == b'\n' => return Some(at + 1),
                StreamPosition::Cr if byte == b'\n' => {
                    self.emit(b"\r\n", sink);
                    self.end_line();
                    at += 1;
                    run = at;
                    self.at = self.behind_crlf();
                }
                StreamPosition::LineStartDotCr | StreamPosition::Cr => {
                    self.bare(sink);
                    self.at = StreamPosition::Text;
                }
            }
        }
        self.emit(input.get(run..).unwrap_or_default(), sink);
        None
    }

    /// The last chunk is complete: a CR that was withheld has no LF to come.
    pub(super) fn end_chunks(&mut self, sink: &mut dyn ContentSink) {
        if self.at == StreamPosition::Cr {
            self.bare(sink);
            self.at = StreamPosition::Text;
        }
    }

    /// Returns true if `octets` more would exceed the limit.
    pub(super) fn exceeds_with(&self, octets: u64) -> bool {
        octets > self.bytes_max.saturating_sub(self.facts.body_bytes)
    }

    /// The reason to refuse the content read so far. Size goes first, because the sender can act upon it.
    pub(super) fn refusal(&self) -> Option<Reply> {
        if self.facts.body_bytes > self.bytes_max {
            Some(too_big())
        } else if self.has_bare_newline && self.bare_newline == BareNewline::Reject {
            Some(Reply::new(550, (5, 6, 0), "Bare CR or LF in message; lines must end with CRLF"))
        } else if self.facts.has_nul && self.nul == Nul::Reject {
            Some(Reply::new(550, (5, 6, 0), "NUL octet in message"))
        } else if self.longest_line.max(self.line_bytes) > self.line_bytes_max {
            let text = format!("Message line exceeds {} octets", self.line_bytes_max);
            Some(Reply::new(550, (5, 6, 0), text))
        } else {
            None
        }
    }

    /// Facts of the content in the sink.
    pub(super) fn facts(&self) -> ContentFacts {
        if let Some(scanner) = &self.stripped {
            return ContentScanner::clone(scanner).finish();
        }
        let longest_line = self.longest_line.max(self.line_bytes);
        ContentFacts {
            longest_line: u32::try_from(longest_line).unwrap_or(u32::MAX),
            ends_with_crlf: self.line_bytes == 0,
            ..self.facts
        }
    }

    fn behind_crlf(&self) -> StreamPosition {
        if self.dots { StreamPosition::LineStart } else { StreamPosition::Text }
    }

    fn behind_lf(&self) -> StreamPosition {
        if self.takes_lf { self.behind_crlf() } else { StreamPosition::Text }
    }

    /// Consumes whole lines that end with CRLF, as nearly all do, beginning with the open one, and returns their
    /// length. Stops at the first line that needs a closer look. One search over all lines of a large body takes a
    /// third of the time of one search per line. CRs are only counted: if their number equals that of the lines, none
    /// is bare.
    fn whole_lines(&mut self, text: &[u8]) -> usize {
        // Content with a bare newline may have thousands, and every one would require counting.
        if self.has_bare_newline {
            return 0;
        }
        let (mut start, mut lines, mut dot_lines) = (0, 0, 0);
        let (mut open, mut longest) = (self.line_bytes, self.longest_line);
        for lf in memchr::memchr_iter(b'\n', text) {
            if lf == 0 || text.get(lf - 1) != Some(&b'\r') {
                break;
            }
            dot_lines += u64::from(open == 0 && text.get(start) == Some(&b'.'));
            longest = longest.max(open + (lf - 1 - start) as u64);
            (open, start, lines) = (0, lf + 1, lines + 1);
            if self.dots && text.get(start) == Some(&b'.') {
                break;
            }
        }
        let whole = text.get(..start).unwrap_or_default();
        if memchr::memchr_iter(b'\r', whole).count() != lines {
            let bare =
                memchr::memchr_iter(b'\r', whole).find(|&cr| whole.get(cr + 1) != Some(&b'\n'));
            return self.whole_lines(whole.get(..bare.unwrap_or(0)).unwrap_or_default());
        }
        if lines > 0 {
            self.facts.dot_lines += dot_lines;
            (self.line_bytes, self.longest_line) = (0, longest);
        }
        start
    }

    /// Extends the open line by `length` bytes; `first` is the first byte, or a newline.
    fn extend_line(&mut self, first: u8, length: usize) {
        if self.line_bytes == 0 && first == b'.' {
            self.facts.dot_lines += 1;
        }
        self.line_bytes += length as u64;
    }

    fn end_line(&mut self) {
        self.longest_line = self.longest_line.max(self.line_bytes);
        self.line_bytes = 0;
    }

    /// Handles a bare CR or LF, which was not written to the sink.
    fn bare(&mut self, sink: &mut dyn ContentSink) {
        self.has_bare_newline = true;
        self.refused |= self.bare_newline == BareNewline::Reject;
        self.emit(b"\r\n", sink);
        self.end_line();
    }

    fn emit(&mut self, piece: &[u8], sink: &mut dyn ContentSink) {
        self.facts.body_bytes = self.facts.body_bytes.saturating_add(piece.len() as u64);
        self.refused |= self.facts.body_bytes > self.bytes_max;
        if self.refused || piece.is_empty() {
            return;
        }
        self.facts.has_8bit = self.facts.has_8bit || !piece.is_ascii();
        let nul = memchr::memchr(0, piece);
        self.facts.has_nul |= nul.is_some();
        match (&mut self.stripped, nul) {
            (None, Some(at)) if self.nul == Nul::Reject => {
                self.refused = true;
                // The sink gets the same bytes however the content is split.
                if at > 0 {
                    sink.push(&piece[..at]);
                }
            }
            (None, _) => sink.push(piece),
            (Some(scanner), _) => {
                for part in piece.split(|&byte| byte == 0).filter(|part| !part.is_empty()) {
                    scanner.push(part);
                    sink.push(part);
                }
            }
        }
    }
}

/// RFC 1870 §6.3.
pub(super) fn too_big() -> Reply {
    Reply::new(552, (5, 3, 4), "Message size exceeds fixed maximum message size")
}
