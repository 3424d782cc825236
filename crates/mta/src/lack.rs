//! Lack of the process's own: descriptors, memory. Nobody else is to blame for it, and it passes.

use std::io;
use std::time::Duration;

/// How long one who met with it waits before the next try.
pub const WAIT: Duration = Duration::from_millis(200);

/// `ENFILE`, `EMFILE`, `ENOMEM`, `ENOBUFS` as Linux numbers them, on every architecture that
/// Rust's standard library knows but MIPS and SPARC (where ENOBUFS differs).
const NUMBERS: [i32; 4] = [23, 24, 12, 105];

/// Whether an error says that this process, or this machine, has none left.
#[must_use]
pub fn is_ours(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory
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
        assert!(!is_ours(&io::ErrorKind::ConnectionRefused.into()));
        assert!(!is_ours(&io::Error::other("x")));
    }
}
