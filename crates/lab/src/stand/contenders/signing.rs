//! Keys of contenders that sign what they relay (DKIM).

use crate::stand::error::{Error, Result};
use crate::stand::place::Place;
use auth::dkim::{Algorithm, SigningKey};
use load::file::FileError;
use std::os::unix::fs::PermissionsExt as _;

/// In whose name they sign, whoever the author is.
pub(super) const DOMAIN: &str = "esp.bench.grey";

/// Makes a key, which nobody but its user can read; gives where it is.
pub(super) fn make_key(place: &Place, name: &str, algorithm: Algorithm) -> Result<String> {
    let lacking = || Error::Missing(format!("no key for {} could be made", algorithm.as_str()));
    let key = SigningKey::generate(algorithm).map_err(|_| lacking())?;
    let pem = key.pem().ok_or_else(lacking)?;
    place.write(name, &pem)?;
    let path = place.directory.join(name);
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, own).map_err(FileError::at(&path))?;
    Ok(path.display().to_string())
}
