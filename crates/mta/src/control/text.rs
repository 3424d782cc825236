//! Ids and times as text in JSON: not every JSON parser keeps 64-bit numbers exact.

use mail::Wall;

/// For `#[serde(with = …)]`: a message id as 16 hex digits.
pub mod id {
    use mail::MessageId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// # Errors
    /// The serializer's own.
    pub fn serialize<S: Serializer>(id: &MessageId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    /// # Errors
    /// The text is not 16 hex digits.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<MessageId, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

/// For `#[serde(with = …)]`: a time in RFC 3339, as `Wall` prints it.
pub mod wall {
    use mail::Wall;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// # Errors
    /// The serializer's own.
    pub fn serialize<S: Serializer>(at: &Wall, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(at)
    }

    /// # Errors
    /// The text is not a time as `Wall` prints it.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Wall, D::Error> {
        let text = String::deserialize(d)?;
        super::parse_wall(&text).ok_or_else(|| D::Error::custom("not an RFC 3339 time in UTC"))
    }
}

/// For `#[serde(with = …)]`: an optional time.
pub mod wall_option {
    use mail::Wall;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// # Errors
    /// The serializer's own.
    pub fn serialize<S: Serializer>(at: &Option<Wall>, serializer: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.collect_str(at),
            None => serializer.serialize_none(),
        }
    }

    /// # Errors
    /// The text is not a time as `Wall` prints it.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Wall>, D::Error> {
        let Some(text) = Option::<String>::deserialize(d)? else { return Ok(None) };
        let at = super::parse_wall(&text);
        at.map(Some).ok_or_else(|| D::Error::custom("not an RFC 3339 time in UTC"))
    }
}

/// For `#[serde(with = …)]`: an optional class of replies, by its name.
pub mod class_option {
    use ::classes::ReplyClass;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// # Errors
    /// The serializer's own.
    pub fn serialize<S: Serializer>(
        class: &Option<ReplyClass>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match class {
            Some(class) => serializer.collect_str(class),
            None => serializer.serialize_none(),
        }
    }

    /// Parses a reply class.
    ///
    /// # Errors
    /// The name is not a reply class.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<ReplyClass>, D::Error> {
        let name = Option::<String>::deserialize(d)?;
        name.map(|name| name.parse().map_err(D::Error::custom)).transpose()
    }
}

/// Parses a time as [`Wall`] prints it: `2026-11-21T10:11:12.345Z`, from 1970 to 9999.
#[must_use]
pub fn parse_wall(text: &str) -> Option<Wall> {
    let b = text.as_bytes();
    if b.len() != 24 {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = b.get(from..to)?;
        digits.iter().try_fold(0, |n, d| d.is_ascii_digit().then(|| n * 10 + u64::from(d - b'0')))
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
    if marks.iter().any(|&(at, mark)| b.get(at) != Some(&mark)) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let at = Wall::of_civil((year, month, day), (hour, minute, second))?;
    Some(Wall(at.0 + number(20, 23)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nonsense_is_no_time() {
        for bad in [
            "",
            "2026-11-21T10:11:12Z",
            "2026-02-30T10:11:12.345Z",
            "2026-13-01T10:11:12.345Z",
            "1969-12-31T23:59:59.999Z",
            "2026-11-21T24:11:12.345Z",
            "2026-11-21 10:11:12.345Z",
            "2026-11-2١T10:11:12.345",
        ] {
            assert_eq!(parse_wall(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_wall_prints_is_read_back(ms in 0_u64..253_402_300_800_000) {
            prop_assert_eq!(parse_wall(&Wall(ms).to_string()), Some(Wall(ms)));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            let _ = parse_wall(&text);
        }
    }
}
