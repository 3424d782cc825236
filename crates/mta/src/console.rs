//! Console messages for operators. Events of messages go to [`crate::event`].

use mail::Mono;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// A fault that needs an operator.
    Error,
    /// Unexpected, and handled.
    Warn,
    /// Starts, shutdowns, reloads.
    Info,
    /// Each session and attempt.
    Debug,
    /// Each command and reply.
    Trace,
}

impl Level {
    /// `error`, `warn`, `info`, `debug`, `trace`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }
}

impl std::str::FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        [Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace]
            .into_iter()
            .find(|level| level.as_str() == text)
            .ok_or_else(|| format!("unknown level {text}: error, warn, info, debug or trace"))
    }
}

/// Writes console lines.
///
/// `kind` is a short constant name like `"peer_protocol"`. Lines of one kind are rate-limited together, so that a
/// misbehaving peer can't fill the disk. `text` should be a short phrase followed by `key=value` pairs; it is formatted
/// only if it is shown.
pub trait Console {
    /// Returns true if lines of this level are shown.
    fn shows(&self, level: Level) -> bool;

    /// Writes one line, unless its level is off or its kind had too many lately.
    fn line(&self, level: Level, kind: &'static str, text: fmt::Arguments<'_>);
}

/// Shorthands, so that a call reads `console.warn("disk", format_args!("…"))`.
impl dyn Console + '_ {
    /// Logs a fault that needs an operator.
    pub fn error(&self, kind: &'static str, text: fmt::Arguments<'_>) {
        self.line(Level::Error, kind, text);
    }

    /// Logs an unexpected event that was handled.
    pub fn warn(&self, kind: &'static str, text: fmt::Arguments<'_>) {
        self.line(Level::Warn, kind, text);
    }

    /// Logs a start, a shutdown or a reload.
    pub fn info(&self, kind: &'static str, text: fmt::Arguments<'_>) {
        self.line(Level::Info, kind, text);
    }

    /// Logs a session or an attempt.
    pub fn debug(&self, kind: &'static str, text: fmt::Arguments<'_>) {
        self.line(Level::Debug, kind, text);
    }
}

/// Kind of the lines about failed logins. Their format is fixed in `docs/submission.md`, as other programs parse them.
pub const FAILED_LOGIN: &str = "login";

/// Quotes a name given by a client. Only letters, digits and `.-_@+` stay as they are, so that the text contains no
/// quotation mark and can't be mistaken for another part of the line.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            if c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@' | '+') {
                write!(f, "{c}")?;
            } else {
                write!(f, "{}", c.escape_unicode())?;
            }
        }
        f.write_str("\"")
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NoConsole;

impl Console for NoConsole {
    fn shows(&self, _level: Level) -> bool {
        false
    }

    fn line(&self, _level: Level, _kind: &'static str, _text: fmt::Arguments<'_>) {}
}

/// Logged names, each with the time until which it is not logged again.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<BTreeMap<Arc<str>, Mono>>);

impl LogThrottle {
    /// Returns true if the name is due to be logged, and suppresses it for `lasts` then.
    pub(crate) fn is_news(&self, name: &Arc<str>, now: Mono, lasts: Duration) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, until| *until > now);
        told.insert(Arc::clone(name), now + lasts).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_strangers_hold_nothing_but_a_name() {
        for (name, shown) in [
            ("jo", "\"jo\""),
            ("jo+x@ex-ample.org", "\"jo+x@ex-ample.org\""),
            ("jörg", "\"jörg\""),
            (
                "\" client=1.2.3.4:1 x=\"",
                "\"\\u{22}\\u{20}client\\u{3d}1.2.3.4\\u{3a}1\\u{20}x\\u{3d}\\u{22}\"",
            ),
            ("a\\u{22}", "\"a\\u{5c}u\\u{7b}22\\u{7d}\""),
            ("a\r\n\u{1b}\u{202e}\u{ff1d}", "\"a\\u{d}\\u{a}\\u{1b}\\u{202e}\\u{ff1d}\""),
            ("", "\"\""),
        ] {
            assert_eq!(Quoted(name).to_string(), shown);
        }
    }

    #[test]
    fn what_is_told_again_and_again_is_told_once() {
        let (told, lasts) = (LogThrottle::default(), Duration::from_secs(60));
        let (one, other): (Arc<str>, Arc<str>) = ("ip-1".into(), "ip-2".into());
        assert!(told.is_news(&one, Mono(0), lasts) && !told.is_news(&one, Mono(1), lasts));
        assert!(told.is_news(&other, Mono(2), lasts));
        assert!(told.is_news(&one, Mono(2) + lasts, lasts));
    }
}
