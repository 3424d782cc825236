//! Reads values that are written, and collects the mistakes in them with their places.

use super::conditions::scope::ScopedConditions;
use super::document::Document;
use super::named_file::NamedFile;
use super::problem::Problem;
use super::quantity::{self, DurationText, SizeText};
use super::table::TableEntry;
use crate::section::owned::Owned;
use mail::{Domain, TagDelimiters};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// RFC 1035 §4.2.
const DNS_PORT: u16 = 53;

/// Collects errors. An unreadable value is replaced by a harmless one, so that the rest is checked too.
#[derive(Debug)]
pub(super) struct Resolver<'a> {
    pub(super) document: &'a Document,
    pub(super) problems: Vec<Problem>,
    /// Of all listeners, before any section is read.
    pub(super) listener_names: Vec<Arc<str>>,
    /// Listeners with other input than internet mail.
    pub(super) foreign_listeners: Vec<Arc<str>>,
    pub(super) tenant_names: Vec<Arc<str>>,
    /// Of all routes, as soon as they are read.
    pub(super) route_names: Vec<Arc<str>>,
    /// All conditions, as soon as they are read.
    pub(super) conditions: Vec<ScopedConditions>,
    /// All tables without a mistake, as soon as they are read.
    pub(super) tables: Vec<Arc<TableEntry>>,
    pub(super) server: ServerContext,
    /// Values of sections with registered owners, as soon as read.
    pub(super) sections: Owned,
    /// Files that were read so far.
    pub(super) files: Vec<NamedFile>,
}

/// The parts of the rest of the file visible to readers of a section.
#[derive(Debug)]
pub(super) struct ServerContext {
    pub(super) hostname: Domain,
    pub(super) tag_delimiters: TagDelimiters,
    pub(super) first_spool: PathBuf,
    /// Number of the first certificate that is ordered.
    pub(super) first_ordered: Option<usize>,
}

impl ServerContext {
    /// A context of which only the name is known.
    pub(super) fn new(hostname: Domain) -> ServerContext {
        ServerContext {
            hostname,
            tag_delimiters: TagDelimiters::default(),
            first_spool: PathBuf::new(),
            first_ordered: None,
        }
    }
}

impl Resolver<'_> {
    pub(super) fn error(&mut self, path: &str, message: impl Into<String>, help: &str) {
        self.problems.push(self.document.problem(path, true, message.into(), help));
    }

    pub(super) fn warn(&mut self, path: &str, message: impl Into<String>, help: &str) {
        self.problems.push(self.document.problem(path, false, message.into(), help));
    }

    /// The path of the first of these keys that is in the file: the one to point at.
    pub(super) fn written_one(&self, section: &str, keys: &[&str]) -> String {
        let path = |key: &&str| format!("{section}.{key}");
        keys.iter()
            .map(path)
            .find(|p| self.document.line(p).is_some())
            .unwrap_or(section.to_owned())
    }

    pub(super) fn duration(&mut self, path: &str, text: &DurationText) -> Duration {
        match quantity::parse_duration(&text.0) {
            Ok(duration) => duration,
            Err(reason) => {
                let meant =
                    quantity::meant_duration(&text.0).map(|meant| format!("write \"{meant}\""));
                let help = meant.as_deref().unwrap_or(reason);
                self.error(path, format!("\"{}\" is not a duration", text.0), help);
                Duration::ZERO
            }
        }
    }

    /// A duration that must not be zero.
    pub(super) fn timeout(&mut self, path: &str, text: &DurationText) -> Duration {
        let before = self.problems.len();
        let duration = self.duration(path, text);
        if duration.is_zero() && self.problems.len() == before {
            self.error(path, "a timeout must be longer than 0", "");
        }
        duration
    }

    pub(super) fn size(&mut self, path: &str, text: &SizeText) -> u64 {
        let (text, result) = match text {
            SizeText::Bytes(bytes) => return *bytes,
            SizeText::Text(text) => (text, quantity::parse_size(text)),
        };
        result.unwrap_or_else(|reason| {
            let meant = quantity::meant_size(text).map(|meant| format!("write \"{meant}\""));
            let help = meant.as_deref().unwrap_or(reason);
            self.error(path, format!("\"{text}\" is not a size"), help);
            0
        })
    }

    /// A size within limits.
    pub(super) fn size_within(&mut self, path: &str, text: &SizeText, min: u64, max: u64) -> u64 {
        let before = self.problems.len();
        let bytes = self.size(path, text);
        if self.problems.len() == before && !(min..=max).contains(&bytes) {
            let message = format!(
                "{} is out of bounds: between {} and {}",
                quantity::write_size(bytes),
                quantity::write_size(min),
                quantity::write_size(max)
            );
            self.error(path, message, "");
        }
        bytes
    }

    pub(super) fn socket_address(&mut self, path: &str, text: &str) -> Option<SocketAddr> {
        let parsed = text.parse().ok();
        if parsed.is_none() {
            let help = if text.parse::<std::net::IpAddr>().is_ok() {
                "the port is missing: write it as \"127.0.0.1:25\" or \"[::1]:25\""
            } else {
                "write an IP address and a port, for example \"127.0.0.1:25\" or \"[::1]:25\""
            };
            self.error(path, format!("\"{text}\" is not an address and port"), help);
        }
        parsed
    }

    /// The address of a name server; the default port is 53.
    pub(super) fn name_server(&mut self, path: &str, text: &str) -> Option<SocketAddr> {
        match text.parse::<IpAddr>() {
            Ok(address) => Some(SocketAddr::new(address, DNS_PORT)),
            Err(_) => {
                let parsed = text.parse().ok();
                if parsed.is_none() {
                    let help = "write an IP address, with a port other than 53 if needed: \
                     \"192.0.2.53\", \"127.0.0.1:5353\" or \"[::1]:5353\"";
                    self.error(path, format!("\"{text}\" is not a name server"), help);
                }
                parsed
            }
        }
    }

    pub(super) fn file_path(&mut self, path: &str, text: &str) -> PathBuf {
        if text.is_empty() || text.contains('\0') {
            self.error(path, "not a path", "");
        }
        if text == "~" || text.starts_with("~/") {
            let help = "`~` is not expanded: write the home directory";
            self.warn(path, format!("\"{text}\" is a directory named ~"), help);
        }
        let named = PathBuf::from(text);
        self.named_file(path, &named);
        named
    }

    /// Notes that the file names another one.
    pub(super) fn named_file(&mut self, path: &str, named: &Path) {
        // A variable of the environment is no file.
        if !named.as_os_str().as_encoded_bytes().starts_with(b"env:") {
            self.files.push(NamedFile { key: path.into(), path: named.to_owned() });
        }
    }

    /// Checks text for use in protocol lines and logs.
    pub(super) fn printable(&mut self, path: &str, text: &str, len_max: usize) {
        if text.is_empty()
            || text.len() > len_max
            || !text.bytes().all(|b| (0x20..0x7f).contains(&b))
        {
            let message = format!("use 1 to {len_max} printable ASCII characters");
            self.error(path, message, "");
        }
    }
}
