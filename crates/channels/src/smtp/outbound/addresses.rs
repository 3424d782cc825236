//! The addresses of a host in the order in which they are tried.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of one host tried in one opening at most, half of them of each family where it has
/// both.
pub(super) const PER_HOST_MAX: usize = 6;

/// RFC 8305 §4: the families by turns, beginning with that of the first address; within a family
/// as the resolver has them. Mapped addresses are the IPv4 addresses that they are.
pub(super) fn interleaved(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let canonical = addresses.into_iter().map(|ip| ip.to_canonical());
    let (six, four): (Vec<IpAddr>, Vec<IpAddr>) = canonical.partition(IpAddr::is_ipv6);
    let mut mixed: Vec<IpAddr> = Vec::with_capacity(six.len() + four.len());
    let (mut six, mut four) = (six.into_iter(), four.into_iter());
    loop {
        let pair = [six.next(), four.next()];
        if pair == [None, None] {
            break;
        }
        for ip in pair.into_iter().flatten() {
            if !mixed.contains(&ip) {
                mixed.push(ip);
            }
        }
    }
    mixed.truncate(PER_HOST_MAX);
    mixed
}

/// Whether an address means something on this machine or network only: what strangers publish
/// must not lead there where that is refused.
pub(super) fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let shared = Ipv4Addr::new(100, 64, 0, 0).to_bits() >> 22;
            ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_broadcast()
                || ip.is_multicast()
                || ip.octets()[0] == 0
                // RFC 6598.
                || ip.to_bits() >> 22 == shared
        }
        IpAddr::V6(ip) => {
            ip.is_loopback()
                || ip == Ipv6Addr::UNSPECIFIED
                || ip.is_multicast()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn many_addresses_of_one_family_do_not_hide_the_other() {
        let eight: Vec<String> = (1..=8).map(|n| format!("2001:db8::{n}")).collect();
        let mut all: Vec<&str> = eight.iter().map(String::as_str).collect();
        all.push("192.0.2.1");
        let mixed = interleaved(ips(&all));
        assert_eq!(mixed[..3], ips(&["2001:db8::1", "192.0.2.1", "2001:db8::2"]));
        assert_eq!(mixed.len(), PER_HOST_MAX);
        assert_eq!(interleaved(ips(&["::ffff:192.0.2.1", "192.0.2.1"])), ips(&["192.0.2.1"]));
    }

    #[test]
    fn what_is_private() {
        for ip in ["127.0.0.2", "10.1.1.1", "::1", "fd00::1", "fe80::1", "100.127.0.1", "0.0.0.0"] {
            assert!(is_private(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["192.0.2.1", "100.128.0.1", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert!(!is_private(ip.parse().unwrap()), "{ip}");
        }
    }
}
