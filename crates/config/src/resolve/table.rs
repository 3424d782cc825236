//! `[[table]]`.

use crate::Schema;
use crate::channel::{Destination, TlsSources};
use crate::reader::Reader;
use crate::resolver::Resolver;
use crate::route::Route;
use crate::table::{TableCache, TableEntry, TableSettings};
use crate::written::{TableCacheText, TableText};
use std::sync::Arc;

impl Resolver<'_> {
    /// The tables that have no mistake, in the order of the file.
    pub(super) fn tables(
        &mut self,
        schema: &Schema,
        written: &[TableText],
    ) -> Vec<Arc<TableEntry>> {
        let mut tables: Vec<Arc<TableEntry>> = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let at = format!("table[{index}]");
            if let Some(table) = self.table(schema, &at, text, &tables) {
                tables.push(Arc::new(table));
            }
        }
        tables
    }

    fn table(
        &mut self,
        schema: &Schema,
        at: &str,
        text: &TableText,
        before: &[Arc<TableEntry>],
    ) -> Option<TableEntry> {
        let path = format!("{at}.name");
        if text.name.is_empty() {
            self.error(at, "a table without `name`", "other sections refer to it by name");
            return None;
        }
        self.printable(&path, &text.name, 64);
        if let Some(other) = before.iter().find(|table| *table.name == *text.name) {
            let help = format!("on line {}", other.line);
            self.error(&path, format!("a table named \"{}\" already exists", text.name), &help);
        }
        let kinds = schema.tables();
        let mut set = kinds.iter().filter_map(|kind| Some((kind, text.kinds.get(kind.key)?)));
        let Some((kind, value)) = set.next() else {
            let known: Vec<&str> = kinds.iter().map(|kind| kind.key).collect();
            let message = format!("table \"{}\" has no source", text.name);
            self.error(at, message, &format!("add one of {}", known.join(", ")));
            return None;
        };
        if let Some((other, _)) = set.next() {
            let message = format!("table \"{}\" has two sources", text.name);
            let help = format!("keep one of {}, {}", kind.key, other.key);
            self.error(&format!("{at}.{}", other.key), message, &help);
            return None;
        }
        if text.cache.is_some() && !kind.is_remote {
            let help = "its entries are local: leave `cache` out";
            self.error(&format!("{at}.cache"), format!("`{}` needs no cache", kind.key), help);
        }
        let cache = text.cache.clone().unwrap_or_default();
        let cache = self.table_cache(&format!("{at}.cache"), &cache, kind.requests_max);
        let table = value.as_table().cloned().unwrap_or_default();
        let settings = (kind.read)(table, &mut Reader::new(self, format!("{at}.{}", kind.key)))?;
        let parts = self.parts(&format!("{at}.{}", kind.key), &*settings, before);
        Some(TableEntry {
            name: text.name.as_str().into(),
            kind: kind.key,
            is_remote: kind.is_remote,
            settings,
            parts,
            rewrite: text.rewrite.clone(),
            tag_delimiters: self.server.tag_delimiters.clone(),
            cache,
            line: self.document.line(at).unwrap_or(0),
        })
    }

    /// The parts of a composed table: only tables above it, so that no table contains itself.
    fn parts(
        &mut self,
        at: &str,
        settings: &dyn TableSettings,
        before: &[Arc<TableEntry>],
    ) -> Vec<Arc<TableEntry>> {
        let mut parts = Vec::new();
        for name in settings.parts() {
            match before.iter().find(|table| &*table.name == name) {
                Some(part) => parts.push(Arc::clone(part)),
                None => {
                    let message = format!("no table \"{name}\" above");
                    self.error(at, message, &names(before));
                }
            }
        }
        parts
    }

    /// Checks tables that query the next hop of a route: the file must name that route's hosts.
    pub(super) fn asked_routes(&mut self, written: &[TableText], routes: &[Route]) {
        for table in self.tables.clone() {
            let Some(name) = table.settings.asked_route() else { continue };
            let index = written.iter().position(|text| *text.name == *table.name);
            let path = format!("table[{}].{}.route", index.unwrap_or(0), table.kind);
            match routes.iter().find(|route| *route.name == *name) {
                None => {
                    let names: Vec<&str> = routes.iter().map(|route| &*route.name).collect();
                    let help = format!("configured: {}", names.join(", "));
                    self.error(&path, format!("unknown route \"{name}\""), &help);
                }
                Some(route) if !matches!(route.channel.destination(), Destination::Hosts(_)) => {
                    let message = format!("route \"{name}\" has no fixed hosts");
                    let help = "use a route with `smtp` or `lmtp`, and `hosts` in this file";
                    self.error(&path, message, help);
                }
                Some(route) if route.channel.tls_sources() != TlsSources::default() => {
                    let message = format!("route \"{name}\" has `tls = \"dane\"`");
                    let help = "call-ahead does not look up TLSA records; use \"verified\"";
                    self.error(&path, message, help);
                }
                Some(route) if !route.channel.may_be_asked() => {
                    let message =
                        format!("route \"{name}\" has hosts for authenticated users only");
                    let help = "call-ahead supports neither login nor implicit TLS";
                    self.error(&path, message, help);
                }
                Some(_) => {}
            }
        }
    }

    fn table_cache(&mut self, at: &str, text: &TableCacheText, requests_max: u32) -> TableCache {
        TableCache {
            positive: self.duration(&format!("{at}.positive"), &text.positive),
            negative: self.duration(&format!("{at}.negative"), &text.negative),
            stale: self.duration(&format!("{at}.stale"), &text.stale),
            entries_max: text.max_entries,
            requests_max: text.max_requests.unwrap_or(requests_max),
            waiting_max: text.max_waiting,
            timeout: self.timeout(&format!("{at}.timeout"), &text.timeout),
        }
    }

    /// The table with the name at `path`.
    pub(crate) fn table_named(&mut self, path: &str, name: &str) -> Option<Arc<TableEntry>> {
        let found = self.tables.iter().find(|table| &*table.name == name).cloned();
        if found.is_none() {
            let help = names(&self.tables);
            self.error(path, format!("unknown table \"{name}\""), &help);
        }
        found
    }
}

/// Names of the existing tables.
fn names(tables: &[Arc<TableEntry>]) -> String {
    if tables.is_empty() {
        return "add a [[table]] with this name".to_owned();
    }
    let names: Vec<&str> = tables.iter().map(|table| &*table.name).collect();
    format!("configured: {}", names.join(", "))
}
