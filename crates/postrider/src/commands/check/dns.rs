//! `postrider check --dns`: the DNS records that mailbox providers require from senders.

mod addresses;
mod asking;
mod domains;
mod finding;
mod senders;

pub(in crate::commands) use addresses::SendingAddress;
pub(in crate::commands) use finding::txt;
pub(super) use finding::{Finding, Severity};

use crate::commands::dkim::look;
use crate::world::clock::wall_now;
use crate::world::resolver::Resolver;
use addresses::sending;
use asking::{DnsCheckProgress, DnsProber};
use auth::records::Records;
use auth::together::all;
use channels::{SigningName, signing_domains, signing_scopes};
use config::Config;
use domains::{AuditedDomain, of_domain};
use mail::{Domain, Wall};
use mta::seams::AsRecords;
use mta::srs::RewrittenSenders;
use senders::{CheckContext, Identity, senders};
use std::collections::BTreeSet;

/// Maximum number of addresses to check, in the order of the file.
const ADDRESSES_MAX: usize = 64;
/// Maximum number of domains, and of keys, to check.
const DOMAINS_MAX: usize = 500;
/// Number of concurrent checks of addresses, domains or keys.
const AT_ONCE: usize = 16;

/// Checks the DNS for all source addresses, domains and keys of a configuration; `more` are additional domains.
///
/// # Errors
/// Returns an error if the system cannot query the DNS.
pub(super) fn lint(config: &Config, more: &[String]) -> Result<Vec<Finding>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    Ok(runtime.block_on(async {
        let resolver = Resolver::new(&config.dns);
        look_at_all(&DnsProber::new(AsRecords(&resolver)), config, more, wall_now()).await
    }))
}

async fn look_at_all<R: Records>(
    records: &R,
    config: &Config,
    more: &[String],
    now: Wall,
) -> Vec<Finding> {
    let (mut addresses, mut findings) = sending(records, config).await;
    cut(&mut addresses, ADDRESSES_MAX, "ptr", "addresses", &mut findings);
    let mut authors = authors(config, more);
    cut(&mut authors, DOMAINS_MAX, "dmarc", "domains", &mut findings);
    let named = named(config, authors);
    let (mut keys, notes) = keys(config);
    cut(&mut keys, DOMAINS_MAX, "dkim", "keys", &mut findings);
    findings.extend(notes);
    let of_addresses = |sending| async move { vec![SendingAddress::named(sending, records).await] };
    findings.extend(each(&addresses, "addresses", of_addresses).await);
    let public: Vec<&SendingAddress> = addresses.iter().filter(|one| !one.is_private()).collect();
    let server = Domain::dns_name(config.hostname.as_str()).unwrap_or_default();
    let (asker, public) = (CheckContext { name: &server, now: now.0 / 1_000 }, &*public);
    let names: BTreeSet<&str> = public.iter().map(|sending| &*sending.ehlo).collect();
    for name in names {
        let own: Vec<&SendingAddress> =
            public.iter().copied().filter(|sending| sending.ehlo == name).collect();
        findings.extend(senders(records, asker, Identity::Ehlo(name), &own).await);
    }
    let of_domains = |named| of_domain(records, asker, named, public);
    findings.extend(each(&named, "domains", of_domains).await);
    let of_keys = |key| async move { vec![of_key(records, key, now).await] };
    findings.extend(each(&keys, "keys", of_keys).await);
    findings
}

/// Looks at some at a time.
async fn each<'i, I, F: Future<Output = Vec<Finding>>>(
    items: &'i [I],
    noun: &'static str,
    look_at: impl Fn(&'i I) -> F,
) -> Vec<Finding> {
    let (mut findings, mut progress) = (Vec::new(), DnsCheckProgress::new(noun, items.len()));
    for (index, some) in items.chunks(AT_ONCE).enumerate() {
        progress.tell(index * AT_ONCE);
        findings.extend(all(some.iter().map(&look_at)).await.into_iter().flatten());
    }
    findings
}

/// Truncates to a limit, with a finding about the number of items left out.
fn cut<T>(
    items: &mut Vec<T>,
    max: usize,
    check: &'static str,
    noun: &str,
    findings: &mut Vec<Finding>,
) {
    if items.len() > max {
        let text = format!("{} of {} {noun} are not checked", items.len() - max, items.len());
        findings.push(Finding::new(Severity::Note, check, noun, text));
        items.truncate(max);
    }
}

/// The domains of authors, each once, as far as the file or the command line names them.
fn authors(config: &Config, more: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let authors = signing_scopes(config).flat_map(|scope| scope.authors);
    authors.chain(more.iter().cloned()).filter(|domain| seen.insert(domain.clone())).collect()
}

/// The domains that appear as senders.
fn named(config: &Config, authors: Vec<String>) -> Vec<AuditedDomain> {
    let author = |domain: String| {
        let signers = signing_domains(config, &domain);
        AuditedDomain { domain, is_author: true, signers }
    };
    let mut named: Vec<AuditedDomain> = authors.into_iter().map(author).collect();
    // Forwarded mail has reverse-paths in this domain.
    let rewritten =
        config.of::<RewrittenSenders>().and_then(|srs| Domain::dns_name(srs.domain.as_str()));
    if let Some(domain) = rewritten.filter(|domain| !named.iter().any(|of| of.domain == *domain)) {
        named.push(AuditedDomain { domain, is_author: false, signers: Vec::new() });
    }
    named
}

/// The signing keys, each once, and notes about signers with domains unknown to this command.
fn keys(config: &Config) -> (Vec<SigningName<'_>>, Vec<Finding>) {
    let (mut keys, mut notes): (Vec<SigningName<'_>>, Vec<Finding>) = (Vec::new(), Vec::new());
    for scope in signing_scopes(config) {
        let whose = scope.others.join(", ");
        let note = match scope.table {
            Some(table) => Some(format!(
                "domains and keys in table \"{table}\" are not checked: name some by --domain"
            )),
            None if !whose.is_empty() => {
                Some(format!("the domains of {whose} are unknown here: name some by --domain"))
            }
            None => None,
        };
        notes.extend(note.map(|text| Finding::new(Severity::Note, "dmarc", "signer", text)));
        for key in scope.keys {
            if !keys.iter().any(|known| known.name == key.name) {
                keys.push(key);
            }
        }
    }
    (keys, notes)
}

/// As in `postrider dkim check`, except that a key that is not in use yet is no error.
async fn of_key<R: Records>(records: &R, key: &SigningName<'_>, now: Wall) -> Finding {
    let seen = look(records, key).await;
    let later = key.from.filter(|from| *from > now);
    let from = later.map_or(String::new(), |from| format!("signs from {from}: "));
    let (severity, text) = match (seen.right, later) {
        (true, _) => (Severity::Ok, "matches".to_owned()),
        (false, None) => (Severity::Error, seen.findings.join("; ")),
        (false, Some(_)) => (Severity::Warn, seen.findings.join("; ")),
    };
    let finding = Finding::new(severity, "dkim", &*seen.name, format!("{from}{text}"));
    match &seen.record {
        Some(record) => finding.publish(finding::txt(&seen.name, record)),
        None => finding,
    }
}
