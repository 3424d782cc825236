//! Which addresses the two ends of a path have.

use serde_json::Value;
use std::net::Ipv4Addr;

/// 198.18.0.0/15, set aside for benchmarks of networks (RFC 2544 appendix C.2.2, RFC 6890).
const BENCHMARKS: u32 = 0xC612_0000;

/// How many /30 networks are in it.
const COUNT: u32 = 1 << 15;

/// The first /30 from the `start`th on that overlaps with none of `taken`.
pub(super) fn choose(taken: &[(u32, u32)], start: u32) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let networks = (0..COUNT).map(|n| BENCHMARKS + (start.wrapping_add(n) % COUNT) * 4);
    let free =
        |network: &u32| taken.iter().all(|(first, last)| *last < *network || network + 3 < *first);
    networks
        .into_iter()
        .find(free)
        .map(|network| (network + 1, network + 2))
        .map(|(near, far)| (Ipv4Addr::from(near), Ipv4Addr::from(far)))
}

/// The first and last address of each route in what `ip -j -4 route show table all` prints, but for
/// the default route. Addresses of this machine are among them, as local routes.
pub(super) fn taken(routes: &Value) -> Vec<(u32, u32)> {
    let destinations = routes.as_array().into_iter().flatten();
    destinations.filter_map(|route| range(route["dst"].as_str()?)).collect()
}

fn range(destination: &str) -> Option<(u32, u32)> {
    let (address, length) = destination.split_once('/').unwrap_or((destination, "32"));
    let (address, length): (Ipv4Addr, u32) = (address.parse().ok()?, length.parse().ok()?);
    let rest = u32::MAX.checked_shr(length).unwrap_or(0);
    (length > 0).then(|| (u32::from(address) & !rest, u32::from(address) | rest))
}

#[cfg(test)]
mod tests {
    use super::{choose, taken};
    use serde_json::json;
    use std::net::Ipv4Addr;

    #[test]
    fn a_network_in_use_is_passed_over() {
        let routes = json!([
            {"dst": "default", "gateway": "192.0.2.1"},
            {"dst": "192.0.2.0/24"},
            {"dst": "198.18.0.0/29"},
            {"type": "local", "dst": "198.18.0.9"},
        ]);
        let taken = taken(&routes);
        assert_eq!(taken.len(), 3);
        let address = |last| Ipv4Addr::new(198, 18, 0, last);
        assert_eq!(choose(&taken, 0), Some((address(13), address(14))));
        assert_eq!(choose(&[], 0), Some((address(1), address(2))));
        // The search goes on at the beginning of the range.
        assert_eq!(
            choose(&taken, (1 << 15) - 1).map(|ends| ends.0),
            Some(Ipv4Addr::new(198, 19, 255, 253))
        );
        let last = super::taken(&json!([{"dst": "198.19.255.252/30"}]));
        assert_eq!(choose(&last, (1 << 15) - 1), Some((address(1), address(2))));
    }

    #[test]
    fn nothing_is_chosen_when_all_is_taken() {
        assert_eq!(choose(&taken(&json!([{"dst": "198.16.0.0/14"}])), 7), None);
    }
}
