//! Log lines and their destination.

use crate::world::clock::wall_now;
use config::{Config, LogFormat, LogTarget};
use mail::Wall;
use mta::console::Level;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

/// The program of lines that are this server's own.
const OWN_PROGRAM: &str = "postrider";

/// A line before it is formatted.
#[derive(Clone, Copy)]
pub(crate) struct LogEntry<'a> {
    pub(crate) at: Wall,
    pub(crate) level: Level,
    /// A program of Postfix, or [`OWN_PROGRAM`].
    pub(crate) program: &'static str,
    /// The kind of line, as in the text format.
    pub(crate) kind: &'static str,
    /// Without control characters ([`super::one_line`]).
    pub(crate) text: &'a str,
    /// Further fields, made only for the journal.
    pub(crate) fields: &'a dyn Fn() -> LogFields,
}

/// Fields of the journal, by name.
pub(crate) type LogFields = Vec<(&'static str, String)>;

impl LogEntry<'_> {
    /// An empty line of this server.
    pub(crate) fn own(kind: &'static str) -> LogEntry<'static> {
        LogEntry {
            at: wall_now(),
            level: Level::Info,
            program: OWN_PROGRAM,
            kind,
            text: "",
            fields: &Vec::new,
        }
    }

    /// The line without time and level.
    pub(super) fn body(&self, format: LogFormat) -> Cow<'_, str> {
        match format {
            LogFormat::Text => format!("{}: {}", self.kind, self.text).into(),
            LogFormat::Json => self.json().into(),
            LogFormat::Postfix if self.program != OWN_PROGRAM => self.text.into(),
            LogFormat::Postfix => {
                // Words of Postfix's msg(3).
                let begin = match self.level {
                    Level::Error => "error: ",
                    Level::Warn => "warning: ",
                    Level::Info | Level::Debug | Level::Trace => "",
                };
                format!("{begin}{}: {}", self.kind, self.text).into()
            }
        }
    }

    fn json(&self) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            time: String,
            level: &'static str,
            kind: &'static str,
            text: &'a str,
        }
        let (time, level) = (self.at.to_string(), self.level.as_str());
        let line = Line { time, level, kind: self.kind, text: self.text };
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// The program and its process, as syslog shows them.
    pub(super) fn tag(&self, format: LogFormat) -> String {
        let mut tag = String::with_capacity(32);
        if format == LogFormat::Postfix {
            tag.push_str("postfix/");
        }
        let _ = write!(tag, "{}[{}]", self.program, std::process::id());
        tag
    }

    /// RFC 5424 §6.2.1: error 3, warning 4, informational 6, debug 7.
    pub(super) fn severity(&self) -> u8 {
        match self.level {
            Level::Error => 3,
            Level::Warn => 4,
            Level::Info => 6,
            Level::Debug | Level::Trace => 7,
        }
    }
}

/// If a destination took a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    No,
}

/// A destination of lines. Sockets do not wait.
pub(super) trait LogOutput: Send {
    fn write(&mut self, entry: &LogEntry<'_>) -> Taken;

    /// Writes the buffer.
    fn flush(&mut self) {}
}

/// Destination and format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogPlan {
    pub(super) to: LogTarget,
    pub(super) format: LogFormat,
    /// In lines of Postfix's format on standard error.
    pub(super) hostname: Arc<str>,
}

impl Default for LogPlan {
    fn default() -> LogPlan {
        let hostname = "localhost".into();
        LogPlan { to: LogTarget::default(), format: LogFormat::default(), hostname }
    }
}

impl LogPlan {
    pub(super) fn of(config: &Config) -> LogPlan {
        let (to, format) = (config.log.to, config.log.format);
        LogPlan { to, format, hostname: config.hostname.as_str().into() }
    }
}
