//! Names of Postfix's queue files: a queue id, which includes the inode of the file.

/// Digits of long ids: no vowels (`enable_long_queue_ids`).
const SAFE_DIGITS: &[u8] = b"0123456789BCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz";
/// Separates time and inode in long ids. The inode is written without this digit.
const SEPARATOR: char = 'z';
/// Digits of the microseconds in long ids, and the least of the whole time.
const LONG_MICROS_DIGITS: usize = 4;
const LONG_TIME_DIGITS_MIN: usize = 10;
/// Digits of the microseconds in short ids.
const SHORT_MICROS_DIGITS: usize = 5;
/// Longer names are no queue ids.
const BYTES_MAX: usize = 100;

/// A queue id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueId {
    /// The inode of the file when it got its name.
    pub(super) inode: u64,
    /// Its characters are the names of the directories above the file, as many as there are.
    hashed: String,
}

impl QueueId {
    /// Parses the name of a file. `None` if it is no queue id.
    pub(super) fn parse(name: &str) -> Option<QueueId> {
        if name.len() > BYTES_MAX || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        match name.rsplit_once(SEPARATOR).filter(|(time, _)| time.len() >= LONG_TIME_DIGITS_MIN) {
            Some((time, inode)) => {
                let (seconds, micros) = time.split_at_checked(time.len() - LONG_MICROS_DIGITS)?;
                number(seconds, 52)?;
                let hashed = format!("{:05X}", number(micros, 52)?);
                Some(QueueId { inode: number(inode, 51)?, hashed })
            }
            None => {
                let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
                let inode = name.get(SHORT_MICROS_DIGITS..)?;
                let is_id = name.bytes().all(is_digit) && !inode.is_empty();
                let inode = is_id.then(|| u64::from_str_radix(inode, 16).ok())??;
                Some(QueueId { inode, hashed: name.to_owned() })
            }
        }
    }

    /// Returns true if a file with this id belongs into these directories below its queue, each a character.
    pub(super) fn is_below(&self, directories: &str) -> bool {
        self.hashed.starts_with(directories)
    }

    /// The directory of a file with this id where there is one level of directories.
    pub(super) fn first_directory(&self) -> &str {
        self.hashed.get(..1).unwrap_or_default()
    }
}

/// A number to this base. `None` without digits, with foreign ones, or if it is too large.
fn number(digits: &str, base: u64) -> Option<u64> {
    let mut value = (!digits.is_empty()).then_some(0_u64)?;
    for byte in digits.bytes() {
        let digit = SAFE_DIGITS.iter().position(|known| *known == byte)? as u64;
        let digit = (digit < base).then_some(digit)?;
        value = value.checked_mul(base)?.checked_add(digit)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_ids_have_their_inode() {
        let short = QueueId::parse("3A1F21B2C").unwrap();
        assert_eq!((short.inode, short.is_below("3"), short.is_below("3A")), (0x1b2c, true, true));
        assert!(short.is_below("") && !short.is_below("A"));
        // 51 + 2, at 52 × 52 + 3 microseconds.
        let long = QueueId::parse("4FKj9h0103z12").unwrap();
        assert_eq!((long.inode, long.is_below("0"), long.is_below("00A93")), (53, true, true));
        assert!(!long.is_below("4"));
    }

    #[test]
    fn other_names_are_no_ids() {
        let long = "1".repeat(BYTES_MAX + 1);
        for name in [
            "",
            "3A1F2",
            "3a1f21b2c",
            "a.b",
            "core",
            "4FKj9h0103z",
            "4FKj9h0103zA",
            "ü",
            "../../../etc",
            "123456789012345678901234",
            long.as_str(),
        ] {
            assert_eq!(QueueId::parse(name), None, "{name}");
        }
    }
}
