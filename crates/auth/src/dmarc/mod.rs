//! Whether a message comes from the domain of its author, and what that domain asks for if not: DMARC
//! (RFC 7489). Where domains end that belong together is found by walking up the tree (RFC 9989 §4.10),
//! without a list of public suffixes.

mod record;

pub use record::Wish;

use crate::authors;
use crate::dkim;
use crate::records::{Records, Unanswered};
use crate::scan::Scanned;
use crate::spf;
use record::{Record, Registry};

/// Names that are asked about on the way from one domain up (RFC 9989 §4.10).
pub const STEPS_MAX: usize = 8;
/// Good signatures of the author's organization that are looked at: of each further domain it is asked where its
/// own organization ends.
const SIGNERS_MAX: usize = 4;

/// By the names of RFC 7489 §11.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The author's domain has no policy.
    None,
    Pass,
    Fail,
    TempError,
    /// Whose policy it would be can't be told.
    PermError,
}

impl Verdict {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::None => "none",
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::TempError => "temperror",
            Verdict::PermError => "permerror",
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Verdict,
    /// The author's domain, if there is one.
    pub domain: Option<String>,
    /// What the policy asks for this message, if it fails.
    pub wish: Wish,
    /// What led there.
    pub reason: String,
}

/// The author's domain and its policy.
pub struct Discovered {
    domain: String,
    policy: Option<Policy>,
}

struct Policy {
    record: Record,
    /// Whose record it is.
    of: String,
    /// What belongs to the author's domain is at or below it.
    organization: String,
}

/// Finds the author's domain and its policy.
///
/// # Errors
/// What comes of the message when neither can be found.
pub async fn discover<R: Records>(records: &R, message: &Scanned) -> Result<Discovered, Outcome> {
    let domain = author(message).map_err(|(verdict, reason)| Outcome {
        verdict,
        domain: None,
        wish: Wish::None,
        reason: reason.to_owned(),
    })?;
    match policy(records, &domain).await {
        Ok(policy) => Ok(Discovered { domain, policy }),
        Err(unanswered) => Err(Outcome {
            verdict: Verdict::TempError,
            domain: Some(domain),
            wish: Wish::None,
            reason: unanswered.to_string(),
        }),
    }
}

/// RFC 7489 §6.6.1. Several domains are refused an answer: whose policy counts would be the forger's
/// choice. Without an author there is nobody whose name could be misused.
fn author(message: &Scanned) -> Result<String, (Verdict, &'static str)> {
    let wrong = |reason| Err((Verdict::PermError, reason));
    if let Some(why) = message.unreadable {
        return wrong(why);
    }
    let mut fields = message.values("From");
    let Some(field) = fields.next() else { return Err((Verdict::None, "there is no From")) };
    if fields.next().is_some() {
        return wrong("there are several From fields");
    }
    let mut domains = authors::domains(field);
    domains.dedup();
    match <[Option<String>; 1]>::try_from(domains) {
        Ok([Some(domain)]) => Ok(domain),
        Ok([None]) => wrong("From has no domain"),
        Err(none) if none.is_empty() => Err((Verdict::None, "From has no address")),
        Err(_) => wrong("From has addresses of several domains"),
    }
}

/// The policy for a domain (RFC 9989 §4.10.1).
async fn policy<R: Records>(records: &R, domain: &str) -> Result<Option<Policy>, Unanswered> {
    let mut found = walk(records, domain).await?;
    let organization = organization(&found, domain);
    let is_of = |name: &str| found.iter().position(|(of, _)| of == name);
    let at = is_of(domain).or_else(|| is_of(&organization)).or(found.len().checked_sub(1));
    Ok(at.map(|at| {
        let (of, record) = found.swap_remove(at);
        Policy { record, of, organization }
    }))
}

/// The policies of a domain and of those above it, the longest name first (RFC 9989 §4.10).
async fn walk<R: Records>(records: &R, domain: &str) -> Result<Vec<(String, Record)>, Unanswered> {
    let mut found = Vec::new();
    let mut name = domain;
    for _ in 0..STEPS_MAX {
        let txt = records.txt(&format!("_dmarc.{name}")).await?;
        if let Some(record) = Record::find(&txt) {
            let is_end = record.registry != Registry::Unsaid;
            found.push((name.to_owned(), record));
            if is_end {
                break;
            }
        }
        // From a long name the walk goes on with seven labels.
        let labels = name.split('.').count();
        let left = if labels > STEPS_MAX { labels - (STEPS_MAX - 1) } else { 1 };
        match name.splitn(left + 1, '.').nth(left) {
            Some(above) => name = above,
            None => break,
        }
    }
    Ok(found)
}

/// Below which name a domain's organization has all of its own (RFC 9989 §4.10.2).
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

/// What the policy says of a message that came to these verdicts. `chance` is a random number below 100.
pub async fn evaluate<R: Records>(
    records: &R,
    discovered: Discovered,
    spf: &spf::Outcome,
    dkim: &[dkim::Outcome],
    chance: u8,
) -> Outcome {
    let Discovered { domain, policy } = discovered;
    let Some(policy) = policy else {
        let reason = format!("neither {domain} nor a domain above it has a policy");
        let (verdict, wish) = (Verdict::None, Wish::None);
        return Outcome { verdict, domain: Some(domain), wish, reason };
    };
    let wish = wish(&policy, &domain, chance);
    let (verdict, reason) = match aligned(records, &policy, &domain, spf, dkim).await {
        Alignment::Some(what) => (Verdict::Pass, what),
        Alignment::Unknown(why) => (Verdict::TempError, why),
        Alignment::None => (
            Verdict::Fail,
            format!("neither SPF nor DKIM passed for {domain}; policy of {}", policy.of),
        ),
    };
    Outcome { verdict, domain: Some(domain), wish, reason }
}

fn wish(policy: &Policy, domain: &str, chance: u8) -> Wish {
    let record = &policy.record;
    let wish = if policy.of == domain { record.wish } else { record.wish_below };
    if chance < record.percent { wish } else { wish.milder() }
}

enum Alignment {
    /// By what.
    Some(String),
    None,
    /// It could be found out later, and why not now.
    Unknown(String),
}

/// RFC 7489 §3.1.
async fn aligned<R: Records>(
    records: &R,
    policy: &Policy,
    author: &str,
    spf: &spf::Outcome,
    dkim: &[dkim::Outcome],
) -> Alignment {
    let mut unknown = None;
    let spf_domain = spf.domain.to_ascii_lowercase();
    let is_spf = matches!(spf.verdict, spf::Verdict::Pass | spf::Verdict::TempError);
    if is_spf {
        match belongs(records, policy, author, &spf_domain, policy.record.is_strict_spf).await {
            Ok(true) if spf.verdict == spf::Verdict::Pass => {
                return Alignment::Some(format!("SPF passed for {spf_domain}"));
            }
            Ok(true) => unknown = Some(spf.reason.clone()),
            Ok(false) => {}
            Err(unanswered) => unknown = Some(unanswered.to_string()),
        }
    }
    let is_open = |outcome: &&dkim::Outcome| {
        matches!(outcome.verdict, dkim::Verdict::Pass | dkim::Verdict::TempError)
    };
    for (of, outcome) in near(policy, author, dkim.iter().filter(is_open)) {
        match belongs(records, policy, author, of, policy.record.is_strict_dkim).await {
            Ok(true) if outcome.verdict == dkim::Verdict::Pass => {
                return Alignment::Some(format!("DKIM passed for {of}"));
            }
            Ok(true) => unknown = Some(outcome.reason.clone()),
            Ok(false) => {}
            Err(unanswered) => unknown = Some(unanswered.to_string()),
        }
    }
    unknown.map_or(Alignment::None, Alignment::Unknown)
}

/// Signatures that may count for the author, with who made them, those of the author's own domain first.
fn near<'o>(
    policy: &Policy,
    author: &str,
    outcomes: impl Iterator<Item = &'o dkim::Outcome>,
) -> Vec<(&'o str, &'o dkim::Outcome)> {
    let of_signer = |outcome: &'o dkim::Outcome| {
        outcome.signer.as_ref().map(|signer| (signer.domain.as_str(), outcome))
    };
    let mut near: Vec<_> = outcomes
        .filter_map(of_signer)
        .filter(|(domain, _)| *domain == author || policy.is_over(domain))
        .collect();
    near.sort_by_key(|(domain, _)| *domain != author);
    near.truncate(SIGNERS_MAX);
    near
}

impl Policy {
    /// Whether a domain is the organization's or below it.
    fn is_over(&self, domain: &str) -> bool {
        let above = domain.strip_suffix(self.organization.as_str());
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    }
}

/// Whether a domain is the author's, or of its organization where that is enough.
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
    if is_strict || !policy.is_over(domain) {
        return Ok(false);
    }
    // A domain below may be an organization of its own.
    let found = walk(records, domain).await?;
    Ok(organization(&found, domain) == policy.organization)
}

#[cfg(test)]
mod tests;
