//! Who looks on while content arrives.

use std::any::Any;

/// Sees content as it arrives, un-stuffed, with CRLF line ends, in pieces split anywhere.
pub trait Observer: Any {
    fn push(&mut self, piece: &[u8]);

    /// Bytes of it that are kept until the end of the content, beyond a few hundred.
    fn held(&self) -> usize {
        0
    }
}
