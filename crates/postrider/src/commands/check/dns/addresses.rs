//! Addresses that mail goes from, and their names.

use super::finding::{Finding, Severity};
use auth::iprev;
use auth::records::{Family, Records};
use config::{Config, Destination, Source};
use hickory_resolver::proto::rr::Name;
use mail::Domain;
use std::net::IpAddr;

/// An address that mail goes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) struct SendingAddress {
    pub(super) address: IpAddr,
    /// The EHLO name in ASCII.
    pub(super) ehlo: String,
    /// Its owner in the configuration, for people.
    pub(super) of: String,
}

/// The sending addresses of a configuration, and findings about unknown ones.
pub(super) async fn sending<R: Records>(
    records: &R,
    config: &Config,
) -> (Vec<SendingAddress>, Vec<Finding>) {
    let (mut all, mut findings) = (Vec::new(), Vec::new());
    let own = ascii(&config.hostname);
    for source in &config.sources {
        let ehlo = source.ehlo.as_ref().map_or_else(|| own.clone(), ascii);
        let addresses = addresses_of(source);
        if addresses.is_empty() {
            let text = "its proxy chooses the address, unknown here: set `address` to check it";
            findings.push(Finding::new(Severity::Note, "ptr", &*source.name, text));
        }
        let of = format!("source {}", source.name);
        let sending = |address| SendingAddress { address, ehlo: ehlo.clone(), of: of.clone() };
        all.extend(addresses.into_iter().map(sending));
    }
    if config.sources.is_empty() || sends_from_anywhere(config) {
        match of_name(records, &own).await {
            Ok(own) => all.extend(own),
            Err(finding) => findings.push(finding),
        }
    }
    (all, findings)
}

fn ascii(domain: &Domain) -> String {
    Domain::dns_name(domain.as_str()).unwrap_or_else(|| domain.as_str().to_owned())
}

fn addresses_of(source: &Source) -> Vec<IpAddr> {
    let (four, six) = (source.address.map(IpAddr::V4), source.address6.map(IpAddr::V6));
    four.into_iter().chain(six).collect()
}

/// Returns true if an `mx` route leaves the choice of the source address to the system.
fn sends_from_anywhere(config: &Config) -> bool {
    let is_mx = |destination| matches!(destination, Destination::Mx { .. });
    config.routes.iter().any(|route| route.pool.is_none() && is_mx(route.channel.destination()))
}

/// The assumed sending addresses without sources: those to which the server's name resolves.
async fn of_name<R: Records>(records: &R, name: &str) -> Result<Vec<SendingAddress>, Finding> {
    let mut found = Vec::new();
    for family in [Family::V4, Family::V6] {
        let trouble = |why| {
            Finding::new(Severity::Error, "ptr", name, format!("address lookup failed: {why}"))
        };
        found.extend(records.addresses(name, family).await.map_err(trouble)?);
    }
    if found.is_empty() {
        let text = "this server's name has no address: publish the address that sends mail, or \
         set it in a [[source]]";
        return Err(Finding::new(Severity::Error, "ptr", name, text));
    }
    Ok(found.into_iter().map(|address| SendingAddress::of_server(address, name)).collect())
}

impl SendingAddress {
    /// An address of the server with this name, in ASCII.
    pub(in crate::commands) fn of_server(address: IpAddr, name: &str) -> SendingAddress {
        SendingAddress { address, ehlo: name.to_owned(), of: "this server".to_owned() }
    }

    /// For people.
    pub(super) fn shown(&self) -> String {
        format!("{} ({})", self.address, self.of)
    }

    /// Returns true if peers see a translated address instead.
    pub(in crate::commands) fn is_private(&self) -> bool {
        match self.address {
            IpAddr::V4(address) => {
                address.is_private() || address.is_loopback() || address.is_link_local()
            }
            IpAddr::V6(address) => {
                address.is_loopback()
                    || address.is_unique_local()
                    || address.is_unicast_link_local()
            }
        }
    }

    /// Its PTR record.
    pub(in crate::commands) fn ptr(&self) -> String {
        let reverse = Name::from(self.address).to_ascii();
        format!("{}. IN PTR {}.", reverse.trim_end_matches('.'), self.ehlo)
    }

    /// The record of its name.
    pub(in crate::commands) fn forward(&self) -> String {
        let kind = if self.address.is_ipv4() { "A" } else { "AAAA" };
        format!("{}. IN {kind} {}", self.ehlo, self.address)
    }

    /// Checks that its PTR name resolves back to it and equals the EHLO name (RFC 8601 §3, RFC 5321 §4.1.1.1).
    pub(super) async fn named<R: Records>(&self, records: &R) -> Finding {
        let (subject, ehlo) = (self.shown(), &self.ehlo);
        let finding = |severity, text: String| Finding::new(severity, "ptr", &*subject, text);
        if self.is_private() {
            let text = "a private address: its public address is unknown here";
            return finding(Severity::Note, text.to_owned());
        }
        let names = match records.names(self.address).await {
            Ok(names) => names,
            Err(why) => {
                return finding(Severity::Error, format!("PTR lookup failed: {why}"));
            }
        };
        let back = match records.addresses(ehlo, Family::of(self.address)).await {
            Ok(addresses) => addresses.contains(&self.address),
            Err(why) => {
                let text = format!("address lookup of {ehlo} failed: {why}");
                return finding(Severity::Error, text);
            }
        };
        // If the EHLO name does not resolve to the address, publish that record as well.
        let mended = |finding: Finding, records: Vec<String>| {
            let forward = (!back).then(|| self.forward());
            records.into_iter().chain(forward).fold(finding, Finding::publish)
        };
        let is_said = names.iter().any(|name| name.eq_ignore_ascii_case(ehlo));
        match (names.len(), is_said, back) {
            (0, ..) => {
                let none = finding(Severity::Error, "no PTR record".to_owned());
                mended(none, vec![self.ptr()])
            }
            (1, true, true) => finding(Severity::Ok, format!("{ehlo}, forward-confirmed")),
            (count, true, true) => {
                let text = format!(
                    "{ehlo}, forward-confirmed; but it has {count} names, and some \
                     receivers check only one"
                );
                finding(Severity::Warn, text).publish(self.ptr())
            }
            (_, true, false) => {
                let text = format!("its name {ehlo} does not resolve to it");
                mended(finding(Severity::Error, text), Vec::new())
            }
            (_, false, _) => {
                let others = names.join(", ");
                let is_confirmed =
                    iprev::check(records, self.address).await.verdict == iprev::IprevResult::Pass;
                let (severity, back) = match is_confirmed {
                    true => (Severity::Warn, "forward-confirmed"),
                    false => (Severity::Error, "not forward-confirmed"),
                };
                let text = format!("its name is {others}, {back}; its EHLO name is {ehlo}");
                mended(finding(severity, text), vec![self.ptr()])
            }
        }
    }
}
