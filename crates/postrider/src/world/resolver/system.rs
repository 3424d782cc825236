//! The system's resolver files, `/etc/resolv.conf` and `/etc/hosts`, reloaded on change, since the network of a machine
//! may change while the server runs.

use super::ResolverInner;
use crate::file_stamp::{FileIdentity, Settling};
use crate::limited_work::waited_for;
use hickory_resolver::Hosts;
use hickory_resolver::config::NameServerConfig;
use hickory_resolver::system_conf::parse_resolv_conf;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Interval of checks. A changed file is read when it did not change between two checks.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Timeout of a start for the files. Afterwards the server runs without them, and adopts them when they are read.
const START_MAX: Duration = Duration::from_secs(2);
/// More of a file is not read. Lists of hosts that are not to be reached have some megabytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Paths of the files.
#[derive(Clone, Debug)]
pub(super) struct ResolverFiles {
    pub(super) resolv_conf: PathBuf,
    pub(super) hosts: PathBuf,
}

impl ResolverFiles {
    pub(super) fn of_system() -> ResolverFiles {
        ResolverFiles { resolv_conf: "/etc/resolv.conf".into(), hosts: "/etc/hosts".into() }
    }

    fn seen(&self) -> [Option<FileIdentity>; 2] {
        [FileIdentity::at(&self.resolv_conf), FileIdentity::at(&self.hosts)]
    }
}

/// Contents of the files.
#[derive(Clone)]
pub(super) struct System {
    /// `Err` with the reason if there are no servers.
    pub(super) servers: Result<Vec<NameServerConfig>, String>,
    pub(super) hosts: Arc<Hosts>,
}

impl System {
    fn unread(places: &ResolverFiles) -> System {
        let path = places.resolv_conf.display();
        System { servers: Err(format!("{path} has not been read yet")), hosts: Arc::default() }
    }

    pub(super) fn read(places: &ResolverFiles) -> System {
        let path = &places.resolv_conf;
        let servers = read(path)
            .and_then(|bytes| Ok(parse_resolv_conf(bytes).map_err(io::Error::other)?.0))
            .map(|config| config.name_servers)
            .map_err(|error| format!("{}: {error}", path.display()));
        let mut hosts = Hosts::default();
        // A missing or damaged file means no local names.
        if let Ok(bytes) = read(&places.hosts) {
            let _ = hosts.read_hosts_conf(&*bytes);
        }
        System { servers, hosts: Arc::new(hosts) }
    }

    /// The state after these files replaced the former ones. An empty or missing list of servers is assumed to be half
    /// written; the former servers stay in use.
    pub(super) fn after(self, former: &System) -> System {
        let is_usable = self.servers.is_ok() || former.servers.is_err();
        let servers = if is_usable { self.servers } else { former.servers.clone() };
        System { servers, ..self }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the files with their identities. After a timeout the server starts without them.
pub(super) fn first(places: &ResolverFiles) -> (System, ResolverFileWatch) {
    let of_thread = places.clone();
    let read = waited_for(START_MAX, move || {
        // Take the stamps before the reads, so that a change in between is noticed.
        let seen = of_thread.seen();
        (System::read(&of_thread), seen)
    });
    let (system, seen) = read.unwrap_or_else(|| (System::unread(places), [None; 2]));
    (system, ResolverFileWatch { places: places.clone(), seen: Settling::on(seen) })
}

/// Looks at the files again and again.
pub(super) struct ResolverFileWatch {
    places: ResolverFiles,
    seen: Settling<[Option<FileIdentity>; 2]>,
}

impl ResolverFileWatch {
    /// Checks for changes, and applies them.
    pub(super) fn look(&mut self, inner: &ResolverInner) {
        let [former, _] = *self.seen.read();
        if !self.seen.look(self.places.seen()) {
            return;
        }
        let [resolv_conf, _] = self.seen.read();
        let is_same_list = *resolv_conf == former;
        let system = System::read(&self.places);
        let text = match (&system.servers, is_same_list) {
            (Ok(_), true) => format!("{} reloaded", self.places.hosts.display()),
            (Ok(_), false) => format!("{} reloaded", self.places.resolv_conf.display()),
            (Err(why), _) => format!("the previous name servers are used: {why}"),
        };
        inner.info(format_args!("{text}"));
        inner.adopt_system(system);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_list_of_servers_that_is_empty_or_missing_does_not_take_the_place_of_one() {
        let directory = tempfile::tempdir().unwrap();
        let places = ResolverFiles {
            resolv_conf: directory.path().join("resolv.conf"),
            hosts: directory.path().join("hosts"),
        };
        let addresses = |system: &System| {
            system.servers.as_ref().ok().map(|all| all.iter().map(|one| one.ip).collect::<Vec<_>>())
        };
        let mut known = System::unread(&places);
        let steps = [
            (None, None),
            (Some("# none yet\n"), None),
            (Some("nameserver 192.0.2.1\n"), Some("192.0.2.1")),
            (Some(""), Some("192.0.2.1")),
            (None, Some("192.0.2.1")),
            (Some("nameserver 192.0.2.2\n"), Some("192.0.2.2")),
        ];
        for (content, expected) in steps {
            match content {
                Some(content) => fs::write(&places.resolv_conf, content).unwrap(),
                None => _ = fs::remove_file(&places.resolv_conf),
            }
            known = System::read(&places).after(&known);
            let expected = expected.map(|address| vec![address.parse().unwrap()]);
            assert_eq!(addresses(&known), expected, "{content:?}");
        }
    }
}
