//! A finding about one name or address.

use crate::commands::dkim::strings_of;
use crate::terminal::clean;
use serde::Serialize;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::commands) enum Severity {
    Ok,
    /// The subject cannot be checked from here.
    Note,
    /// Some refuse mail for it, or soon will.
    Warn,
    /// Large providers refuse mail for it.
    Error,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Note => "note",
            Severity::Warn => "warn",
            Severity::Error => "error",
        }
    }
}

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct Finding {
    pub(in crate::commands) severity: Severity,
    /// `ptr`, `spf`, `dkim`, `dmarc`, `mx`.
    check: &'static str,
    /// The address, domain or name of a key that it is about.
    subject: String,
    text: String,
    /// Records that would be right, as zone files have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    publish: Vec<String>,
}

impl Finding {
    pub(super) fn new(
        severity: Severity,
        check: &'static str,
        subject: impl Into<String>,
        text: impl Into<String>,
    ) -> Finding {
        Finding { severity, check, subject: subject.into(), text: text.into(), publish: Vec::new() }
    }

    /// Adds the correct record.
    pub(super) fn publish(mut self, record: String) -> Finding {
        self.publish.push(record);
        self
    }
}

/// A TXT record as zone files have it.
pub(in crate::commands) fn txt(name: &str, text: &str) -> String {
    format!("{name}. IN TXT ( {} )", strings_of(text))
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { severity, check, subject, text, publish } = self;
        writeln!(f, "{:<6}{check:<6}{}: {}", severity.word(), clean(subject), clean(text))?;
        for record in publish {
            writeln!(f, "            publish: {}", clean(record))?;
        }
        Ok(())
    }
}
