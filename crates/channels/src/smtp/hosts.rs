//! Hosts of `smtp` and `lmtp` routes: fixed in the configuration, or values of the recipient's entry.

use crate::values::{Setting, ValueError, ValueNames, named};
use config::{Host, HostPort, Reader, Values};
use std::fmt;

/// Maximum number of hosts from the values of one name.
const HOSTS_MAX: usize = 16;

/// Maximum length of a host name (RFC 1035 §2.3.4); also more than a socket's path has.
const HOST_BYTES_MAX: usize = 255;

/// Permitted forms of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostTerms {
    /// Default port.
    pub(super) port: u16,
    /// Unix sockets are permitted.
    pub(super) takes_sockets: bool,
}

/// The hosts of a route.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Hosts {
    /// The same for all recipients, in the order given; empty for hosts from MX records.
    Fixed(Vec<HostPort>),
    /// Some are values of the recipient's entry.
    ByEntry { hosts: Vec<HostSetting>, takes_sockets: bool },
}

/// A fixed host, or the name of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostSetting {
    host: Setting<HostPort>,
    /// Default port of a value.
    port: u16,
}

/// As written, but always with a port.
impl fmt::Display for HostSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Setting::Fixed(host) => host.fmt(f),
            Setting::Value(name) => write!(f, "{{{name}}}:{}", self.port),
        }
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = match self {
            Hosts::Fixed(hosts) => hosts.iter().map(ToString::to_string).collect(),
            Hosts::ByEntry { hosts, .. } => hosts.iter().map(ToString::to_string).collect(),
        };
        f.write_str(&hosts.join(", "))
    }
}

impl Hosts {
    /// Reads the key `hosts` and reports errors.
    pub(super) fn read(written: &[String], terms: HostTerms, reader: &mut Reader<'_, '_>) -> Hosts {
        if written.is_empty() {
            let help = "add hosts = [\"host:port\"]";
            reader.error("hosts", "`hosts` is empty", help);
        }
        Hosts::of_list(written, terms, reader)
    }

    fn of_list(written: &[String], terms: HostTerms, reader: &mut Reader<'_, '_>) -> Hosts {
        let table = reader.recipients().cloned();
        let names = ValueNames::of(table.as_deref());
        let mut hosts: Vec<HostSetting> = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let key = format!("hosts[{index}]");
            match host_setting(text, terms, &names) {
                Ok(host) if hosts.contains(&host) => {
                    reader.error(&key, format!("{host} is listed twice"), "");
                }
                Ok(host) => hosts.push(host),
                Err(help) => reader.error(&key, format!("\"{text}\" is not a host"), &help),
            }
        }
        let fixed: Option<Vec<HostPort>> =
            hosts.iter().map(|setting| setting.host.fixed().cloned()).collect();
        match fixed {
            Some(fixed) => Hosts::Fixed(fixed),
            None => Hosts::ByEntry { hosts, takes_sockets: terms.takes_sockets },
        }
    }

    /// Returns true if all hosts are loopback addresses.
    pub(super) fn are_here(&self) -> bool {
        let is_here = |host: &HostPort| matches!(host.host, Host::Address(ip) if ip.is_loopback());
        matches!(self, Hosts::Fixed(hosts) if !hosts.is_empty() && hosts.iter().all(is_here))
    }

    /// The first fixed host that is an address.
    pub(super) fn address(&self) -> Option<&HostPort> {
        let is_address = |host: &&HostPort| matches!(host.host, Host::Address(_));
        match self {
            Hosts::Fixed(hosts) => hosts.iter().find(is_address),
            Hosts::ByEntry { hosts, .. } => {
                hosts.iter().filter_map(|setting| setting.host.fixed()).find(is_address)
            }
        }
    }

    /// The hosts of the recipient with these values, in the order given, without duplicates.
    ///
    /// # Errors
    /// A value is missing, or is not a host.
    pub(super) fn of(&self, values: Values<'_, '_>) -> Result<Vec<HostPort>, ValueError> {
        let (settings, takes_sockets) = match self {
            Hosts::Fixed(hosts) => return Ok(hosts.clone()),
            Hosts::ByEntry { hosts, takes_sockets } => (hosts, *takes_sockets),
        };
        let mut hosts: Vec<HostPort> = Vec::with_capacity(settings.len());
        for HostSetting { host, port } in settings {
            let terms = HostTerms { port: *port, takes_sockets };
            let found = match host {
                Setting::Fixed(host) => vec![host.clone()],
                Setting::Value(name) => hosts_in(name, values(name), terms)?,
            };
            for host in found {
                if !hosts.contains(&host) {
                    hosts.push(host);
                }
            }
        }
        Ok(hosts)
    }
}

/// Parses a fixed host, `{name}` or `{name}:port`.
fn host_setting(
    text: &str,
    terms: HostTerms,
    names: &ValueNames<'_>,
) -> Result<HostSetting, String> {
    if !text.contains(['{', '}']) {
        let host = HostPort::parse(text, terms.port)?;
        if matches!(host.host, Host::Socket(_)) && !terms.takes_sockets {
            return Err("only LMTP is supported over Unix sockets".to_owned());
        }
        return Ok(HostSetting { host: Setting::Fixed(host), port: terms.port });
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => match port.parse() {
            Ok(0) | Err(_) => return Err(format!("\"{port}\" is not a port")),
            Ok(port) => (name, port),
        },
        None => (text, terms.port),
    };
    match named(name, names) {
        Some(name) => Ok(HostSetting { host: Setting::Value(name?.into()), port }),
        None => {
            Err("a placeholder is a whole host: \"{name}\", or \"{name}:port\" with the default \
             port"
                .to_owned())
        }
    }
}

/// The hosts in the values of one name.
fn hosts_in(
    name: &str,
    values: &[Box<str>],
    terms: HostTerms,
) -> Result<Vec<HostPort>, ValueError> {
    match values.len() {
        0 => Err(ValueError::Missing(name.to_owned())),
        1..=HOSTS_MAX => values.iter().map(|value| host_in(name, value, terms)).collect(),
        count => {
            let why = format!("has {count} values: at most {HOSTS_MAX} hosts");
            Err(ValueError::bad(name, why))
        }
    }
}

fn host_in(name: &str, value: &str, terms: HostTerms) -> Result<HostPort, ValueError> {
    let bad = |why: &str| Err(ValueError::bad(name, why));
    if value.is_empty() {
        return bad("is empty");
    }
    if value.len() > HOST_BYTES_MAX {
        return bad("is longer than a host name: 255 octets");
    }
    if value.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return bad("is not a host: space or control character");
    }
    let host = match HostPort::parse(value, terms.port) {
        Ok(host) => host,
        Err(why) => return bad(&format!("is not a host: {why}")),
    };
    if let Host::Socket(path) = &host.host {
        if !terms.takes_sockets {
            return bad("is a socket: only LMTP is supported over Unix sockets");
        }
        let path = path.to_string_lossy();
        if path.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
            return bad("contains `.`, `..` or an empty name");
        }
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LMTP: HostTerms = HostTerms { port: 24, takes_sockets: true };
    const SMTP: HostTerms = HostTerms { port: 25, takes_sockets: false };

    fn boxed(values: &[&str]) -> Vec<Box<str>> {
        values.iter().map(|value| Box::from(*value)).collect()
    }

    /// The hosts of a recipient, by these hosts of a route and the values of whatever name.
    fn hosts(written: &[&str], terms: HostTerms, values: &[&str]) -> Result<String, ValueError> {
        let names = ValueNames::some(&["mailHost"]);
        let read = |text: &&str| host_setting(text, terms, &names).unwrap();
        let hosts = written.iter().map(read).collect();
        let hosts = Hosts::ByEntry { hosts, takes_sockets: terms.takes_sockets };
        let values = boxed(values);
        let values: &[Box<str>] = &values;
        let found = hosts.of(&|_| values)?;
        Ok(found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_value_is_a_host_with_or_without_port() {
        for (written, value, host) in [
            ("{mailhost}", "b1.example.org", "b1.example.org:24"),
            ("{mailhost}:2400", "b1.example.org", "b1.example.org:2400"),
            ("{mailhost}:2400", "B1.example.org:24", "b1.example.org:24"),
            ("{MAILHOST}:2400", "192.0.2.1", "192.0.2.1:2400"),
            ("{mailhost}:2400", "2001:db8::1", "[2001:db8::1]:2400"),
            ("{mailhost}:2400", "[2001:db8::1]:24", "[2001:db8::1]:24"),
            ("{mailhost}:2400", "/run/dovecot/lmtp", "/run/dovecot/lmtp"),
            ("{mailhost}:2400", "unix:/run/dovecot/lmtp", "/run/dovecot/lmtp"),
        ] {
            assert_eq!(hosts(&[written], LMTP, &[value]).as_deref(), Ok(host), "{value}");
        }
    }

    #[test]
    fn several_values_are_several_hosts_in_their_order_each_once() {
        let found = hosts(&["{mailhost}:24", "last:24"], LMTP, &["b", "a", "b:24"]);
        assert_eq!(found.as_deref(), Ok("b:24 a:24 last:24"));
        let many: Vec<String> = (0..=HOSTS_MAX).map(|n| format!("b{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(hosts(&["{mailhost}"], LMTP, &many[..HOSTS_MAX]).is_ok());
        let error = hosts(&["{mailhost}"], LMTP, &many).unwrap_err().to_string();
        assert!(error.contains("`mailhost` of the recipient's entry has 17 values"), "{error}");
    }

    #[test]
    fn what_is_no_host_is_told_by_the_name_of_the_value() {
        let long = "x".repeat(256);
        for (terms, value, told) in [
            (LMTP, "", "is empty"),
            (LMTP, "a b", "space or control"),
            (LMTP, "a\0b", "space or control"),
            (LMTP, "a\u{1b}[2Jb", "space or control"),
            (LMTP, "a..b", "is not a host"),
            (LMTP, "..", "is not a host"),
            (LMTP, "a,b", "is not a host"),
            (LMTP, "lmtp:inet:b1:24", "is not a host"),
            (LMTP, "b1:0", "is not a port"),
            (LMTP, "b1:99999", "is not a port"),
            (LMTP, "[bad]", "is not a host"),
            (LMTP, &long, "255 octets"),
            (LMTP, "unix:run/lmtp", "must begin with /"),
            (LMTP, "/run/../etc/x", "contains `.`"),
            (LMTP, "/run//x", "empty name"),
            (SMTP, "/run/dovecot/lmtp", "only LMTP"),
        ] {
            let error = hosts(&["{mailhost}"], terms, &[value]).unwrap_err().to_string();
            assert!(error.starts_with("`mailhost` of the recipient's entry "), "{error}");
            assert!(error.contains(told), "{value:?}: {error}");
        }
        let missing = hosts(&["{mailhost}"], LMTP, &[]).unwrap_err().to_string();
        assert_eq!(missing, "the recipient's entry has no `mailhost`");
    }

    #[test]
    fn a_name_in_braces_is_a_whole_host() {
        let names = ValueNames::some(&["mailHost"]);
        for (text, told) in [
            ("{mailhost}.example.org", "a whole host"),
            ("x{mailhost}", "a whole host"),
            ("{mailhost}}", "have {mailHost}"),
            ("{mailhost}:0", "\"0\" is not a port"),
            ("{mailhost}:lmtp", "\"lmtp\" is not a port"),
            ("{other}", "entries of table \"t\" have {mailHost}"),
            ("{}", "entries of table \"t\" have {mailHost}"),
        ] {
            let error = host_setting(text, LMTP, &names).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        let error = host_setting("{mailhost}", LMTP, &ValueNames::default()).unwrap_err();
        assert!(error.contains("recipients = { table ="), "{error}");
    }
}
