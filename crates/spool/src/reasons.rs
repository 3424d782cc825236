//! Reasons of failed attempts and holds: few different texts, each stored once.

use crate::codec::cut;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum memory of all texts.
const REASONS_BYTES_MAX: usize = 8 << 20;

/// The number of a text in [`Reasons`], or none. No text is empty, so there are fewer than 2^24.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReasonNumber([u8; 3]);

const _: () = assert!(REASONS_BYTES_MAX < 1 << 24);

impl ReasonNumber {
    pub(crate) fn is_some(self) -> bool {
        self != ReasonNumber::default()
    }

    /// The text at position `at`; 0 means none.
    fn of_place(at: usize) -> ReasonNumber {
        let [a, b, c, ..] = (at + 1).to_le_bytes();
        ReasonNumber([a, b, c])
    }

    fn place(self) -> Option<usize> {
        let [a, b, c] = self.0;
        (u32::from_le_bytes([a, b, c, 0]) as usize).checked_sub(1)
    }
}

/// The texts that entries name, by number.
#[derive(Debug, Default)]
pub(crate) struct Reasons {
    numbers: BTreeMap<Arc<str>, ReasonNumber>,
    /// By place: the text and how many entries name it.
    slots: Vec<Option<(Arc<str>, u32)>>,
    /// Places that are free.
    free: Vec<usize>,
    bytes: usize,
}

impl Reasons {
    /// Returns a number for the text, to be released once. None for an empty text, or when the memory for texts is used
    /// up.
    pub(crate) fn intern(&mut self, text: &str) -> ReasonNumber {
        let text = cut(text);
        if let Some(&number) = self.numbers.get(text) {
            let slot = number.place().and_then(|at| self.slots.get_mut(at));
            if let Some(Some((_, count))) = slot {
                *count += 1;
            }
            return number;
        }
        if text.is_empty() || self.bytes + text.len() > REASONS_BYTES_MAX {
            return ReasonNumber::default();
        }
        self.bytes += text.len();
        let text: Arc<str> = text.into();
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some((text.clone(), 1));
        }
        let number = ReasonNumber::of_place(at);
        self.numbers.insert(text, number);
        number
    }

    pub(crate) fn text(&self, number: ReasonNumber) -> Option<&str> {
        let (text, _) = self.slots.get(number.place()?)?.as_ref()?;
        Some(text)
    }

    /// Removes an entry's reference to the text, which is dropped with the last one.
    pub(crate) fn release(&mut self, number: ReasonNumber) {
        let Some(at) = number.place() else { return };
        let Some(slot) = self.slots.get_mut(at) else { return };
        let Some((text, count)) = slot else { return };
        *count -= 1;
        if *count == 0 {
            self.bytes -= text.len();
            self.numbers.remove(text);
            *slot = None;
            self.free.push(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shared_and_forgotten() {
        let mut reasons = Reasons::default();
        let (a, b) = (reasons.intern("connection refused"), reasons.intern("connection refused"));
        assert!(a == b && a.is_some());
        let other = reasons.intern("timed out");
        reasons.release(a);
        assert_eq!(reasons.text(b), Some("connection refused"));
        reasons.release(b);
        assert_eq!((reasons.text(b), reasons.text(other)), (None, Some("timed out")));
        assert_eq!((reasons.bytes, reasons.numbers.len()), ("timed out".len(), 1));
        assert_eq!(reasons.intern("its place is used again"), a);
        reasons.release(other);
        reasons.release(a);
        reasons.release(ReasonNumber::default());
        assert_eq!((reasons.bytes, reasons.numbers.len()), (0, 0));
    }

    #[test]
    fn there_is_room_for_so_much_and_no_more() {
        let mut reasons = Reasons { bytes: REASONS_BYTES_MAX - 4, ..Reasons::default() };
        assert!(!reasons.intern("fives").is_some() && reasons.intern("four").is_some());
        assert!(!reasons.intern("").is_some() && !reasons.intern("x").is_some());
    }
}
