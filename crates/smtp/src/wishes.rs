//! Delivery options of MAIL: MT-PRIORITY (RFC 6710), FUTURERELEASE (RFC 4865) and DELIVERBY (RFC 2852).

use mail::{ByMode, Priority, Wall};
use std::time::Duration;

/// The least accepted time for a delivery with return at its end (RFC 2852 §2: min-by-time).
pub const BY_SECONDS_MIN: i64 = 4;

/// Delivery options requested for a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryOptions {
    /// Priority of the message.
    pub priority: Option<Priority>,
    /// The message is held until then.
    pub hold: Option<Hold>,
    /// Delivery deadline.
    pub deliver_by: Option<ByParameter>,
}

/// Time for which a message is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// From now on.
    For(Duration),
    /// Until this time of day.
    Until(Wall),
}

/// The value of BY=.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByParameter {
    /// From now on; below zero where the time has passed.
    pub seconds: i64,
    /// Action at the deadline.
    pub mode: ByMode,
    /// Relaying is traced.
    pub is_traced: bool,
}

/// Limits for holding messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldMax {
    /// From MAIL on.
    pub interval: Duration,
    /// Until this time of day.
    pub until: Wall,
}

impl Hold {
    /// The value of HOLDFOR: 1 to 9 digits (RFC 4865 §3).
    pub(crate) fn parse_for(text: &str) -> Option<Hold> {
        Some(Hold::For(Duration::from_secs(nine_digits(text)?)))
    }

    /// The value of HOLDUNTIL, in the form of RFC 3339.
    pub(crate) fn parse_until(text: &str) -> Option<Hold> {
        Wall::parse_rfc3339(text).map(Hold::Until)
    }

    pub(crate) fn is_within(self, max: HoldMax) -> bool {
        match self {
            Hold::For(time) => time <= max.interval,
            Hold::Until(at) => at <= max.until,
        }
    }
}

impl ByParameter {
    /// RFC 2852 §4.1: `[-]digits;R`, `…;N`, and an optional T after it.
    pub(crate) fn parse(text: &str) -> Option<ByParameter> {
        let (seconds, mode) = text.split_once(';')?;
        let (sign, digits) = match seconds.strip_prefix(['-', '+']) {
            Some(digits) if seconds.starts_with('-') => (-1, digits),
            Some(digits) => (1, digits),
            None => (1, seconds),
        };
        let seconds = sign * i64::try_from(nine_digits(digits)?).ok()?;
        let (mode, is_traced) = match mode.as_bytes() {
            [mode] => (mode, false),
            [mode, b'T' | b't'] => (mode, true),
            _ => return None,
        };
        let mode = match mode {
            b'R' | b'r' => ByMode::Return,
            b'N' | b'n' => ByMode::Notify,
            _ => return None,
        };
        // RFC 2852 requires a minimum time before a return.
        let is_right = mode == ByMode::Notify || seconds >= BY_SECONDS_MIN;
        is_right.then_some(ByParameter { seconds, mode, is_traced })
    }

    /// Returns true if a peer with this min-by-time accepts it.
    pub(crate) fn is_taken(self, least: i64) -> bool {
        self.mode == ByMode::Notify || self.seconds >= least.max(BY_SECONDS_MIN)
    }

    /// Appends it in the syntax of the parameter.
    pub(crate) fn write_to(self, out: &mut Vec<u8>) {
        let mode = match self.mode {
            ByMode::Return => 'R',
            ByMode::Notify => 'N',
        };
        let seconds = self.seconds.clamp(-999_999_999, 999_999_999);
        let trace = if self.is_traced { "T" } else { "" };
        out.extend_from_slice(format!(" BY={seconds};{mode}{trace}").as_bytes());
    }
}

fn nine_digits(text: &str) -> Option<u64> {
    let is_one = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_one.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written() {
        for text in ["120;R", "4;RT", "-5;N", "0;NT", "999999999;N"] {
            let mut out = Vec::new();
            ByParameter::parse(text).unwrap().write_to(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!(" BY={text}"));
        }
        let taken = |text| {
            (0..9).filter(|least| ByParameter::parse(text).unwrap().is_taken(*least)).count()
        };
        assert_eq!((taken("7;R"), taken("4;R"), taken("0;N")), (8, 5, 9));
        assert_eq!(ByParameter::parse("+7;n").map(|by| by.seconds), Some(7));
        for bad in ["", ";R", "5", "5;", "5;X", "5;RR", "5;RTT", "3;R", "0;R", "-1;R", "1e3;N"] {
            assert_eq!(ByParameter::parse(bad), None, "{bad}");
        }
        assert_eq!(ByParameter::parse("1000000000;N"), None);
        assert_eq!(ByParameter::parse("--1;N"), None);
    }

    #[test]
    fn nobody_is_held_longer_than_is_offered() {
        let max = HoldMax { interval: Duration::from_secs(60), until: Wall(100_000) };
        assert!(Hold::parse_for("60").unwrap().is_within(max));
        assert!(!Hold::parse_for("61").unwrap().is_within(max));
        assert!(Hold::parse_until("1970-01-01T00:01:40Z").unwrap().is_within(max));
        assert!(!Hold::parse_until("1970-01-01T00:01:41Z").unwrap().is_within(max));
        for bad in ["", "-1", "1234567890", "1m"] {
            assert_eq!(Hold::parse_for(bad), None, "{bad}");
        }
        assert_eq!(Hold::parse_until("tomorrow"), None);
    }
}
