//! UTCTime (X.680 §47): two digits for a year, and perhaps no seconds.

use crate::ber::{Element, Tag, Writer};
use crate::decode::{DecodeError, Fault, InField};
use mail::Wall;

/// The first year of the two-digit range (RFC 2156 §3.3.5: 1980 to 2079).
const FIRST_YEAR: u64 = 1980;

/// A time and the zone that it was given in, which a gateway keeps (RFC 2156 §3.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtcTime {
    /// Time in whole seconds.
    pub wall: Wall,
    /// Minutes that the zone is ahead of UTC.
    pub ahead_minutes: i16,
}

impl From<Wall> for UtcTime {
    fn from(wall: Wall) -> UtcTime {
        UtcTime { wall: Wall(wall.0 / 1_000 * 1_000), ahead_minutes: 0 }
    }
}

impl UtcTime {
    /// Reads `YYMMDDhhmm[ss]` and `Z` or `+hhmm` or `-hhmm`. A year of four digits (GeneralizedTime) is taken, too.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<UtcTime> {
        let zone = text.iter().position(|octet| !octet.is_ascii_digit())?;
        let (digits, zone) = text.split_at_checked(zone)?;
        let (year, rest) = match digits.len() {
            10 | 12 => {
                let (year, rest) = digits.split_at_checked(2)?;
                let year = number(year)?;
                (if year + 1900 < FIRST_YEAR { year + 2000 } else { year + 1900 }, rest)
            }
            14 => {
                let (year, rest) = digits.split_at_checked(4)?;
                (number(year)?, rest)
            }
            _ => return None,
        };
        let mut pairs = rest.chunks(2).map(number);
        let (month, day) = (pairs.next()??, pairs.next()??);
        let (hour, minute) = (pairs.next()??, pairs.next()??);
        let second = pairs.next().unwrap_or(Some(0))?;
        let ahead_minutes = ahead(zone)?;
        let there = Wall::of_civil((year, month, day), (hour, minute, second))?;
        let wall = Wall(there.0.checked_add_signed(-i64::from(ahead_minutes) * 60_000)?);
        Some(UtcTime { wall, ahead_minutes })
    }

    /// Writes it with seconds, and with its zone unless that is UTC.
    #[must_use]
    pub fn to_text(self) -> String {
        let there = self.there().civil();
        let mut text = format!(
            "{:02}{:02}{:02}{:02}{:02}{:02}",
            there.year % 100,
            there.month,
            there.day,
            there.hour,
            there.minute,
            there.second
        );
        text.push_str(&self.zone("Z"));
        text
    }

    /// The form of a header field, with its zone (RFC 5322 §3.3).
    #[must_use]
    pub fn to_rfc5322(self) -> String {
        let text = self.there().rfc5322();
        match text.rsplit_once(' ') {
            Some((time, _)) => format!("{time} {}", self.zone("+0000")),
            None => text,
        }
    }

    /// Reads an element with any tag.
    ///
    /// # Errors
    /// Returns an error if it is not a time.
    pub fn decode(element: &Element<'_>, field: &'static str) -> Result<UtcTime, DecodeError> {
        let octets = element.octets().field(field)?;
        UtcTime::parse(&octets).ok_or_else(|| Fault::Value("not a time").of(field, element.at))
    }

    /// Writes it with this tag.
    pub fn encode(self, writer: &mut Writer, tag: Tag) {
        writer.text(tag, &self.to_text());
    }

    /// The local time in that zone, as a UTC value.
    fn there(self) -> Wall {
        Wall(self.wall.0.saturating_add_signed(i64::from(self.ahead_minutes) * 60_000))
    }

    fn zone(self, utc: &str) -> String {
        if self.ahead_minutes == 0 {
            return utc.to_owned();
        }
        let sign = if self.ahead_minutes < 0 { '-' } else { '+' };
        let minutes = self.ahead_minutes.unsigned_abs();
        format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
    })
}

fn ahead(zone: &[u8]) -> Option<i16> {
    let (sign, rest) = zone.split_first()?;
    match (sign, rest.len()) {
        (b'Z', 0) => Some(0),
        (b'+' | b'-', 4) => {
            let digits = number(rest)?;
            let (hours, minutes) = (digits / 100, digits % 100);
            let all =
                i16::try_from(hours * 60 + minutes).ok().filter(|_| hours < 24 && minutes < 60)?;
            Some(if *sign == b'-' { -all } else { all })
        }
        _ => None,
    }
}
