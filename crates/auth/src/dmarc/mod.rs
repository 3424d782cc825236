//! DMARC (RFC 7489): checks that a message comes from its author's domain, and finds that domain's policy.
//! Organizational domains are found by walking up the tree (RFC 9989 §4.10), without a list of public suffixes.

mod published;
mod record;
pub mod reporting;

pub use published::{PolicyFinding, Published};
pub use record::RequestedPolicy;

use crate::authors;
use crate::dkim;
use crate::records::{Family, Records, Unanswered, is_at_or_below, verdicts};
use crate::scan::Scanned;
use crate::spf;
use record::{Record, Registry};
use reporting::Applied;

/// Maximum number of names queried while walking up from one domain (RFC 9989 §4.10).
pub const STEPS_MAX: usize = 8;
/// Maximum DNS queries about one message: the walk from the author's domain, its existence, and a walk from each domain
/// with a pass.
pub const LOOKUPS_MAX: u32 = (STEPS_MAX + 3 + (1 + SIGNERS_MAX) * STEPS_MAX) as u32;
/// Maximum number of valid signatures of the author's organization examined: each further domain costs a walk for its
/// own organization.
const SIGNERS_MAX: usize = 4;

verdicts! {
    /// By the names of RFC 7489 §11.2.
    enum DmarcResult {
        /// The author's domain has no policy.
        None = "none",
        Pass = "pass",
        Fail = "fail",
        /// The author is ambiguous, and with it the policy.
        PermError = "permerror",
    }
}

/// Result of the evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmarcEvaluation {
    pub verdict: DmarcResult,
    /// The author's domain, if there is one.
    pub domain: Option<String>,
    /// The policy's request for this message, if it fails.
    pub wish: RequestedPolicy,
    /// Explanation of the result.
    pub reason: String,
    /// Data for the aggregate report; `None` if none is requested.
    pub applied: Option<Box<Applied>>,
}

/// The author's domain and its policy.
pub struct Discovered {
    domain: String,
    policy: Option<Policy>,
}

struct Policy {
    record: Record,
    /// The domain of the record.
    of: String,
    /// The organizational domain: domains at or below it may align.
    organization: String,
    /// The failed query for a domain above those with records, if any: the organizational domain may be that one.
    unanswered: Option<Unanswered>,
}

/// Finds the author's domain and its policy.
///
/// # Errors
/// Returns the result for the message if either cannot be found.
pub async fn discover<R: Records>(
    records: &R,
    message: &Scanned,
) -> Result<Discovered, DmarcEvaluation> {
    let domain = author(message).map_err(|(verdict, reason)| DmarcEvaluation {
        verdict,
        domain: None,
        wish: RequestedPolicy::None,
        reason: reason.to_owned(),
        applied: None,
    })?;
    match policy(records, &domain).await {
        Ok(policy) => Ok(Discovered { domain, policy }),
        Err(unanswered) => Err(DmarcEvaluation {
            verdict: DmarcResult::of(&unanswered),
            domain: Some(domain),
            // Beyond the query limits the policy may be the strictest.
            wish: if unanswered.is_our_limit() {
                RequestedPolicy::Reject
            } else {
                RequestedPolicy::None
            },
            reason: unanswered.to_string(),
            applied: None,
        }),
    }
}

/// RFC 7489 §6.6.1. Several domains get no policy: a forger could choose among them. Without an author no domain can be
/// misused.
fn author(message: &Scanned) -> Result<String, (DmarcResult, &'static str)> {
    let wrong = |reason| Err((DmarcResult::PermError, reason));
    if let Some(why) = message.unreadable {
        return wrong(why);
    }
    let mut fields = message.values("From");
    let Some(field) = fields.next() else { return Err((DmarcResult::None, "no From field")) };
    if fields.next().is_some() {
        return wrong("several From fields");
    }
    let mut domains = authors::domains(field);
    domains.dedup();
    match <[Option<String>; 1]>::try_from(domains) {
        Ok([Some(domain)]) => Ok(domain),
        Ok([None]) => wrong("From has no domain"),
        Err(none) if none.is_empty() => Err((DmarcResult::None, "From has no address")),
        Err(_) => wrong("From has addresses of several domains"),
    }
}

/// The policy for a domain (RFC 9989 §4.10.1).
async fn policy<R: Records>(records: &R, domain: &str) -> Result<Option<Policy>, Unanswered> {
    let TreeWalk { mut found, unanswered } = walk(records, domain).await?;
    let organization = organization(&found, domain);
    let is_of = |name: &str| found.iter().position(|(of, _)| of == name);
    let at = is_of(domain).or_else(|| is_of(&organization)).or(found.len().checked_sub(1));
    Ok(at.map(|at| {
        let (of, record) = found.swap_remove(at);
        Policy { record, of, organization, unanswered }
    }))
}

/// Result of a walk up from a domain.
struct TreeWalk {
    /// The policies, the longest name first.
    found: Vec<(String, Record)>,
    /// The failed query that ended the walk early.
    unanswered: Option<Unanswered>,
}

impl TreeWalk {
    /// # Errors
    /// Returns the failed query if the walk ended early.
    fn whole(self) -> Result<Vec<(String, Record)>, Unanswered> {
        self.unanswered.map_or(Ok(self.found), Err)
    }
}

/// The policies of a domain and of those above it (RFC 9989 §4.10). Silence about a domain above one with a
/// policy does not take that away.
async fn walk<R: Records>(records: &R, domain: &str) -> Result<TreeWalk, Unanswered> {
    let mut found = Vec::new();
    let mut name = domain;
    for _ in 0..STEPS_MAX {
        let txt = match records.txt(&format!("_dmarc.{name}")).await {
            Ok(txt) => txt,
            Err(unanswered) if found.is_empty() => return Err(unanswered),
            Err(unanswered) => {
                // No organization is as large as a top-level domain.
                let unanswered = name.contains('.').then_some(unanswered);
                return Ok(TreeWalk { found, unanswered });
            }
        };
        if let Some(record) = Record::find(&txt) {
            let is_end = record.registry != Registry::Unsaid;
            found.push((name.to_owned(), record));
            if is_end {
                break;
            }
        }
        // For a long name the walk continues with seven labels.
        let labels = name.split('.').count();
        let left = if labels > STEPS_MAX { labels - (STEPS_MAX - 1) } else { 1 };
        match name.splitn(left + 1, '.').nth(left) {
            Some(above) => name = above,
            None => break,
        }
    }
    Ok(TreeWalk { found, unanswered: None })
}

/// The organizational domain of a domain (RFC 9989 §4.10.2).
fn organization(found: &[(String, Record)], domain: &str) -> String {
    for (name, record) in found {
        match record.registry {
            Registry::No => return name.clone(),
            Registry::Yes if name != domain => return one_label_below(name, domain).to_owned(),
            _ => {}
        }
    }
    found.last().map_or(domain, |(name, _)| name).to_owned()
}

/// The part of `domain` that has one label more than `above`.
fn one_label_below<'d>(above: &str, domain: &'d str) -> &'d str {
    let left = domain.len().saturating_sub(above.len() + 1);
    let start = domain.get(..left).and_then(|before| before.rfind('.')).map_or(0, |dot| dot + 1);
    domain.get(start..).unwrap_or(domain)
}

/// Applies the policy to a message with these results. `chance` is a random number below 100.
pub async fn evaluate<R: Records>(
    records: &R,
    discovered: Discovered,
    spf: &spf::SpfEvaluation,
    dkim: &[dkim::DkimVerification],
    chance: u8,
) -> DmarcEvaluation {
    let Discovered { domain, policy } = discovered;
    let Some(policy) = policy else {
        let reason = format!("neither {domain} nor a parent domain has a policy");
        let (verdict, wish) = (DmarcResult::None, RequestedPolicy::None);
        return DmarcEvaluation { verdict, domain: Some(domain), wish, reason, applied: None };
    };
    let (full, cut) = wish(records, &policy, &domain).await;
    let wish = if chance < policy.record.percent { full } else { full.milder() };
    let found = aligned(records, &policy, &domain, spf, dkim).await;
    let (is_spf_aligned, is_dkim_aligned) = (found.spf.is_some(), found.dkim.is_some());
    let (verdict, reason) = match found {
        Alignment { spf: Some(of), .. } => (DmarcResult::Pass, format!("SPF passed for {of}")),
        Alignment { dkim: Some(of), .. } => (DmarcResult::Pass, format!("DKIM passed for {of}")),
        Alignment { unknown: Some(unknown), .. } => unknown,
        _ if cut.is_some() => (DmarcResult::CutShort, cut.unwrap_or_default()),
        _ => (
            DmarcResult::Fail,
            format!("neither SPF nor DKIM passed for {domain}; policy of {}", policy.of),
        ),
    };
    let Policy { record, of, .. } = policy;
    let is_milder = wish != full;
    let applied = record
        .report_to
        .is_some()
        .then(|| Box::new(Applied { of, record, is_spf_aligned, is_dkim_aligned, is_milder }));
    DmarcEvaluation { verdict, domain: Some(domain), wish, reason, applied }
}

/// The policy's request for failing mail of a domain. If a query limit hides it, returns the strictest possible request
/// and the reason.
async fn wish<R: Records>(
    records: &R,
    policy: &Policy,
    domain: &str,
) -> (RequestedPolicy, Option<String>) {
    let record = &policy.record;
    if policy.of == domain {
        return (record.wish, None);
    }
    if record.wish_absent == record.wish_below {
        return (record.wish_below, None);
    }
    match is_absent(records, domain).await {
        Ok(true) => (record.wish_absent, None),
        // A name without an answer counts as existing.
        Err(unanswered) if unanswered.is_our_limit() => {
            (record.wish_absent.max(record.wish_below), Some(unanswered.to_string()))
        }
        Ok(false) | Err(_) => (record.wish_below, None),
    }
}

/// Returns true if a name has no records related to mail (RFC 9989 §3.2.8).
async fn is_absent<R: Records>(records: &R, domain: &str) -> Result<bool, Unanswered> {
    for family in [Family::V4, Family::V6] {
        if !records.addresses(domain, family).await?.is_empty() {
            return Ok(false);
        }
    }
    Ok(records.mail_hosts(domain).await?.is_empty())
}

/// Results aligned with the author's domain.
#[derive(Default)]
struct Alignment {
    /// The aligned domain.
    spf: Option<String>,
    /// The aligned domain.
    dkim: Option<String>,
    /// It could be found out later, and why not now.
    unknown: Option<(DmarcResult, String)>,
}

impl Alignment {
    /// Records an unknown result; one caused by query limits takes precedence.
    fn note_unknown(&mut self, verdict: DmarcResult, reason: String) {
        if !matches!(self.unknown, Some((DmarcResult::CutShort, _))) {
            self.unknown = Some((verdict, reason));
        }
    }
}

/// RFC 7489 §3.1.
async fn aligned<R: Records>(
    records: &R,
    policy: &Policy,
    author: &str,
    spf: &spf::SpfEvaluation,
    dkim: &[dkim::DkimVerification],
) -> Alignment {
    let mut found = Alignment::default();
    let spf_domain = spf.domain.to_ascii_lowercase();
    let of_spf = match spf.verdict {
        spf::SpfResult::Pass => Some(DmarcResult::Pass),
        spf::SpfResult::TempError => Some(DmarcResult::TempError),
        spf::SpfResult::CutShort => Some(DmarcResult::CutShort),
        _ => None,
    };
    if let Some(verdict) = of_spf {
        match belongs(records, policy, author, &spf_domain, policy.record.is_strict_spf).await {
            Ok(true) if verdict == DmarcResult::Pass => found.spf = Some(spf_domain),
            Ok(true) => found.note_unknown(verdict, spf.reason.clone()),
            Ok(false) => {}
            Err(why) => found.note_unknown(DmarcResult::of(&why), why.to_string()),
        }
    }
    let is_open = |outcome: &&dkim::DkimVerification| {
        use dkim::DkimResult::{CutShort, Pass, TempError};
        matches!(outcome.verdict, Pass | TempError | CutShort)
    };
    for (of, outcome) in near(policy, author, dkim.iter().filter(is_open)) {
        match belongs(records, policy, author, of, policy.record.is_strict_dkim).await {
            Ok(true) if outcome.verdict == dkim::DkimResult::Pass => {
                found.dkim = Some(of.to_owned());
                break;
            }
            Ok(true) => {
                let is_cut = outcome.verdict == dkim::DkimResult::CutShort;
                let verdict = if is_cut { DmarcResult::CutShort } else { DmarcResult::TempError };
                found.note_unknown(verdict, outcome.reason.clone());
            }
            Ok(false) => {}
            Err(why) => found.note_unknown(DmarcResult::of(&why), why.to_string()),
        }
    }
    found
}

/// Signatures that may align with the author, with their domains, those of the author's own domain first.
fn near<'o>(
    policy: &Policy,
    author: &str,
    outcomes: impl Iterator<Item = &'o dkim::DkimVerification>,
) -> Vec<(&'o str, &'o dkim::DkimVerification)> {
    let of_signer = |outcome: &'o dkim::DkimVerification| {
        outcome.signer.as_ref().map(|signer| (signer.domain.as_str(), outcome))
    };
    let mut near: Vec<_> = outcomes
        .filter_map(of_signer)
        .filter(|(domain, _)| {
            *domain == author || policy.is_over(domain) || policy.may_be_over(domain, author)
        })
        .collect();
    near.sort_by_key(|(domain, _)| *domain != author);
    near.truncate(SIGNERS_MAX);
    near
}

impl Policy {
    /// Returns true if a domain is at or below the organizational domain.
    fn is_over(&self, domain: &str) -> bool {
        is_at_or_below(domain, &self.organization)
    }

    /// Returns true if a domain may share the author's organizational domain, in case that is not known.
    fn may_be_over(&self, domain: &str, author: &str) -> bool {
        let last_two = |name: &str| name.rmatch_indices('.').nth(1).map_or(0, |(dot, _)| dot + 1);
        let registered = |name: &str| name[last_two(name)..].to_owned();
        self.unanswered.is_some() && registered(domain) == registered(author)
    }
}

/// Returns true if a domain is the author's, or in relaxed mode of the same organization.
async fn belongs<R: Records>(
    records: &R,
    policy: &Policy,
    author: &str,
    domain: &str,
    is_strict: bool,
) -> Result<bool, Unanswered> {
    if domain == author {
        return Ok(true);
    }
    let is_over = policy.is_over(domain);
    if is_strict || !is_over && !policy.may_be_over(domain, author) {
        return Ok(false);
    }
    match &policy.unanswered {
        Some(unanswered) if !is_over => return Err(unanswered.clone()),
        _ => {}
    }
    // A domain below may be a separate organization.
    let walked = walk(records, domain).await?;
    match walked.unanswered {
        _ if organization(&walked.found, domain) == policy.organization => Ok(true),
        Some(unanswered) => Err(unanswered),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests;
