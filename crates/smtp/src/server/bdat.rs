//! The argument of BDAT (RFC 3030 §2).

/// A chunk that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// What follows the command line. Numbers beyond 64 bits count as [`u64::MAX`]: no such chunk
    /// is ever complete.
    pub(super) octets: u64,
    /// LAST was given: the message ends with this chunk.
    pub(super) last: bool,
    /// Something that is not LAST was given: the chunk is known to be there, but is refused.
    pub(super) malformed: bool,
}

impl Chunk {
    /// `None`: it cannot be known how many octets follow.
    pub(super) fn parse(argument: &str) -> Option<Chunk> {
        let (digits, rest) = argument.split_once([' ', '\t']).unwrap_or((argument, ""));
        let octets = decimal(digits)?;
        let rest = rest.trim_start_matches([' ', '\t']);
        let last = rest.eq_ignore_ascii_case("LAST");
        Some(Chunk { octets, last, malformed: !last && !rest.is_empty() })
    }
}

/// One to twenty digits (RFC 3030 §2 chunk-size, RFC 1870 §5 size-value), saturating.
pub(super) fn decimal(digits: &str) -> Option<u64> {
    if digits.is_empty() || digits.len() > 20 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.bytes().fold(0, |n: u64, digit| {
        n.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0')))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_up_to_twenty_digits() {
        assert_eq!(decimal("0"), Some(0));
        assert_eq!(decimal("18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal("18446744073709551616"), Some(u64::MAX));
        assert_eq!(decimal("99999999999999999999"), Some(u64::MAX));
        assert_eq!(decimal("00000000000000000012"), Some(12));
        for bad in ["", "000000000000000000012", "-1", "+1", "1x", "0x10", "١"] {
            assert_eq!(decimal(bad), None, "{bad}");
        }
    }

    #[test]
    fn last_and_what_is_not() {
        let chunk = |octets, last, malformed| Some(Chunk { octets, last, malformed });
        assert_eq!(Chunk::parse("12"), chunk(12, false, false));
        assert_eq!(Chunk::parse("0  last"), chunk(0, true, false));
        assert_eq!(Chunk::parse("5 LASST"), chunk(5, false, true));
        assert_eq!(Chunk::parse("5 LAST LAST"), chunk(5, false, true));
        assert_eq!(Chunk::parse("LAST"), None);
        assert_eq!(Chunk::parse(""), None);
    }
}
