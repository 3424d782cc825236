//! Observers of content as it arrives.

use mail::FieldWatch;
use std::any::Any;
use std::ops::Deref;

/// Sees content as it arrives, dot-unstuffed, with CRLF line ends, in pieces split at any position.
pub trait Observer: Any {
    fn push(&mut self, piece: &[u8]);

    /// Bytes that the observer keeps until the end of the content, beyond a few hundred.
    fn held(&self) -> usize {
        0
    }
}

impl<N: Deref<Target = [S]> + 'static, S: AsRef<str> + 'static> Observer for FieldWatch<N> {
    fn push(&mut self, piece: &[u8]) {
        FieldWatch::push(self, piece);
    }
}

/// Downcasts the observer that a stage gets back with the complete content. `None` if there was no observer or it has
/// another type.
#[must_use]
pub fn observed<O: Observer>(observer: Option<Box<dyn Observer>>) -> Option<Box<O>> {
    let observer: Box<dyn Any> = observer?;
    observer.downcast().ok()
}
