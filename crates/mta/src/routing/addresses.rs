//! The addresses of a host in the order of the attempts.

use super::Active;
use crate::answer::Answer;
use crate::facts::{RecipientRecords, StoredFacts};
use crate::message::Message;
use config::{Config, Reports};
use mail::{Envelope, Mailbox};
use spool::Meta;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of addresses of a host in one connection attempt. If it has both families, each gets half.
pub const PER_HOST_MAX: usize = 6;

/// The first addresses, interleaved as in RFC 8305 §4.
#[must_use]
pub fn interleaved(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let mut mixed = by_turns(addresses);
    mixed.truncate(PER_HOST_MAX);
    mixed
}

/// All addresses in random order, since those of one host are equal (RFC 5321 §5.1) and the resolver's order is that of
/// a cache. The family of the first address stays first.
pub fn scattered(mut addresses: Vec<IpAddr>, random: impl FnMut() -> u64) -> Vec<IpAddr> {
    let first = addresses.first().is_some_and(|ip| ip.to_canonical().is_ipv6());
    shuffle(&mut addresses, random);
    addresses.sort_by_key(|ip| ip.to_canonical().is_ipv6() != first);
    by_turns(addresses)
}

/// Shuffles in place (Fisher and Yates).
pub(super) fn shuffle<T>(all: &mut [T], mut random: impl FnMut() -> u64) {
    for last in (1..all.len()).rev() {
        let at = (random() % (last as u64 + 1)) as usize;
        all.swap(last, at);
    }
}

/// Alternates the families, beginning with that of the first address (RFC 8305 §4). The order within a family stays.
/// Mapped addresses count as IPv4.
fn by_turns(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
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
    mixed
}

/// IPv4 networks that are not global: private use (RFC 1918, RFC 6598), loopback, link-local, "this network", protocol
/// assignments, benchmarks, multicast, reserved and broadcast (RFC 6890).
const PRIVATE_V4: [(Ipv4Addr, u8); 11] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Returns true if an address is valid only on this machine or network. Public DNS data must not direct mail there
/// where the configuration forbids it.
#[must_use]
pub fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => {
            ip.is_loopback()
                || ip == Ipv6Addr::UNSPECIFIED
                || ip.is_multicast()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
                // Site-local, deprecated by RFC 3879.
                || ip.segments()[0] & 0xffc0 == 0xfec0
                || carried(ip).is_some_and(is_private_v4)
        }
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    PRIVATE_V4.iter().any(|(network, length)| {
        (ip.to_bits() ^ network.to_bits()).leading_zeros() >= u32::from(*length)
    })
}

/// The IPv4 address that a translator (64:ff9b::/96, RFC 6052) or a 6to4 relay (2002::/16, RFC 3056) forwards to.
/// 64:ff9b:1::/48 is for local use (RFC 8215).
fn carried(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(from(high, low)),
        [0x64, 0xff9b, 1, ..] => Some(Ipv4Addr::UNSPECIFIED),
        _ => None,
    }
}

/// Resolves the recipient of a report: the expansion of a local alias, or the address itself.
pub(crate) type Readers = Rc<dyn Fn(Mailbox) -> Answer<'static, Vec<Mailbox>>>;

/// Replaces recipients that mean our postmaster by the configured address. They follow the postmaster's route, not the
/// domain's.
pub(crate) fn resolve_postmasters(
    config: &Config,
    envelope: &mut Envelope,
    records: &mut RecipientRecords,
) {
    for (recipient, index) in envelope.recipients.iter_mut().zip(0..) {
        if config.is_postmaster(&recipient.mailbox) {
            recipient.mailbox = config.postmaster.address.clone();
            records.get_mut(index).is_for_postmaster = true;
        }
    }
}

/// The route of a recipient if the domain does not determine it: the postmaster's, none for a refused recipient, or the
/// operator's choice, which may be empty.
pub(crate) fn chosen_route<'a>(meta: &'a Meta, index: u32, chose: &'a str) -> &'a str {
    let kept = StoredFacts::of(meta);
    if kept.is_for_postmaster(index) {
        return config::POSTMASTER_ROUTE;
    }
    kept.refusal_of(index).unwrap_or(chose)
}

/// The report settings for a recipient.
pub(crate) fn reports_of<'a>(
    active: &'a Active,
    message: &Message,
    index: u32,
) -> &'a Arc<Reports> {
    let config = &active.config;
    if message.kept().is_for_postmaster(index) {
        let route = config.routes.get(config.postmaster.route);
        return route.map_or(&config.reports, |route| &route.reports);
    }
    let recipient = message.envelope.recipients.get(index as usize);
    let route = recipient.and_then(|recipient| active.route_for(&recipient.mailbox.domain()));
    route.map_or(&config.reports, |route| &route.reports)
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
    fn each_address_comes_first_some_time_and_the_families_stay_in_turn() {
        let all = ips(&["2001:db8::1", "192.0.2.1", "192.0.2.2", "2001:db8::2", "192.0.2.3"]);
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
            seed >> 33
        };
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let order = scattered(all.clone(), &mut random);
            assert_eq!(order.len(), all.len());
            assert!(order[0].is_ipv6() && order[1].is_ipv4() && order[2].is_ipv6());
            seen.extend([order[0], order[1]]);
        }
        assert_eq!(seen.len(), all.len());
        assert!(scattered(Vec::new(), random).is_empty());
    }

    #[test]
    fn what_is_private() {
        for ip in [
            "127.0.0.2",
            "10.1.1.1",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.169.254",
            "100.127.0.1",
            "0.0.0.0",
            "192.0.0.8",
            "198.19.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fd00::1",
            "fe80::1",
            "fec0::1",
            "feff::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::192.0.2.1",
            "2002:7f00:1::1",
        ] {
            assert!(is_private(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "192.0.2.1",
            "100.128.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "198.17.255.255",
            "223.255.255.255",
            "2001:db8::1",
            "::ffff:192.0.2.1",
            "64:ff9b::192.0.2.1",
            "2002:c000:201::1",
        ] {
            assert!(!is_private(ip.parse().unwrap()), "{ip}");
        }
    }
}
