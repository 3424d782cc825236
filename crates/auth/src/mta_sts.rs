//! MTA-STS: a domain's TLS policy for its MX hosts, in a TXT record and a file (RFC 8461).

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// Octets of a policy's file at most (RFC 8461 §3.3 has 64 kilobytes).
pub const POLICY_BYTES_MAX: usize = 65_536;

/// Maximum bytes of all host names in a policy: it limits the data stored for a domain, for up to a year.
pub const NAMES_BYTES_MAX: usize = 8_192;

/// Maximum age of a stored policy (RFC 8461 §3.2), whatever its `max_age`.
pub const AGE_MAX: Duration = Duration::from_secs(31_557_600);

/// First labels of the record's name and of the policy host.
const RECORD_LABEL: &str = "_mta-sts";
const HOST_LABEL: &str = "mta-sts";

/// Name of a domain's TXT record.
#[must_use]
pub fn record_name(domain: &str) -> String {
    format!("{RECORD_LABEL}.{domain}")
}

/// The host that has a domain's policy.
#[must_use]
pub fn host_name(domain: &str) -> String {
    format!("{HOST_LABEL}.{domain}")
}

/// Path of the policy file.
pub const PATH: &str = "/.well-known/mta-sts.txt";

/// The `id` of a domain's policy in its TXT records, each with its strings joined (RFC 8461 §3.1). `None` if no record
/// is valid, or several are: the domain has no policy.
#[must_use]
pub fn policy_id(records: &[impl AsRef<[u8]>]) -> Option<&str> {
    let mut ids = records.iter().filter_map(|record| {
        let (version, fields) = split(record.as_ref(), b';')?;
        (trimmed_end(version) == b"v=STSv1").then_some(fields)
    });
    let (Some(fields), None) = (ids.next(), ids.next()) else { return None };
    let mut fields = fields.split(|byte| *byte == b';');
    let id = fields.find_map(|field| trimmed(field).strip_prefix(b"id="))?;
    let is_id = (1..=32).contains(&id.len()) && id.iter().all(u8::is_ascii_alphanumeric);
    std::str::from_utf8(id).ok().filter(|_| is_id)
}

/// Action if a host violates the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It gets no mail.
    Enforce,
    /// Mail is delivered all the same; the domain wants reports.
    Testing,
    /// The domain has no policy any more.
    None,
}

impl Mode {
    /// As it is written.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Testing => "testing",
            Mode::None => "none",
        }
    }
}

/// A domain's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub mode: Mode,
    /// Maximum time of storage, at most [`AGE_MAX`].
    pub max_age: Duration,
    /// Names of hosts, lower case, `*.` before some.
    mx: Vec<Box<str>>,
}

/// The reason why a file is not a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyError {
    TooLong,
    NoText,
    /// A line has no colon.
    NoPair,
    Version,
    Mode,
    MaxAge,
    NoMx,
    Mx,
    /// The names are longer than [`NAMES_BYTES_MAX`] together.
    ManyMx,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PolicyError::TooLong => "the policy is longer than 64 KiB",
            PolicyError::NoText => "the policy is not text",
            PolicyError::NoPair => "a line of the policy is not `key: value`",
            PolicyError::Version => "the policy has no `version: STSv1`",
            PolicyError::Mode => "`mode` of the policy is not enforce, testing or none",
            PolicyError::MaxAge => "`max_age` of the policy is not a number of seconds",
            PolicyError::NoMx => "the policy has no `mx`",
            PolicyError::Mx => "no `mx` of the policy is a host name",
            PolicyError::ManyMx => "the policy has more than 8 KiB of host names",
        })
    }
}

impl Policy {
    /// Parses a policy file (RFC 8461 §3.2). The first of repeated keys counts, except for `mx`. Unknown keys, repeated
    /// names and invalid `mx` are skipped.
    ///
    /// # Errors
    /// Returns the first error.
    pub fn parse(bytes: &[u8]) -> Result<Policy, PolicyError> {
        if bytes.len() > POLICY_BYTES_MAX {
            return Err(PolicyError::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| PolicyError::NoText)?;
        let (mut version, mut mode, mut max_age, mut mx) =
            (None, None, None, Vec::<Box<str>>::new());
        let mut has_bad_mx = false;
        for line in text.split('\n').map(|line| line.trim_matches([' ', '\t', '\r'])) {
            if line.is_empty() {
                continue;
            }
            let (key, value) = line.split_once(':').ok_or(PolicyError::NoPair)?;
            let value = value.trim_matches([' ', '\t']);
            match key.trim_end_matches([' ', '\t']) {
                "version" => _ = version.get_or_insert(value),
                "mode" => _ = mode.get_or_insert(value),
                "max_age" => _ = max_age.get_or_insert(value),
                // An invalid host name matches no host: the valid ones still express the domain's policy.
                "mx" => match pattern(value) {
                    Some(name) => mx.push(name),
                    None => has_bad_mx = true,
                },
                _ => {}
            }
        }
        if version != Some("STSv1") {
            return Err(PolicyError::Version);
        }
        let mode = match mode {
            Some("enforce") => Mode::Enforce,
            Some("testing") => Mode::Testing,
            Some("none") => Mode::None,
            _ => return Err(PolicyError::Mode),
        };
        let max_age = max_age.and_then(seconds).ok_or(PolicyError::MaxAge)?;
        let mut seen = BTreeSet::new();
        mx.retain(|name| seen.insert(name.clone()));
        if mx.iter().map(|name| name.len()).sum::<usize>() > NAMES_BYTES_MAX {
            return Err(PolicyError::ManyMx);
        }
        if mx.is_empty() && mode != Mode::None {
            return Err(if has_bad_mx { PolicyError::Mx } else { PolicyError::NoMx });
        }
        Ok(Policy { mode, max_age: max_age.min(AGE_MAX), mx })
    }

    /// Returns true if a host name (A-labels) matches the policy (RFC 8461 §4.1): a wildcard stands for one label.
    #[must_use]
    pub fn has_host(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let parent = host.split_once('.').map(|(_, parent)| parent);
        self.mx.iter().any(|pattern| match pattern.strip_prefix("*.") {
            Some(of) => parent.is_some_and(|parent| parent.eq_ignore_ascii_case(of)),
            None => pattern.eq_ignore_ascii_case(host),
        })
    }

    /// Its patterns, in the order of the file.
    pub fn mx(&self) -> impl Iterator<Item = &str> {
        self.mx.iter().map(|pattern| &**pattern)
    }
}

/// The stored form: a policy file with only its effective content.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "version: STSv1\nmode: {}", self.mode.word())?;
        for mx in self.mx() {
            writeln!(f, "mx: {mx}")?;
        }
        writeln!(f, "max_age: {}", self.max_age.as_secs())
    }
}

/// A name, or one below `*.`, of letters, digits, hyphens and underscores.
fn pattern(value: &str) -> Option<Box<str>> {
    let name = value.strip_prefix("*.").unwrap_or(value);
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(is_part)
    };
    let is_name = name.len() <= 253 && name.split('.').all(is_label);
    is_name.then(|| value.to_ascii_lowercase().into())
}

/// One to ten digits (RFC 8461 §3.2).
fn seconds(value: &str) -> Option<Duration> {
    let is_number = (1..=10).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_digit());
    value.parse().ok().filter(|_| is_number).map(Duration::from_secs)
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|byte| *byte == at)?;
    Some((bytes.get(..place)?, bytes.get(place + 1..)?))
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
    trimmed_end(start.and_then(|start| bytes.get(start..)).unwrap_or_default())
}

fn trimmed_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| !matches!(byte, b' ' | b'\t'));
    end.and_then(|end| bytes.get(..=end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const USUAL: &str = "version: STSv1\r\nmode: enforce\r\nmx: mail.example.com\r\n\
                         mx: *.example.net\r\nmx: backupmx.example.com\r\nmax_age: 604800\r\n";

    fn parse(text: &str) -> Result<Policy, PolicyError> {
        Policy::parse(text.as_bytes())
    }

    #[test]
    fn the_policy_of_the_rfc_is_understood() {
        let policy = parse(USUAL).unwrap();
        assert_eq!((policy.mode, policy.max_age.as_secs()), (Mode::Enforce, 604_800));
        let names: Vec<&str> = policy.mx().collect();
        assert_eq!(names, ["mail.example.com", "*.example.net", "backupmx.example.com"]);
        for host in ["mail.example.com", "MAIL.example.com.", "a.example.net", "B.Example.NET"] {
            assert!(policy.has_host(host), "{host}");
        }
        for host in [
            "",
            ".",
            "example.net",
            "a.b.example.net",
            "x.mail.example.com",
            "com",
            "*.example.com",
        ] {
            assert!(!policy.has_host(host), "{host}");
        }
        assert_eq!(parse(&USUAL.replace("\r\n", "\n")), Ok(policy));
    }

    #[test]
    fn of_keys_that_stand_there_again_the_first_counts() {
        let more = format!("{USUAL}mode: none\nmax_age: 1\nversion: STSv2\nfuture: a: b\n\n");
        assert_eq!(parse(&more), parse(USUAL));
        let spaced = USUAL.replace(": ", " :\t ").replace("\r\n", "  \r\n");
        assert_eq!(parse(&spaced), parse(USUAL));
    }

    #[test]
    fn what_is_missing_or_malformed_is_named() {
        for (from, to, error) in [
            ("version: STSv1", "version: STSv2", PolicyError::Version),
            ("version: STSv1", "x: STSv1", PolicyError::Version),
            ("mode: enforce", "mode: Enforce", PolicyError::Mode),
            ("mode: enforce", "", PolicyError::Mode),
            ("mode: enforce", "mode enforce", PolicyError::NoPair),
            ("604800", "", PolicyError::MaxAge),
            ("604800", "-1", PolicyError::MaxAge),
            ("604800", "+1", PolicyError::MaxAge),
            ("604800", "1d", PolicyError::MaxAge),
            ("604800", "99999999999", PolicyError::MaxAge),
            ("mx:", "nomx:", PolicyError::NoMx),
        ] {
            assert_eq!(parse(&USUAL.replace(from, to)), Err(error), "{from} -> {to}");
        }
        assert_eq!(Policy::parse(b"version: STSv1\nx: \xff\n"), Err(PolicyError::NoText));
        assert_eq!(parse("<html>"), Err(PolicyError::NoPair));
        assert_eq!(parse(""), Err(PolicyError::Version));
    }

    #[test]
    fn an_mx_that_is_no_name_is_left_out_and_the_others_hold() {
        for bad in [
            "",
            "mail..example.com",
            "mail.example.com.",
            "mail.*.com",
            "192.0.2.1:25",
            "2001:db8::1",
            "m\u{e4}il.example.com",
            "*",
        ] {
            let policy = parse(&USUAL.replace("mail.example.com", bad)).unwrap();
            let names: Vec<&str> = policy.mx().collect();
            assert_eq!(names, ["*.example.net", "backupmx.example.com"], "{bad}");
            let only = format!("version: STSv1\nmode: enforce\nmax_age: 9\nmx: {bad}\n");
            assert_eq!(parse(&only), Err(PolicyError::Mx), "{bad}");
        }
    }

    #[test]
    fn its_limits_hold_at_their_edge() {
        let filled = |length: usize| {
            let rest = length - USUAL.len() - 4;
            Policy::parse(format!("{USUAL}x: {}\n", "y".repeat(rest)).as_bytes())
        };
        assert_eq!(filled(POLICY_BYTES_MAX), parse(USUAL));
        assert_eq!(filled(POLICY_BYTES_MAX + 1), Err(PolicyError::TooLong));
        for (written, kept) in [
            ("31557600", 31_557_600),
            ("31557601", 31_557_600),
            ("9999999999", 31_557_600),
            ("0", 0),
        ] {
            let policy = parse(&USUAL.replace("604800", written)).unwrap();
            assert_eq!(policy.max_age.as_secs(), kept);
        }
        let none = parse("version: STSv1\nmode: none\nmax_age: 86400").unwrap();
        assert_eq!((none.mode, none.mx().count()), (Mode::None, 0));
    }

    #[test]
    fn what_is_kept_is_what_counts_and_no_more() {
        let more = format!("{USUAL}future: {}\r\nmx: mail.example.com\r\n", "x".repeat(60_000));
        let policy = parse(&more).unwrap();
        let text = policy.to_string();
        assert!(text.len() < 200, "{text}");
        assert_eq!(parse(&text), Ok(policy));
        let none = parse("version: STSv1\nmode: none\nmax_age: 86400").unwrap();
        assert_eq!(parse(&none.to_string()), Ok(none));
        // 64 names of 128 octets, and one more.
        let named = |lengths: &[usize]| {
            let name = |(n, length): (usize, &usize)| {
                let mut name = format!("n{n:03}.");
                while name.len() + 64 < *length {
                    name += &format!("{}.", "a".repeat(63));
                }
                let rest = length - name.len();
                format!("mx: {name}{}\n", "b".repeat(rest))
            };
            let names: String = lengths.iter().enumerate().map(name).collect();
            parse(&format!("version: STSv1\nmode: enforce\nmax_age: 9\n{names}"))
        };
        assert_eq!(named(&[128; 64]).unwrap().mx().count(), 64);
        assert_eq!(named(&[&[128; 64][..], &[6]].concat()), Err(PolicyError::ManyMx));
    }

    #[test]
    fn the_record_names_one_id() {
        for (records, id) in [
            (&["v=STSv1; id=20160831085700Z;"][..], Some("20160831085700Z")),
            (&["v=STSv1;id=a", "v=spf1 -all"], Some("a")),
            (&["v=STSv1 ; future=x ;\tid=a1 ; id=b"], Some("a1")),
            (&["v=STSv1; id=a", "v=STSv1; id=a"], None),
            (&["v=STSv1"], None),
            (&["v=STSv1;"], None),
            (&["v=STSv1; id="], None),
            (&["v=STSv1; id=a-b"], None),
            (&["v=STSv1; ID=a"], None),
            (&["v=STSv1; id=123456789012345678901234567890123"], None),
            (
                &["v=STSv1; id=12345678901234567890123456789012"],
                Some("12345678901234567890123456789012"),
            ),
            (&[" v=STSv1; id=a"], None),
            (&["v=STSv2; id=a"], None),
            (&["id=a; v=STSv1;"], None),
            (&[], None),
        ] {
            assert_eq!(policy_id(records), id, "{records:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_fetched_is_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Policy::parse(&bytes);
            let _ = policy_id(&[bytes]);
        }
    }
}
