//! Parses the times in header fields (RFC 5322 §3.3, §4.3).

use crate::Wall;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl Wall {
    /// Parses the value of a Date field, for example `Tue, 1 Dec 2026 09:00:00 +0100`, without comments; no date before
    /// 1970.
    #[must_use]
    pub fn parse_rfc5322(text: &str) -> Option<Wall> {
        let text = match text.split_once(',') {
            Some((day, rest)) => {
                let day = day.trim();
                DAYS.iter().find(|known| known.eq_ignore_ascii_case(day))?;
                rest
            }
            None => text,
        };
        let mut words = text.split_ascii_whitespace();
        let day = digits(words.next()?, 1..=2)?;
        let month = words.next()?;
        let month = MONTHS.iter().position(|known| known.eq_ignore_ascii_case(month))? as u64 + 1;
        let year = digits(words.next()?, 4..=4)?;
        let mut time = words.next()?.split(':');
        let (hour, minute) = (digits(time.next()?, 2..=2)?, digits(time.next()?, 2..=2)?);
        let second = time.next().map_or(Some(0), |second| digits(second, 2..=2))?;
        let offset = offset(words.next()?)?;
        if time.next().is_some() || words.next().is_some() {
            return None;
        }
        let there = Wall::of_civil((year, month, day), (hour, minute, second))?;
        Some(Wall(there.0.checked_add_signed(-offset * 60_000)?))
    }
}

/// Minutes before UTC.
fn offset(zone: &str) -> Option<i64> {
    if ["GMT", "UT", "Z"].iter().any(|known| known.eq_ignore_ascii_case(zone)) {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let both = i64::try_from(digits(rest, 4..=4)?).ok()?;
    let (hours, minutes) = (both / 100, both % 100);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

fn digits(text: &str, count: std::ops::RangeInclusive<usize>) -> Option<u64> {
    let is_one = count.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_one.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_they_are_written() {
        let at = Wall::parse_rfc3339("2026-12-01T08:00:05Z").unwrap();
        assert_eq!(Wall::parse_rfc5322(&at.rfc5322()), Some(at));
        for same in [
            "Tue, 1 Dec 2026 09:00:05 +0100",
            "01 dec 2026 08:00:05 GMT",
            "tue ,  01 Dec 2026 03:30:05 -0430",
            "1 Dec 2026 08:00:05 +0000",
        ] {
            assert_eq!(Wall::parse_rfc5322(same), Some(at), "{same}");
        }
        let minute = Wall::parse_rfc5322("1 Dec 2026 08:00 Z").unwrap();
        assert_eq!(minute.0 + 5_000, at.0);
    }

    #[test]
    fn what_is_no_date_is_not_read() {
        for bad in [
            "",
            "tomorrow",
            "Xyz, 1 Dec 2026 08:00:00 +0000",
            "1 Dec 26 08:00:00 +0000",
            "31 Nov 2026 08:00:00 +0000",
            "1 Dec 2026 24:00:00 +0000",
            "1 Dec 2026 08:00:00",
            "1 Dec 2026 08:00:00 CET",
            "1 Dec 2026 08:00:00 +100",
            "1 Dec 2026 08:00:00 +0160",
            "1 Dec 2026 08:00:00 +0000 x",
            "1 Dec 2026 08:00:00:00 +0000",
            "1 Jan 1970 00:00:00 +0100",
            "1 Dec 2026 08:00:00 \u{20ac}",
        ] {
            assert_eq!(Wall::parse_rfc5322(bad), None, "{bad}");
        }
    }
}
