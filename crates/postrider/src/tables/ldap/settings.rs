//! Settings of an LDAP table.

use super::server::LdapServer;
use config::{PasswordChecks, TableSettings};
use ldap::{DnTemplate, Filter, Key, Keyed, Scope};
use mail::Domain;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of an LDAP table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LdapSettings {
    /// In the order in which they are tried.
    pub(super) servers: Vec<LdapServer>,
    pub(super) base: DnTemplate,
    pub(super) scope: Scope,
    pub(super) filter: Filter,
    /// Attributes with the values of the answer.
    pub(super) attributes: Vec<Box<str>>,
    /// Attributes that mark an entry as a group.
    pub(super) members: Vec<Box<str>>,
    pub(super) depth_max: u32,
    pub(super) members_max: usize,
    /// Empty: no restriction.
    pub(super) domains: Vec<Domain>,
    pub(super) start_tls: bool,
    pub(super) tls: TlsSettings,
    pub(super) bind: Option<BindSettings>,
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) connections_max: usize,
    pub(super) results_max: usize,
    /// The directory is copied.
    pub(super) snapshot: Option<SnapshotSettings>,
}

/// Settings for the copy of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SnapshotSettings {
    /// The filter, read backwards.
    pub(super) keyed: Keyed,
    /// Between two readings.
    pub(super) refresh: Duration,
    /// `None`: below the spool's directory.
    pub(super) path: Option<PathBuf>,
}

/// Certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TlsSettings {
    /// `None`: the system's.
    pub(super) ca_file: Option<PathBuf>,
    /// Certificate and key that we show.
    pub(super) own: Option<(PathBuf, PathBuf)>,
}

impl TlsSettings {
    /// The files, for people.
    pub(super) fn files(&self) -> String {
        let own = self.own.iter().flat_map(|(certificate, key)| [certificate, key]);
        let files = self.ca_file.iter().chain(own).map(|path| path.display().to_string());
        match files.collect::<Vec<_>>() {
            none if none.is_empty() => "the root certificates of this machine".to_owned(),
            files => files.join(" or "),
        }
    }
}

/// The identity of the bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BindSettings {
    Simple { dn: String, password: Secret },
    External,
}

/// A password, or where it is.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Secret {
    Here(String),
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Here(_) => f.write_str("(a password)"),
            Secret::File(path) => path.fmt(f),
        }
    }
}

impl LdapSettings {
    /// Returns true if answers come from a copy of the directory.
    pub(crate) fn is_copied(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Returns true if the directory is queried for this key.
    pub(super) fn asks_for(&self, key: &Key<'_>) -> bool {
        self.base.fits(key)
            && self.filter.fits(key)
            && (self.domains.is_empty()
                || key
                    .domain()
                    .and_then(|domain| Domain::parse(domain).ok())
                    .is_some_and(|domain| self.domains.contains(&domain)))
    }
}

impl TableSettings for LdapSettings {
    fn fields(&self) -> Vec<&str> {
        self.attributes.iter().map(|name| &**name).collect()
    }

    fn password_checks(&self) -> PasswordChecks {
        match self.servers.iter().any(LdapServer::is_readable_by_others) && !self.start_tls {
            true => PasswordChecks::InClear,
            false => PasswordChecks::Sealed,
        }
    }

    fn is_like(&self, other: &dyn TableSettings) -> bool {
        other.of::<LdapSettings>() == Some(self)
    }
}
