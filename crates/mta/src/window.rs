//! Sending windows: `mon-fri 09:00-17:00 Europe/Berlin`, or several with commas between.
//!
//! Hours are local time. If clocks are set forward over the beginning or the end of a window, it moves with them; an
//! hour that occurs twice means the first. The rules of time zones are part of the program (jiff's copy of the IANA
//! database).

use jiff::Timestamp;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use mail::Wall;

/// Maximum length of the text in bytes.
pub const WINDOW_BYTES_MAX: usize = 256;
/// Maximum number of windows together.
pub const WINDOWS_MAX: usize = 16;

/// Number of days searched for the next window: each opens at least once a week.
const DAYS_AHEAD: usize = 9;

const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

/// The hours in which a message may be sent.
#[derive(Clone, Debug)]
pub struct Window(Vec<Span>);

/// Some hours on some days.
#[derive(Clone, Debug)]
struct Span {
    /// The [`DAYS`] on which they begin.
    days: [bool; 7],
    from: Time,
    /// `None`: midnight.
    to: Option<Time>,
    zone: TimeZone,
}

/// State of a window: open or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    pub is_open: bool,
    /// End of this state.
    pub until: Wall,
}

impl Window {
    /// Parses windows with commas between. Days may be omitted (all), and so may the time zone, except in the last
    /// window: it is that of the next window. Hours that end before they begin end on the next day.
    #[must_use]
    pub fn parse(text: &str) -> Option<Window> {
        if text.len() > WINDOW_BYTES_MAX || text.split(',').count() > WINDOWS_MAX {
            return None;
        }
        let (mut spans, mut zone) = (Vec::new(), None);
        for part in text.rsplit(',') {
            spans.push(Span::parse(part, &mut zone)?);
        }
        Some(Window(spans))
    }

    /// The state at `now`.
    #[must_use]
    pub fn at(&self, now: Wall) -> Option<Opening> {
        let mut times: Vec<(Wall, Wall)> = Vec::new();
        for span in &self.0 {
            times.extend(span.times(now)?.into_iter().filter(|(_, end)| *end > now));
        }
        times.sort_unstable();
        let (first, mut until) = *times.first()?;
        if first > now {
            return Some(Opening { is_open: false, until: first });
        }
        // Overlapping and adjacent windows are joined.
        for (begin, end) in times {
            if begin <= until {
                until = until.max(end);
            }
        }
        Some(Opening { is_open: true, until })
    }
}

impl Span {
    /// `zone`: the zone of the next window, replaced by its own.
    fn parse(text: &str, zone: &mut Option<TimeZone>) -> Option<Span> {
        let mut words = text.split_ascii_whitespace().peekable();
        let is_days = |word: &&str| word.starts_with(|first: char| first.is_ascii_alphabetic());
        let days = match words.next_if(is_days) {
            Some(days) => days_of(days)?,
            None => [true; 7],
        };
        let (from, to) = words.next()?.split_once('-')?;
        let from = time_of(from)?;
        let to = if to == "24:00" { None } else { Some(time_of(to)?) };
        if let Some(name) = words.next() {
            // A name that is not in the database, like a POSIX rule, is invalid.
            *zone = Some(TimeZone::get(name).ok()?);
        }
        let is_right = words.next().is_none() && to != Some(from);
        Some(Span { days, from, to, zone: zone.clone().filter(|_| is_right)? })
    }

    /// Its times from the day before `now`, in order.
    fn times(&self, now: Wall) -> Option<Vec<(Wall, Wall)>> {
        let now = Timestamp::from_millisecond(i64::try_from(now.0).ok()?).ok()?;
        let mut day = self.zone.to_datetime(now).date().yesterday().ok()?;
        let mut times = Vec::with_capacity(DAYS_AHEAD);
        for _ in 0..DAYS_AHEAD {
            let next = day.tomorrow().ok()?;
            if self.days[usize::try_from(day.weekday().to_monday_zero_offset()).ok()?] {
                let begin = self.wall(day, self.from)?;
                let end = match self.to {
                    None => self.wall(next, Time::midnight())?,
                    Some(to) if to > self.from => self.wall(day, to)?,
                    Some(to) => self.wall(next, to)?,
                };
                times.extend((begin < end).then_some((begin, end)));
            }
            day = next;
        }
        Some(times)
    }

    fn wall(&self, day: Date, time: Time) -> Option<Wall> {
        let there = self.zone.to_ambiguous_timestamp(day.to_datetime(time)).compatible().ok()?;
        Some(Wall(u64::try_from(there.as_millisecond()).ok()?))
    }
}

/// `mon`, or `mon-fri`; also over the end of the week.
fn days_of(text: &str) -> Option<[bool; 7]> {
    let day = |text: &str| DAYS.iter().position(|(name, _)| name.eq_ignore_ascii_case(text));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (day(first)?, day(last)?);
    let mut days = [false; 7];
    let count = (last + 7 - first) % 7;
    (0..=count).for_each(|ahead| days[(first + ahead) % 7] = true);
    Some(days)
}

/// `09:00`.
fn time_of(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str| {
        let is_one = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_one.then(|| text.parse::<i8>().ok())?
    };
    Time::new(number(hour)?, number(minute)?, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(text: &str) -> Wall {
        Wall::parse_rfc3339(text).unwrap()
    }

    /// The state at each of these times.
    fn shown(window: &str, times: &[(&str, bool, &str)]) {
        let window = Window::parse(window).unwrap();
        for (now, is_open, until) in times {
            let opening = window.at(wall(now)).unwrap();
            assert_eq!(opening, Opening { is_open: *is_open, until: wall(until) }, "{now}");
        }
    }

    #[test]
    fn hours_are_of_their_days_and_to_the_second() {
        shown(
            "mon-fri 09:00-17:00 Europe/Berlin",
            &[
                ("2026-11-24T07:59:59Z", false, "2026-11-24T09:00:00+01:00"),
                ("2026-11-24T08:00:00Z", true, "2026-11-24T17:00:00+01:00"),
                ("2026-11-24T15:59:59Z", true, "2026-11-24T16:00:00Z"),
                ("2026-11-24T16:00:00Z", false, "2026-11-25T08:00:00Z"),
                ("2026-11-27T16:00:00Z", false, "2026-11-30T08:00:00Z"),
            ],
        );
    }

    #[test]
    fn hours_follow_the_clocks_over_a_change() {
        // In Berlin 02:00 becomes 03:00 on 2027-03-28, and 03:00 becomes 02:00 on 2026-10-25.
        shown(
            "09:00-17:00 Europe/Berlin",
            &[
                ("2027-03-27T16:00:00Z", false, "2027-03-28T07:00:00Z"),
                ("2027-03-28T07:00:00Z", true, "2027-03-28T15:00:00Z"),
                ("2026-10-24T15:00:00Z", false, "2026-10-25T08:00:00Z"),
                ("2026-10-25T07:59:59Z", false, "2026-10-25T08:00:00Z"),
            ],
        );
        // A nonexistent time means the first existing one after it; a time that occurs twice means the first.
        shown(
            "02:30-04:00 Europe/Berlin",
            &[
                ("2027-03-28T00:00:00Z", false, "2027-03-28T01:30:00Z"),
                ("2027-03-28T01:30:00Z", true, "2027-03-28T02:00:00Z"),
                ("2026-10-25T00:00:00Z", false, "2026-10-25T00:30:00Z"),
                ("2026-10-25T00:30:00Z", true, "2026-10-25T03:00:00Z"),
            ],
        );
        // A window over the whole night is an hour shorter, or longer.
        shown(
            "22:00-06:00 Europe/Berlin",
            &[
                ("2027-03-27T21:00:00Z", true, "2027-03-28T04:00:00Z"),
                ("2026-10-24T20:00:00Z", true, "2026-10-25T05:00:00Z"),
            ],
        );
    }

    #[test]
    fn several_windows_are_one_where_they_touch() {
        shown(
            "mon 22:00-24:00, tue 00:00-02:00, sat-sun 10:00-11:00 UTC",
            &[
                ("2026-11-23T22:30:00Z", true, "2026-11-24T02:00:00Z"),
                ("2026-11-24T02:00:00Z", false, "2026-11-28T10:00:00Z"),
                ("2026-11-29T10:59:59Z", true, "2026-11-29T11:00:00Z"),
            ],
        );
        shown(
            "09:00-10:00 America/New_York, 09:00-10:00 Asia/Kolkata",
            &[
                ("2026-11-24T00:00:00Z", false, "2026-11-24T03:30:00Z"),
                ("2026-11-24T12:00:00Z", false, "2026-11-24T14:00:00Z"),
            ],
        );
        let always = Window::parse("00:00-24:00 UTC").unwrap();
        assert!(always.at(wall("2026-11-24T12:00:00Z")).unwrap().is_open);
    }

    #[test]
    fn days_go_over_the_end_of_the_week() {
        shown(
            "SAT-mon 23:00-01:00 UTC",
            &[
                ("2026-11-24T00:30:00Z", true, "2026-11-24T01:00:00Z"),
                ("2026-11-24T01:00:00Z", false, "2026-11-28T23:00:00Z"),
            ],
        );
    }

    #[test]
    fn what_is_no_window_is_not_read() {
        let long = format!("09:00-10:00 UTC{}", " ".repeat(WINDOW_BYTES_MAX));
        let many = vec!["09:00-10:00"; WINDOWS_MAX + 1].join(",") + " UTC";
        for bad in [
            "",
            ",",
            "mon-fri",
            "09:00-17:00",
            "09:00-17:00 UTC, 18:00-19:00",
            "09:00-09:00 UTC",
            "9:00-17:00 UTC",
            "09:00-24:01 UTC",
            "24:00-09:00 UTC",
            "09:60-10:00 UTC",
            "09:00:00-10:00 UTC",
            "mon-xyz 09:00-17:00 UTC",
            "monday 09:00-17:00 UTC",
            "mon 09:00-17:00 Atlantis/City",
            "mon 09:00-17:00 CET-1CEST,M3.5.0,M10.5.0/3",
            "mon 09:00-17:00 UTC UTC",
            "09:00-17:00 ../../etc/passwd",
            &long,
            &many,
        ] {
            assert!(Window::parse(bad).is_none(), "{bad}");
        }
        let most = vec!["09:00-10:00"; WINDOWS_MAX].join(",") + " UTC";
        assert!(Window::parse(&most).is_some());
    }
}
