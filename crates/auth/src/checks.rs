//! All checks of a message.

use crate::records::{Records, is_at_or_below};
use crate::scan::{Scan, ScanOptions, Scanned};
use crate::together::both;
use crate::{arc, dkim, dmarc, dnsbl, iprev, spf};
use std::net::IpAddr;

/// The checks to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckSelection {
    /// Belongs to a client and not to its messages: [`check`] does not make it.
    pub iprev: bool,
    pub spf: bool,
    pub dkim: bool,
    /// Needs SPF and DKIM, which are evaluated for it even if not selected.
    pub dmarc: bool,
    pub arc: bool,
}

impl CheckSelection {
    /// A scan of a received message.
    #[must_use]
    pub fn scan(self) -> Scan {
        Scan::new(self.wanted(false))
    }

    /// As [`CheckSelection::scan`], for a message that will also be signed.
    #[must_use]
    pub fn scan_to_sign(self) -> Scan {
        Scan::new(self.wanted(true))
    }

    fn wanted(self, to_sign: bool) -> ScanOptions {
        ScanOptions { dkim: self.dkim || self.dmarc, arc: self.arc, to_sign }
    }
}

/// Results of the checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// The client's address, and the result of its name check.
    pub iprev: Option<(IpAddr, iprev::IprevCheck)>,
    pub spf: Option<spf::SpfEvaluation>,
    /// Results by signature, in order.
    pub dkim: Option<Vec<dkim::DkimVerification>>,
    /// Number of signatures not examined.
    pub signatures_left: usize,
    pub dmarc: Option<dmarc::DmarcEvaluation>,
    pub arc: Option<arc::ArcValidation>,
}

/// The bare results, one value for each check made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthSummary {
    pub iprev: Option<iprev::IprevResult>,
    pub spf: Option<spf::SpfResult>,
    /// The overall result, see [`dkim::overall`].
    pub dkim: Option<dkim::DkimResult>,
    pub dmarc: Option<dmarc::DmarcResult>,
    pub arc: Option<arc::ArcResult>,
    /// The statement of the seal added here about the chain before it.
    pub sealed: Option<arc::ArcResult>,
    /// The result of DNS lists about the client, if queried.
    pub dnsbl: Option<dnsbl::DnsblResult>,
}

impl Verdicts {
    /// Returns true if SPF or DKIM passed for the domain of this sender, or for a domain above it.
    #[must_use]
    pub fn prove(&self, sender: Option<&str>) -> bool {
        let Some(sender) = sender.map(|sender| sender.trim_end_matches('.')) else { return false };
        let by_spf = self.spf.as_ref().is_some_and(|spf| {
            spf.verdict == spf::SpfResult::Pass && spf.identity == spf::Identity::MailFrom
        });
        let is_above = |domain: &str| is_at_or_below(sender, domain);
        let mut signers = self.dkim.iter().flatten().filter(|outcome| {
            outcome.verdict == dkim::DkimResult::Pass
                && outcome.signer.as_ref().is_some_and(|signer| is_above(&signer.domain))
        });
        by_spf || signers.next().is_some()
    }

    #[must_use]
    pub fn summary(&self) -> AuthSummary {
        AuthSummary {
            iprev: self.iprev.as_ref().map(|(_, outcome)| outcome.verdict),
            spf: self.spf.as_ref().map(|outcome| outcome.verdict),
            dkim: self.dkim.as_deref().map(dkim::overall),
            dmarc: self.dmarc.as_ref().map(|outcome| outcome.verdict),
            arc: self.arc.as_ref().map(|outcome| outcome.verdict),
            sealed: None,
            dnsbl: None,
        }
    }
}

/// Input of the checks.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The client and sender; `None` if unknown: SPF then has no result.
    pub question: Option<spf::SpfQuery<'a>>,
    pub message: &'a Scanned,
    /// Seconds since 1970.
    pub now: u64,
    /// A random number below 100, for policies that apply to a fraction of the messages.
    pub chance: u8,
}

/// A DNS resolver per check, so that the queries of one check do not use up the limits of another.
#[derive(Debug)]
pub struct Shares<'r, R> {
    /// For the policy of the author's domain; third parties cannot choose its servers.
    pub policy: &'r R,
    pub spf: &'r R,
    pub dkim: &'r R,
    pub arc: &'r R,
}

/// Makes the selected checks with one DNS resolver for all.
pub async fn check<R: Records>(
    records: &R,
    asked: CheckSelection,
    subject: Subject<'_>,
) -> Verdicts {
    let shares = Shares { policy: records, spf: records, dkim: records, arc: records };
    check_apart(shares, asked, subject).await
}

/// Makes the selected checks concurrently. The author's policy is queried first: the author of the message controls the
/// other queries and the time of their answers.
pub async fn check_apart<R: Records>(
    shares: Shares<'_, R>,
    asked: CheckSelection,
    subject: Subject<'_>,
) -> Verdicts {
    let Subject { question, message, now, chance } = subject;
    let spf = async {
        match (asked.spf || asked.dmarc, question) {
            (true, Some(question)) => Some(spf::check(shares.spf, question).await),
            (true, None) => Some(spf::SpfEvaluation::unknown()),
            (false, _) => None,
        }
    };
    let dkim = async {
        match asked.dkim || asked.dmarc {
            true => Some(dkim::verify(shares.dkim, message, now).await),
            false => None,
        }
    };
    let policy = async {
        match asked.dmarc {
            true => Some(dmarc::discover(shares.policy, message).await),
            false => None,
        }
    };
    let arc = async {
        match asked.arc {
            true => Some(arc::verify(shares.arc, message).await),
            false => None,
        }
    };
    let (policy, ((spf, dkim), arc)) = both(policy, both(both(spf, dkim), arc)).await;
    let dmarc = match (policy, &spf, &dkim) {
        (Some(Ok(found)), Some(spf), Some(dkim)) => {
            Some(dmarc::evaluate(shares.policy, found, spf, dkim, chance).await)
        }
        (Some(Err(outcome)), ..) => Some(outcome),
        _ => None,
    };
    Verdicts { iprev: None, spf, dkim, signatures_left: message.signatures_left, dmarc, arc }
}
