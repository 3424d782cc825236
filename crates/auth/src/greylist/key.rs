//! Keys of triplets and clients, independent of details that vary between two attempts.

use super::Triplet;
use crate::digest::Sha256;
use mail::TagDelimiters;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of a key: part of a hash, so that clients control neither its length nor its position.
pub const KEY_BYTES: usize = 16;

/// Identifies a triplet or a client.
pub type Key = [u8; KEY_BYTES];

/// Identity of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientIdentity<'a> {
    /// The network that it is in, see [`network`].
    Network(IpAddr),
    /// The sender's domain, if SPF authorises the client: server pools retry from different addresses.
    Domain(&'a str),
}

/// The first address of the network around an address, with so many bits for each family.
#[must_use]
pub fn network(address: IpAddr, ipv4_bits: u8, ipv6_bits: u8) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(ipv4_bits.into())).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(ipv6_bits.into())).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

/// The key of a client.
pub(super) fn of_client(client: ClientIdentity<'_>) -> Key {
    hash(b'c', &[&client_text(client)])
}

/// The key of a triplet.
pub(super) fn of_triplet(triplet: &Triplet<'_>) -> Key {
    let sender = triplet.sender.map_or_else(String::new, |(local, domain)| {
        format!("{}@{}", sender_local(local, triplet.tags), domain.to_lowercase())
    });
    let recipient = triplet.recipient.to_lowercase();
    hash(b't', &[&client_text(triplet.client), &sender, &recipient])
}

fn client_text(client: ClientIdentity<'_>) -> String {
    match client {
        ClientIdentity::Network(network) => network.to_string(),
        ClientIdentity::Domain(domain) => format!("@{}", domain.to_lowercase()),
    }
}

/// Each part ends with an octet that stands in none: no two lists of parts are the same octets.
fn hash(kind: u8, parts: &[&str]) -> Key {
    let mut hash = Sha256::default();
    hash.push(&[kind]);
    for part in parts {
        hash.push(part.as_bytes());
        hash.push(&[0]);
    }
    let mut key = Key::default();
    for (to, from) in key.iter_mut().zip(hash.finish()) {
        *to = from;
    }
    key
}

/// A sender's local part without the parts that vary between messages or attempts: tags, signatures and time stamps of
/// rewritten senders (SRS, BATV), numbers and codes of lists (VERP).
fn sender_local(local: &str, tags: &TagDelimiters) -> String {
    let local = local.to_lowercase();
    let local = original(&local);
    let local = tags.split(local).map_or(local, |(user, ..)| user);
    let mut steady = String::with_capacity(local.len());
    for word in local.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let end = word.trim_end_matches(char::is_alphanumeric);
        let (name, delimiter) = match end.len() {
            0 => (word, ""),
            // An alphanumeric run and its delimiter.
            _ => word.split_at(word.len() - word.chars().next_back().map_or(0, char::len_utf8)),
        };
        let is_code = name.contains(|c: char| c.is_numeric());
        steady.push_str(if is_code { "#" } else { name });
        steady.push_str(delimiter);
    }
    steady
}

/// The local part without a signature and time stamp.
fn original(local: &str) -> &str {
    let behind = |text, fields| -> Option<&str> { str::splitn(text, fields, '=').last() };
    if let Some(rest) = local.strip_prefix("srs0").and_then(|rest| rest.get(1..)) {
        // hash=time=domain=user
        return behind(rest, 3).unwrap_or(local);
    }
    if let Some(rest) = local.strip_prefix("srs1").and_then(|rest| rest.get(1..)) {
        // hash=domain==hash=time=domain=user, the second delimiter being any
        let inner = rest.split_once('=').map_or(rest, |(_, inner)| inner);
        return behind(inner, 5).unwrap_or(local);
    }
    if let Some(rest) = local.strip_prefix("prvs=") {
        // tag=user
        return rest.split_once('=').map_or(rest, |(_, user)| user);
    }
    local
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_differ_by_what_does_not_change() {
        for (local, steady) in [
            ("Jo", "jo"),
            ("jo+news", "jo"),
            ("+jo", "+jo"),
            ("jo.smith_x", "jo.smith_x"),
            ("bounce-12345-6789abc", "bounce-#-#"),
            ("0101018f-aa_b.x7", "#-aa_b.#"),
            ("srs0=hash=tt=far.test=jo", "far.test=jo"),
            ("SRS0+4aKx=tt=far.test=jo", "far.test=jo"),
            ("srs1=hash=fwd.test==hash=tt=far.test=jo", "far.test=jo"),
            ("prvs=0123abcdef=jo", "jo"),
            ("srs0", "#"),
            ("srs0=", ""),
            ("", ""),
            ("\u{fc}1\u{df}-\u{fc}", "#-\u{fc}"),
        ] {
            assert_eq!(sender_local(local, &TagDelimiters::default()), steady, "{local}");
        }
    }

    #[test]
    fn senders_have_the_tags_of_the_configuration() {
        for (delimiters, local, steady) in [
            ("-", "jo-news", "jo"),
            ("-", "jo+news", "jo+news"),
            ("-", "srs0=hash=tt=far.test=jo-news", "far.test=jo"),
            ("+-", "jo+a-b", "jo"),
            ("", "jo+news", "jo+news"),
        ] {
            let tags = TagDelimiters::parse(delimiters).unwrap();
            assert_eq!(sender_local(local, &tags), steady, "{delimiters} {local}");
        }
    }

    #[test]
    fn networks_are_as_wide_as_they_are_told() {
        let of = |address: &str, v4, v6| network(address.parse().unwrap(), v4, v6).to_string();
        assert_eq!(of("192.0.2.77", 24, 64), "192.0.2.0");
        assert_eq!(of("::ffff:192.0.2.77", 32, 64), "192.0.2.77");
        assert_eq!(of("192.0.2.77", 0, 0), "0.0.0.0");
        assert_eq!(of("2001:db8:1:2:3::4", 24, 64), "2001:db8:1:2::");
        assert_eq!(of("2001:db8:1:2:3::4", 24, 128), "2001:db8:1:2:3::4");
        assert_eq!(of("2001:db8:1:2:3::4", 24, 0), "::");
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let key = |local, domain, recipient| {
            let client = ClientIdentity::Domain("a.test");
            let tags = &TagDelimiters::default();
            of_triplet(&Triplet { client, sender: Some((local, domain)), recipient, tags })
        };
        assert_ne!(key("a", "b", "cd"), key("a", "bc", "d"));
        assert_eq!(key("A", "B", "C"), key("a", "b", "c"));
        assert_ne!(
            of_client(ClientIdentity::Domain("a.test")),
            of_client(ClientIdentity::Domain("b.test"))
        );
    }
}
