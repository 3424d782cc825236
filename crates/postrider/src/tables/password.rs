//! Passwords that stand in places of their own.

use crate::secret_place::first_line;
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
    let path = written.to_owned();
    aside(move || first_line("password_file", &path, PASSWORD_BYTES_MAX)).await
}

/// What `read` gives, on a thread where it may wait for a disk.
///
/// # Errors
/// As `read` says.
pub(super) async fn aside<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|_| Err("the server is stopping".to_owned()))
}
