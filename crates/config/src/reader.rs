//! Reader for a section's owner: collects errors with their positions.

use super::certificate::issued;
use super::quantity::{DurationText, Period, SizeText};
use super::resolver::Resolver;
use super::table::TableEntry;
use super::tenant::OTHER_TENANTS;
use crate::listener::takes::Takes;
use ipnet::IpNet;
use mail::{AddressError, Domain, Mailbox, OrAddress, TagDelimiters, Wall};
use serde::Deserializer;
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Reads one table of the file.
#[derive(Debug)]
pub struct Reader<'a, 'd> {
    pub(super) resolver: &'a mut Resolver<'d>,
    /// The path of the table: `route[0].smtp`.
    at: String,
    /// The table that its route's recipients are in.
    recipients: Option<Arc<TableEntry>>,
    /// For a listener: its kind of input.
    takes: Option<Takes>,
}

impl<'a, 'd> Reader<'a, 'd> {
    /// For the table at this path.
    pub(super) fn new(resolver: &'a mut Resolver<'d>, at: String) -> Reader<'a, 'd> {
        Reader { resolver, at, recipients: None, takes: None }
    }

    /// Sets the table of recipients of the route that the section belongs to.
    pub(super) fn with_recipients(self, recipients: Option<Arc<TableEntry>>) -> Reader<'a, 'd> {
        Reader { recipients, ..self }
    }

    /// Sets the kind of input of the listener that the table belongs to.
    pub(super) fn of_listener(self, takes: Takes) -> Reader<'a, 'd> {
        Reader { takes: Some(takes), ..self }
    }

    /// For a listener: its kind of input.
    #[must_use]
    pub fn takes(&self) -> Option<Takes> {
        self.takes
    }

    /// For a route: its table of recipients.
    #[must_use]
    pub fn recipients(&self) -> Option<&Arc<TableEntry>> {
        self.recipients.as_ref()
    }

    /// The path of a key in the file, `signer[0].key`; of the table itself for an empty one, of an entry of the list
    /// for `[2]`.
    #[must_use]
    pub fn path(&self, key: &str) -> String {
        match key {
            "" => self.at.clone(),
            entry if entry.starts_with('[') => format!("{}{entry}", self.at),
            _ => format!("{}.{key}", self.at),
        }
    }

    /// Converts a value of valid shape into its owner's type.
    pub(super) fn text<'v, T: DeserializeOwned>(
        &mut self,
        value: impl Deserializer<'v, Error = toml::de::Error>,
    ) -> Option<T> {
        match T::deserialize(value) {
            Ok(text) => Some(text),
            // An error that a schema cannot express.
            Err(error) => {
                self.error("", error.message(), "");
                None
            }
        }
    }

    /// For a table in this one.
    pub fn table_at(&mut self, key: &str) -> Reader<'_, 'd> {
        let at = self.path(key);
        Reader::new(self.resolver, at)
    }

    /// A reader for another table of the file, by its path: `route[0]`.
    pub fn elsewhere(&mut self, path: &str) -> Reader<'_, 'd> {
        Reader::new(self.resolver, path.to_owned())
    }

    /// Returns true if the file has `key`; for an empty one, the table itself.
    #[must_use]
    pub fn is_written(&self, key: &str) -> bool {
        self.resolver.document.line(&self.path(key)).is_some()
    }

    /// The line of `key`, from 1; 0 where the file does not have it.
    #[must_use]
    pub fn line(&self, key: &str) -> u32 {
        self.resolver.document.line(&self.path(key)).unwrap_or(0)
    }

    /// Characters that begin a tag in a local part.
    #[must_use]
    pub fn tag_delimiters(&self) -> TagDelimiters {
        self.resolver.server.tag_delimiters.clone()
    }

    /// The name of this server.
    #[must_use]
    pub fn hostname(&self) -> &Domain {
        &self.resolver.server.hostname
    }

    /// The first directory of the spool, which holds further files.
    #[must_use]
    pub fn first_spool(&self) -> &Path {
        &self.resolver.server.first_spool
    }

    /// Directory of certificates issued by an authority.
    #[must_use]
    pub fn issued_certificates(&self) -> PathBuf {
        issued(self.first_spool())
    }

    /// Number of the first certificate that is ordered.
    #[must_use]
    pub fn first_ordered(&self) -> Option<usize> {
        self.resolver.server.first_ordered
    }

    /// Reports an error in the value of `key` (`hosts`, `hosts[2]`, empty for the table); `help` is the remedy and may
    /// be empty.
    pub fn error(&mut self, key: &str, message: impl Into<String>, help: &str) {
        self.resolver.error(&self.path(key), message, help);
    }

    /// Warns about the value of `key`, which is valid but probably unintended.
    pub fn warn(&mut self, key: &str, message: impl Into<String>, help: &str) {
        self.resolver.warn(&self.path(key), message, help);
    }

    /// Checks a list of listeners for a rule about internet mail; an empty list means all. Listeners with other input
    /// are errors, since the rule would be skipped silently.
    pub fn refuse_foreign(&mut self, key: &str, names: &[String], does: &str) {
        let foreign = self.resolver.foreign_listeners.clone();
        if let (true, Some(one)) = (names.is_empty(), foreign.first()) {
            let message = format!(
                "messages of listener \"{one}\", which is not for internet mail, cannot be \
                 {does}"
            );
            let help = "name the listeners: listeners = [\"…\"]";
            return self.error("", message, help);
        }
        for (index, name) in names.iter().enumerate() {
            if foreign.iter().any(|one| **one == **name) {
                let message = format!(
                    "messages of listener \"{name}\", which is not for internet mail, cannot be \
                     {does}"
                );
                self.error(&format!("{key}[{index}]"), message, "leave it out");
            }
        }
    }

    /// The value of `key` is a list of names, each of which must be a tenant's.
    pub fn check_tenants(&mut self, key: &str, names: &[String]) {
        let known = self.resolver.tenant_names.clone();
        if known.iter().any(|tenant| **tenant == *OTHER_TENANTS) {
            return;
        }
        for (index, name) in names.iter().enumerate() {
            if !known.iter().any(|tenant| **tenant == **name) {
                let message = format!("unknown tenant \"{name}\"");
                self.error(&format!("{key}[{index}]"), message, "add a [[tenant]] with this name");
            }
        }
    }

    /// The value of `key` is a list of names, each of which must be a listener's.
    pub fn check_listeners(&mut self, key: &str, names: &[String]) {
        let known = self.resolver.listener_names.clone();
        self.check_names((key, names), "listener", &known);
    }

    /// The value of `key` is a list of names, each of which must be a route's. For sections that are read after routes.
    pub fn check_routes(&mut self, key: &str, names: &[String]) {
        let known = self.resolver.route_names.clone();
        self.check_names((key, names), "route", &known);
    }

    fn check_names(&mut self, (key, names): (&str, &[String]), what: &str, known: &[Arc<str>]) {
        for (index, name) in names.iter().enumerate() {
            if known.iter().any(|one| **one == **name) {
                continue;
            }
            let known: Vec<String> = known.iter().map(|name| format!("\"{name}\"")).collect();
            let help = format!("configured: {}", known.join(", "));
            self.error(&format!("{key}[{index}]"), format!("unknown {what} \"{name}\""), &help);
        }
    }

    /// The table named by the value of `key`. `None` after an error: no table has the name.
    pub fn table(&mut self, key: &str, name: &str) -> Option<Arc<TableEntry>> {
        self.resolver.table_named(&self.path(key), name)
    }

    /// An O/R address, read by `parse`.
    pub fn or_address(
        &mut self,
        key: &str,
        text: &str,
        parse: fn(&str) -> Result<OrAddress, AddressError>,
    ) -> Option<OrAddress> {
        self.resolver.or_address(&self.path(key), text, parse)
    }

    /// Networks.
    pub fn networks(&mut self, key: &str, written: &[String]) -> Vec<IpNet> {
        self.resolver.networks_of(&self.path(key), written)
    }

    /// The value of `name` in a list of tables names one: whatever has the same name `before` it is a mistake.
    pub fn check_name<'n>(
        &mut self,
        what: &str,
        name: &str,
        len_max: usize,
        before: impl Iterator<Item = (&'n str, u32)>,
    ) {
        self.resolver.name_of(&self.at, what, name, len_max, before);
    }

    /// A duration.
    pub fn duration(&mut self, key: &str, text: &DurationText) -> Duration {
        self.resolver.duration(&self.path(key), text)
    }

    /// A size, in bytes.
    pub fn size(&mut self, key: &str, text: &SizeText) -> u64 {
        self.resolver.size(&self.path(key), text)
    }

    /// A duration that must not be zero.
    pub fn timeout(&mut self, key: &str, text: &DurationText) -> Duration {
        self.resolver.timeout(&self.path(key), text)
    }

    /// Networks of clients trusted to name the client that they act for.
    pub fn believed(&mut self, key: &str, written: &[String]) -> Vec<IpNet> {
        self.resolver.believed(&self.path(key), written)
    }

    /// Checks text for use in protocol lines and logs.
    pub fn printable(&mut self, key: &str, text: &str, len_max: usize) {
        self.resolver.printable(&self.path(key), text, len_max);
    }

    /// Has a duration that could not be read shown.
    pub fn check(&mut self, key: &str, period: &Period) {
        if let Some((text, reason)) = period.mistake() {
            self.error(key, format!("\"{text}\" is not a duration"), reason);
        }
    }

    /// The same, and it must not be zero.
    pub fn check_timeout(&mut self, key: &str, period: &Period) {
        self.check(key, period);
        if period.mistake().is_none() && period.get().is_zero() {
            self.error(key, "a timeout must be longer than 0", "");
        }
    }

    /// Position of the value of `key`, `postrider.toml:17`.
    #[must_use]
    pub fn place(&self, key: &str) -> String {
        let document = self.resolver.document;
        let line = document.line(&self.path(key)).or_else(|| document.line(&self.at));
        format!("{}:{}", document.file(), line.unwrap_or(0))
    }

    /// Parses a time.
    pub fn moment(&mut self, key: &str, text: &str) -> Option<Wall> {
        let moment = Wall::parse_rfc3339(text);
        if moment.is_none() {
            let help = "write a date, a time and a zone, for example \"2027-01-01T00:00:00Z\"";
            self.error(key, format!("\"{text}\" is not a time"), help);
        }
        moment
    }

    /// An address and port.
    pub fn socket_address(&mut self, key: &str, text: &str) -> Option<SocketAddr> {
        self.resolver.socket_address(&self.path(key), text)
    }

    /// A mail address with its domain.
    pub fn mailbox(&mut self, key: &str, text: &str) -> Option<Mailbox> {
        let problem = match Mailbox::parse(text, false) {
            Ok(address) if address.has_domain() => return Some(address),
            Ok(_) => "the domain is missing".to_owned(),
            Err(error) => error.to_string(),
        };
        self.error(key, format!("\"{text}\" is not an address"), &problem);
        None
    }

    /// Notes a file that the value of `key` names.
    pub fn named_file(&mut self, key: &str, named: Option<&Path>) {
        if let Some(named) = named {
            self.resolver.named_file(&self.path(key), named);
        }
    }

    /// The path of a file.
    pub fn file_path(&mut self, key: &str, text: &str) -> PathBuf {
        self.resolver.file_path(&self.path(key), text)
    }
}
