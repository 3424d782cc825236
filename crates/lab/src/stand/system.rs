//! Programs of the system that run to their end.
//!
//! A mount and process namespace of our own: when it ends, however it ends, nothing is left
//! mounted and nothing goes on running.

use super::error::{Error, Result};
use load::process::{ProcessError, this_program};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// Runs a command that must succeed; its standard output.
///
/// # Errors
/// When it can't be run, or what it said when it failed.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| ProcessError::Start(shown.clone(), error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    Err(Error::Command { command: shown, status: output.status, said })
}

/// The same for a program of this name, with these arguments.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_words(program: &str, words: &[&str]) -> Result<String> {
    run(Command::new(program).args(words))
}

/// Program and arguments, as they are typed.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Set in the process that runs in the namespace.
const MARK: &str = "POSTRIDER_LAB_NAMESPACE";

/// Exit code of a command that this machine can't carry out.
pub(crate) const UNABLE_CODE: u8 = 77;

/// Runs this program again, with the same arguments, in a namespace of its own; returns there.
///
/// # Errors
/// Why this machine does not allow it.
pub(crate) fn enter() -> Result<()> {
    if std::env::var_os(MARK).is_some() {
        return Ok(());
    }
    // The process that is waited for is `unshare`; its end is the end of all of them.
    let mut words = vec!["--mount", "--propagation", "private"];
    words.extend(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !rustix::process::geteuid().is_root() {
        words.extend(["--user", "--map-root-user"]);
    }
    run(Command::new("unshare").args(&words).arg("true"))?;
    let mut command = Command::new("unshare");
    command.args(&words).arg(this_program()?).args(std::env::args_os().skip(1)).env(MARK, "1");
    let error = command.exec();
    Err(ProcessError::Start("unshare".to_owned(), error).into())
}

#[cfg(test)]
mod tests {
    use super::{run, run_words};
    use std::process::Command;

    #[test]
    fn what_is_said_is_returned_and_what_fails_is_named() {
        assert_eq!(run_words("echo", &["a", "b"]).expect("it runs"), "a b\n");
        let mut command = Command::new("sh");
        let error = run(command.args(["-c", "echo no >&2; exit 3"])).expect_err("it fails");
        assert_eq!(error.to_string(), "sh -c echo no >&2; exit 3: exit status: 3: no");
        let error = run_words("/nonexistent/program", &[]).expect_err("there is none");
        assert!(error.to_string().contains("/nonexistent/program"), "{error}");
    }
}
