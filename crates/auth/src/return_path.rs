//! Signed return paths: a reply to one comes from a party that has the message, or has seen it.
//!
//! `R400=TTTTTTTTTT=HHHHHHHHHH=local@domain` stands for `local@domain`. `T` is the start of a keyed hash over the
//! message's identifier, `H` of one over `T` and the address. Neither can be forged or put before another address. Both
//! ignore case, since servers in transit may change it.

use crate::digest::hmac_sha256;
use crate::srs::mailbox;
use mail::Mailbox;
use std::fmt;

const PREFIX: &str = "R400=";
/// Digits of each hash: 50 bits, since an attacker can guess only by sending.
const HASH_LEN: usize = 10;
/// RFC 4648 §6.
const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Generator of return paths.
#[derive(Clone)]
pub struct ReturnPaths {
    secret: Box<[u8]>,
}

/// The secret is not shown.
impl fmt::Debug for ReturnPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReturnPaths")
    }
}

/// A return path that was made here, apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The original address.
    pub address: Mailbox,
    tag: Box<str>,
}

impl ReturnPaths {
    #[must_use]
    pub fn new(secret: &[u8]) -> ReturnPaths {
        ReturnPaths { secret: secret.into() }
    }

    /// The return path for an address and a message; `None` if it would be too long for an address.
    #[must_use]
    pub fn make(&self, address: &Mailbox, message: &str) -> Option<Mailbox> {
        let (local, domain) = (address.local_unquoted(), address.domain_str());
        let tag = self.tag(message);
        let hash = self.hash(&["address", &tag, domain, &local]);
        mailbox(&format!("{PREFIX}{tag}={hash}={local}"), domain)
    }

    /// Decodes a return path; `None` if it was not made here.
    #[must_use]
    pub fn read(&self, address: &Mailbox) -> Option<Returned> {
        let (local, domain) = (address.local_unquoted(), address.domain_str());
        let (prefix, rest) = local.split_at_checked(PREFIX.len())?;
        let (tag, rest) = rest.split_at_checked(HASH_LEN)?;
        let (hash, rest) = rest.strip_prefix('=')?.split_at_checked(HASH_LEN)?;
        let meant = rest.strip_prefix('=')?;
        let is_ours = prefix.eq_ignore_ascii_case(PREFIX)
            && self.hash(&["address", tag, domain, meant]).eq_ignore_ascii_case(hash);
        is_ours.then_some(())?;
        Some(Returned { address: mailbox(meant, domain)?, tag: tag.into() })
    }

    /// Returns true if it was made for a message with this identifier.
    #[must_use]
    pub fn is_of(&self, returned: &Returned, message: &str) -> bool {
        self.tag(message).eq_ignore_ascii_case(&returned.tag)
    }

    fn tag(&self, message: &str) -> String {
        self.hash(&["message", message])
    }

    fn hash(&self, parts: &[&str]) -> String {
        let part = |part: &&str| format!("{}\0", part.to_ascii_lowercase());
        let octets = hmac_sha256(&self.secret, &parts.iter().map(part).collect::<Vec<_>>());
        let bits = octets.iter().take(7).fold(0_u64, |bits, octet| bits << 8 | u64::from(*octet));
        let digits = (0..HASH_LEN).map(|at| (bits >> (51 - 5 * at) & 31) as usize);
        digits.filter_map(|digit| DIGITS.get(digit)).map(|digit| char::from(*digit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Mailbox {
        Mailbox::parse(text, true).expect("an address")
    }

    #[test]
    fn what_is_made_here_is_read_and_nothing_else() {
        let (here, elsewhere) = (ReturnPaths::new(b"secret"), ReturnPaths::new(b"other"));
        for text in ["joe@map.test", "\"/S=Smith/O=x/ADMD= /C=GB/\"@gw.test", "\"a\\\"b\"@gw.test"]
        {
            let made = here.make(&address(text), "[x;1]").expect("it fits");
            let returned = here.read(&made).expect("it was made here");
            assert!(returned.address.is_same(&address(text)), "{made}");
            assert!(here.is_of(&returned, "[x;1]") && !here.is_of(&returned, "[x;2]"));
            assert_eq!((elsewhere.read(&made), here.read(&address(text))), (None, None));
            assert!(here.read(&address(&made.as_str().to_lowercase())).is_some(), "{made}");
            let (local, domain) = made.as_str().rsplit_once('@').expect("it has both");
            for other in [
                format!("{local}@{domain}.test"),
                made.as_str().replacen("R400=", "R400=A", 1),
                made.as_str().replacen('@', ".x@", 1),
                format!("R400=@{domain}"),
                format!("R400=AAAAAAAAAA=AAAAAAAAAA=@{domain}"),
            ] {
                let read = Mailbox::parse(&other, true).ok().and_then(|it| here.read(&it));
                assert_eq!(read, None, "{other}");
            }
        }
        let long = address(&format!("{}@gw.test", "x".repeat(240)));
        assert_eq!(here.make(&long, "[x;1]"), None);
    }
}
