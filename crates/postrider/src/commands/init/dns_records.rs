//! The DNS records that a new server needs, as zone files have them.

use super::configuration::SELECTOR;
use super::new_server::{NewServer, Role};
use crate::commands::check::{SendingAddress, txt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Addresses for documentation (RFC 5737, RFC 3849): no packet is sent to them.
const FAR: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// The given addresses, or else those of the default routes, if they are public.
pub(super) fn public_addresses(given: &[IpAddr]) -> Vec<IpAddr> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let of_route = |far: &IpAddr| {
        let unspecified: IpAddr = match far {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        // Connecting a UDP socket sends nothing: the system chooses the source address.
        let socket = UdpSocket::bind((unspecified, 0)).ok()?;
        socket.connect((*far, 9)).ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    };
    let found = FAR.iter().filter_map(of_route);
    let is_public = |address: &IpAddr| !SendingAddress::of_server(*address, "").is_private();
    found.filter(is_public).collect()
}

/// The records, with comments; empty for a relay, because the smarthost has them.
pub(super) fn text(server: &NewServer, addresses: &[IpAddr], dkim_record: Option<&str>) -> String {
    let NewServer { domain, hostname, role, account: _ } = server;
    let Some(dkim_record) = dkim_record else { return String::new() };
    let mut lines = vec!["; DNS records".to_owned()];
    for address in addresses {
        let sending = SendingAddress::of_server(*address, hostname);
        lines.push(sending.forward());
        lines.push(format!("{}  ; set by the provider of the address", sending.ptr()));
    }
    if addresses.is_empty() {
        lines.push(format!("; A, AAAA and PTR records of {hostname} and its public addresses"));
    }
    let is_mail_host = matches!(role, Role::MailHost { .. });
    if is_mail_host {
        lines.push(format!("{domain}. IN MX 10 {hostname}."));
    }
    lines.push(match is_mail_host {
        true => txt(domain, "v=spf1 mx -all"),
        // Another server receives the domain's mail, and may send as well.
        false => format!(
            "{}  ; or `a:{hostname}` in the present record",
            txt(domain, &format!("v=spf1 a:{hostname} -all"))
        ),
    });
    if hostname != domain {
        lines.push(txt(hostname, "v=spf1 a -all"));
    }
    lines.push(txt(&format!("{SELECTOR}._domainkey.{domain}"), dkim_record));
    let policy = format!("v=DMARC1; p=none; rua=mailto:postmaster@{domain}");
    lines.push(format!(
        "{}  ; later p=quarantine, then p=reject",
        txt(&format!("_dmarc.{domain}"), &policy)
    ));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::new_server::CertificateSource;
    use super::*;

    #[test]
    fn sender_without_a_public_address_gets_a_comment() {
        let role = Role::Sender { user: "app".to_owned(), certificate: CertificateSource::Acme };
        let server = NewServer {
            domain: "example.org".to_owned(),
            hostname: "out.example.org".to_owned(),
            role,
            account: None,
        };
        let records = text(&server, &[], Some("v=DKIM1; p=x"));
        assert!(records.contains("\n; A, AAAA and PTR records of out.example.org "), "{records}");
        assert!(records.contains("example.org. IN TXT ( \"v=spf1 a:out.example.org -all\" )"));
        assert!(!records.contains(" IN MX "), "{records}");
        let records = text(&server, &[[192, 0, 2, 7].into()], Some("v=DKIM1; p=x"));
        assert!(
            records.contains("out.example.org. IN A 192.0.2.7\n7.2.0.192.in-addr.arpa. IN PTR")
        );
        assert_eq!(text(&server, &[], None), "");
    }
}
