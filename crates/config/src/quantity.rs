//! Durations and sizes as people write them: `"1h30m"`, `"250ms"`, `52_428_800`, `"50MiB"`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::time::Duration;

/// A duration as it is written in the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct DurationText(pub String);

impl From<&str> for DurationText {
    fn from(text: &str) -> DurationText {
        DurationText(text.to_owned())
    }
}

/// A parsed duration of the file, for sections with owners that use the table as written.
/// [`Reader::check`](crate::Reader::check) reports parse errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period(Result<Duration, (Box<str>, &'static str)>);

impl Period {
    /// The duration; zero for one that could not be read.
    #[must_use]
    pub fn get(&self) -> Duration {
        self.0.as_ref().copied().unwrap_or_default()
    }

    /// The text that could not be read, and why.
    pub(super) fn mistake(&self) -> Option<(&str, &'static str)> {
        self.0.as_ref().err().map(|(text, reason)| (&**text, *reason))
    }
}

impl From<&str> for Period {
    fn from(text: &str) -> Period {
        Period(parse_duration(text).map_err(|reason| (text.into(), reason)))
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Period, D::Error> {
        Ok(Period::from(&*String::deserialize(deserializer)?))
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Ok(duration) => serializer.serialize_str(&write_duration(*duration)),
            Err((text, _)) => serializer.serialize_str(text),
        }
    }
}

/// A size as it is written in the file: bytes as a number, or a number with a unit as text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum SizeText {
    /// Bytes.
    Bytes(u64),
    /// A number and a unit.
    Text(String),
}

impl From<&str> for SizeText {
    fn from(text: &str) -> SizeText {
        SizeText::Text(text.to_owned())
    }
}

impl From<u64> for SizeText {
    fn from(bytes: u64) -> SizeText {
        SizeText::Bytes(bytes)
    }
}

impl JsonSchema for DurationText {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "title": "duration",
            "pattern": "^(0|([0-9]+(ms|s|m|h|d|w))+)$",
            "description": "A duration: numbers with the units ms, s, m, h, d, w, for example \
             \"5m\" or \"1h30m\".",
        })
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        DurationText::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        DurationText::json_schema(generator)
    }
}

impl JsonSchema for SizeText {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "size",
            "description": "A number of bytes, or text with a unit: KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024).",
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^[0-9][0-9_]* ?([KMGT]i?)?B?$" },
            ],
        })
    }
}

/// Parses a duration.
///
/// # Errors
/// Returns the error as text.
pub fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    const FORM: &str = "write numbers with units, for example \"250ms\", \"5m\" or \"1h30m\"";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total_ms = 0_u64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let unit_len = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(unit_len);
        if number.is_empty() {
            return Err(FORM);
        }
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            "" => return Err("unit missing: use ms, s, m, h, d or w"),
            _ => return Err("unknown unit: use ms, s, m, h, d or w"),
        };
        let number: u64 = number.parse().map_err(|_| TOO_LONG)?;
        total_ms = number
            .checked_mul(unit_ms)
            .and_then(|ms| total_ms.checked_add(ms))
            .filter(|ms| *ms <= LONGEST_MS)
            .ok_or(TOO_LONG)?;
        rest = tail;
    }
    if text.is_empty() { Err(FORM) } else { Ok(Duration::from_millis(total_ms)) }
}

/// The duration that a text like `5 days` means, as it must be written: `5d`.
pub(super) fn meant_duration(text: &str) -> Option<String> {
    let mut meant = String::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (word, tail) = tail.split_at(letters);
        let unit = match word.to_ascii_lowercase().as_str() {
            "ms" | "msec" | "millisecond" | "milliseconds" => "ms",
            "s" | "sec" | "secs" | "second" | "seconds" => "s",
            "m" | "min" | "mins" | "minute" | "minutes" => "m",
            "h" | "hr" | "hrs" | "hour" | "hours" => "h",
            "d" | "day" | "days" => "d",
            "w" | "week" | "weeks" => "w",
            _ => return None,
        };
        meant.push_str(number);
        meant.push_str(unit);
        rest = tail.trim_start();
    }
    parse_duration(&meant).ok().map(|_| meant)
}

/// The size that a text like `50 mb` means, as it must be written: `50MB`.
pub(super) fn meant_size(text: &str) -> Option<String> {
    let text = text.trim();
    let digits = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim_start().to_ascii_lowercase().as_str() {
        "k" | "kb" => "KB",
        "m" | "mb" => "MB",
        "g" | "gb" => "GB",
        "t" | "tb" => "TB",
        "ki" | "kib" => "KiB",
        "mi" | "mib" => "MiB",
        "gi" | "gib" => "GiB",
        "ti" | "tib" => "TiB",
        "b" | "byte" | "bytes" | "octets" => "B",
        _ => return None,
    };
    let meant = format!("{number}{unit}");
    parse_size(&meant).ok().map(|_| meant)
}

/// A hundred years: sums of durations and clock times stay far from overflow.
const LONGEST_MS: u64 = 100 * 365 * 86_400_000;
const TOO_LONG: &str = "longer than 100 years";

/// Reads a size with a unit.
///
/// # Errors
/// What is wrong with it, for people.
pub fn parse_size(text: &str) -> Result<u64, &'static str> {
    const FORM: &str = "write a number of bytes, or a text like \"64KiB\" or \"50MB\"";
    let split = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count();
    let (number, unit) = text.split_at(split);
    let number: u64 = match number.replace('_', "") {
        digits if digits.is_empty() => return Err(FORM),
        digits => digits.parse().map_err(|_| "more than 2^63 bytes")?,
    };
    let factor: u64 = match unit.trim_start() {
        "" | "B" => 1,
        "KB" | "K" => 1_000,
        "MB" | "M" => 1_000_000,
        "GB" | "G" => 1_000_000_000,
        "TB" | "T" => 1_000_000_000_000,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1 << 30,
        "TiB" | "Ti" => 1 << 40,
        _ => return Err("unknown unit: use KB, MB, GB, TB, KiB, MiB, GiB or TiB"),
    };
    number.checked_mul(factor).filter(|bytes| *bytes < 1 << 63).ok_or("more than 2^63 bytes")
}

/// A duration as it would be written: `1h30m`.
#[must_use]
pub fn write_duration(duration: Duration) -> String {
    let mut ms = duration.as_millis();
    if ms == 0 {
        return "0".to_owned();
    }
    let mut text = String::new();
    for (unit, unit_ms) in
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)]
    {
        if ms >= unit_ms {
            text.push_str(&format!("{}{unit}", ms / unit_ms));
            ms %= unit_ms;
        }
    }
    text
}

/// A size as it would be written, in the largest unit that divides it: `50MiB`.
#[must_use]
pub fn write_size(bytes: u64) -> String {
    for (unit, factor) in
        [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
    {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_write() {
        for (text, ms) in
            [("0", 0), ("250ms", 250), ("5m", 300_000), ("1h30m", 5_400_000), ("5d", 432_000_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
            assert_eq!(write_duration(Duration::from_millis(ms)), text);
        }
        assert_eq!(parse_duration("2w"), Ok(Duration::from_secs(1_209_600)));
        for bad in
            ["", "5", "m", "5 m", "1.5h", "-1s", "5y", "1h30", "99999999999999999999s", "200000w"]
        {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn common_forms_are_understood_for_remedies() {
        for (text, meant) in [
            ("5 days", Some("5d")),
            ("1 hour 30 min", Some("1h30m")),
            ("5D", Some("5d")),
            ("5", None),
            ("5 years", None),
            ("", None),
            ("days", None),
        ] {
            assert_eq!(meant_duration(text).as_deref(), meant, "{text}");
        }
        for (text, meant) in
            [("50 mb", Some("50MB")), ("5kib", Some("5KiB")), ("5 x", None), ("mb", None)]
        {
            assert_eq!(meant_size(text).as_deref(), meant, "{text}");
        }
    }

    #[test]
    fn sizes_read_and_write() {
        for (text, bytes) in
            [("50MiB", 52_428_800), ("64KiB", 65_536), ("1TiB", 1 << 40), ("1000B", 1000)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            assert_eq!(write_size(bytes), text);
        }
        assert_eq!(parse_size("1_000 KB"), Ok(1_000_000));
        for bad in ["", "MiB", "5XB", "5 mib", "-1", "1.5GiB", "9223372036854775808", "9000000TiB"]
        {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
