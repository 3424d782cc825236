//! Sets of bytes, as matched by a bracket expression.

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ByteSet([u64; 4]);

/// Returns true if a set has this byte.
type Has = fn(&u8) -> bool;

/// Names of sets: `[:alpha:]`.
const NAMED: [(&str, Has); 14] = [
    ("alnum", u8::is_ascii_alphanumeric),
    ("alpha", u8::is_ascii_alphabetic),
    ("ascii", u8::is_ascii),
    ("blank", |byte| matches!(byte, b' ' | b'\t')),
    ("cntrl", u8::is_ascii_control),
    ("digit", u8::is_ascii_digit),
    ("graph", u8::is_ascii_graphic),
    ("lower", u8::is_ascii_lowercase),
    ("print", |byte| matches!(byte, b' '..=b'~')),
    ("punct", u8::is_ascii_punctuation),
    ("space", |byte| crate::lines::is_space(*byte)),
    ("upper", u8::is_ascii_uppercase),
    ("word", |byte| byte.is_ascii_alphanumeric() || *byte == b'_'),
    ("xdigit", u8::is_ascii_hexdigit),
];

impl ByteSet {
    pub(super) fn of(has: impl Fn(&u8) -> bool) -> ByteSet {
        let mut set = ByteSet::default();
        (0..=u8::MAX).filter(has).for_each(|byte| set.insert(byte));
        set
    }

    /// The set of a name. Without regard to case, upper and lower are all letters.
    pub(super) fn named(name: &[u8], ignore_case: bool) -> Option<ByteSet> {
        let name = match name {
            b"upper" | b"lower" if ignore_case => b"alpha",
            _ => name,
        };
        let (_, has) = NAMED.iter().find(|(known, _)| known.as_bytes() == name)?;
        Some(ByteSet::of(has))
    }

    fn has(self, byte: u8) -> bool {
        let [a, b, c, d] = self.0;
        let word = [a, b, c, d].into_iter().nth(usize::from(byte >> 6)).unwrap_or_default();
        word >> (byte & 63) & 1 == 1
    }

    pub(super) fn insert(&mut self, byte: u8) {
        if let Some(word) = self.0.get_mut(usize::from(byte >> 6)) {
            *word |= 1 << (byte & 63);
        }
    }

    pub(super) fn remove(&mut self, byte: u8) {
        if let Some(word) = self.0.get_mut(usize::from(byte >> 6)) {
            *word &= !(1 << (byte & 63));
        }
    }

    pub(super) fn add(&mut self, other: ByteSet) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    pub(super) fn inverse(self) -> ByteSet {
        ByteSet(self.0.map(|word| !word))
    }

    /// With each letter its other case too.
    pub(super) fn fold_case(&mut self) {
        for lower in b'a'..=b'z' {
            let upper = lower.to_ascii_uppercase();
            if self.has(lower) || self.has(upper) {
                self.insert(lower);
                self.insert(upper);
            }
        }
    }

    /// Runs of bytes that it has: first and last of each.
    pub(super) fn runs(self) -> Vec<(u8, u8)> {
        let mut runs: Vec<(u8, u8)> = Vec::new();
        for byte in (0..=u8::MAX).filter(|byte| self.has(*byte)) {
            match runs.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(byte) => *last = byte,
                _ => runs.push((byte, byte)),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_told_in_runs() {
        let mut set = ByteSet::of(|byte| matches!(byte, b'b'..=b'd' | b'x' | 0 | 255));
        assert_eq!(set.runs(), [(0, 0), (b'b', b'd'), (b'x', b'x'), (255, 255)]);
        set.fold_case();
        assert!(set.has(b'B') && !set.has(b'A'));
        assert_eq!(ByteSet::default().inverse().runs(), [(0, 255)]);
        assert_eq!(ByteSet::named(b"upper", true), ByteSet::named(b"alpha", false));
        assert_eq!(ByteSet::named(b"none", false), None);
    }
}
