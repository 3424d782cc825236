//! Log lines on standard error.

use super::output::{LogEntry, LogOutput, LogPlan, Taken};
use config::LogFormat;
use mta::console::Level;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

/// Octets from which on the buffer is written before [`LogOutput::flush`].
const BUFFER_BYTES: usize = 64 * 1024;

/// Prefix of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Time and level.
    Plain,
    /// Prefix with the level in colour.
    Colour,
    /// `<4>`: the journal adds the time and reads the level (sd-daemon(3)).
    Journal,
}

/// Standard error, or a given writer.
pub(super) struct StderrOutput {
    style: Style,
    format: LogFormat,
    hostname: Arc<str>,
    out: Box<dyn Write + Send>,
    buffer: Vec<u8>,
}

impl StderrOutput {
    pub(super) fn new(plan: &LogPlan) -> StderrOutput {
        let style = if std::env::var_os("JOURNAL_STREAM").is_some() {
            Style::Journal
        } else if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
            Style::Colour
        } else {
            Style::Plain
        };
        StderrOutput::to(Box::new(std::io::stderr()), style, plan)
    }

    pub(super) fn to(out: Box<dyn Write + Send>, style: Style, plan: &LogPlan) -> StderrOutput {
        let (format, hostname) = (plan.format, Arc::clone(&plan.hostname));
        StderrOutput { style, format, hostname, out, buffer: Vec::new() }
    }

    fn begin(&mut self, entry: &LogEntry<'_>) -> std::io::Result<()> {
        let name = entry.level.as_str();
        match (self.style, self.format) {
            (Style::Journal, format) => {
                write!(self.buffer, "<{}>", entry.severity())?;
                if format == LogFormat::Postfix {
                    write!(self.buffer, "{}: ", entry.tag(format))?;
                }
            }
            (_, LogFormat::Json) => {}
            (_, LogFormat::Postfix) => {
                entry.at.write_rfc3339(&mut self.buffer);
                write!(self.buffer, " {} {}: ", self.hostname, entry.tag(self.format))?;
            }
            (Style::Plain, LogFormat::Text) => write!(self.buffer, "{} {name:5} ", entry.at)?,
            (Style::Colour, LogFormat::Text) => {
                let colour = match entry.level {
                    Level::Error => "31;1",
                    Level::Warn => "33",
                    Level::Info => "32",
                    Level::Debug | Level::Trace => "2",
                };
                write!(self.buffer, "{} \x1b[{colour}m{name:5}\x1b[0m ", entry.at)?;
            }
        }
        Ok(())
    }
}

impl LogOutput for StderrOutput {
    fn write(&mut self, entry: &LogEntry<'_>) -> Taken {
        // Writing to memory does not fail.
        let _ = self.begin(entry);
        self.buffer.extend_from_slice(entry.body(self.format).as_bytes());
        self.buffer.push(b'\n');
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
        Taken::Yes
    }

    fn flush(&mut self) {
        // A failure of standard error cannot be reported.
        let _ = self.out.write_all(&self.buffer);
        self.buffer.clear();
    }
}
