//! Sends requests to a running server, and reports an error if it does not answer.

use crate::cli::{ServerArgs, exit};
use crate::commands::load;
use crate::control_socket::{self, ClientError};
use mta::commands::ControlRequest;
use mta::control::{ControlResponse, ErrorCode};
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Sends a request to the server, and passes its responses to `take`.
///
/// # Errors
/// Returns the exit code if the answer is missing or incomplete; the error is printed.
pub(super) fn ask(
    server: &ServerArgs,
    request: &ControlRequest,
    take: impl FnMut(ControlResponse) -> io::Result<()>,
) -> Result<(), ExitCode> {
    let path = load::control_socket(server)?;
    control_socket::ask(&path, request, take).map_err(|error| unanswered(&path, &error))
}

/// The output of an answer for people.
#[derive(Default)]
pub(super) struct CommandOutput {
    pub(super) text: String,
    /// Returns true if the search had a result.
    pub(super) is_found: bool,
}

impl From<String> for CommandOutput {
    fn from(text: String) -> CommandOutput {
        CommandOutput { text, is_found: true }
    }
}

/// Sends a request to the server and prints its responses, as text made by `show` or as JSON with `--json`. Returns the
/// exit code.
pub(super) fn print<S: Into<CommandOutput>>(
    server: &ServerArgs,
    request: &ControlRequest,
    show: impl FnOnce(&[ControlResponse]) -> S,
) -> ExitCode {
    let mut responses = Vec::new();
    let asked = ask(server, request, |response| {
        responses.push(response);
        Ok(())
    });
    if let Err(code) = asked {
        return code;
    }
    let error = responses.iter().find_map(|response| match response {
        ControlResponse::Error { code, text } => Some((*code, text)),
        _ => None,
    });
    if let Some((code, text)) = error {
        return refused(code, text);
    }
    let shown: CommandOutput = show(&responses).into();
    if server.json {
        let lines = responses.iter().filter_map(|response| serde_json::to_string(response).ok());
        super::print(&lines.map(|line| line + "\n").collect::<String>());
    } else {
        super::print(&shown.text);
    }
    if shown.is_found { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) }
}

/// The server's report of the completed work, a line per sentence.
pub(super) fn done(responses: &[ControlResponse]) -> String {
    let texts = responses.iter().filter_map(|response| match response {
        ControlResponse::Done { text: Some(text), .. } => Some(format!("{text}\n")),
        _ => None,
    });
    texts.collect()
}

/// Prints the reason of a refused request.
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
                io::ErrorKind::NotFound => "the socket does not exist".to_owned(),
                io::ErrorKind::ConnectionRefused => "no server is running there".to_owned(),
                io::ErrorKind::PermissionDenied => {
                    "only root and the user of the server may use it; run the command with sudo"
                        .to_owned()
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
