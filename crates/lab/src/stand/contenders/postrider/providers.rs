//! Postrider's configuration where it sends to many domains at many providers.

use crate::stand::egress::Providers;
use crate::stand::error::{Error, Result};
use crate::stand::place::ServerSetup;
use crate::stand::source::{TENANT_FIELD, TENANTS, tenant};
use std::fmt::Write as _;

/// Beside the configuration.
const SHAPING: &str = "shaping.toml";
/// Before all sections.
pub(super) const HEAD: &str = "shaping = [\"shaping.toml\"]\n";
/// Addresses that mail goes from.
const SOURCES: u32 = 4;
/// Nothing waits for it.
const RATE: &str = "1_000_000/s";

/// What stands behind the listener's keys; of one that shapes with more of these. Writes the file of
/// providers.
///
/// # Errors
/// When nothing answers for the DNS, or a file can't be written.
pub(super) fn sections(
    place: &ServerSetup,
    providers: Providers,
    is_shaped: bool,
) -> Result<String> {
    let none = || Error::Missing("no name server runs".to_owned());
    let dns = place.dns.as_deref().ok_or_else(none)?;
    let (_, port) = place.next_hop();
    let mut text = String::new();
    let mut pool = "";
    if is_shaped {
        place.write(SHAPING, &shaping(providers))?;
        text += &shaped();
        pool = "pool = \"all\"\n";
    }
    let connections = providers.connections_each;
    // Writing to a String can't fail.
    let _ = write!(
        text,
        "\n[dns]\nservers = [\"{dns}\"]\n\n[retry]\nfirst = \"1s\"\nlongest = \"1s\"\n\n\
         [[route]]\n{pool}mx = {{ port = {port}, tls = \"off\", max_connections = {connections} }}\n\n"
    );
    Ok(text)
}

/// Steering, tenants and sources.
fn shaped() -> String {
    let mut text =
        format!("steering_from = [\"127.0.0.0/8\"]\n\n[steering]\ntenant = \"{TENANT_FIELD}\"\n");
    for number in 0..TENANTS {
        let _ = write!(
            text,
            "\n[[tenant]]\nname = \"{}\"\nweight = {}\nrate = [\"{RATE}\", \"1_000_000_000/d\"]\n\
             queued_max = 1_000_000\n",
            tenant(number),
            1 + number % 4
        );
    }
    let name = |number: u32| format!("ip-{number}");
    for number in 1..=SOURCES {
        let (name, address) = (name(number), format!("127.0.0.{}", 10 + number));
        let _ = write!(
            text,
            "\n[[source]]\nname = \"{name}\"\naddress = \"{address}\"\nehlo = \"{name}.bench.grey\"\n"
        );
    }
    let sources: Vec<String> =
        (1..=SOURCES).map(|number| format!("{{ name = \"{}\" }}", name(number))).collect();
    text + &format!("\n[[pool]]\nname = \"all\"\nsources = [{}]\n", sources.join(", "))
}

/// Each provider with limits of its own, for each source.
fn shaping(providers: Providers) -> String {
    let connections = (providers.connections_each / SOURCES).max(1);
    let mut text = format!("[default]\nmax_connections = {connections}\n");
    for (number, host) in (1..).zip(providers.hosts()) {
        let _ = write!(
            text,
            "\n[provider.provider{number}]\nmx = [\"{host}\"]\nmax_connections = {connections}\n\
             rate = [\"{RATE}\"]\n\
             together = {{ max_connections = {connections}, rate = [\"{RATE}\", \"1_000_000_000/d\"] }}\n"
        );
    }
    text
}
