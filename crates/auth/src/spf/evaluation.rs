//! `check_host()` (RFC 7208 §4).

use super::expansion::{MacroString, Values};
use super::record::{Directive, Mechanism, Prefixes, Record, is_policy};
use super::{Identity, SpfEvaluation, SpfQuery, SpfResult};
use crate::records::{DnsAnswer, Family, Records, Unanswered, is_at_or_below};
use std::cell::{Cell, OnceCell};
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

/// Maximum number of terms with DNS queries in one check; beyond: permerror (RFC 7208 §4.6.4).
pub const LOOKUPS_MAX: u32 = 10;
/// Answers without records in one check; beyond: permerror (RFC 7208 §4.6.4).
pub const VOID_LOOKUPS_MAX: u32 = 2;
/// Hosts of one `mx`, beyond which it is permerror, and names of one `ptr` that are looked at (RFC 7208
/// §4.6.4).
pub const EXCHANGES_MAX: usize = 10;
/// Length at which a domain's explanation is cut.
const EXPLANATION_BYTES_MAX: usize = 200;

/// Asks whether the client may send for the domain of the sender, or for the one it named itself.
pub async fn check<R: Records>(records: &R, question: SpfQuery<'_>) -> SpfEvaluation {
    // RFC 7208 §5: an IPv4 address in IPv6's clothes is one.
    let question = SpfQuery { client: question.client.to_canonical(), ..question };
    let (identity, local, domain) = match &question.sender {
        Some(sender) => (Identity::MailFrom, sender.local, sender.domain),
        None => (Identity::Helo, "", question.helo),
    };
    // RFC 7208 §4.3: an empty local part counts as `postmaster`.
    let local = if local.is_empty() { "postmaster" } else { local };
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    let check = Check {
        records,
        sender: (local, domain),
        question: &question,
        lookups: Cell::new(0),
        voids: Cell::new(0),
        client_names: OnceCell::new(),
    };
    let RecordResult { verdict, reason, explanation } =
        match check.evaluate(domain.to_owned()).await {
            Ok(found) => found,
            Err(Stop { verdict, reason }) => RecordResult { verdict, reason, explanation: None },
        };
    let explanation = match explanation.filter(|_| verdict == SpfResult::Fail) {
        Some((template, of)) => check.explain(&template, &of).await,
        None => None,
    };
    SpfEvaluation { verdict, identity, domain: domain.to_owned(), reason, explanation }
}

/// Result of a record.
struct RecordResult {
    verdict: SpfResult,
    reason: String,
    /// The name of the explanation, and the domain of the record naming it.
    explanation: Option<(MacroString, String)>,
}

/// The check ends with this result.
struct Stop {
    verdict: SpfResult,
    reason: String,
}

impl From<Unanswered> for Stop {
    fn from(unanswered: Unanswered) -> Stop {
        Stop { verdict: SpfResult::of(&unanswered), reason: unanswered.to_string() }
    }
}

fn wrong(reason: impl Into<String>) -> Stop {
    Stop { verdict: SpfResult::PermError, reason: reason.into() }
}

struct Check<'a, R> {
    records: &'a R,
    sender: (&'a str, &'a str),
    question: &'a SpfQuery<'a>,
    lookups: Cell<u32>,
    voids: Cell<u32>,
    /// Queried once, by the first term that needs them.
    client_names: OnceCell<Vec<String>>,
}

impl<R: Records> Check<'_, R> {
    /// Evaluates the policy of `domain`. A policy with an include waits for it here; the count of lookups limits the
    /// depth to [`LOOKUPS_MAX`]. Never inlined: each level would use the stack of one evaluation.
    #[inline(never)]
    fn evaluate(
        &self,
        domain: String,
    ) -> Pin<Box<dyn Future<Output = Result<RecordResult, Stop>> + '_>> {
        Box::pin(self.follow(domain))
    }

    /// Evaluates a policy and its redirects.
    async fn follow(&self, mut domain: String) -> Result<RecordResult, Stop> {
        let mut redirected_by = None;
        loop {
            let Some(record) = self.record(&domain).await? else {
                let reason = format!("{domain} has no SPF record");
                return match redirected_by {
                    Some(by) => Err(wrong(format!("redirect of {by}: {reason}"))),
                    None => {
                        Ok(RecordResult { verdict: SpfResult::None, reason, explanation: None })
                    }
                };
            };
            for directive in &record.directives {
                if self.matches(&directive.mechanism, &domain).await? {
                    let Directive { verdict, text, .. } = directive;
                    let reason = format!("\"{text}\" of {domain}");
                    let explanation = record.explanation.clone().map(|name| (name, domain));
                    return Ok(RecordResult { verdict: *verdict, reason, explanation });
                }
            }
            let Some(redirect) = &record.redirect else {
                let reason = format!("no mechanism of {domain} matches");
                return Ok(RecordResult { verdict: SpfResult::Neutral, reason, explanation: None });
            };
            self.count_lookup()?;
            let target = self.expand(redirect, &domain).await?;
            redirected_by = Some(std::mem::replace(&mut domain, target));
        }
    }

    /// RFC 7208 §4.3 to §4.6.
    async fn record(&self, domain: &str) -> Result<Option<Record>, Stop> {
        // RFC 7208 §4.3: an address literal in EHLO is not a domain.
        if !is_name(domain) || !domain.contains('.') || domain.starts_with('[') {
            return Ok(None);
        }
        let mut policies = self.records.txt(domain).await?;
        policies.retain(|txt| is_policy(txt));
        match policies.as_slice() {
            [] => Ok(None),
            [policy] => Record::parse(policy)
                .map(Some)
                .map_err(|mistake| wrong(format!("{} in the SPF record of {domain}", mistake.0))),
            several => Err(wrong(format!("{domain} has {} SPF records", several.len()))),
        }
    }

    async fn matches(&self, mechanism: &Mechanism, domain: &str) -> Result<bool, Stop> {
        if !matches!(mechanism, Mechanism::All | Mechanism::Ip4(..) | Mechanism::Ip6(..)) {
            self.count_lookup()?;
        }
        let client = self.question.client;
        match mechanism {
            Mechanism::All => Ok(true),
            Mechanism::Ip4(network, bits) => Ok(is_within(client, IpAddr::V4(*network), *bits)),
            Mechanism::Ip6(network, bits) => Ok(is_within(client, IpAddr::V6(*network), *bits)),
            Mechanism::Include(target) => self.includes(target, domain).await,
            Mechanism::A(target, prefixes) => {
                let host = self.target(target.as_ref(), domain).await?;
                let found = self.host(&host, *prefixes).await?;
                self.count_void(found == Host::Void)?;
                Ok(found == Host::Client)
            }
            Mechanism::Mx(target, prefixes) => {
                let of = self.target(target.as_ref(), domain).await?;
                self.is_exchange(&of, *prefixes).await
            }
            Mechanism::Ptr(target) => {
                let of = self.target(target.as_ref(), domain).await?;
                Ok(self.client_names().await?.iter().any(|name| is_at_or_below(name, &of)))
            }
            Mechanism::Exists(target) => {
                let host = self.expand(target, domain).await?;
                if !is_name(&host) {
                    return Ok(false);
                }
                let addresses = self.records.addresses(&host, Family::V4).await?;
                self.count_void(addresses.is_empty())?;
                Ok(!addresses.is_empty())
            }
        }
    }

    /// RFC 7208 §5.2.
    async fn includes(&self, target: &MacroString, domain: &str) -> Result<bool, Stop> {
        let target = self.expand(target, domain).await?;
        let found = self.evaluate(target).await?;
        match found.verdict {
            SpfResult::Pass => Ok(true),
            SpfResult::None => Err(wrong(format!("include of {domain}: {}", found.reason))),
            _ => Ok(false),
        }
    }

    async fn target(&self, target: Option<&MacroString>, domain: &str) -> Result<String, Stop> {
        match target {
            Some(target) => self.expand(target, domain).await,
            None => Ok(domain.to_owned()),
        }
    }

    async fn expand(&self, template: &MacroString, domain: &str) -> Result<String, Stop> {
        let client_name = self.client_name_for(template, domain).await?;
        Ok(template.expand_domain(&self.values(domain, client_name.as_deref())))
    }

    fn values<'v>(&'v self, domain: &'v str, client_name: Option<&'v str>) -> Values<'v> {
        Values { question: self.question, sender: self.sender, domain, client_name }
    }

    /// RFC 7208 §7.2, `p`: the domain itself among the client's names, or a name below it, or any.
    async fn client_name_for(
        &self,
        template: &MacroString,
        domain: &str,
    ) -> Result<Option<String>, Stop> {
        if !template.needs_client_name() {
            return Ok(None);
        }
        let names = self.client_names().await?;
        let same = names.iter().find(|name| name.eq_ignore_ascii_case(domain));
        let below = || names.iter().find(|name| is_at_or_below(name, domain));
        Ok(same.or_else(below).or_else(|| names.first()).cloned())
    }

    /// The client's names that resolve back to its address (RFC 7208 §5.5). Names without a DNS answer are skipped.
    async fn client_names(&self) -> Result<&[String], Stop> {
        if let Some(known) = self.client_names.get() {
            return Ok(known);
        }
        let client = self.question.client;
        let mut names = found_of(self.records.names(client).await)?;
        names.truncate(EXCHANGES_MAX);
        let mut validated = Vec::new();
        for name in names {
            let addresses = self.records.addresses(&name, Family::of(client)).await;
            if found_of(addresses)?.contains(&client) {
                validated.push(name);
            }
        }
        Ok(self.client_names.get_or_init(|| validated))
    }

    async fn host(&self, host: &str, prefixes: Prefixes) -> Result<Host, Stop> {
        if !is_name(host) {
            return Ok(Host::Other);
        }
        let client = self.question.client;
        let bits = if client.is_ipv4() { prefixes.v4 } else { prefixes.v6 };
        let addresses = self.records.addresses(host, Family::of(client)).await?;
        if addresses.is_empty() {
            return Ok(Host::Void);
        }
        let is_client = addresses.into_iter().any(|address| is_within(client, address, bits));
        Ok(if is_client { Host::Client } else { Host::Other })
    }

    async fn is_exchange(&self, domain: &str, prefixes: Prefixes) -> Result<bool, Stop> {
        if !is_name(domain) {
            return Ok(false);
        }
        let hosts = self.records.mail_hosts(domain).await?;
        if hosts.len() > EXCHANGES_MAX {
            return Err(wrong(format!("{domain} has more than {EXCHANGES_MAX} MX hosts")));
        }
        // RFC 7208 §4.6.4 counts terms: hosts without an address of the client's family are one void term, and
        // only if there is no other host.
        let mut is_void = true;
        for host in hosts {
            match self.host(&host, prefixes).await? {
                Host::Client => return Ok(true),
                Host::Other => is_void = false,
                Host::Void => {}
            }
        }
        self.count_void(is_void)?;
        Ok(false)
    }

    fn count_lookup(&self) -> Result<(), Stop> {
        self.lookups.set(self.lookups.get() + 1);
        match self.lookups.get() {
            ..=LOOKUPS_MAX => Ok(()),
            _ => Err(wrong(format!("more than {LOOKUPS_MAX} DNS lookups"))),
        }
    }

    fn count_void(&self, is_void: bool) -> Result<(), Stop> {
        self.voids.set(self.voids.get() + u32::from(is_void));
        match self.voids.get() {
            ..=VOID_LOOKUPS_MAX => Ok(()),
            _ => Err(wrong(format!("more than {VOID_LOOKUPS_MAX} void lookups"))),
        }
    }

    /// RFC 7208 §6.2: any error means no explanation.
    async fn explain(&self, name: &MacroString, domain: &str) -> Option<String> {
        let name = self.expand(name, domain).await.ok()?;
        let texts = if is_name(&name) { self.records.txt(&name).await.ok()? } else { return None };
        let [text] = texts.as_slice() else { return None };
        let text = MacroString::parse(std::str::from_utf8(text).ok()?, true)?;
        let client_name = self.client_name_for(&text, domain).await.ok()?;
        let mut text = text.expand(&self.values(domain, client_name.as_deref()));
        text.truncate(text.floor_char_boundary(EXPLANATION_BYTES_MAX));
        let is_printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        (is_printable && !text.is_empty()).then_some(text)
    }
}

/// Relation of a host to the client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Host {
    /// It has the client's address.
    Client,
    /// It has other addresses.
    Other,
    /// It has no address of the client's family.
    Void,
}

/// A DNS error counts as no records; a query limit ends the check.
fn found_of<T>(answer: DnsAnswer<T>) -> Result<Vec<T>, Stop> {
    match answer {
        Err(unanswered) if unanswered.is_our_limit() => Err(unanswered.into()),
        answer => Ok(answer.unwrap_or_default()),
    }
}

/// Returns true if a name is valid in the DNS: labels and the whole have valid lengths.
fn is_name(name: &str) -> bool {
    let label_max = mail::address::LABEL_BYTES_MAX;
    name.len() <= mail::address::DNS_NAME_BYTES_MAX
        && name.split('.').all(|label| (1..=label_max).contains(&label.len()))
}

/// Returns true if the first bits of two addresses of one family are equal.
fn is_within(client: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (client, network) {
        (IpAddr::V4(client), IpAddr::V4(network)) => {
            let shift = 32 - u32::from(bits.min(32));
            (client.to_bits() ^ network.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        (IpAddr::V6(client), IpAddr::V6(network)) => {
            let shift = 128 - u32::from(bits.min(128));
            (client.to_bits() ^ network.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        _ => false,
    }
}
