//! Random numbers that are generated once and stored beside the spool, because new ones at each start would be visible.

use crate::world::hashing::HashingThreads;
use auth::digest::Sha256;
use channels::X400;
use config::Config;
use mta::seams::Hashing as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The secret behind the salts of unknown users (SCRAM). With a new secret at each start, unknown users would be
/// recognizable by their changing salts. Copied to other servers with the same users, it produces the same salts.
pub(crate) const LOGIN_SALTS: &str = "login-salts.secret";
/// Makes the names of this spool's messages in mailboxes different from those of other servers. With a new number after
/// a crash, a message would be delivered twice.
pub(crate) const SPOOL_SALT: &str = "spool-salt";

/// One that was read or made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredSecret<const N: usize> {
    pub(crate) bytes: [u8; N],
    /// The reason why it differs from the stored one, or will not survive this start, in a sentence.
    pub(crate) trouble: Option<String>,
}

/// Size of the CRC-32C after the secret. Files of earlier versions have none.
const CHECKSUM_BYTES: usize = 4;

fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    [bytes, &crc32c::crc32c(bytes).to_le_bytes()].concat()
}

/// The numbers of a file.
fn numbers<const N: usize>(file: &[u8]) -> Option<[u8; N]> {
    let bytes = *file.first_chunk::<N>()?;
    (file.len() == N || file == with_checksum(&bytes)).then_some(bytes)
}

/// Reads a file in the first spool directory; creates it from `fresh` if missing. A damaged file is moved aside, and
/// does not prevent a start.
pub(crate) fn kept<const N: usize>(
    directory: &Path,
    name: &str,
    fresh: [u8; N],
) -> StoredSecret<N> {
    let path = directory.join(name);
    let damage = match read(&path, N + CHECKSUM_BYTES + 1) {
        Ok(file) => match numbers(&file) {
            Some(bytes) => return StoredSecret { bytes, trouble: None },
            None => {
                let aside = damaged(&path);
                let moved = fs::rename(&path, &aside).err();
                let why = moved.map_or_else(
                    || format!("moved to {}", aside.display()),
                    |error| format!("it cannot be moved aside: {error}"),
                );
                Some(format!("{} is damaged: {why}", path.display()))
            }
        },
        // A link that leads nowhere is no file that is not there.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => None,
        Err(error) => {
            let trouble = Some(format!("cannot read {}: {error}", path.display()));
            return StoredSecret { bytes: fresh, trouble };
        }
    };
    let written = write(directory, name, &with_checksum(&fresh)).err();
    let unwritten = written.map(|error| format!("cannot write {}: {error}", path.display()));
    StoredSecret { bytes: fresh, trouble: unwritten.or(damage) }
}

fn read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The secret behind the salts of unknown users.
pub(crate) fn login_salts(directory: &Path) -> StoredSecret<16> {
    kept(directory, LOGIN_SALTS, HashingThreads::new().secret())
}

/// Derives the secret for return paths of the X.400 gateway, which are answered for days. Neither secret reveals the
/// other.
fn of_return_paths(login_salts: &[u8; 16]) -> [u8; 16] {
    let mut digest = Sha256::default();
    digest.push(b"return paths");
    digest.push(login_salts);
    let mut secret = [0; 16];
    secret.copy_from_slice(&digest.finish()[..16]);
    secret
}

/// Sets the secret of return paths, so that they are recognized after a restart. Returns the reason if those of earlier
/// mail are not, in a sentence.
pub(crate) fn keep_return_paths(config: &Config, directory: &Path) -> Option<String> {
    let gateway = config.of::<X400>()?.gateway.as_ref()?;
    let StoredSecret { bytes, trouble } = login_salts(directory);
    gateway.set_secret(of_return_paths(&bytes));
    trouble
}

/// The path for an unusable file.
pub(crate) fn damaged(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".damaged");
    path.with_file_name(name)
}

/// Writes the file atomically, also over a crash, readable only by us.
pub(crate) fn write(directory: &Path, name: &str, secret: &[u8]) -> io::Result<()> {
    let (fresh, path) = (directory.join(format!("{name}.new")), directory.join(name));
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
        let made = kept(directory.path(), LOGIN_SALTS, [7; 16]);
        assert_eq!(made, StoredSecret { bytes: [7; 16], trouble: None });
        assert_eq!(kept(directory.path(), LOGIN_SALTS, [8; 16]), made);
        let mode = fs::metadata(directory.path().join(LOGIN_SALTS)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn one_that_is_damaged_is_put_aside_and_another_is_made() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(SPOOL_SALT), "short").unwrap();
        let made = kept(directory.path(), SPOOL_SALT, [1; 8]);
        assert_eq!(made.bytes, [1; 8]);
        let why = made.trouble.unwrap();
        assert!(why.contains("spool-salt is damaged") && why.contains(".damaged"), "{why}");
        let aside = fs::read(directory.path().join("spool-salt.damaged")).unwrap();
        assert_eq!(aside, b"short");
        assert_eq!(
            kept(directory.path(), SPOOL_SALT, [2; 8]),
            StoredSecret { bytes: [1; 8], trouble: None }
        );
        // Any bit, and any end.
        let path = directory.path().join(SPOOL_SALT);
        let whole = fs::read(&path).unwrap();
        let turned = (0..whole.len() * 8).map(|bit| {
            let mut turned = whole.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            turned
        });
        let cut = (0..whole.len()).filter(|length| *length != 8);
        let long = vec![7; 30 << 20];
        for bad in turned.chain(cut.map(|length| whole[..length].to_vec())).chain([long]) {
            fs::write(&path, &bad).unwrap();
            assert!(kept(directory.path(), SPOOL_SALT, [9; 8]).trouble.is_some(), "{}", bad.len());
        }
        // One of an earlier version.
        fs::write(&path, [5; 8]).unwrap();
        let old = kept(directory.path(), SPOOL_SALT, [9; 8]);
        assert_eq!(old, StoredSecret { bytes: [5; 8], trouble: None });
        let nowhere = kept(Path::new("/nonexistent"), SPOOL_SALT, [3; 8]);
        assert_eq!(nowhere.bytes, [3; 8]);
        assert!(nowhere.trouble.is_some());
    }
}
