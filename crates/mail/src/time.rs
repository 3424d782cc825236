//! Time as values. Code below floor 3 reads no clock: it gets these values as arguments.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Monotonic time in microseconds since an arbitrary start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

impl Mono {
    /// A time that never comes.
    pub const NEVER: Mono = Mono(u64::MAX);

    /// The time from `earlier` to `self`, zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Mono) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Mono {
    type Output = Mono;

    /// Saturates at [`Mono::NEVER`].
    fn add(self, d: Duration) -> Mono {
        Mono(self.0.saturating_add(u64::try_from(d.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Mono {
    type Output = Mono;

    /// Saturates at zero.
    fn sub(self, d: Duration) -> Mono {
        Mono(self.0.saturating_sub(u64::try_from(d.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// Wall-clock time: milliseconds since 1970-01-01T00:00:00Z. It may jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub u64);

impl Wall {
    /// The time `later` after `self`, saturating.
    #[must_use]
    pub fn after(self, later: Duration) -> Wall {
        Wall(self.0.saturating_add(u64::try_from(later.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to `self`, zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Wall) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Civil date and time in UTC.
    #[must_use]
    pub fn civil(self) -> Civil {
        Civil::from_unix_ms(self.0)
    }

    /// RFC 5322 §3.3 date-time, always in UTC: `Sat, 21 Nov 2026 10:11:12 +0000`.
    #[must_use]
    pub fn rfc5322(self) -> String {
        let mut out = Vec::with_capacity(32);
        self.write_rfc5322(&mut out);
        out.into_iter().map(char::from).collect()
    }

    /// Appends the text of [`Wall::rfc5322`]; faster, for trace fields.
    pub fn write_rfc5322(self, out: &mut Vec<u8>) {
        let c = self.civil();
        out.extend_from_slice(DAYS[c.weekday as usize].as_bytes());
        out.extend_from_slice(b", ");
        let day = two_digits(c.day);
        out.extend_from_slice(if c.day < 10 { &day[1..] } else { &day });
        out.push(b' ');
        out.extend_from_slice(MONTHS[c.month as usize - 1].as_bytes());
        out.push(b' ');
        write_year(out, c.year);
        let [[h1, h2], [m1, m2], [s1, s2]] = [c.hour, c.minute, c.second].map(two_digits);
        out.extend_from_slice(&[b' ', h1, h2, b':', m1, m2, b':', s1, s2]);
        out.extend_from_slice(b" +0000");
    }

    /// Appends the printed form: RFC 3339 in UTC with milliseconds. Faster, for events.
    pub fn write_rfc3339(self, out: &mut Vec<u8>) {
        let c = self.civil();
        write_year(out, c.year);
        let [[m1, m2], [d1, d2]] = [c.month, c.day].map(two_digits);
        let [[h1, h2], [i1, i2], [s1, s2]] = [c.hour, c.minute, c.second].map(two_digits);
        let ms = c.millisecond;
        let [f1, f2, f3] = [ms / 100, ms / 10, ms].map(|n| b'0' + (n % 10) as u8);
        out.extend_from_slice(&[
            b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', i1, i2, b':', s1, s2, b'.', f1, f2, f3,
            b'Z',
        ]);
    }

    /// Appends `Nov 29 09:51:20`, the timestamp of RFC 3164 §4.1.2, in UTC.
    pub fn write_syslog(self, out: &mut Vec<u8>) {
        let c = self.civil();
        out.extend_from_slice(MONTHS[(c.month - 1) as usize % 12].as_bytes());
        let [d1, d2] = two_digits(c.day);
        let [[h1, h2], [i1, i2], [s1, s2]] = [c.hour, c.minute, c.second].map(two_digits);
        let d1 = if d1 == b'0' { b' ' } else { d1 };
        out.extend_from_slice(&[b' ', d1, d2, b' ', h1, h2, b':', i1, i2, b':', s1, s2]);
    }
}

impl Wall {
    /// Parses RFC 3339, for example `2027-01-01T00:00:00Z` or `2027-01-01T00:00:00+01:00`; no time before 1970.
    #[must_use]
    pub fn parse_rfc3339(text: &str) -> Option<Wall> {
        let (date, time) = text.split_once(['T', 't', ' '])?;
        let mut date = date.split('-').zip([4, 2, 2]).map(|(text, digits)| number(text, digits));
        let (year, month, day) = (date.next()??, date.next()??, date.next()??);
        let at = time.find(['Z', 'z', '+', '-'])?;
        let (time, zone) = time.split_at(at);
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let mut time = time.split(':').map(|text| number(text, 2));
        let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
        let is_right = time.next().is_none()
            && fraction.bytes().all(|byte| byte.is_ascii_digit())
            && text.len() <= 40;
        let there = Wall::of_civil((year, month, day), (hour, minute, second))?;
        let wall = Wall(there.0.checked_add_signed(-offset(zone)? * 1_000)?);
        is_right.then_some(wall)
    }

    /// A date (year, month, day) and a time (hour, minute, second) in UTC, from 1970 to 9999. `None` if invalid.
    #[must_use]
    pub fn of_civil(
        (year, month, day): (u64, u64, u64),
        (hour, minute, second): (u64, u64, u64),
    ) -> Option<Wall> {
        let is_right = (1970..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !is_right {
            return None;
        }
        let seconds =
            days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
        let wall = Wall(seconds * 1_000);
        // Rejects dates like 30 February.
        (wall.civil().day == day).then_some(wall)
    }
}

/// Seconds before UTC: `Z`, `+01:00`, `-08:00`.
fn offset(zone: &str) -> Option<i64> {
    let (is_behind, rest) = match zone.as_bytes().first()? {
        b'Z' | b'z' => return (zone.len() == 1).then_some(0),
        first => (*first == b'-', zone.get(1..)?),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    let seconds = i64::try_from(hours * 3_600 + minutes * 60).ok()?;
    (hours < 24 && minutes < 60).then_some(if is_behind { -seconds } else { seconds })
}

fn number(text: &str, digits: usize) -> Option<u64> {
    let is_one = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_one.then(|| text.parse().ok())?
}

/// The reverse of [`Civil`], for years from 1970 on.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = year.saturating_sub(u64::from(month <= 2));
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day;
    // From 0000-03-01 to 1970-01-01 there are 719,468 days.
    (year * 365 + year / 4 - year / 100 + year / 400 + day_of_year).saturating_sub(719_469)
}

/// At least four digits.
fn write_year(out: &mut Vec<u8>, year: u64) {
    if year < 10_000 {
        out.extend_from_slice(&two_digits(year / 100));
        out.extend_from_slice(&two_digits(year % 100));
    } else {
        out.extend_from_slice(year.to_string().as_bytes());
    }
}

fn two_digits(n: u64) -> [u8; 2] {
    [b'0' + (n / 10 % 10) as u8, b'0' + (n % 10) as u8]
}

/// RFC 3339 in UTC with milliseconds: `2026-11-21T10:11:12.345Z`.
impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::with_capacity(24);
        self.write_rfc3339(&mut out);
        f.write_str(std::str::from_utf8(&out).unwrap_or_default())
    }
}

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A broken-down UTC time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Full year, for example 2026.
    pub year: u64,
    /// 1 to 12.
    pub month: u64,
    /// 1 to 31.
    pub day: u64,
    /// 0 to 23.
    pub hour: u64,
    /// 0 to 59.
    pub minute: u64,
    /// 0 to 59: Unix time has no leap second.
    pub second: u64,
    /// 0 to 999.
    pub millisecond: u64,
    /// 0 is Sunday.
    pub weekday: u64,
}

impl Civil {
    fn from_unix_ms(ms: u64) -> Civil {
        let days = ms / 86_400_000;
        let in_day = ms % 86_400_000;
        // Days since 0000-03-01, in 400-year eras: leap days fall at the end of each era's years.
        let z = days + 719_468;
        let era = z / 146_097;
        let day_of_era = z % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Civil {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: in_day / 3_600_000,
            minute: in_day / 60_000 % 60,
            second: in_day / 1_000 % 60,
            millisecond: in_day % 1_000,
            weekday: (days + 4) % 7,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counts years and months from the epoch: slow, and as the calendar is taught.
    fn calendar(mut days: u64) -> (u64, u64, u64) {
        let is_leap =
            |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
        let mut year = 1970;
        while days >= 365 + u64::from(is_leap(year)) {
            days -= 365 + u64::from(is_leap(year));
            year += 1;
        }
        let february = 28 + u64::from(is_leap(year));
        for (month, length) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
            if days < length {
                return (year, month, days + 1);
            }
            days -= length;
        }
        unreachable!("a year has no more days")
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for text in [
            "1970-01-01T00:00:00.000Z",
            "2024-02-29T23:59:59.000Z",
            "2027-01-01T00:00:00.000Z",
            "9999-12-31T01:02:03.000Z",
        ] {
            assert_eq!(Wall::parse_rfc3339(text).unwrap().to_string(), text);
        }
        for (text, utc) in [
            ("2027-01-01T00:30:00+01:00", "2026-12-31T23:30:00.000Z"),
            ("2026-12-31 16:00:00.5-08:30", "2027-01-01T00:30:00.000Z"),
        ] {
            assert_eq!(Wall::parse_rfc3339(text).unwrap().to_string(), utc);
        }
        for bad in [
            "",
            "2027",
            "2027-01-01",
            "2027-01-01T00:00:00",
            "2027-02-29T00:00:00Z",
            "2027-13-01T00:00:00Z",
            "2027-1-1T0:0:0Z",
            "1969-12-31T00:00:00Z",
            "2027-01-01T24:00:00Z",
            "2027-01-01T00:00:00+1",
            "2027-01-01T00:00:00Zz",
            "1970-01-01T00:00:00+01:00",
        ] {
            assert_eq!(Wall::parse_rfc3339(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn civil_dates_are_those_of_the_calendar(ms in 0..32_000_000_000_000u64) {
            let civil = Wall(ms).civil();
            let days = ms / 86_400_000;
            prop_assert_eq!((civil.year, civil.month, civil.day), calendar(days));
            // 1970-01-01 was a Thursday.
            prop_assert_eq!(civil.weekday, (days + 4) % 7);
            let in_day = ((civil.hour * 60 + civil.minute) * 60 + civil.second) * 1_000;
            prop_assert_eq!(in_day + civil.millisecond, ms % 86_400_000);
        }

        #[test]
        fn any_moment_can_be_written(ms: u64) {
            let text = Wall(ms).rfc5322();
            prop_assert!(text.ends_with(" +0000") && text.is_ascii());
            prop_assert!(Wall(ms).to_string().ends_with('Z'));
        }
    }

    #[test]
    fn every_day_around_the_turns_of_centuries() {
        for day in (10_950..11_330).chain(47_400..47_900).chain(156_900..157_200) {
            let civil = Wall(day * 86_400_000).civil();
            assert_eq!((civil.year, civil.month, civil.day), calendar(day), "day {day}");
        }
    }

    #[test]
    fn dates_read_as_rfc_5322_and_rfc_3339() {
        assert_eq!(Wall(0).rfc5322(), "Thu, 1 Jan 1970 00:00:00 +0000");
        assert_eq!(Wall(1_795_255_872_345).to_string(), "2026-11-21T10:11:12.345Z");
        assert_eq!(Wall(951_782_400_000).rfc5322(), "Tue, 29 Feb 2000 00:00:00 +0000");
        assert_eq!(Wall(4_107_542_399_000).to_string(), "2100-02-28T23:59:59.000Z");
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Mono(5) - Duration::from_secs(1), Mono(0));
        assert_eq!(Mono::NEVER + Duration::from_secs(1), Mono::NEVER);
        assert_eq!(Mono(1).since(Mono(2)), Duration::ZERO);
    }
}
