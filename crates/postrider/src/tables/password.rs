//! Passwords that stand in places of their own.

use crate::secret_place::first_line;
use std::path::Path;
use zeroize::Zeroizing;

/// No password is longer.
const PASSWORD_BYTES_MAX: usize = 1_024;

/// The password at a place: its first line. Read for each connection that is opened, so that a new one
/// needs no reload.
///
/// # Errors
/// Why there is none, with the place.
pub(super) fn read(written: &Path) -> Result<Zeroizing<String>, String> {
    first_line("password_file", written, PASSWORD_BYTES_MAX)
}
