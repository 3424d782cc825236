//! Who looks on while content arrives.

use mail::FieldWatch;
use std::any::Any;
use std::ops::Deref;

/// Sees content as it arrives, un-stuffed, with CRLF line ends, in pieces split anywhere.
pub trait Observer: Any {
    fn push(&mut self, piece: &[u8]);

    /// Bytes of it that are kept until the end of the content, beyond a few hundred.
    fn held(&self) -> usize {
        0
    }
}

impl<N: Deref<Target = [S]> + 'static, S: AsRef<str> + 'static> Observer for FieldWatch<N> {
    fn push(&mut self, piece: &[u8]) {
        FieldWatch::push(self, piece);
    }
}

/// What a stage gave to observe content, as it has it back when that is complete; `None`: it gave nothing, or others
/// did.
#[must_use]
pub fn observed<O: Observer>(observer: Option<Box<dyn Observer>>) -> Option<Box<O>> {
    let observer: Box<dyn Any> = observer?;
    observer.downcast().ok()
}
