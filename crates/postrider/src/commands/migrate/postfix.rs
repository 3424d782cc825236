//! Postfix's configuration as one of this server.

mod access;
mod behaviour;
mod databases;
mod domains;
mod expansion;
mod intake;
mod leftovers;
mod limits;
mod listeners;
mod local;
mod mailboxes;
mod maps;
mod master;
mod milters;
mod moving;
mod networks;
mod next_hops;
mod pipes;
mod restrictions;
mod rewriting;
mod routes;
mod senders;
mod site;
#[cfg(test)]
mod tests;
mod tls_in;
mod tls_out;
mod transports;
mod values;

use super::new_config::{NewConfig, list, quoted};
use super::report::MigrationReport;
use domains::{DomainClass, DomainList, Kind};
use moving::Moving;
use site::Site;
use std::path::Path;
use values::Troubles;

/// The result of a migration.
#[derive(Debug)]
pub(super) struct Migrated {
    pub(super) config: NewConfig,
    pub(super) report: MigrationReport,
}

/// Places and names that a migration needs from the machine.
pub(super) struct Surroundings<'a> {
    /// The directory of the new configuration, which its files have in their paths.
    pub(super) out: &'a Path,
    /// The accounts for `local_recipient_maps`, usually `/etc/passwd`.
    pub(super) accounts: &'a Path,
    /// The machine's name, the default of `myhostname`.
    pub(super) host: &'a str,
}

/// Translates the configuration in a directory.
///
/// # Errors
/// Returns a message for each file that can't be read, and for each line without a meaning.
pub(super) fn migrate(dir: &Path, around: &Surroundings<'_>) -> Result<Migrated, Troubles> {
    let site = Site::read(dir, around.host)?;
    let mut m = Moving::new(site, around);
    general(&mut m);
    tls_in::certificates(&mut m);
    let mut intakes = listeners::read(&mut m);
    let mut classes = domains::classes(&mut m);
    classes.push(DomainClass::new(Kind::Default, DomainList::default()));
    local::fill(&mut m, &mut classes);
    local::postmaster(&mut m, &classes);
    let entries = m.transport_entries();
    for (name, why) in [
        ("local_transport", "local"),
        ("virtual_transport", "mailboxes"),
        ("relay_transport", "relayed"),
        ("default_transport", "outside"),
        ("relayhost", "outside"),
    ] {
        let of = m.get(name);
        m.carried(&of, &format!("the channel of the routes `{why}`"));
    }
    routes::write(&mut m, &classes, &entries);
    listeners::postscreen(&mut m, &mut intakes);
    restrictions::write(&mut m, &mut intakes);
    routes::closed(&mut m, &entries);
    restrictions::relocated(&mut m);
    rewriting::checks(&mut m);
    rewriting::copies(&mut m);
    rewriting::addresses(&mut m, &classes);
    limits::write(&mut m);
    listeners::write(&mut m, &mut intakes);
    leftovers::write(&mut m);
    behaviour::write(&mut m);
    match m.site.troubles() {
        troubles if troubles.is_empty() => Ok(Migrated { config: m.config, report: m.report }),
        troubles => Err(troubles),
    }
}

/// Keys at the top of the file.
fn general(m: &mut Moving) {
    let name = m.get("myhostname");
    m.config.top.set("hostname", quoted(&name.text));
    m.carried(&name, "`hostname`");
    for name in ["mydomain", "myorigin"] {
        let of = m.get(name);
        m.carried(&of, "domains are written in full");
    }
    let delimiter = m.get("recipient_delimiter");
    m.config.top.set("recipient_delimiter", quoted(delimiter.text.trim()));
    m.carried(&delimiter, "`recipient_delimiter`");
    let proxies = m.get("proxy_interfaces");
    let addresses: Vec<String> =
        proxies.words().iter().map(|word| word.replace(['[', ']'], "")).collect();
    if !addresses.is_empty() {
        m.config.top.set("proxy_addresses", list(&addresses));
        m.carried(&proxies, "`proxy_addresses`");
    }
}
