//! What a command ends with.

use std::process::ExitCode;

/// What a command ends with.
pub type Outcome = Result<ExitCode, CommandError>;

/// Why a command could not do its work; printed to stderr, exit code 2.
#[derive(Debug)]
pub struct CommandError(String);

impl CommandError {
    /// An error with its whole text.
    pub fn new(text: impl Into<String>) -> CommandError {
        CommandError(text.into())
    }
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CommandError {}
