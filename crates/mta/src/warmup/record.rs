//! The stored state of a course, in memory and as octets.

/// The stored state of a course.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The plan's start when the course began.
    pub start_day: u32,
    /// Day of the plan, from 0.
    pub stage: u32,
    /// The day of the following counts.
    pub day: u32,
    /// Recipients reserved.
    pub reserved: u32,
    /// The time that earlier recipients fill, in microseconds since 1970.
    pub paced_us: u64,
    pub tried: u32,
    pub delivered: u32,
    /// Deferred or rejected as blocked or rate limited.
    pub held: u32,
}

/// The stored form: a version, then each number in little-endian order.
pub type RecordBytes = [u8; 37];

const VERSION: u8 = 1;

impl Record {
    #[must_use]
    pub fn to_bytes(&self) -> RecordBytes {
        let Record { start_day, stage, day, reserved, paced_us, tried, delivered, held } = *self;
        let mut bytes = [VERSION; 37];
        let words = [start_day, stage, day, reserved, tried, delivered, held];
        let places = bytes[1..29].chunks_exact_mut(4);
        for (place, word) in places.zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[29..].copy_from_slice(&paced_us.to_le_bytes());
        bytes
    }

    /// Decodes it; `None` for another version.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Record> {
        let bytes: &RecordBytes = bytes.try_into().ok()?;
        let (version, rest) = bytes.split_first()?;
        let (words, paced) = rest.split_at_checked(28)?;
        let mut words = words.chunks_exact(4).filter_map(|word| word.try_into().ok());
        let mut next = || words.next().map(u32::from_le_bytes);
        let (start_day, stage, day, reserved) = (next()?, next()?, next()?, next()?);
        let (tried, delivered, held) = (next()?, next()?, next()?);
        let paced_us = u64::from_le_bytes(paced.try_into().ok()?);
        let read = Record { start_day, stage, day, reserved, paced_us, tried, delivered, held };
        (*version == VERSION).then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_else_is() {
        let record = Record {
            start_day: 20_788,
            stage: 3,
            day: 20_799,
            reserved: u32::MAX,
            paced_us: u64::MAX - 7,
            tried: 11,
            delivered: 9,
            held: 2,
        };
        let bytes = record.to_bytes();
        assert_eq!(Record::read(&bytes), Some(record));
        assert_eq!(Record::read(&bytes[..36]), None);
        assert_eq!(Record::read(&[&bytes[..], &[0]].concat()), None);
        let mut other = bytes;
        other[0] = 2;
        assert_eq!(Record::read(&other), None);
    }
}
