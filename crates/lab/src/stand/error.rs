//! Why a stand can't go on.

use load::file::FileError;
use load::process::ProcessError;
use std::fmt;
use std::process::ExitStatus;

/// What went wrong with a server under test, or with what stands around it.
#[derive(Debug)]
pub enum Error {
    /// A file or directory can't be used.
    File(FileError),
    /// A program doesn't do as it should.
    Process(ProcessError),
    /// A command failed: what was run, how it ended, and what it said at last.
    Command {
        /// Program and arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The last line of its standard error.
        said: String,
    },
    /// What a program printed can't be understood: which program, and why.
    Output(String, serde_json::Error),
    /// A ledger contradicts itself.
    Ledger(String),
    /// There is nothing of this kind: no server, no port, no path.
    Missing(String),
    /// What is under test doesn't do what it must.
    Server(String),
    /// The run was ended by a signal.
    Interrupted,
}

/// What comes of something done on a stand.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(error) => error.fmt(f),
            Error::Process(error) => error.fmt(f),
            Error::Command { command, status, said } if said.is_empty() => {
                write!(f, "{command}: {status}")
            }
            Error::Command { command, status, said } => write!(f, "{command}: {status}: {said}"),
            Error::Output(program, error) => {
                write!(f, "{program} printed unreadable output: {error}")
            }
            Error::Ledger(text) | Error::Missing(text) | Error::Server(text) => f.write_str(text),
            Error::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {}

impl From<FileError> for Error {
    fn from(error: FileError) -> Error {
        Error::File(error)
    }
}

impl From<ProcessError> for Error {
    fn from(error: ProcessError) -> Error {
        Error::Process(error)
    }
}
