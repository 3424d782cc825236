//! What is wrong with the server, as operators read it.

use super::text;
use mail::Wall;
use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Mail is refused or stands still: `/healthz` fails.
    #[default]
    Error,
    /// Mail goes on, or some of it waits; a person should look.
    Warning,
}

impl Severity {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// Something that is wrong now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What sort of thing it is: `log`, `mailboxes`, `state_file`.
    pub kind: String,
    pub severity: Severity,
    /// Which of them: a path, a name; empty where there is one only.
    pub about: String,
    /// A sentence.
    pub text: String,
    /// What to do about it.
    pub next_step: String,
    /// Since when, as far as is known.
    #[serde(with = "text::wall")]
    pub since: Wall,
}
