//! Rates as people write them: `"100/s"`, `"50/m"`, `"5_000/h"`, `"20_000/d"`.

use std::fmt;

/// A number per second, minute, hour or day, spread evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: u32,
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
}

impl Unit {
    const ALL: [(&'static str, Unit); 4] =
        [("s", Unit::Second), ("m", Unit::Minute), ("h", Unit::Hour), ("d", Unit::Day)];

    fn seconds(self) -> u32 {
        match self {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3_600,
            Unit::Day => 86_400,
        }
    }
}

impl Rate {
    /// Parses a rate.
    ///
    /// # Errors
    /// Returns the error as text.
    pub fn parse(text: &str) -> Result<Rate, &'static str> {
        const FORM: &str = "write a number and a unit of time, for example \"100/s\", \"50/m\", \
         \"5_000/h\" or \"20_000/d\"";
        let (count, unit) = text.split_once('/').ok_or(FORM)?;
        let unit = Unit::ALL.iter().find(|(letter, _)| *letter == unit);
        let (_, unit) = unit.ok_or("the unit of time is one of s, m, h, d")?;
        let is_number = count.starts_with(|c: char| c.is_ascii_digit())
            && count.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
        if !is_number {
            return Err(FORM);
        }
        match count.replace('_', "").parse() {
            Ok(0) => Err("a rate of 0 sends nothing: to stop mail, suspend its queue"),
            Ok(count) => Ok(Rate { count, unit: *unit }),
            Err(_) => Err("more than 4294967295"),
        }
    }

    /// The rate nearest to this number per second, at least one a day.
    #[must_use]
    pub fn of_per_second(per_second: f64) -> Rate {
        let per_day = (per_second * f64::from(Unit::Day.seconds())).round().max(1.0);
        match per_day <= f64::from(u32::MAX) {
            true => Rate { count: per_day as u32, unit: Unit::Day },
            // Saturates.
            false => Rate { count: per_second.round() as u32, unit: Unit::Second },
        }
    }

    /// The number in a period.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// The period, in seconds.
    #[must_use]
    pub fn period_s(self) -> u32 {
        self.unit.seconds()
    }

    /// The number per second.
    #[must_use]
    pub fn per_second(self) -> f64 {
        f64::from(self.count) / f64::from(self.unit.seconds())
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = Unit::ALL.iter().find(|(_, unit)| *unit == self.unit);
        write!(f, "{}/{}", self.count, letter.map_or("s", |(letter, _)| letter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_and_write() {
        for (text, per_second) in [
            ("100/s", 100.0),
            ("60/m", 1.0),
            ("7200/h", 2.0),
            ("86400/d", 1.0),
            ("1/d", 1.0 / 86_400.0),
        ] {
            let rate = Rate::parse(text).unwrap();
            assert!((rate.per_second() - per_second).abs() < 1e-12, "{text}");
            assert_eq!(rate.to_string(), text);
        }
        assert_eq!(Rate::parse("2_000_000/d").unwrap().to_string(), "2000000/d");
        for (per_second, text) in
            [(1.5, "129600/d"), (0.0, "1/d"), (60_000.0, "60000/s"), (1e12, "4294967295/s")]
        {
            assert_eq!(Rate::of_per_second(per_second).to_string(), text);
        }
        assert!(Rate::parse("4294967295/s").is_ok());
        for bad in [
            "",
            "5",
            "/s",
            "0/s",
            "5/",
            "5/w",
            "5 /s",
            "5/s ",
            "-1/s",
            "+1/s",
            "_1/s",
            "1.5/s",
            "4294967296/s",
        ] {
            assert!(Rate::parse(bad).is_err(), "{bad}");
        }
    }
}
