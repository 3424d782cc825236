//! The two devices of a path, and what delays and loses packets between them.

use super::carrier::{Carrier, Traffic};
use super::network_namespace::{NetworkNamespace, ip};
use super::{Settings, tun};
use crate::stand::error::{Error, Result};
use crate::stand::system::run_words;
use load::file::FileError;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

/// Packets that a device of ours may hold until they are carried, and the most that netem holds.
/// TCP sends bursts; the kernel's default of 500 would lose what was not asked to be lost.
const DEVICE_PACKETS_MAX: &str = "16384";

/// One end: a device in this network or in the namespace.
struct LinkEnd<'a> {
    device: &'a str,
    /// Where, for `ip` and `tc`; nothing is here.
    place: Vec<&'a str>,
    address: Ipv4Addr,
}

/// Both devices with their addresses, up.
#[derive(Debug)]
pub(super) enum Link {
    /// A pair of devices of the kernel's, with its own qdisc for delays at both ends.
    Netem { near: String },
    /// Two devices whose packets we carry.
    Tun { near: String, far: String, out: Carrier, back: Carrier },
}

impl Link {
    /// With the kernel's own emulation. Needs the module `sch_netem`.
    pub(super) fn netem(
        namespace: &NetworkNamespace,
        settings: &Settings,
        addresses: (Ipv4Addr, Ipv4Addr),
    ) -> Result<Link> {
        let (near, far) = device_names(namespace);
        let name = namespace.name();
        ip(&["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", name])?;
        // From here on dropping it removes the pair.
        let link = Link::Netem { near: near.clone() };
        let one_way_us = format!("{}us", settings.shape.rtt.as_micros() / 2);
        let percent = format!("{}%", settings.shape.loss * 100.0);
        for end in ends(&near, &far, name, addresses) {
            // Losing one of the kernel's 64 KiB super-packets would be a burst of 44.
            let set = ["link", "set", "dev", end.device, "gso_max_segs", "1"];
            ip(&[&end.place[..], &set].concat())?;
            let add = ["qdisc", "add", "dev", end.device, "root", "netem", "delay", &one_way_us];
            let rest = ["loss", &percent, "limit", DEVICE_PACKETS_MAX];
            run_words("tc", &[&end.place[..], &add, &rest].concat())?;
            raise(&end)?;
        }
        Ok(link)
    }

    /// With devices of our own. Needs `/dev/net/tun`.
    pub(super) fn tun(
        namespace: &NetworkNamespace,
        settings: &Settings,
        addresses: (Ipv4Addr, Ipv4Addr),
    ) -> Result<Link> {
        let (near, far) = device_names(namespace);
        let open = |name: &str| {
            tun::open(name).map(Arc::new).map_err(FileError::at(Path::new(tun::CONTROL)))
        };
        let (here, there) = (open(&near)?, open(&far)?);
        ip(&["link", "set", "dev", &far, "netns", namespace.name()])?;
        for end in ends(&near, &far, namespace.name(), addresses) {
            let set = ["link", "set", "dev", end.device, "txqueuelen", DEVICE_PACKETS_MAX];
            ip(&[&end.place[..], &set].concat())?;
            raise(&end)?;
        }
        let (delay, loss, seed) = (settings.shape.rtt / 2, settings.shape.loss, settings.seed);
        let carry = |from, to, seed| {
            Carrier::start(from, to, delay, loss, seed)
                .map_err(|error| Error::Missing(format!("a thread: {error}")))
        };
        let out = carry(Arc::clone(&here), Arc::clone(&there), seed)?;
        // The way back loses others.
        let back = carry(there, here, !seed)?;
        Ok(Link::Tun { near, far, out, back })
    }

    /// What went out to the far end, and back.
    pub(super) fn traffic(&self, namespace: &NetworkNamespace) -> Result<(Traffic, Traffic)> {
        let place = ["-netns", namespace.name()];
        match self {
            Link::Netem { near } => {
                let far = device_names(namespace).1;
                Ok((netem_traffic(near, &[])?, netem_traffic(&far, &place)?))
            }
            Link::Tun { near, far, out, back } => {
                let (mut out, mut back) = (out.traffic(), back.traffic());
                out.overflowed += device_overflow(near, &[])?;
                back.overflowed += device_overflow(far, &place)?;
                Ok((out, back))
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The devices of the other kind go with their files.
        if let Link::Netem { near } = self
            && let Err(error) = ip(&["link", "delete", "dev", near])
        {
            eprintln!("postrider-lab: device {near} stays behind: {error}");
        }
    }
}

fn device_names(namespace: &NetworkNamespace) -> (String, String) {
    (format!("{}a", namespace.name()), format!("{}b", namespace.name()))
}

fn ends<'a>(
    near: &'a str,
    far: &'a str,
    namespace: &'a str,
    (near_address, far_address): (Ipv4Addr, Ipv4Addr),
) -> [LinkEnd<'a>; 2] {
    [
        LinkEnd { device: near, place: vec![], address: near_address },
        LinkEnd { device: far, place: vec!["-netns", namespace], address: far_address },
    ]
}

/// Gives a device its address and switches it on.
fn raise(end: &LinkEnd<'_>) -> Result<()> {
    let address = format!("{}/30", end.address);
    ip(&[&end.place[..], &["address", "add", &address, "dev", end.device]].concat())?;
    ip(&[&end.place[..], &["link", "set", "dev", end.device, "up"]].concat())?;
    Ok(())
}

/// What a device of netem's sent.
fn netem_traffic(device: &str, place: &[&str]) -> Result<Traffic> {
    let show = ["-j", "-s", "qdisc", "show", "dev", device, "root"];
    let shown = run_words("tc", &[place, &show].concat())?;
    let shown: Value = serde_json::from_str(&shown).unwrap_or(Value::Null);
    let number = |key: &str| {
        let missing = || Error::Missing(format!("tc shows no {key} of {device}: {shown}"));
        shown[0][key].as_u64().ok_or_else(missing)
    };
    // It counts what was lost at random and what found no room in one.
    Ok(Traffic {
        carried: number("packets")?,
        bytes: number("bytes")?,
        dropped: number("drops")?,
        ..Traffic::default()
    })
}

/// Packets that found no room in a device.
fn device_overflow(device: &str, place: &[&str]) -> Result<u64> {
    let show = ["-j", "-s", "link", "show", "dev", device];
    let shown = ip(&[place, &show].concat())?;
    let shown: Value = serde_json::from_str(&shown).unwrap_or(Value::Null);
    let dropped = shown[0]["stats64"]["tx"]["dropped"].as_u64();
    let missing = || Error::Missing(format!("ip shows no dropped packets of {device}: {shown}"));
    dropped.ok_or_else(missing)
}

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
