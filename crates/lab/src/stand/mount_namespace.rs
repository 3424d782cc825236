//! A mount and process namespace of our own: when it ends, however it ends, nothing is left
//! mounted and nothing goes on running.

use super::error::Result;
use super::system;
use load::process::{ProcessError, this_program};
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
    system::run(Command::new("unshare").args(&words).arg("true"))?;
    let mut command = Command::new("unshare");
    command.args(&words).arg(this_program()?).args(std::env::args_os().skip(1)).env(MARK, "1");
    let error = command.exec();
    Err(ProcessError::Start("unshare".to_owned(), error).into())
}
