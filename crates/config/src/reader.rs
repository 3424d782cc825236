//! What a section's owner reads it with: it collects mistakes and names their places.

use super::quantity::{DurationText, Period, SizeText};
use super::resolver::Resolver;
use super::table::TableEntry;
use super::tenant::OTHER_TENANTS;
use super::x400::{X400, X400Peer};
use ipnet::IpNet;
use mail::Wall;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Reads one table of the file.
#[derive(Debug)]
pub struct Reader<'a, 'd> {
    resolver: &'a mut Resolver<'d>,
    /// The path of the table: `route[0].smtp`.
    at: String,
    /// The table that its route's recipients are in.
    recipients: Option<Arc<TableEntry>>,
}

impl<'a, 'd> Reader<'a, 'd> {
    /// For the table at this path.
    pub(super) fn new(resolver: &'a mut Resolver<'d>, at: String) -> Reader<'a, 'd> {
        Reader { resolver, at, recipients: None }
    }

    /// The table belongs to a route whose recipients are in this table.
    pub(super) fn with_recipients(self, recipients: Option<Arc<TableEntry>>) -> Reader<'a, 'd> {
        Reader { recipients, ..self }
    }

    /// Of what belongs to a route: the table that its recipients are in.
    #[must_use]
    pub fn recipients(&self) -> Option<&Arc<TableEntry>> {
        self.recipients.as_ref()
    }

    /// The path of a key; of the table itself for an empty one.
    fn path(&self, key: &str) -> String {
        if key.is_empty() { self.at.clone() } else { format!("{}.{key}", self.at) }
    }

    /// The value of `key` (`hosts`, `hosts[2]`, empty for the table) is wrong; `help` says how it
    /// would be right, and may be empty.
    pub fn error(&mut self, key: &str, message: impl Into<String>, help: &str) {
        self.resolver.error(&self.path(key), message, help);
    }

    /// The value of `key` is right, and hardly meant.
    pub fn warn(&mut self, key: &str, message: impl Into<String>, help: &str) {
        self.resolver.warn(&self.path(key), message, help);
    }

    /// The value of `key` is a list of listeners for which a rule is that sees internet mail only; none: for all. Those
    /// that take something else must not be among them: what the rule is for would be left out without a word.
    pub fn refuse_foreign(&mut self, key: &str, names: &[String], does: &str) {
        let foreign = self.resolver.foreign_listeners.clone();
        if let (true, Some(one)) = (names.is_empty(), foreign.first()) {
            let message = format!(
                "what comes to listener \"{one}\", which is no internet mail, is not {does}"
            );
            let help = "name the listeners that this is for: listeners = [\"…\"]";
            return self.error("", message, help);
        }
        for (index, name) in names.iter().enumerate() {
            if foreign.iter().any(|one| **one == **name) {
                let message = format!(
                    "what comes to listener \"{name}\" is no internet mail, and not {does}"
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
                let message = format!("no tenant is named \"{name}\"");
                self.error(&format!("{key}[{index}]"), message, "add a [[tenant]] of this name");
            }
        }
    }

    /// The value of `key` is a list of names, each of which must be a listener's.
    pub fn check_listeners(&mut self, key: &str, names: &[String]) {
        for (index, name) in names.iter().enumerate() {
            let known = &self.resolver.listener_names;
            if known.iter().any(|listener| **listener == **name) {
                continue;
            }
            let known: Vec<String> = known.iter().map(|name| format!("\"{name}\"")).collect();
            let message = format!("no listener is named \"{name}\"");
            self.error(
                &format!("{key}[{index}]"),
                message,
                &format!("there are: {}", known.join(", ")),
            );
        }
    }

    /// The table whose name is the value of `key`. `None`: there is none, which is a mistake.
    pub fn table(&mut self, key: &str, name: &str) -> Option<Arc<TableEntry>> {
        self.resolver.table_named(&self.path(key), name)
    }

    /// The peer of X.400 whose name is the value of `key`, and who we are to it. `None`: there is none to send to,
    /// which is a mistake.
    pub fn x400_peer(&mut self, key: &str, name: &str) -> Option<(Arc<X400>, Arc<X400Peer>)> {
        self.resolver.x400_peer(&self.path(key), name)
    }

    /// Who we are among MTAs of X.400. `None`: the file does not say, which is a mistake.
    pub fn x400(&mut self) -> Option<Arc<X400>> {
        let x400 = self.resolver.x400.clone();
        if x400.is_none() {
            let help =
                "add [x400] with `mta` and `domain`, and a [[x400.peer]] for each that may bind";
            self.error("kind", "a listener for X.400 without a section [x400]", help);
        }
        x400
    }

    /// A transport selector of X.400: text, or octets in hexadecimal behind `hex:`.
    pub fn t_selector(&mut self, key: &str, text: &str) -> Box<[u8]> {
        self.resolver.t_selector(&self.path(key), text)
    }

    /// A duration.
    pub fn duration(&mut self, key: &str, text: &DurationText) -> Duration {
        self.resolver.duration(&self.path(key), text)
    }

    /// A size, in bytes.
    pub fn size(&mut self, key: &str, text: &SizeText) -> u64 {
        self.resolver.size(&self.path(key), text)
    }

    /// A duration that must not be nothing.
    pub fn timeout(&mut self, key: &str, text: &DurationText) -> Duration {
        self.resolver.timeout(&self.path(key), text)
    }

    /// Networks whose clients are believed when they say who the client is.
    pub fn believed(&mut self, key: &str, written: &[String]) -> Vec<IpNet> {
        self.resolver.believed(&self.path(key), written)
    }

    /// Text that goes into protocol lines and logs.
    pub fn printable(&mut self, key: &str, text: &str, len_max: usize) {
        self.resolver.printable(&self.path(key), text, len_max);
    }

    /// Has a duration that could not be read shown.
    pub fn check(&mut self, key: &str, period: &Period) {
        if let Some((text, reason)) = period.mistake() {
            self.error(key, format!("\"{text}\" is not a duration"), reason);
        }
    }

    /// The same, and it must not be nothing.
    pub fn check_timeout(&mut self, key: &str, period: &Period) {
        self.check(key, period);
        if period.mistake().is_none() && period.get().is_zero() {
            self.error(key, "a timeout must be longer than nothing", "");
        }
    }

    /// Where the value of `key` stands, `postrider.toml:17`.
    #[must_use]
    pub fn place(&self, key: &str) -> String {
        let document = self.resolver.document;
        let line = document.line(&self.path(key)).or_else(|| document.line(&self.at));
        format!("{}:{}", document.file(), line.unwrap_or(0))
    }

    /// A moment.
    pub fn moment(&mut self, key: &str, text: &str) -> Option<Wall> {
        let moment = Wall::parse_rfc3339(text);
        if moment.is_none() {
            let help = "a date, a time and a zone are wanted, such as \"2027-01-01T00:00:00Z\"";
            self.error(key, format!("\"{text}\" is no moment"), help);
        }
        moment
    }

    /// The path of a file.
    pub fn file_path(&mut self, key: &str, text: &str) -> PathBuf {
        self.resolver.file_path(&self.path(key), text)
    }
}
