//! A mount and process namespace of our own: when it ends, however it ends, nothing is left
//! mounted and nothing goes on running.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Set in the process that runs in the namespace.
const MARK: &str = "POSTRIDER_LAB_NAMESPACE";

/// Exit code of a command that this machine can't carry out.
pub(crate) const UNABLE_CODE: u8 = 77;

/// Runs this program again, with the same arguments, in a namespace of its own; returns there.
///
/// # Errors
/// Why this machine does not allow it.
pub(crate) fn enter() -> Result<(), String> {
    if std::env::var_os(MARK).is_some() {
        return Ok(());
    }
    // The process that is waited for is `unshare`; its end is the end of all of them.
    let mut words = vec!["--mount", "--propagation", "private"];
    words.extend(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !rustix::process::geteuid().is_root() {
        words.extend(["--user", "--map-root-user"]);
    }
    let tried = Command::new("unshare").args(&words).arg("true").output();
    let tried = tried.map_err(|error| format!("unshare: {error}"))?;
    if !tried.status.success() {
        return Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned());
    }
    let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let error = Command::new("unshare")
        .args(&words)
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(MARK, "1")
        .exec();
    Err(format!("unshare: {error}"))
}

/// Runs a program of the system that must succeed; its standard output.
///
/// # Errors
/// What it said.
pub(crate) fn system(program: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} {}: {}", words.join(" "), text.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
