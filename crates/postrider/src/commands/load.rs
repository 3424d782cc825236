//! The configuration that a command line names.

mod place;

pub(crate) use place::{find, installed};

use crate::cli::{ServerArgs, exit};
use crate::kept_open;
use crate::limited_work::waited_for;
use channels::{GatewayTables, X400};
use config::shaping::{ShapingFile, ShapingSource};
use config::{Config, ConfigErrors, Problem};
use std::io::{self, IsTerminal, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use x400::mixer::{Mappings, TableKind};

/// Timeout of a control command for the configuration file with the socket's path.
const CONFIGURATION_MAX: Duration = Duration::from_secs(5);

/// The reason why no configuration could be loaded.
pub(crate) enum LoadError {
    /// The file can't be read: a sentence.
    Unreadable(String),
    /// The configuration has errors.
    Wrong(ConfigErrors),
}

impl LoadError {
    /// Errors for people, with file, line and column, on several lines.
    pub(crate) fn render(&self, colour: bool) -> String {
        match self {
            LoadError::Unreadable(text) => format!("postrider: {text}\n"),
            LoadError::Wrong(errors) => errors.render(colour),
        }
    }

    /// Errors on one line, for the log: `FILE:LINE:COLUMN: …; FILE:…`.
    pub(crate) fn one_line(&self) -> String {
        match self {
            LoadError::Unreadable(text) => text.clone(),
            LoadError::Wrong(errors) => one_line(errors),
        }
    }
}

/// Mistakes in one line, each with its place.
pub(crate) fn one_line(errors: &ConfigErrors) -> String {
    errors.to_string().replace('\n', "; ")
}

/// A configuration, and the errors in files that belong to it. Other files that it names are not checked.
pub(crate) type LoadedConfig = (Config, Option<ConfigErrors>);

/// Reads a configuration file for this machine, with the files that belong to it, or returns the built-in default.
///
/// # Errors
/// Returns an error if there is no valid configuration.
pub(crate) fn read(file: Option<&Path>) -> Result<LoadedConfig, LoadError> {
    let Some(path) = file else {
        return Ok((crate::sections::schema().embedded(), None));
    };
    let mut config = parse(path, read_whole(path))?;
    let shaping = shape(&mut config).err();
    let mappings = read_mappings(&config);
    let mappings = Some(mappings).filter(|all| !all.is_empty()).map(|all| config.errors(all));
    let mistakes = shaping.into_iter().chain(mappings).reduce(|one, other| one.and(other));
    Ok((config, mistakes))
}

/// As [`read`], for commands that need no other files. Without a file, [`find`] finds it.
///
/// # Errors
/// Returns an error if there is no valid configuration, or its files have errors.
fn config(file: Option<&Path>) -> Result<Config, LoadError> {
    match read(find(file)?.as_deref())? {
        (config, None) => Ok(config),
        (_, Some(mistakes)) => Err(LoadError::Wrong(mistakes)),
    }
}

/// Parses the configuration file itself.
fn parse(path: &Path, bytes: io::Result<Vec<u8>>) -> Result<Config, LoadError> {
    let bytes = bytes.map_err(|error| {
        LoadError::Unreadable(format!("cannot read {}: {error}", path.display()))
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let (line, column) = end_of(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let path = path.display();
        LoadError::Unreadable(format!("{path}:{line}:{column}: error: the file is not UTF-8 here"))
    })?;
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_str().unwrap_or("localhost");
    let name = path.display().to_string();
    crate::sections::schema().parse_on(&text, &name, machine).map_err(LoadError::Wrong)
}

/// Reads the configuration file, which only root may be able to open.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    kept_open::open(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// Reads a file that may be on a disk that does not answer.
fn read_in_time(path: &Path, most: Duration) -> io::Result<Vec<u8>> {
    let of_thread = path.to_owned();
    waited_for(most, move || read_whole(&of_thread)).unwrap_or_else(|| {
        let text = format!("its file did not respond within {} s", most.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

/// The warnings about a configuration, each with its file and line.
pub(crate) fn warnings_of(config: &Config) -> impl Iterator<Item = String> {
    let place = move |line| format!("{}:{line}", config.file_name());
    config.warnings.iter().map(move |w| format!("{}: {}", place(w.line), w.message))
}

/// No shaping file is larger: a few bytes for each of a hundred thousand domains.
const SHAPING_BYTES_MAX: u64 = 16 << 20;

/// Reads the shaping files that a configuration names.
fn shape(config: &mut Config) -> Result<(), ConfigErrors> {
    let (mut files, mut unread) = (Vec::new(), Vec::new());
    for (index, source) in config.shaping_sources.iter().enumerate() {
        let path = match source {
            ShapingSource::Builtin => {
                files.push(ShapingFile::builtin());
                continue;
            }
            ShapingSource::File(path) => path,
        };
        match read_text(path) {
            Ok(text) => {
                let name = path.display().to_string().into();
                files.push(ShapingFile { name, text: text.into() });
            }
            Err(why) => {
                let why = format!("cannot read {}: {why}", path.display());
                unread.push(config.mistake_at(&format!("shaping[{index}]"), why));
            }
        }
    }
    if unread.is_empty() {
        return config.shape(&files);
    }
    Err(config.errors(unread))
}

/// Reads the tables of an X.400 gateway. Returns the errors.
fn read_mappings(config: &Config) -> Vec<Problem> {
    let gateway = config.of::<X400>().and_then(|x400| x400.gateway.as_ref());
    let Some(gateway) = gateway else { return Vec::new() };
    let mut mistakes = Vec::new();
    let mut read = |key: &str, path: &Option<PathBuf>, kind: TableKind| {
        let Some(path) = path else { return String::new() };
        let read = read_mapping(path, kind);
        read.unwrap_or_else(|why| {
            mistakes.push(config.mistake_at(&format!("x400.gateway.{key}"), why));
            String::new()
        })
    };
    gateway.set_tables(GatewayTables {
        mappings: read("mcgam", &gateway.mcgam, TableKind::Mapping),
        gateways: read("gateways", &gateway.gateways, TableKind::Gateway),
    });
    mistakes
}

fn read_mapping(path: &Path, kind: TableKind) -> Result<String, String> {
    let text = read_text(path).map_err(|why| format!("cannot read {}: {why}", path.display()))?;
    let checked = Mappings::default().read(&text, kind);
    checked.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text)
}

fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let read = file.take(SHAPING_BYTES_MAX + 1).read_to_string(&mut text);
    match read.map_err(|error| error.to_string())? as u64 > SHAPING_BYTES_MAX {
        true => Err(format!("it is longer than {SHAPING_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// Line and column (in characters), both from 1, of the end of a text.
fn end_of(text: &[u8]) -> (usize, usize) {
    let text = String::from_utf8_lossy(text);
    let line = text.rsplit('\n').next().unwrap_or_default();
    (text.matches('\n').count() + 1, line.chars().count() + 1)
}

/// As [`config`], with errors printed to standard error.
pub(crate) fn load(file: Option<&Path>) -> Result<Config, ExitCode> {
    config(file).map_err(|error| shown(&error))
}

/// Prints the error to standard error. Returns the exit code.
pub(crate) fn shown(error: &LoadError) -> ExitCode {
    eprint!("{}", error.render(io::stderr().is_terminal()));
    ExitCode::from(exit::USAGE)
}

/// The path of the server's control socket. Only the configuration file is read: commands must work while disks do not
/// respond.
pub(crate) fn control_socket(server: &ServerArgs) -> Result<PathBuf, ExitCode> {
    if let Some(path) = &server.control {
        return Ok(path.clone());
    }
    let config = alone(server.config.as_deref());
    config.map(|config| config.admin.control).map_err(|error| shown(&error))
}

/// The configuration without the files that it names, from a disk that may not respond.
///
/// # Errors
/// Returns an error if there is no valid configuration.
pub(crate) fn alone(file: Option<&Path>) -> Result<Config, LoadError> {
    match find(file)? {
        None => Ok(crate::sections::schema().embedded()),
        Some(path) => parse(&path, read_in_time(&path, CONFIGURATION_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    fn with(config: &Path) -> ServerArgs {
        ServerArgs { config: Some(config.to_owned()), ..ServerArgs::default() }
    }

    #[test]
    fn a_control_socket_is_found_without_any_other_file() {
        let directory = tempfile::tempdir().unwrap();
        let (file, pipe) = (directory.path().join("c.toml"), directory.path().join("pipe"));
        // Who opens it to read waits for somebody who writes.
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let text = "shaping = [\"PIPE\"]\n[spool]\npath = \"/s\"\n[[listener]]\nname = \"l\"\n\
                    address = \"127.0.0.1:0\"\n[classes]\nfiles = [\"PIPE\"]\n[[route]]\ndiscard = {}\n";
        std::fs::write(&file, text.replace("PIPE", &pipe.display().to_string())).unwrap();
        assert_eq!(control_socket(&with(&file)).unwrap(), Path::new("/s/control.sock"));
        let error = read_in_time(&pipe, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(read_in_time(&file, CONFIGURATION_MAX).unwrap(), std::fs::read(&file).unwrap());
    }
}
