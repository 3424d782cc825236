//! Asking a running server, and what is told when it does not answer.

use crate::cli::{ServerArgs, exit};
use crate::commands::load;
use crate::control_socket::{self, ClientError};
use mta::control::{ControlRequest, ControlResponse, ErrorCode};
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Puts a request to the server, and hands its responses to `take`.
///
/// # Errors
/// How the program ends, where there was no answer, or not all of one; that was told.
pub(super) fn ask(
    server: &ServerArgs,
    request: &ControlRequest,
    take: impl FnMut(ControlResponse) -> io::Result<()>,
) -> Result<(), ExitCode> {
    let path = load::control_socket(server)?;
    control_socket::ask(&path, request, take).map_err(|error| unanswered(&path, &error))
}

/// Says why the server did not do what it was asked.
pub(super) fn refused(code: ErrorCode, text: &str) -> ExitCode {
    eprintln!("postrider: {text}");
    ExitCode::from(if code == ErrorCode::BadRequest { exit::USAGE } else { exit::FAILED })
}

/// Says why an answer could not be shown.
pub(super) fn unwritten(error: &io::Error) -> ExitCode {
    eprintln!("postrider: standard output: {error}");
    ExitCode::from(exit::FAILED)
}

/// Says why there is no answer.
fn unanswered(path: &Path, error: &ClientError) -> ExitCode {
    let path = path.display();
    match error {
        ClientError::Unreachable(error) => {
            let why = match error.kind() {
                io::ErrorKind::NotFound => "there is no socket".to_owned(),
                io::ErrorKind::ConnectionRefused => "no server is running there".to_owned(),
                io::ErrorKind::PermissionDenied => {
                    "only the user that the server runs as may use it".to_owned()
                }
                _ => error.to_string(),
            };
            eprintln!(
                "postrider: cannot reach the server at {path}: {why}.\n\
                 Point to another one with --config FILE (its configuration) or --control SOCKET."
            );
            ExitCode::from(exit::NOT_RUNNING)
        }
        // `| head` has seen enough.
        ClientError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        ClientError::Output(error) => unwritten(error),
        ClientError::Broken(text) => {
            eprintln!("postrider: {path}: {text}");
            ExitCode::from(exit::FAILED)
        }
    }
}
