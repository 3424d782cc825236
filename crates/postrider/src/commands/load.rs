//! The configuration that a command line names.

use crate::cli::{ConfigFile, ServerArgs, exit};
use mta::config::{Config, ConfigErrors, EMBEDDED};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

/// The text of the file, or of the built-in default. A file that can't be read is said on
/// standard error.
pub(crate) fn read(file: &ConfigFile) -> Result<String, ExitCode> {
    let Some(path) = &file.config else { return Ok(EMBEDDED.to_owned()) };
    std::fs::read_to_string(path).map_err(|error| {
        eprintln!("postrider: {}: {error}", path.display());
        ExitCode::from(exit::USAGE)
    })
}

/// The configuration in a text, on this machine.
pub(crate) fn parse(file: &ConfigFile, text: &str) -> Result<Config, ConfigErrors> {
    match &file.config {
        None => Ok(Config::embedded()),
        Some(path) => {
            let machine = rustix::system::uname();
            let machine = machine.nodename().to_str().unwrap_or("localhost");
            Config::parse_on(text, &path.display().to_string(), machine)
        }
    }
}

/// Reads and parses; what is wrong is shown on standard error.
pub(crate) fn load(file: &ConfigFile) -> Result<Config, ExitCode> {
    let text = read(file)?;
    parse(file, &text).map_err(|errors| {
        eprint!("{}", errors.render(std::io::stderr().is_terminal()));
        ExitCode::from(exit::USAGE)
    })
}

/// The control socket of the server that a command is for.
pub(crate) fn control_socket(server: &ServerArgs) -> Result<PathBuf, ExitCode> {
    match &server.control {
        Some(path) => Ok(path.clone()),
        None => {
            let file = ConfigFile { config: server.config.clone() };
            load(&file).map(|config| config.admin.control)
        }
    }
}
