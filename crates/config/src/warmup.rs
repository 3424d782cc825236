//! Warm-up of a new source.

use mail::Wall;
use std::fmt;

/// Days that `per_day` may have.
pub const WARMUP_DAYS_MAX: usize = 366;

const DAY_MS: u64 = 86_400_000;
const MILLION: f64 = 1_000_000.0;

/// `warmup` of a `[[source]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warmup {
    /// The first day on which it sends, in UTC: days since 1970-01-01.
    pub start_day: u32,
    /// Recipients at one provider on its first day there, its second, and so on; at least one day, and no zeros.
    pub per_day: Vec<u32>,
    /// A day is repeated on which more than so many of a million were held back.
    pub hold_above_ppm: u32,
    /// Line of the file, from 1.
    pub line: u32,
}

impl Warmup {
    /// Start of the first day.
    #[must_use]
    pub fn start(&self) -> Wall {
        Wall(u64::from(self.start_day) * DAY_MS)
    }

    /// The recipients of a day, by its number from 0; `None`: it is warm by then.
    #[must_use]
    pub fn count(&self, stage: u32) -> Option<u32> {
        self.per_day.get(usize::try_from(stage).ok()?).copied()
    }

    /// Returns true if a day must be repeated, given the numbers of tried recipients and of deferred or blocked ones.
    #[must_use]
    pub fn is_held(&self, tried: u32, held: u32) -> bool {
        u64::from(held) * 1_000_000 > u64::from(tried) * u64::from(self.hold_above_ppm)
    }
}

/// `hold_above` in millionths.
pub(crate) fn parts_per_million(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * MILLION).round() as u32
}

/// The number of a day that is written `2026-12-01`.
pub(crate) fn parse_day(text: &str) -> Option<u32> {
    let at = Wall::parse_rfc3339(&format!("{text}T00:00:00Z")).filter(|_| text.len() == 10)?;
    u32::try_from(at.0 / DAY_MS).ok()
}

/// For people: `50, 100, 500 recipients a day and provider from 2026-12-01 on, …`.
impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.per_day.iter().map(ToString::to_string).collect();
        let start = self.start().to_string();
        let start = start.get(..10).unwrap_or(&start);
        let percent = f64::from(self.hold_above_ppm) / 10_000.0;
        let counts = counts.join(", ");
        write!(f, "{counts} recipients a day and provider, from {start} on; ")?;
        write!(f, "a day is repeated with more than {percent} % held back")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_as_they_are_written() {
        assert_eq!(parse_day("1970-01-02"), Some(1));
        assert_eq!(parse_day("2026-12-01"), Some(20_788));
        for bad in
            ["", "2026-12-1", "2026-13-01", "2026-02-30", "1.12.2026", "2026-12-01Z", "26-12-01"]
        {
            assert_eq!(parse_day(bad), None, "{bad}");
        }
    }

    #[test]
    fn more_than_the_share_is_held_and_the_share_itself_is_not() {
        let plan = |share| Warmup {
            start_day: 20_788,
            per_day: vec![50, 100],
            hold_above_ppm: parts_per_million(share),
            line: 1,
        };
        assert!(!plan(0.05).is_held(100, 5) && plan(0.05).is_held(100, 6));
        assert!(plan(0.0).is_held(1_000_000, 1) && !plan(0.0).is_held(0, 0));
        assert!(!plan(1.0).is_held(u32::MAX, u32::MAX));
        assert_eq!((plan(0.05).count(1), plan(0.05).count(2)), (Some(100), None));
        assert_eq!(
            plan(0.05).to_string(),
            "50, 100 recipients a day and provider, from 2026-12-01 on; a day is repeated with more than 5 % \
             held back"
        );
    }
}
