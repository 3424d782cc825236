//! Passwords that stand in places of their own.

pub(super) use crate::secret_place::aside;
use crate::secret_place::first_line_aside;
use std::path::Path;
use zeroize::Zeroizing;

/// No password is longer.
const PASSWORD_BYTES_MAX: usize = 1_024;

/// The password at a place: its first line. Read for each connection that is opened, so that a new one
/// needs no reload; on a thread of its own, as the file may hang, and all tables share this one.
///
/// # Errors
/// Why there is none, with the place.
pub(super) async fn read(written: &Path) -> Result<Zeroizing<String>, String> {
    first_line_aside("password_file", written, PASSWORD_BYTES_MAX).await
}
