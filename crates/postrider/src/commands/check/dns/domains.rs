//! Checks of the domains that appear as senders.

use super::addresses::SendingAddress;
use super::finding::{Finding, Severity, txt};
use super::senders::{CheckContext, Identity, senders};
use auth::dmarc::{self, Published};
use auth::records::{Family, Records};

/// Maximum number of a domain's hosts to look up.
const HOSTS_MAX: usize = 5;

/// A domain that appears as sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuditedDomain {
    pub(super) domain: String,
    /// The domain appears in From: its signatures and its policy count.
    pub(super) is_author: bool,
    /// The domains that sign its mail.
    pub(super) signers: Vec<String>,
}

/// All that is found about a domain.
pub(super) async fn of_domain<R: Records>(
    records: &R,
    asker: CheckContext<'_>,
    named: &AuditedDomain,
    addresses: &[&SendingAddress],
) -> Vec<Finding> {
    let identity = Identity::Domain(&named.domain);
    let mut findings = senders(records, asker, identity, addresses).await;
    if named.is_author {
        if named.signers.is_empty() {
            let text = "no signer: add a [[signer]] with this domain";
            findings.push(Finding::new(Severity::Error, "dkim", &*named.domain, text));
        }
        findings.push(policy(records, named).await);
    }
    findings.push(mail_hosts(records, asker.name, &named.domain).await);
    findings
}

/// Checks that a DMARC policy exists and that one of our signatures aligns with it (RFC 7489 §3.1).
async fn policy<R: Records>(records: &R, named: &AuditedDomain) -> Finding {
    let AuditedDomain { domain, signers, .. } = named;
    let finding = |severity, text: String| Finding::new(severity, "dmarc", &**domain, text);
    let published = match Published::find(records, domain).await {
        Ok(published) => published,
        Err(why) => {
            let wrong = finding(Severity::Error, why.to_string());
            return match why {
                dmarc::PolicyFinding::Unanswered(_) => wrong,
                dmarc::PolicyFinding::Missing
                | dmarc::PolicyFinding::Several
                | dmarc::PolicyFinding::Malformed => {
                    let record = format!("v=DMARC1; p=none; rua=mailto:postmaster@{domain}");
                    wrong.publish(txt(&format!("_dmarc.{domain}"), &record))
                }
            };
        }
    };
    let of = match published.of() == domain {
        true => String::new(),
        false => format!(" by {}", published.of()),
    };
    let reports = if published.is_reported() { "" } else { ", no reports" };
    let mistakes = match published.has_mistakes() {
        true => ", the record has an invalid or repeated tag: receivers may ignore the policy",
        false => "",
    };
    let policy = format!("p={}{of}{reports}{mistakes}", published.wish().as_str());
    for signer in signers {
        match published.is_aligned(records, signer).await {
            Ok(true) => return finding(Severity::Ok, format!("{policy}; aligned with d={signer}")),
            Ok(false) => {}
            Err(why) => return finding(Severity::Error, format!("{policy}; lookup failed: {why}")),
        }
    }
    if signers.is_empty() {
        return finding(Severity::Error, format!("{policy}; no signature to align"));
    }
    let strict = match published.is_strict() {
        true => format!(" (adkim=s: only d={domain} aligns)"),
        false => String::new(),
    };
    let signers = signers.join(", ");
    let text = format!(
        "{policy}; no aligned signature: d={signers}{strict}; add a [[signer]] with domains = \
         [\"{domain}\"]"
    );
    finding(Severity::Error, text)
}

/// Checks that the domain accepts replies and reports (RFC 5321 §5.1, RFC 7505).
async fn mail_hosts<R: Records>(records: &R, server: &str, domain: &str) -> Finding {
    let finding = |severity, text: String| Finding::new(severity, "mx", domain, text);
    let unanswered = |why| finding(Severity::Error, format!("lookup failed: {why}"));
    let mx = format!("{domain}. IN MX 10 {server}.");
    let hosts = match records.mail_hosts(domain).await {
        Ok(hosts) => hosts,
        Err(why) => return unanswered(why),
    };
    if hosts.iter().any(|host| host.is_empty() || host == ".") {
        let text = "it accepts no mail (MX 0 .): replies and reports cannot be delivered, and \
         some servers reject its mail";
        return finding(Severity::Error, text.to_owned()).publish(mx);
    }
    if hosts.is_empty() {
        return match has_address(records, domain).await {
            Ok(true) => finding(Severity::Ok, "no MX; its address receives mail".to_owned()),
            Ok(false) => {
                let text = "neither MX nor address: replies and reports cannot be delivered";
                finding(Severity::Error, text.to_owned()).publish(mx)
            }
            Err(why) => unanswered(why),
        };
    }
    let mut without = Vec::new();
    let looked_at = hosts.iter().take(HOSTS_MAX);
    let count = looked_at.len();
    for host in looked_at {
        match has_address(records, host).await {
            Ok(true) => {}
            Ok(false) => without.push(&**host),
            Err(why) => return unanswered(why),
        }
    }
    let severity = match without.len() {
        0 => return finding(Severity::Ok, hosts[..count].join(", ")),
        missing if missing == count => Severity::Error,
        _ => Severity::Warn,
    };
    let is_named = without.iter().any(|host| host.eq_ignore_ascii_case(server));
    let finding = finding(severity, format!("hosts without an address: {}", without.join(", ")));
    // The address of this server is unknown here, the record that names it is not.
    if severity == Severity::Error && !is_named { finding.publish(mx) } else { finding }
}

async fn has_address<R: Records>(
    records: &R,
    host: &str,
) -> Result<bool, auth::records::Unanswered> {
    for family in [Family::V4, Family::V6] {
        if !records.addresses(host, family).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
