//! Exhaustion of local resources: descriptors, memory, root certificates. It is temporary, and not a peer's fault.

use std::fmt;
use std::io;
use std::time::Duration;

/// Wait before the next try.
pub const WAIT: Duration = Duration::from_millis(200);

/// `ENFILE`, `EMFILE`, `ENOMEM`, `ENOBUFS` in Linux's numbers, on every architecture of Rust's standard library except
/// MIPS and SPARC (which have another ENOBUFS).
const NUMBERS: [i32; 4] = [23, 24, 12, 105];

/// The exhausted or missing resource, as text.
#[derive(Debug)]
struct Missing(String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// An error for a local resource that is missing for a connection.
#[must_use]
pub fn error(text: impl Into<String>) -> io::Error {
    io::Error::other(Missing(text.into()))
}

/// Returns true if an error is due to exhaustion of this process or machine.
#[must_use]
pub fn is_ours(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory
        || error.get_ref().is_some_and(|inner| inner.is::<Missing>())
        || error.raw_os_error().is_some_and(|number| NUMBERS.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lack_of_descriptors_is_told_from_what_a_peer_does() {
        assert!(is_ours(&io::Error::from_raw_os_error(24)));
        assert!(is_ours(&io::Error::from_raw_os_error(23)));
        assert!(is_ours(&io::ErrorKind::OutOfMemory.into()));
        assert!(is_ours(&error("no roots")));
        assert!(!is_ours(&io::ErrorKind::ConnectionRefused.into()));
        assert!(!is_ours(&io::Error::other("x")));
    }
}
