//! The Sender Rewriting Scheme. Forwarded mail gets a sender at the forwarder's own domain, which authorises the
//! forwarder (SPF, RFC 7208 §D), and reports can be returned through it.
//!
//! SRS has no RFC. This is the common format of Mail::SRS, libsrs2 and PostSRSd:
//!
//! - `SRS0=HHHH=TT=domain=local@forwarder` for `local@domain`;
//! - `SRS1=HHHH=domain==…@forwarder` for `SRS0=…@domain`, made by another forwarder: it contains only the first and the
//!   last forwarder, however many there were.
//!
//! `HHHH` is the start of a keyed hash over the following text, `TT` the day of creation. Both ignore case, since
//! servers in transit may change it.

use crate::digest::hmac_sha1;
use mail::{Domain, Mailbox, Wall};
use std::fmt;

/// Lifetime of an address in days.
pub const AGE_MAX_DAYS: u32 = 21;
/// Days are counted modulo this: two digits of the alphabet.
const DAYS: u32 = 1024;
const DAY_DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// RFC 4648 §4.
const HASH_DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Digits of the hash that are written: 24 bits, since an attacker can guess only by sending.
const HASH_LEN: usize = 4;
/// Between the parts.
const SEPARATOR: char = '=';
/// Separators after `SRS0` and `SRS1`.
const FIRST_SEPARATORS: [char; 3] = ['=', '+', '-'];

/// Rewriter of senders.
#[derive(Clone)]
pub struct Srs {
    domain: Domain,
    secrets: Box<[Box<[u8]>]>,
}

/// The secrets are not shown.
impl fmt::Debug for Srs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Srs").field("domain", &self.domain).finish_non_exhaustive()
    }
}

/// The reason why an address cannot be reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SrsError {
    /// A part is missing, or the result is not an address.
    Form,
    /// We have not made it.
    Hash,
    /// It is too old.
    Age,
}

impl SrsError {
    /// Text for the sender.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            SrsError::Form => "Not an SRS address",
            SrsError::Hash => "SRS address has an invalid hash",
            SrsError::Age => "SRS address has expired",
        }
    }
}

/// A rewritten address, apart.
enum SrsParts<'a> {
    Direct {
        hash: &'a str,
        day: &'a str,
        domain: &'a str,
        local: &'a str,
    },
    /// `rest` is the local part at the first forwarder, after `SRS0`.
    Through {
        hash: &'a str,
        domain: &'a str,
        rest: &'a str,
    },
}

impl<'a> SrsParts<'a> {
    /// `None` if it is not a rewritten address; `Some(None)` if it only begins like one.
    fn of(local: &'a str) -> Option<Option<SrsParts<'a>>> {
        let (tag, behind) = local.split_at_checked(4)?;
        let rest = behind.strip_prefix(FIRST_SEPARATORS)?;
        if tag.eq_ignore_ascii_case("SRS0") {
            let mut parts = rest.splitn(4, SEPARATOR);
            let mut next = || parts.next();
            return Some((|| {
                let (hash, day, domain) = (next()?, next()?, next()?);
                Some(SrsParts::Direct { hash, day, domain, local: next()? })
            })());
        }
        if tag.eq_ignore_ascii_case("SRS1") {
            let mut parts = rest.splitn(3, SEPARATOR);
            let mut next = || parts.next();
            return Some((|| {
                let (hash, domain, rest) = (next()?, next()?, next()?);
                // The text after `SRS0`. A different address that begins like one is an ordinary sender, or its reports
                // would be lost.
                let is_through = !domain.is_empty() && rest.starts_with(FIRST_SEPARATORS);
                is_through.then_some(SrsParts::Through { hash, domain, rest })
            })());
        }
        None
    }
}

impl Srs {
    /// Creates a rewriter for senders at `domain`. The first of `secrets` signs, all are accepted for older addresses.
    /// `None` without a secret.
    #[must_use]
    pub fn new(domain: Domain, secrets: impl IntoIterator<Item = Box<[u8]>>) -> Option<Srs> {
        let secrets: Box<[Box<[u8]>]> = secrets.into_iter().collect();
        (!secrets.is_empty()).then_some(Srs { domain, secrets })
    }

    /// Returns true if this is a rewritten address of this domain, or looks like one.
    #[must_use]
    pub fn is_rewritten(&self, address: &Mailbox) -> bool {
        address.domain() == self.domain && SrsParts::of(&address.local_unquoted()).is_some()
    }

    /// The sender that stands for another, made at `at`. `None`: it would be too long for an address.
    #[must_use]
    pub fn forward(&self, sender: &Mailbox, at: Wall) -> Option<Mailbox> {
        let (local, domain) = (sender.local_unquoted(), sender.domain_str());
        let rewritten = match SrsParts::of(&local) {
            Some(Some(SrsParts::Through { domain, rest, .. })) => self.through(domain, rest),
            Some(Some(SrsParts::Direct { .. })) => self.through(domain, local.get(4..)?),
            _ => {
                let day = day_digits(day_of(at));
                let hash = self.sign(&[&day, domain, &local]);
                format!("SRS0={hash}={day}={domain}={local}")
            }
        };
        mailbox(&rewritten, self.domain.as_str())
    }

    fn through(&self, domain: &str, rest: &str) -> String {
        format!("SRS1={}={domain}={rest}", self.sign(&[domain, rest]))
    }

    /// The original address, as of `at`.
    ///
    /// # Errors
    /// Returns the reason if it cannot be reversed.
    pub fn reverse(&self, address: &Mailbox, at: Wall) -> Result<Mailbox, SrsError> {
        let local = address.local_unquoted();
        match SrsParts::of(&local).flatten().ok_or(SrsError::Form)? {
            SrsParts::Direct { hash, day: made, domain, local } => {
                self.check(hash, &[made, domain, local])?;
                check_age(made, day_of(at))?;
                mailbox(local, domain).ok_or(SrsError::Form)
            }
            SrsParts::Through { hash, domain, rest } => {
                self.check(hash, &[domain, rest])?;
                mailbox(&format!("SRS0{rest}"), domain).ok_or(SrsError::Form)
            }
        }
    }

    fn sign(&self, parts: &[&str]) -> String {
        self.secrets.first().map_or_else(String::new, |secret| hash_of(secret, parts))
    }

    fn check(&self, hash: &str, parts: &[&str]) -> Result<(), SrsError> {
        let fits = |secret: &[u8]| hash_of(secret, parts).eq_ignore_ascii_case(hash);
        // All are compared, so that the time taken does not reveal the match.
        let count = self.secrets.iter().filter(|secret| fits(secret)).count();
        if count > 0 { Ok(()) } else { Err(SrsError::Hash) }
    }
}

fn hash_of(secret: &[u8], parts: &[&str]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| part.to_ascii_lowercase()).collect();
    let bytes = hmac_sha1(secret, &parts);
    let bits = bytes.iter().take(3).fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
    let digits = (0..HASH_LEN).map(|at| bits >> (18 - 6 * at) & 63);
    digits.filter_map(|digit| HASH_DIGITS.get(digit)).map(|digit| char::from(*digit)).collect()
}

/// Counted from the epoch.
fn day_of(at: Wall) -> u64 {
    at.0 / 86_400_000
}

fn day_digits(day: u64) -> String {
    let digits = [day >> 5 & 31, day & 31].map(|digit| digit as usize);
    digits
        .iter()
        .filter_map(|digit| DAY_DIGITS.get(*digit))
        .map(|digit| char::from(*digit))
        .collect()
}

fn check_age(made: &str, day: u64) -> Result<(), SrsError> {
    let digit = |byte: u8| {
        let at = DAY_DIGITS.iter().position(|digit| *digit == byte.to_ascii_uppercase());
        at.ok_or(SrsError::Form)
    };
    let &[high, low] = made.as_bytes() else { return Err(SrsError::Form) };
    let made = digit(high)? << 5 | digit(low)?;
    let age = (day % u64::from(DAYS)) as u32 + DAYS - made as u32;
    if age % DAYS <= AGE_MAX_DAYS { Ok(()) } else { Err(SrsError::Age) }
}

/// The address of a local part that is written as it is meant: quoted where it must be.
pub(crate) fn mailbox(local: &str, domain: &str) -> Option<Mailbox> {
    let is_plain =
        |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    if local.chars().all(is_plain)
        && let Ok(mailbox) = Mailbox::parse(&format!("{local}@{domain}"), true)
    {
        return Some(mailbox);
    }
    let escaped = local.replace('\\', "\\\\").replace('"', "\\\"");
    Mailbox::parse(&format!("\"{escaped}\"@{domain}"), true).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TODAY: Wall = day(20_000);

    const fn day(number: u64) -> Wall {
        Wall(number * 86_400_000)
    }

    fn srs(secrets: &[&str]) -> Srs {
        let domain = Domain::parse("srs.test").expect("a domain");
        let secrets = secrets.iter().map(|secret| secret.as_bytes().into());
        Srs::new(domain, secrets).expect("a secret")
    }

    fn address(text: &str) -> Mailbox {
        Mailbox::parse(text, true).expect("an address")
    }

    #[test]
    fn a_sender_that_only_begins_like_a_rewritten_one_is_found_again() {
        let srs = srs(&["secret"]);
        for sender in [
            "srs1=7g4y=6ppn=3g=broken.test=a.b@other.test",
            "SRS1=abcd=first.test=x@other.test",
            "SRS1=abcd==x=y@other.test",
            "SRS1=abcd@other.test",
            "SRS0=abcd=RA@other.test",
        ] {
            let sender = address(sender);
            let rewritten = srs.forward(&sender, TODAY).unwrap();
            assert_eq!(srs.reverse(&rewritten, TODAY), Ok(sender));
        }
        // One that is such an address goes back by way of whom it names.
        let through = address("SRS1=abcd=first.test==wxyz=RA=source.test=jo@other.test");
        let rewritten = srs.forward(&through, TODAY).unwrap();
        let first = address("SRS0=wxyz=RA=source.test=jo@first.test");
        assert_eq!(srs.reverse(&rewritten, TODAY), Ok(first));
    }

    #[test]
    fn without_a_secret_there_is_none() {
        assert!(Srs::new(Domain::parse("srs.test").expect("a domain"), []).is_none());
    }

    #[test]
    fn hash_and_day_are_those_of_others() {
        // The first three octets of RFC 2202's HMAC-SHA-1 test case 2, `effcdf…`.
        assert_eq!(hash_of(b"Jefe", &["what do ya want ", "for nothing?"]), "7/zf");
        assert_eq!(hash_of(b"Jefe", &["WHAT do ya want for nothing?"]), "7/zf");
        assert_eq!([0, 31, 32, 1023, 1024].map(day_digits), ["AA", "A7", "BA", "77", "AA"]);
    }

    #[test]
    fn there_and_back() {
        let srs = srs(&["secret"]);
        let there = srs.forward(&address("Jo+x=y@Source.Test"), TODAY).expect("an address");
        let hash = hash_of(b"secret", &["RA", "source.test", "jo+x=y"]);
        assert_eq!(there.as_str(), format!("SRS0={hash}=RA=Source.Test=Jo+x=y@srs.test"));
        assert!(srs.is_rewritten(&there));
        assert_eq!(srs.reverse(&there, TODAY), Ok(address("Jo+x=y@Source.Test")));
        let folded = address(&there.as_str().to_lowercase());
        assert_eq!(srs.reverse(&folded, TODAY), Ok(address("jo+x=y@source.test")));
        for (separator, is_one) in [("+", true), ("-", true), ("/", false)] {
            let other = address(&there.as_str().replacen('=', separator, 1));
            assert_eq!(srs.reverse(&other, TODAY).is_ok(), is_one, "{other}");
        }
    }

    #[test]
    fn what_another_has_rewritten_keeps_its_first_forwarder_only() {
        let srs = srs(&["secret"]);
        let first = address("SRS0=abcd=RA=source.test=jo@first.test");
        let second = srs.forward(&first, TODAY).expect("an address");
        let hash = hash_of(b"secret", &["first.test", "=abcd=RA=source.test=jo"]);
        let text = format!("SRS1={hash}=first.test==abcd=RA=source.test=jo@srs.test");
        assert_eq!(second.as_str(), text);
        assert_eq!(srs.reverse(&second, TODAY), Ok(first.clone()));
        let elsewhere = address(&text.replace("@srs.test", "@second.test").replace(&hash, "wxyz"));
        assert_eq!(srs.forward(&elsewhere, TODAY), Some(second), "the one in between is left out");
    }

    #[test]
    fn an_address_is_good_for_three_weeks() {
        let srs = srs(&["secret"]);
        for made in [20_000, 1023, 1024 * 7 - 3] {
            let there = srs.forward(&address("jo@source.test"), day(made)).expect("an address");
            for (age, good) in [(0, true), (21, true), (22, false), (500, false), (1023, false)] {
                let expected =
                    if good { Ok(address("jo@source.test")) } else { Err(SrsError::Age) };
                assert_eq!(srs.reverse(&there, day(made + age)), expected, "{made} {age}");
            }
            assert_eq!(srs.reverse(&there, day(made - 1)), Err(SrsError::Age), "of tomorrow");
        }
    }

    #[test]
    fn the_first_secret_signs_and_all_are_good() {
        let (old, both, new) = (srs(&["old"]), srs(&["new", "old"]), srs(&["new"]));
        let sender = address("jo@source.test");
        let of = |srs: &Srs| srs.forward(&sender, TODAY).expect("an address");
        assert_eq!(both.reverse(&of(&old), TODAY), Ok(sender.clone()));
        assert_eq!(new.reverse(&of(&both), TODAY), Ok(sender.clone()));
        assert_eq!(new.reverse(&of(&old), TODAY), Err(SrsError::Hash));
    }

    #[test]
    fn what_is_forged_or_torn_leads_nowhere() {
        let srs = srs(&["secret"]);
        let there = srs.forward(&address("jo@source.test"), TODAY).expect("an address");
        for (from, to) in [("source", "victim"), ("=jo@", "=ann@"), ("=RA=", "=RB=")] {
            let forged = address(&there.as_str().replace(from, to));
            assert_eq!(srs.reverse(&forged, TODAY), Err(SrsError::Hash), "{forged}");
        }
        for torn in ["SRS0=@srs.test", "SRS0=abcd=RA=x@srs.test", "SRS1=abcd=x@srs.test"] {
            assert!(srs.is_rewritten(&address(torn)), "{torn}");
            assert_eq!(srs.reverse(&address(torn), TODAY), Err(SrsError::Form), "{torn}");
        }
        for other in ["jo@srs.test", "SRS0abcd@srs.test", "SRS2=a=b=c=d@srs.test", "postmaster"] {
            assert!(!srs.is_rewritten(&address(other)), "{other}");
        }
        assert!(!srs.is_rewritten(&address("SRS0=a=b=c=d@other.test")));
    }

    #[test]
    fn what_must_be_quoted_is_and_what_is_too_long_is_not_rewritten() {
        let srs = srs(&["secret"]);
        for text in ["\"a b\"@x.test", "\"a@b\"@x.test", "\"a\\\\\\\"b\"@x.test", "j\u{f6}@x.test"]
        {
            let there = srs.forward(&address(text), TODAY).expect("an address");
            let back = srs.reverse(&there, TODAY).expect("an address");
            assert!(back.is_same(&address(text)), "{text}: {there}, {back}");
        }
        let long = address(&format!("{}@source.test", "l".repeat(220)));
        assert_eq!(srs.forward(&long, TODAY).map(|there| there.as_str().len()), Some(254));
        let longer = address(&format!("{}@source.test", "l".repeat(223)));
        assert_eq!(srs.forward(&longer, TODAY), None);
    }

    proptest! {
        #[test]
        fn any_address_is_read(local in "(SRS|srs)[01][=+-].{0,60}") {
            let srs = srs(&["secret"]);
            if let Some(address) = mailbox(&local, "srs.test") {
                let _ = srs.reverse(&address, TODAY);
                let _ = srs.forward(&address, TODAY);
            }
        }

        #[test]
        fn any_sender_comes_back(local in "[a-r][a-z0-9=+.-]{0,39}", at: u64) {
            let srs = srs(&["secret"]);
            if let Ok(sender) = Mailbox::parse(&format!("{local}@x.test"), false) {
                let there = srs.forward(&sender, Wall(at)).expect("it is short");
                prop_assert_eq!(srs.reverse(&there, Wall(at)), Ok(sender));
            }
        }
    }
}
