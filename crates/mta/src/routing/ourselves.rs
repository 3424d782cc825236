//! Noticing that the host at the other end is this server: a message sent there would go round in
//! circles (RFC 5321 §5.1, §6.3).

use config::Config;
use mail::{Class, Culprit, EnhancedStatus, Failure};
use std::net::{IpAddr, SocketAddr};

const STATUS: EnhancedStatus = EnhancedStatus::new(5, 4, 6);

/// Whether a connection from `local` to `peer` ends at a listener of ours: both ends have the same
/// address, whatever the interfaces are called, and we listen there.
pub fn is_here(config: &Config, local: Option<SocketAddr>, peer: SocketAddr) -> bool {
    let to = peer.ip().to_canonical();
    local.is_some_and(|local| local.ip().to_canonical() == to) && listens_at(config, peer)
}

/// Whether a listener of ours is reached at this address of this machine.
fn listens_at(config: &Config, address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    config.listeners.iter().any(|listener| {
        let own = listener.address;
        let own_ip: IpAddr = own.ip().to_canonical();
        own.port() == address.port() && (own_ip == ip || own_ip.is_unspecified())
    })
}

/// Whether a server that calls itself so is this one: listeners greet as the server's name, and mail is sent by
/// the names of its sources, too.
pub fn is_our_name(config: &Config, name: &str) -> bool {
    let ehlo = config.sources.iter().filter_map(|source| source.ehlo.as_ref());
    std::iter::once(&config.hostname).chain(ehlo).any(|own| name.eq_ignore_ascii_case(own.as_str()))
}

/// The failure of a loop.
pub fn loops(peer: &str) -> Failure {
    Failure {
        class: Class::Permanent,
        culprit: Culprit::Network(Box::from(peer)),
        status: STATUS,
        reply: None,
        heard: None,
        step: None,
        text: "mail for this domain would come back to this server".into(),
    }
}

/// Whether a failure is that.
pub fn is_loop(failure: &Failure) -> bool {
    failure.reply.is_none() && failure.status == STATUS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_at_whatever_address_the_machine_has() {
        let config = |listener: &str| {
            let text =
                format!("[[listener]]\naddress = \"{listener}\"\n[[route]]\ndiscard = {{}}\n");
            crate::testing::schema().parse(&text, "test.toml").unwrap()
        };
        let here = |listener: &str, local: &str, peer: &str| {
            is_here(&config(listener), local.parse().ok(), peer.parse().unwrap())
        };
        assert!(here("0.0.0.0:25", "198.51.100.7:41000", "198.51.100.7:25"));
        assert!(here("[::]:25", "198.51.100.7:41000", "[::ffff:198.51.100.7]:25"));
        assert!(here("198.51.100.7:25", "198.51.100.7:41000", "198.51.100.7:25"));
        assert!(!here("0.0.0.0:25", "198.51.100.7:41000", "198.51.100.8:25"), "another machine");
        assert!(!here("0.0.0.0:2525", "198.51.100.7:41000", "198.51.100.7:25"), "another port");
        // Another program on this machine, at an address of its own.
        assert!(!here("198.51.100.7:25", "127.0.0.1:41000", "127.0.0.1:25"));
    }
}
