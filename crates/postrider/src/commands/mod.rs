//! The commands of the command line, a module each.

mod asking;
pub(crate) mod auth;
pub(crate) mod check;
pub(crate) mod classify;
pub(crate) mod dkim;
pub(crate) mod explain;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod load;
pub(crate) mod login;
pub(crate) mod man;
pub(crate) mod migrate;
pub(crate) mod queue;
pub(crate) mod reference;
mod running;
pub(crate) mod serve;
pub(crate) mod shaping;
pub(crate) mod sources;
pub(crate) mod spool;
pub(crate) mod table;
pub(crate) mod tls;
pub(crate) mod x400;

use std::io::Write;

/// The program's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes to standard output. A closed pipe (`| head`) is no error.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        eprintln!("postrider: standard output: {error}");
    }
}
