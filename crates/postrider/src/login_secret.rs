//! The secret of which salts are made for users of whom nothing is stored (SCRAM), and return paths: it is kept beside
//! the spool, for with another one at each start such users would be those whose salts change.

use crate::world::hashing::HashingThreads;
use auth::digest::Sha256;
use config::Config;
use mta::seams::Hashing as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// In the first spool directory. Copied to other servers for the same users, they show the same salts.
const NAME: &str = "login-salts.secret";

/// Reads it; makes it if there is none.
///
/// # Errors
/// A sentence.
pub(crate) fn kept(directory: &Path, hashing: &HashingThreads) -> Result<[u8; 16], String> {
    let path = directory.join(NAME);
    let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    match fs::read(&path) {
        Ok(bytes) => bytes.try_into().map_err(|_| wrong(&"it has not 16 bytes; remove it")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let secret = hashing.secret();
            write(directory, &secret).map_err(|error| wrong(&error))?;
            Ok(secret)
        }
        Err(error) => Err(wrong(&error)),
    }
}

/// The same for return paths of the gateway to X.400, which are answered for days; from the one nobody finds the other.
///
/// # Errors
/// A sentence.
fn of_return_paths(directory: &Path) -> Result<[u8; 16], String> {
    let mut digest = Sha256::default();
    digest.push(b"return paths");
    digest.push(&kept(directory, &HashingThreads::new())?);
    let mut secret = [0; 16];
    secret.copy_from_slice(&digest.finish()[..16]);
    Ok(secret)
}

/// Has return paths made that are known again after a restart.
///
/// # Errors
/// A sentence.
pub(crate) fn keep_return_paths(config: &Config, directory: &Path) -> Result<(), String> {
    let gateway = config.x400.as_ref().and_then(|x400| x400.gateway.as_ref());
    let Some(gateway) = gateway else { return Ok(()) };
    of_return_paths(directory).map(|secret| gateway.set_secret(secret))
}

/// All of it or nothing is there, also after a crash.
fn write(directory: &Path, secret: &[u8]) -> io::Result<()> {
    let (fresh, path) = (directory.join(format!("{NAME}.new")), directory.join(NAME));
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(secret)?;
    file.sync_all()?;
    fs::rename(&fresh, &path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn it_is_made_once_and_for_us_alone() {
        let directory = tempfile::tempdir().unwrap();
        let hashing = HashingThreads::new();
        let made = kept(directory.path(), &hashing).unwrap();
        assert_eq!(kept(directory.path(), &hashing), Ok(made));
        let mode = fs::metadata(directory.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(directory.path().join(NAME), "short").unwrap();
        let why = kept(directory.path(), &hashing).unwrap_err();
        assert!(why.contains(NAME) && why.contains("16 bytes"), "{why}");
    }
}
