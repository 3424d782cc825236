//! Networks of clients: mynetworks and lists like it.

use super::moving::Moving;
use super::values::{MapName, Parameter, words};
use std::net::IpAddr;
use std::path::Path;

/// Networks of clients that may relay.
pub(super) fn networks(m: &mut Moving) -> Vec<String> {
    let of = m.get("mynetworks");
    if of.is_set {
        let all = list_of(m, &of);
        m.carried(&of, "`relay_from` of the listeners");
        return all;
    }
    let style = m.get("mynetworks_style");
    if style.text != "host" {
        let why = "only this machine may relay; networks of its interfaces are not read";
        m.different(&style, why, "name the networks in `relay_from` of the listeners");
    }
    let mut all = vec!["127.0.0.0/8".to_owned(), "::1/128".to_owned()];
    let interfaces = m.get("inet_interfaces");
    let own = interfaces.words().into_iter().map(|word| word.trim_matches(['[', ']']).to_owned());
    all.extend(
        own.filter(|word| word.parse::<IpAddr>().is_ok_and(|address| !address.is_loopback())),
    );
    all
}

/// The networks of a parameter.
pub(super) fn list_of(m: &mut Moving, of: &Parameter) -> Vec<String> {
    let (mut all, mut excepted) = (Vec::new(), Vec::new());
    let mut rest = of.words();
    rest.reverse();
    while let Some(word) = rest.pop() {
        if let Some(network) = word.strip_prefix('!') {
            excepted.extend(network_of(network));
        } else if word.starts_with('/') {
            if let Some(text) = m.map_text(of, Path::new(&word)) {
                let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
                rest.extend(lines.flat_map(words));
            }
        } else if let Some(network) = network_of(&word) {
            all.push(network);
        } else if let Some(map) = MapName::parse(&word) {
            all.extend(of_map(m, of, &map));
        } else {
            let why = format!("{word} is no network");
            m.missing(of, &why, "name the addresses; names of clients are not looked up");
        }
    }
    for network in excepted {
        let parsed = |text: &str| text.parse::<config::IpNet>().ok();
        let Some(out) = parsed(&network) else { continue };
        let before = all.len();
        all.retain(|one: &String| parsed(one).is_none_or(|one| !one.contains(&out.addr())));
        if all.len() < before {
            let why = format!("networks with !{network} in them are left out as a whole");
            m.missing(of, &why, "name the parts of the network that may relay");
        }
    }
    all
}

/// Networks that a table has: keys of addresses, or a list of networks.
fn of_map(m: &mut Moving, of: &Parameter, map: &MapName) -> Vec<String> {
    if map.kind == "cidr" {
        let Some(text) = m.map_text(of, Path::new(&map.name)) else { return Vec::new() };
        let all = super::maps::entries(&text);
        if all.iter().any(|entry| entry.key.starts_with('!') || entry.value.starts_with("if")) {
            m.missing(of, "conditions in the file are not read", "name the networks");
            return Vec::new();
        }
        return all.iter().filter_map(|entry| network_of(&entry.key)).collect();
    }
    match m.map_entries(of, map) {
        Some(entries) => {
            let why = "the networks in the file; it is not read later";
            m.different(of, why, "change `relay_from` instead of the file");
            entries.iter().filter_map(|entry| network_of(&entry.key)).collect()
        }
        None => {
            let why = format!("{}:{} is not read here", map.kind, map.name);
            m.missing(of, &why, "name the networks in `relay_from`");
            Vec::new()
        }
    }
}

/// `10.0.0.0/8`, `[::1]/128`, `192.168` (the first octets) in the form of this server.
fn network_of(word: &str) -> Option<String> {
    let plain = word.replace(['[', ']'], "");
    if plain.parse::<config::IpNet>().is_ok() || plain.parse::<IpAddr>().is_ok() {
        return Some(plain);
    }
    let octets: Vec<&str> = plain.trim_end_matches('.').split('.').collect();
    let is_start = octets.len() < 4 && octets.iter().all(|octet| octet.parse::<u8>().is_ok());
    let rest = ".0".repeat(4_usize.checked_sub(octets.len())?);
    is_start.then(|| format!("{}{rest}/{}", octets.join("."), octets.len() * 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_the_forms_of_mynetworks() {
        for (word, network) in [
            ("127.0.0.0/8", Some("127.0.0.0/8")),
            ("[::1]/128", Some("::1/128")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("192.168", Some("192.168.0.0/16")),
            ("10.", Some("10.0.0.0/8")),
            ("hash:/x", None),
            ("mail.example.org", None),
        ] {
            assert_eq!(network_of(word).as_deref(), network, "{word}");
        }
    }
}
