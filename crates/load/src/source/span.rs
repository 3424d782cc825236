//! A number, or a range that numbers are drawn from.

use crate::random::Random;
use std::fmt;
use std::str::FromStr;

/// From the least to the most, both of them included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

impl Span {
    /// Always this number.
    #[must_use]
    pub const fn of(number: u64) -> Span {
        Span { min: number, max: number }
    }

    /// Whether there is but one number in it.
    #[must_use]
    pub const fn is_one(self) -> bool {
        self.min == self.max
    }

    /// A number from it, each as likely as the others.
    pub fn draw(self, random: &mut Random) -> u64 {
        if self.is_one() {
            return self.min;
        }
        self.min + random.below((self.max - self.min).saturating_add(1))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_one() {
            return write!(f, "{}", self.min);
        }
        write!(f, "{}..{}", self.min, self.max)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let wrong = || format!("{text:?} is neither a number nor a range like 0..10k");
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let span =
            Span { min: number(min).ok_or_else(wrong)?, max: number(max).ok_or_else(wrong)? };
        if span.min > span.max {
            return Err(format!("{text:?} ends before it begins"));
        }
        Ok(span)
    }
}

/// A number; `k` is 1,024 of them, as postal counts.
fn number(text: &str) -> Option<u64> {
    match text.strip_suffix('k') {
        Some(thousands) => thousands.parse::<u64>().ok()?.checked_mul(1024),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::Span;
    use crate::random::Random;

    #[test]
    fn a_range_is_read_as_it_is_shown() {
        for (text, min, max, shown) in
            [("400", 400, 400, "400"), ("0..10k", 0, 10_240, "0..10240"), ("1..3", 1, 3, "1..3")]
        {
            let span: Span = text.parse().expect("good");
            assert_eq!((span, span.to_string()), (Span { min, max }, shown.to_owned()));
        }
        for bad in ["", "x", "3..1", "1..", "..2", "-1", "1..2..3", "99999999999999999999k"] {
            let error = bad.parse::<Span>().expect_err(bad);
            assert!(error.contains(bad), "{error}");
        }
    }

    #[test]
    fn both_ends_are_drawn_and_nothing_beyond() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> =
            (0..1000).map(|_| Span { min: 1, max: 3 }.draw(&mut random)).collect();
        for number in 1..=3 {
            let count = drawn.iter().filter(|&&drawn| drawn == number).count();
            assert!((250..420).contains(&count), "{number}: {count}");
        }
        assert!(drawn.iter().all(|number| (1..=3).contains(number)));
        assert_eq!(Span::of(7).draw(&mut random), 7);
    }
}
