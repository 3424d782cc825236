//! Text form of ready queues' names, and of shared limits' names.
//!
//! Hosts of equal preference are joined by `,`, groups by `>`. Separators are escaped in names, which come from the
//! DNS: two different lists of hosts never have the same text.

use std::borrow::Cow;

/// Escapes separators, and characters unfit for a terminal.
fn escaped(name: &str) -> Cow<'_, str> {
    let is_special = |c: char| matches!(c, ',' | '>' | '%') || c.is_control() || c == ' ';
    if !name.contains(is_special) {
        return Cow::Borrowed(name);
    }
    let mut text = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        if is_special(c) {
            text.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            text.push(c);
        }
    }
    Cow::Owned(text)
}

/// A route's name, in which `:` would end it.
fn escaped_route(name: &str) -> String {
    escaped(name).replace(':', "%3A")
}

/// `host:port`; a host's own `:` is escaped unless it is an address in brackets. With port 0, which
/// no host of the DNS or the configuration has, it is the path of a socket.
#[must_use]
pub fn host_text(host: &str, port: u16) -> String {
    if port == 0 {
        return escaped(host).into_owned();
    }
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => std::net::SocketAddr::new(address, port).to_string(),
        Err(_) => format!("{}:{port}", escaped(host).replace(':', "%3A")),
    }
}

/// Canonical text of channel, route and hosts: `mx:careful:mx1.example:25,mx2.example:25>mx3.example:25`. Groups are in
/// the order of attempts, the hosts of a group in any order; each has the form of [`host_text`].
#[must_use]
pub fn next_hop(channel: &str, route: &str, groups: &[Vec<String>]) -> String {
    let groups: Vec<String> = groups.iter().map(|group| sorted(group.iter())).collect();
    format!("{channel}:{}:{}", escaped_route(route), groups.join(">"))
}

/// The same for the limits that are shared by a set of hosts, whatever their order.
#[must_use]
pub fn host_set(channel: &str, route: &str, groups: &[Vec<String>]) -> String {
    format!("{channel}:{}:{}", escaped_route(route), sorted(groups.iter().flatten()))
}

fn sorted<'a>(hosts: impl Iterator<Item = &'a String>) -> String {
    let mut hosts: Vec<&str> = hosts.map(String::as_str).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(groups: &[&[&str]]) -> Vec<Vec<String>> {
        let host = |host: &&str| host_text(host, 25);
        groups.iter().map(|group| group.iter().map(host).collect()).collect()
    }

    #[test]
    fn order_and_route_make_another_next_hop_and_only_the_route_other_limits() {
        let (ab, ba) = (groups(&[&["a"], &["b"]]), groups(&[&["b"], &["a"]]));
        assert_eq!(next_hop("mx", "r", &ab), "mx:r:a:25>b:25");
        assert_eq!(next_hop("mx", "r", &ba), "mx:r:b:25>a:25");
        assert_eq!(next_hop("mx", "r", &groups(&[&["b", "a"]])), "mx:r:a:25,b:25");
        assert_eq!(next_hop("mx", "other", &ab), "mx:other:a:25>b:25");
        assert_eq!(host_set("mx", "r", &ab), "mx:r:a:25,b:25");
        assert_eq!(host_set("mx", "r", &ba), "mx:r:a:25,b:25");
        assert_ne!(host_set("mx", "r", &ab), host_set("mx", "other", &ab));
    }

    #[test]
    fn no_name_from_the_dns_reads_as_several() {
        let sly = ["a:25>b", "a:25,b", "a%2C", "x\u{1b}[2J", "2001:db8::1", "a b"];
        let texts = sly.map(|name| next_hop("mx", "r:s>t", &groups(&[&[name]])));
        assert_eq!(
            texts,
            [
                "mx:r%3As%3Et:a%3A25%3Eb:25",
                "mx:r%3As%3Et:a%3A25%2Cb:25",
                "mx:r%3As%3Et:a%252C:25",
                "mx:r%3As%3Et:x%1B[2J:25",
                "mx:r%3As%3Et:[2001:db8::1]:25",
                "mx:r%3As%3Et:a%20b:25",
            ]
        );
    }
}
