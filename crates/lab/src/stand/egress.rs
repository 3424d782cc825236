//! Where mail goes from a server under test: connections to the sink, on routes or to the hosts of mailbox providers, and
//! the name server that knows these.

use super::error::Result;
use load::file;
use load::process::{Process, this_program};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Connections to the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Egress {
    /// As many as the server's configuration usually allows, on one route.
    Usual,
    /// So many at most, on one route.
    Limited(u32),
    /// A route for each source's domain, with so many connections on each. A server that knows
    /// one relay host only gets as many in sum.
    Routes { domains: u32, connections: u32 },
    /// To many domains, whose hosts are found by the DNS.
    Providers(Providers),
}

impl Egress {
    /// Connections in sum, where it is said.
    pub(crate) fn in_sum(self) -> Option<u32> {
        match self {
            Egress::Usual => None,
            Egress::Providers(providers) => Some(providers.connections()),
            Egress::Limited(connections) => Some(connections),
            Egress::Routes { domains, connections } => Some(domains * connections),
        }
    }

    /// Domains that have a route of their own.
    pub(crate) fn domains(self) -> u32 {
        match self {
            Egress::Usual | Egress::Limited(_) | Egress::Providers(_) => 0,
            Egress::Routes { domains, .. } => domains,
        }
    }

    /// What the sink does there beside taking mail.
    pub(crate) fn sink_arguments(self) -> Vec<String> {
        match self {
            Egress::Providers(_) => {
                let refused = format!("{}:451:rcpt", Providers::PUT_OFF_PERMILLE);
                ["--refuse".to_owned(), refused].to_vec()
            }
            Egress::Usual | Egress::Limited(_) | Egress::Routes { .. } => Vec::new(),
        }
    }
}

/// The domain that this source sends to, from 1.
pub(crate) fn domain(source: u32) -> String {
    format!("domain{source}.grey")
}

/// Mailbox providers, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Providers {
    /// Domains, spread over the providers.
    pub(crate) domains: u32,
    pub(crate) providers: u32,
    /// Connections to the host of each.
    pub(crate) connections_each: u32,
}

impl Providers {
    /// Of a thousand recipients so many are put off, each time anew.
    pub(super) const PUT_OFF_PERMILLE: u32 = 50;

    /// Connections to all of them.
    pub(crate) fn connections(self) -> u32 {
        self.providers * self.connections_each
    }

    /// The names of the hosts, in the providers' order.
    pub(crate) fn hosts(self) -> impl Iterator<Item = String> {
        (1..=self.providers).map(|number| format!("mx.provider{number}.grey"))
    }

    /// Writes the domains down, a line each; the file's path.
    ///
    /// # Errors
    /// When it can't be written.
    pub(crate) fn write_domains(self, directory: &Path) -> Result<PathBuf> {
        let path = directory.join("domains");
        let lines = (1..=self.domains).map(|number| domain(number) + "\n");
        file::write(&path, &lines.collect::<String>())?;
        Ok(path)
    }

    /// The zone of all domains, with all hosts at one address.
    fn zone(self, address: &str) -> String {
        // Writing to a String can't fail.
        let mut text = "$ORIGIN grey.\n$TTL 3600\n".to_owned();
        for host in self.hosts() {
            let _ = writeln!(text, "{host}. A {address}");
        }
        let hosts: Vec<String> = self.hosts().collect();
        for (number, host) in (1..=self.domains).zip(hosts.iter().cycle()) {
            let _ = writeln!(text, "{}. MX 10 {host}.", domain(number));
        }
        text
    }
}

/// The running name server; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct NameServer {
    process: Process,
    address: String,
}

impl NameServer {
    /// Starts the one that is needed where mail leaves in this way, if one is: all hosts are the sink's.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn of(egress: Egress, sink: &str, directory: &Path) -> Result<Option<NameServer>> {
        let Egress::Providers(providers) = egress else { return Ok(None) };
        let address = sink.rsplit_once(':').map_or(sink, |(host, _)| host);
        NameServer::start(providers, address, directory).map(Some)
    }

    fn start(providers: Providers, address: &str, directory: &Path) -> Result<NameServer> {
        let zone = directory.join("grey.zone");
        file::write(&zone, &providers.zone(address))?;
        let mut command = Command::new(this_program()?);
        command.args(["dns", "--zone"]).arg(&zone).stdout(Stdio::piped());
        command.stderr(file::create(&directory.join("dns.log"))?);
        let mut process = Process::start("dns", &mut command)?;
        let address = process.read_address()?;
        Ok(NameServer { process, address })
    }

    /// `HOST:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// # Errors
    /// When it has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        Ok(self.process.check_running()?)
    }
}

#[cfg(test)]
mod tests {
    use super::Providers;

    #[test]
    fn domains_are_spread_over_the_providers_hosts() {
        let providers = Providers { domains: 5, providers: 2, connections_each: 3 };
        assert_eq!(providers.connections(), 6);
        let zone = providers.zone("127.0.0.1");
        let lines: Vec<&str> = zone.lines().collect();
        assert_eq!(
            lines[2..4],
            ["mx.provider1.grey. A 127.0.0.1", "mx.provider2.grey. A 127.0.0.1"]
        );
        assert_eq!(lines[4], "domain1.grey. MX 10 mx.provider1.grey.");
        assert_eq!(lines[8], "domain5.grey. MX 10 mx.provider1.grey.");
        assert_eq!(lines.len(), 9);
        let directory = tempfile::tempdir().expect("a directory");
        let path = providers.write_domains(directory.path()).expect("written");
        let text = std::fs::read_to_string(path).expect("read");
        assert_eq!(text.lines().last(), Some("domain5.grey"));
    }
}
