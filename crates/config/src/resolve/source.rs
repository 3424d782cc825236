//! Sources and pools.

use crate::resolver::Resolver;
use crate::source::{Pool, Proxy, ProxyKind, Source};
use crate::warmup::{WARMUP_DAYS_MAX, Warmup, parse_day, parts_per_million};
use crate::written::{PoolText, SourceText, WarmupText};
use mail::Domain;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

impl Resolver<'_> {
    /// The sources, in the order of the file.
    pub(super) fn sources(&mut self, written: &[SourceText]) -> Vec<Arc<Source>> {
        let mut sources: Vec<Arc<Source>> = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let at = format!("source[{index}]");
            let before = sources.iter().map(|s| (&*s.name, s.line));
            self.name_of(&at, "source", &text.name, 64, before);
            let address = self.own_address::<Ipv4Addr>(&at, "address", text.address.as_deref());
            let address6 = self.own_address::<Ipv6Addr>(&at, "address6", text.address6.as_deref());
            let proxy = text.proxy.as_deref().and_then(|proxy| self.proxy(&at, proxy));
            let is_told = proxy.is_some_and(|proxy| proxy.kind == ProxyKind::Socks5);
            if text.address.is_none() && text.address6.is_none() && !is_told {
                let help = "set an address of this machine: `address`, `address6` or both";
                self.error(&at, format!("source \"{}\" has no address", text.name), help);
            }
            let ehlo = text.ehlo.as_deref().and_then(|name| self.ehlo(&at, name));
            let warmup = text.warmup.as_ref().map(|text| Arc::new(self.warmup(&at, text)));
            let line = self.document.line(&at).unwrap_or(0);
            let name = text.name.as_str().into();
            sources.push(Arc::new(Source { name, address, address6, proxy, ehlo, warmup, line }));
        }
        sources
    }

    /// The pools, in the order of the file.
    pub(super) fn pools(&mut self, written: &[PoolText], known: &[Arc<Source>]) -> Vec<Arc<Pool>> {
        let mut pools: Vec<Arc<Pool>> = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let at = format!("pool[{index}]");
            let before = pools.iter().map(|p| (&*p.name, p.line));
            self.name_of(&at, "pool", &text.name, 64, before);
            if text.sources.is_empty() {
                let help = "sources = [{ name = \"…\" }]";
                self.error(&at, format!("pool \"{}\" has no sources", text.name), help);
            }
            let mut sources: Vec<(Arc<Source>, u32)> = Vec::new();
            for (position, entry) in text.sources.iter().enumerate() {
                let path = format!("{at}.sources[{position}]");
                let Some(source) = known.iter().find(|source| *source.name == *entry.name) else {
                    let names: Vec<&str> = known.iter().map(|source| &*source.name).collect();
                    let help = format!("configured: {}", names.join(", "));
                    self.error(&path, format!("unknown source \"{}\"", entry.name), &help);
                    continue;
                };
                if sources.iter().any(|(other, _)| other.name == source.name) {
                    let message = format!("\"{}\" is already in this pool", entry.name);
                    self.error(&path, message, "give it a `weight`");
                }
                sources.push((Arc::clone(source), entry.weight));
            }
            let line = self.document.line(&at).unwrap_or(0);
            pools.push(Arc::new(Pool { name: text.name.as_str().into(), sources, line }));
        }
        pools
    }

    /// The pool that a section names.
    pub(super) fn named_pool(
        &mut self,
        at: &str,
        name: Option<&str>,
        pools: &[Arc<Pool>],
    ) -> Option<Arc<Pool>> {
        let name = name?;
        let found = pools.iter().find(|pool| *pool.name == *name);
        if found.is_none() {
            let names: Vec<&str> = pools.iter().map(|pool| &*pool.name).collect();
            let help = format!("configured: {}", names.join(", "));
            self.error(&format!("{at}.pool"), format!("unknown pool \"{name}\""), &help);
        }
        found.cloned()
    }

    /// A section's own name, which no other of its kind has.
    pub(crate) fn name_of<'a>(
        &mut self,
        at: &str,
        what: &str,
        name: &str,
        len_max: usize,
        mut before: impl Iterator<Item = (&'a str, u32)>,
    ) {
        let path = format!("{at}.name");
        self.printable(&path, name, len_max);
        if let Some((_, line)) = before.find(|(other, _)| *other == name) {
            let message = format!("a {what} named \"{name}\" already exists");
            self.error(&path, message, &format!("on line {line}"));
        }
    }

    fn warmup(&mut self, source: &str, text: &WarmupText) -> Warmup {
        let at = format!("{source}.warmup");
        let start_day = parse_day(&text.start);
        if start_day.is_none() {
            let message = format!("\"{}\" is not a date", text.start);
            self.error(&format!("{at}.start"), message, "write it as \"2026-12-01\"");
        }
        let path = format!("{at}.per_day");
        if text.per_day.is_empty() || text.per_day.len() > WARMUP_DAYS_MAX {
            let message = format!("between 1 and {WARMUP_DAYS_MAX} days");
            self.error(&path, message, "for example per_day = [50, 100, 500, 2_000]");
        }
        if let Some(nothing) = text.per_day.iter().position(|count| *count == 0) {
            let help = "a day without mail has no effect: begin later, or suspend the source";
            self.error(&format!("{path}[{nothing}]"), "at least 1 recipient", help);
        }
        Warmup {
            start_day: start_day.unwrap_or_default(),
            per_day: text.per_day.clone(),
            hold_above_ppm: parts_per_million(text.hold_above),
            line: self.document.line(&at).unwrap_or(0),
        }
    }

    fn own_address<A: FromStr>(&mut self, at: &str, key: &str, text: Option<&str>) -> Option<A> {
        let text = text?;
        let address = text.parse().ok();
        if address.is_none() {
            let family = if key == "address" { "IPv4" } else { "IPv6" };
            let message = format!("\"{text}\" is not an {family} address");
            self.error(&format!("{at}.{key}"), message, "");
        }
        address
    }

    fn proxy(&mut self, at: &str, text: &str) -> Option<Proxy> {
        let read = Proxy::parse(text);
        if let Err(help) = read {
            self.error(&format!("{at}.proxy"), format!("\"{text}\" is not a proxy"), help);
        }
        read.ok()
    }

    fn ehlo(&mut self, at: &str, text: &str) -> Option<Domain> {
        let name = Domain::parse(text).ok();
        let is_name =
            |name: &Domain| name.as_str().is_ascii() && !name.as_str().contains(['[', '_']);
        let name = name.filter(is_name);
        if name.is_none() {
            let help = "use ASCII letters, digits and hyphens: every peer sees the name";
            self.error(&format!("{at}.ehlo"), format!("\"{text}\" is not a host name"), help);
        }
        name
    }
}
