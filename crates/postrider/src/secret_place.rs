//! Locations of secrets in the configuration: a file, a systemd credential (`$CREDENTIALS_DIRECTORY/NAME`), or an
//! environment variable (`env:NAME`).

use crate::kept_open;
use crate::under_way::WorkRegistry;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use zeroize::Zeroizing;

/// The environment variable with systemd's directory of credentials.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// Prefix of environment variables.
const VARIABLE: &[u8] = b"env:";

/// Maximum number of concurrent reads of one location. One that hangs occupies its thread, and all work of [`aside`]
/// shares these.
const READS_MAX: usize = 4;

/// All reads on separate threads in this process.
static READS: LazyLock<WorkRegistry> = LazyLock::new(WorkRegistry::default);

/// Current reads on separate threads, for the list of problems.
pub(crate) fn reads() -> WorkRegistry {
    READS.clone()
}

/// The location of a secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SecretLocation<'a> {
    File(Cow<'a, Path>),
    /// This variable of the environment.
    Variable(&'a OsStr),
}

impl<'a> SecretLocation<'a> {
    /// Parses a location.
    ///
    /// # Errors
    /// Returns an error for a systemd credential without a directory of credentials.
    pub(crate) fn of(written: &'a Path) -> Result<SecretLocation<'a>, String> {
        if let Some(name) = written.as_os_str().as_bytes().strip_prefix(VARIABLE) {
            return Ok(SecretLocation::Variable(OsStr::from_bytes(name)));
        }
        let Ok(name) = written.strip_prefix(format!("${CREDENTIALS}")) else {
            return Ok(SecretLocation::File(Cow::Borrowed(written)));
        };
        let directory = std::env::var_os(CREDENTIALS)
            .ok_or_else(|| format!("the environment has no {CREDENTIALS}: systemd sets it"))?;
        Ok(SecretLocation::File(Cow::Owned(PathBuf::from(directory).join(name))))
    }

    /// Reads the secret, up to `bytes_max` plus one byte, which shows an excess.
    ///
    /// # Errors
    /// Returns an error for an unreadable file or a missing variable.
    pub(crate) fn read(&self, bytes_max: u64) -> io::Result<Zeroizing<Vec<u8>>> {
        let mut content = Zeroizing::new(Vec::new());
        let most = bytes_max.saturating_add(1);
        match self {
            SecretLocation::File(path) => {
                kept_open::open(path)?.take(most).read_to_end(&mut content)?;
            }
            SecretLocation::Variable(name) => {
                let none = || io::Error::new(io::ErrorKind::NotFound, "the variable is not set");
                let value = std::env::var_os(name).ok_or_else(none)?;
                value.as_bytes().take(most).read_to_end(&mut content)?;
            }
        }
        Ok(content)
    }
}

/// Reads the first line at a location, up to `bytes_max`; `key` names the location in errors. It is read for each use,
/// so that a new secret needs no reload.
///
/// # Errors
/// Returns the reason and the location if there is no secret.
pub(crate) fn first_line(
    key: &str,
    written: &Path,
    bytes_max: usize,
) -> Result<Zeroizing<String>, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{key} {}: {why}", written.display());
    let place = SecretLocation::of(written).map_err(|why| wrong(&why))?;
    // With its line end.
    let content = place.read(bytes_max as u64 + 2).map_err(|error| wrong(&error))?;
    let line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err(wrong(&"its first line is empty"));
    }
    if line.len() > bytes_max {
        return Err(wrong(&format_args!("its first line has more than {bytes_max} bytes")));
    }
    let line = std::str::from_utf8(line).map_err(|_| wrong(&"its first line is not UTF-8"))?;
    Ok(Zeroizing::new(line.to_owned()))
}

/// As [`first_line`], on a separate thread, because the file may hang.
///
/// # Errors
/// Returns the reason and the location if there is no secret.
pub(crate) async fn first_line_aside(
    key: &'static str,
    written: &Path,
    bytes_max: usize,
) -> Result<Zeroizing<String>, String> {
    let what = format!("{key} {}", written.display());
    let written = written.to_owned();
    aside(&what, move || first_line(key, &written, bytes_max)).await
}

/// Runs `work` on a thread that may wait for a disk; `what` names the location.
///
/// # Errors
/// Returns the error of `work`, or a timeout.
pub(crate) async fn aside<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let reading = READS.begin_at_most(READS_MAX, what)?;
    let done = tokio::task::spawn_blocking(move || {
        let _reading = reading;
        work()
    });
    let done = done.await;
    done.unwrap_or_else(|_| Err("the server is stopping".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_or_a_variable() {
        let of = |written: &'static str| SecretLocation::of(Path::new(written));
        assert_eq!(of("/etc/x"), Ok(SecretLocation::File(Path::new("/etc/x").into())));
        assert_eq!(of("env:RELAY"), Ok(SecretLocation::Variable(OsStr::new("RELAY"))));
        assert_eq!(of("./env:RELAY"), Ok(SecretLocation::File(Path::new("./env:RELAY").into())));
        let handed = of("$CREDENTIALS_DIRECTORY/relay");
        assert_eq!(handed.is_ok(), std::env::var_os(CREDENTIALS).is_some());
        let path = first_line("secret", Path::new("env:PATH"), 65_536).unwrap();
        assert_eq!(std::env::var("PATH").ok().as_deref(), Some(&**path));
        let error = first_line("secret", Path::new("env:PATH"), 1).unwrap_err();
        assert_eq!(error, "secret env:PATH: its first line has more than 1 bytes");
        for none in ["env:", "env:POSTRIDER_HAS_NO_SUCH"] {
            let error = first_line("secret", Path::new(none), 8).unwrap_err();
            assert!(error.ends_with(": the variable is not set"), "{error}");
        }
    }

    #[test]
    fn a_secret_is_the_first_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        let read =
            |path: &Path| first_line("password_file", path, 1_024).map(|line| line.to_string());
        assert!(read(&path).unwrap_err().contains("No such file"));
        let longest = "p".repeat(1_024);
        for (text, password) in [
            ("secret\n", "secret"),
            (" se cret \r\nmore\n", " se cret "),
            (&*longest, &*longest),
            (&*format!("{longest}\r\n"), &*longest),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(&path).as_deref(), Ok(password));
        }
        for (text, why) in
            [("", "is empty"), ("\nx", "is empty"), (&*format!("{longest}p"), "1024")]
        {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err();
            assert!(error.contains(why) && error.contains("/password: "), "{error}");
        }
        std::fs::write(&path, b"\xff\n").unwrap();
        assert!(read(&path).unwrap_err().ends_with("not UTF-8"));
    }
}
