//! Programs of this machine that take mail.

use bytes::Bytes;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A program to run for one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCall {
    /// The program's path, and its arguments.
    pub command: Vec<String>,
    /// User and group to run as; by default those of this process.
    pub account: ProgramAccount,
    /// Maximum duration of a run. Then the program's process group is killed.
    pub timeout: Duration,
}

/// User and group of a program, by name or number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramAccount {
    pub user: Option<Arc<str>>,
    /// By default the group of the user.
    pub group: Option<Arc<str>>,
}

/// Maximum number of bytes of output that are kept.
pub const OUTPUT_BYTES_MAX: usize = 4_096;

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// It exited with this status, and wrote this first, up to [`OUTPUT_BYTES_MAX`] bytes.
    Exited { status: i32, output: Vec<u8> },
    /// A signal ended it.
    Signalled { signal: i32, output: Vec<u8> },
    /// It was killed at its timeout.
    TimedOut { output: Vec<u8> },
    /// It was not started; the end of a sentence.
    NotStarted(String),
}

/// Runs programs.
pub trait Programs: 'static {
    /// Starts a program. Errors are returned by [`RunningProgram::finish`].
    fn start(&self, call: ProgramCall) -> Box<dyn RunningProgram>;
}

/// A future of a running program.
pub type ProgramFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A running program. Dropping it kills its process group.
pub trait RunningProgram {
    /// Writes a piece of its input, with CRLF at line ends, when the pipe is not full. Returns false if it takes no more.
    fn feed(&mut self, piece: Bytes) -> ProgramFuture<'_, bool>;

    /// Ends its input, and waits for its end.
    fn finish(self: Box<Self>) -> ProgramFuture<'static, ProgramEnd>;
}

/// Runs none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPrograms;

impl Programs for NoPrograms {
    fn start(&self, _: ProgramCall) -> Box<dyn RunningProgram> {
        Box::new(NoPrograms)
    }
}

impl RunningProgram for NoPrograms {
    fn feed(&mut self, _: Bytes) -> ProgramFuture<'_, bool> {
        Box::pin(ready(false))
    }

    fn finish(self: Box<Self>) -> ProgramFuture<'static, ProgramEnd> {
        Box::pin(ready(ProgramEnd::NotStarted("there are no programs in this world".to_owned())))
    }
}
