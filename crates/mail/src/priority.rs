//! How urgent a message is (RFC 6710).

/// From -9 to 9; 0 is what messages have that say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(i8);

impl Priority {
    /// Normal.
    pub const NORMAL: Priority = Priority(0);

    /// `None`: there is no such.
    #[must_use]
    pub fn new(value: i8) -> Option<Priority> {
        (-9..=9).contains(&value).then_some(Priority(value))
    }

    /// As RFC 6710 §6 writes it: a digit, with a minus before it perhaps.
    #[must_use]
    pub fn parse(text: &str) -> Option<Priority> {
        let (is_below, digit) = match text.strip_prefix('-') {
            Some(digit) => (true, digit),
            None => (false, text),
        };
        let [digit @ b'0'..=b'9'] = digit.as_bytes() else { return None };
        let value = (digit - b'0').cast_signed();
        match (is_below, value) {
            (true, 0) => None,
            (true, value) => Some(Priority(-value)),
            (false, value) => Some(Priority(value)),
        }
    }

    /// As a number from -9 to 9.
    #[must_use]
    pub fn value(self) -> i8 {
        self.0
    }

    /// Which of ten classes it is in, 0 being the least urgent and 4 that of normal mail. What is above normal
    /// goes before it and what is below behind it, whichever it is.
    #[must_use]
    pub fn class(self) -> u8 {
        let steps = self.0.unsigned_abs().div_ceil(2);
        if self.0 > 0 { 4 + steps } else { 4_u8.saturating_sub(steps) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for value in -9..=9 {
            assert_eq!(Priority::parse(&value.to_string()), Priority::new(value));
        }
        for bad in ["", "-", "10", "-10", "+1", "01", "-0", "1 ", "high"] {
            assert_eq!(Priority::parse(bad), None, "{bad}");
        }
        assert_eq!((Priority::new(10), Priority::new(-10)), (None, None));
    }

    #[test]
    fn ten_classes_keep_the_order() {
        let classes: Vec<u8> = (-9..=9).map(|value| Priority(value).class()).collect();
        assert_eq!(classes, [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9]);
    }
}
