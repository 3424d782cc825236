//! Maps authentication results to an action: accept, mark, hold, reject.

use crate::checks::{CheckSelection, Verdicts};
use crate::dmarc::RequestedPolicy;
use crate::tags::printable;
use crate::{arc, dkim, dmarc, iprev, spf};
use mail::Refusal;
use std::borrow::Cow;

/// The strongest action that a check may cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActionLimit {
    /// It is not made.
    #[default]
    None,
    /// The result is recorded, without an action.
    Mark,
    /// A message that fails waits for an operator.
    Hold,
    /// It is refused.
    Reject,
}

impl ActionLimit {
    /// Returns true if the check is made.
    #[must_use]
    pub fn is_made(self) -> bool {
        self > ActionLimit::None
    }
}

/// The strongest action of each check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionLimits {
    /// For a client without a verified name; a rejection is made before its messages.
    pub client_name: ActionLimit,
    pub spf: ActionLimit,
    pub dkim: ActionLimit,
    pub dmarc: ActionLimit,
    pub arc: ActionLimit,
    /// On a DNS error, defers a message that might fail instead of accepting it. A check cut short by a query limit
    /// always defers.
    pub defers: bool,
}

impl ActionLimits {
    /// The checks that are made.
    #[must_use]
    pub fn asked(&self) -> CheckSelection {
        CheckSelection {
            iprev: self.client_name.is_made(),
            spf: self.spf.is_made(),
            dkim: self.dkim.is_made(),
            dmarc: self.dmarc.is_made(),
            arc: self.arc.is_made(),
        }
    }
}

/// Action on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyAction {
    Take,
    /// Hold the message for an operator, with the reason.
    Hold(String),
    Refuse(Refusal),
}

/// A failed check.
struct Objection {
    power: ActionLimit,
    /// RFC 7372 §3.
    status: (u16, u16),
    why: String,
}

/// Decides about a message: a rejection takes precedence over a hold, and earlier checks take precedence in the order
/// SPF, DKIM, DMARC, ARC.
#[must_use]
pub fn judge(powers: &ActionLimits, verdicts: &Verdicts) -> PolicyAction {
    let objections: Vec<Objection> = [
        client_name(powers, verdicts),
        spf(powers, verdicts),
        dkim(powers, verdicts),
        dmarc(powers, verdicts),
        arc(powers, verdicts),
    ]
    .into_iter()
    .flatten()
    .collect();
    let of = |power| objections.iter().find(|objection| objection.power == power);
    if let Some(Objection { status, why, .. }) = of(ActionLimit::Reject) {
        let text = Cow::Owned(printable(why));
        return PolicyAction::Refuse(Refusal { text, ..Refusal::permanent(*status, "") });
    }
    if let Some(refusal) = put_off(powers, verdicts) {
        return PolicyAction::Refuse(refusal);
    }
    of(ActionLimit::Hold)
        .map_or(PolicyAction::Take, |objection| PolicyAction::Hold(printable(&objection.why)))
}

/// Clients to reject were rejected before; their mail to the postmaster is accepted.
fn client_name(powers: &ActionLimits, verdicts: &Verdicts) -> Option<Objection> {
    let (_, outcome) = verdicts.iprev.as_ref()?;
    let is_failed =
        matches!(outcome.verdict, iprev::IprevResult::Fail | iprev::IprevResult::PermError);
    let why = "client address has no forward-confirmed reverse DNS".to_owned();
    let holds = is_failed && powers.client_name == ActionLimit::Hold;
    holds.then_some(Objection { power: ActionLimit::Hold, status: (7, 25), why })
}

fn spf(powers: &ActionLimits, verdicts: &Verdicts) -> Option<Objection> {
    let outcome = verdicts.spf.as_ref().filter(|of| of.verdict == spf::SpfResult::Fail)?;
    let mut why = format!("SPF validation failed: client not authorized for {}", outcome.domain);
    if let Some(explanation) = &outcome.explanation {
        why = format!("{why}; explanation: {explanation}");
    }
    Some(Objection { power: powers.spf, status: (7, 23), why })
}

/// A signature that cannot be verified counts as none (RFC 6376 §6.3), unless configured more strictly. Unsigned mail
/// cannot fail.
fn dkim(powers: &ActionLimits, verdicts: &Verdicts) -> Option<Objection> {
    let outcomes = verdicts.dkim.as_deref()?;
    let is_failed = !matches!(
        dkim::overall(outcomes),
        dkim::DkimResult::None
            | dkim::DkimResult::Pass
            | dkim::DkimResult::TempError
            | dkim::DkimResult::CutShort
    );
    let why = format!("DKIM validation failed: {}", outcomes.first()?.reason);
    is_failed.then_some(Objection { power: powers.dkim, status: (7, 20), why })
}

/// The author's domain requests the action; quarantine is at most a hold.
fn dmarc(powers: &ActionLimits, verdicts: &Verdicts) -> Option<Objection> {
    let outcome = verdicts.dmarc.as_ref()?;
    let most = match (outcome.verdict, outcome.wish) {
        (dmarc::DmarcResult::PermError, _)
        | (dmarc::DmarcResult::Fail, RequestedPolicy::Reject) => ActionLimit::Reject,
        (dmarc::DmarcResult::Fail, RequestedPolicy::Quarantine) => ActionLimit::Hold,
        _ => return None,
    };
    let why = match &outcome.domain {
        Some(domain) => format!("Rejected by the DMARC policy of {domain}"),
        None => format!("DMARC validation failed: {}", outcome.reason),
    };
    Some(Objection { power: powers.dmarc.min(most), status: (7, 1), why })
}

fn arc(powers: &ActionLimits, verdicts: &Verdicts) -> Option<Objection> {
    let outcome = verdicts.arc.as_ref().filter(|of| of.verdict == arc::ArcResult::Fail)?;
    let why = format!("ARC validation failed: {}", outcome.reason);
    // RFC 8617 §10.4.
    Some(Objection { power: powers.arc, status: (7, 29), why })
}

/// RFC 7372 §3.2 has a status for SPF; the other checks use that of a directory error.
fn put_off(powers: &ActionLimits, verdicts: &Verdicts) -> Option<Refusal> {
    const SPF: Refusal = Refusal::transient((7, 24), "Temporary DNS failure: SPF; try again later");
    const OTHER: Refusal = Refusal::transient((4, 3), "Temporary DNS failure; try again later");
    let summary = verdicts.summary();
    let is_open = |power: ActionLimit, is_unanswered: bool, is_cut: bool| {
        power >= ActionLimit::Hold && (is_cut || powers.defers && is_unanswered)
    };
    let (silent, cut) = (spf::SpfResult::TempError, spf::SpfResult::CutShort);
    if is_open(powers.spf, summary.spf == Some(silent), summary.spf == Some(cut)) {
        return Some(Refusal { chosen_code: Some(451), ..SPF });
    }
    let (silent, cut) = (dkim::DkimResult::TempError, dkim::DkimResult::CutShort);
    let dkim = is_open(powers.dkim, summary.dkim == Some(silent), summary.dkim == Some(cut));
    let (silent, cut) = (arc::ArcResult::TempError, arc::ArcResult::CutShort);
    let arc = is_open(powers.arc, summary.arc == Some(silent), summary.arc == Some(cut));
    let dmarc = verdicts.dmarc.as_ref().is_some_and(|outcome| is_dmarc_open(powers, outcome));
    (dkim || dmarc || arc).then_some(OTHER)
}

/// Returns true if the author's policy might still object. Otherwise a forger able to suppress an answer could have
/// mail accepted for a domain that requests rejection.
fn is_dmarc_open(powers: &ActionLimits, outcome: &dmarc::DmarcEvaluation) -> bool {
    let most = match outcome.wish {
        RequestedPolicy::None => ActionLimit::Mark,
        RequestedPolicy::Quarantine => ActionLimit::Hold,
        RequestedPolicy::Reject => ActionLimit::Reject,
    };
    match outcome.verdict {
        dmarc::DmarcResult::CutShort => powers.dmarc.min(most) >= ActionLimit::Hold,
        dmarc::DmarcResult::TempError => {
            powers.dmarc.min(most) == ActionLimit::Reject
                || powers.defers && powers.dmarc >= ActionLimit::Hold
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spf::Identity;

    fn spf_of(verdict: spf::SpfResult) -> Verdicts {
        let (domain, reason) = ("a.example".to_owned(), String::new());
        let explanation = Some("call \u{e9} us".to_owned());
        let identity = Identity::MailFrom;
        let outcome = spf::SpfEvaluation { verdict, identity, domain, reason, explanation };
        Verdicts { spf: Some(outcome), ..Verdicts::default() }
    }

    fn dmarc_of(verdict: dmarc::DmarcResult, wish: RequestedPolicy) -> Verdicts {
        let (domain, reason) = (Some("a.example".to_owned()), String::new());
        let outcome = dmarc::DmarcEvaluation { verdict, domain, wish, reason, applied: None };
        Verdicts { dmarc: Some(outcome), ..Verdicts::default() }
    }

    fn word(powers: ActionLimits, verdicts: &Verdicts) -> String {
        match judge(&powers, verdicts) {
            PolicyAction::Take => "take".into(),
            PolicyAction::Hold(_) => "hold".into(),
            PolicyAction::Refuse(refusal) => format!("{} {}", refusal.code(), refusal.status),
        }
    }

    #[test]
    fn only_a_failure_of_spf_counts_and_only_as_much_as_allowed() {
        let of = |spf, defers| ActionLimits { spf, defers, ..ActionLimits::default() };
        let fail = spf_of(spf::SpfResult::Fail);
        assert_eq!(word(of(ActionLimit::Mark, true), &fail), "take");
        assert_eq!(word(of(ActionLimit::Hold, true), &fail), "hold");
        assert_eq!(word(of(ActionLimit::Reject, true), &fail), "550 5.7.23");
        for verdict in [spf::SpfResult::SoftFail, spf::SpfResult::PermError, spf::SpfResult::None] {
            assert_eq!(word(of(ActionLimit::Reject, true), &spf_of(verdict)), "take");
        }
        let open = spf_of(spf::SpfResult::TempError);
        assert_eq!(word(of(ActionLimit::Reject, false), &open), "take");
        assert_eq!(word(of(ActionLimit::Mark, true), &open), "take");
        assert_eq!(word(of(ActionLimit::Hold, true), &open), "451 4.7.24");
        let PolicyAction::Refuse(refusal) = judge(&of(ActionLimit::Reject, false), &fail) else {
            panic!()
        };
        assert!(refusal.text.ends_with("call ? us"), "{}", refusal.text);
    }

    #[test]
    fn dmarc_does_what_the_domain_wants_and_no_more() {
        let of = |dmarc, defers| ActionLimits { dmarc, defers, ..ActionLimits::default() };
        let fail = |wish| dmarc_of(dmarc::DmarcResult::Fail, wish);
        for (power, none, quarantine, reject) in [
            (ActionLimit::Mark, "take", "take", "take"),
            (ActionLimit::Hold, "take", "hold", "hold"),
            (ActionLimit::Reject, "take", "hold", "550 5.7.1"),
        ] {
            assert_eq!(word(of(power, false), &fail(RequestedPolicy::None)), none);
            assert_eq!(word(of(power, false), &fail(RequestedPolicy::Quarantine)), quarantine);
            assert_eq!(word(of(power, false), &fail(RequestedPolicy::Reject)), reject);
        }
        let several = dmarc_of(dmarc::DmarcResult::PermError, RequestedPolicy::None);
        assert_eq!(word(of(ActionLimit::Reject, false), &several), "550 5.7.1");
        let open = dmarc_of(dmarc::DmarcResult::TempError, RequestedPolicy::None);
        assert_eq!(word(of(ActionLimit::Reject, false), &open), "take");
        assert_eq!(word(of(ActionLimit::Reject, true), &open), "451 4.4.3");
        let refusing = dmarc_of(dmarc::DmarcResult::TempError, RequestedPolicy::Reject);
        assert_eq!(word(of(ActionLimit::Reject, false), &refusing), "451 4.4.3");
        assert_eq!(word(of(ActionLimit::Hold, false), &refusing), "take");
        let cut = |wish| dmarc_of(dmarc::DmarcResult::CutShort, wish);
        for (power, none, quarantine, reject) in [
            (ActionLimit::Mark, "take", "take", "take"),
            (ActionLimit::Hold, "take", "451 4.4.3", "451 4.4.3"),
            (ActionLimit::Reject, "take", "451 4.4.3", "451 4.4.3"),
        ] {
            assert_eq!(word(of(power, false), &cut(RequestedPolicy::None)), none);
            assert_eq!(word(of(power, false), &cut(RequestedPolicy::Quarantine)), quarantine);
            assert_eq!(word(of(power, false), &cut(RequestedPolicy::Reject)), reject);
        }
    }

    #[test]
    fn a_check_that_our_limits_cut_short_never_passes_what_it_could_refuse() {
        let all = |power| {
            let dmarc = ActionLimit::None;
            ActionLimits {
                client_name: power,
                spf: power,
                dkim: power,
                dmarc,
                arc: power,
                defers: false,
            }
        };
        let signature = dkim::DkimVerification {
            verdict: dkim::DkimResult::CutShort,
            reason: String::new(),
            signer: None,
        };
        let chain = arc::ArcValidation {
            verdict: arc::ArcResult::CutShort,
            reason: String::new(),
            sealers: Vec::new(),
        };
        let dkim = Verdicts { dkim: Some(vec![signature]), ..Verdicts::default() };
        let arc = Verdicts { arc: Some(chain), ..Verdicts::default() };
        for (cut, status) in [
            (spf_of(spf::SpfResult::CutShort), "451 4.7.24"),
            (dkim, "451 4.4.3"),
            (arc, "451 4.4.3"),
        ] {
            assert_eq!(word(all(ActionLimit::Mark), &cut), "take");
            assert_eq!(word(all(ActionLimit::Hold), &cut), status);
            assert_eq!(word(all(ActionLimit::Reject), &cut), status);
        }
    }

    #[test]
    fn a_client_without_a_name_is_held_where_that_is_asked_for() {
        let of =
            |client_name| ActionLimits { client_name, defers: true, ..ActionLimits::default() };
        let found = |verdict| {
            let outcome = iprev::IprevCheck::without_name(verdict);
            let iprev = Some(("192.0.2.1".parse().unwrap(), outcome));
            Verdicts { iprev, ..Verdicts::default() }
        };
        for verdict in [iprev::IprevResult::Fail, iprev::IprevResult::PermError] {
            assert_eq!(word(of(ActionLimit::Mark), &found(verdict)), "take");
            assert_eq!(word(of(ActionLimit::Hold), &found(verdict)), "hold");
            assert_eq!(word(of(ActionLimit::Reject), &found(verdict)), "take");
        }
        assert_eq!(word(of(ActionLimit::Hold), &found(iprev::IprevResult::TempError)), "take");
    }

    #[test]
    fn a_refusal_goes_before_a_hold() {
        let mut verdicts = spf_of(spf::SpfResult::Fail);
        verdicts.dmarc = dmarc_of(dmarc::DmarcResult::Fail, RequestedPolicy::Reject).dmarc;
        let powers = ActionLimits {
            spf: ActionLimit::Hold,
            dmarc: ActionLimit::Reject,
            ..ActionLimits::default()
        };
        assert_eq!(word(powers, &verdicts), "550 5.7.1");
        assert!(powers.asked().spf && powers.asked().dmarc && !powers.asked().dkim);
    }
}
