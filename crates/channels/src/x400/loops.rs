//! Loop detection (X.411 §14.3).

use x400::mts::trace::RoutingAction;
use x400::mts::{GlobalDomain, InternalTraceElement, TRACE_MAX, TraceElement};

/// Maximum number of domains that a message may have passed.
pub(super) const DOMAINS_MAX: usize = 50;
/// Maximum number of visits of a message to this MTA.
pub(super) const VISITS_MAX: usize = 5;

/// Maximum number of this domain's elements in the external trace. Some MTAs write one for each recipient.
pub(super) const OWN_ELEMENTS_MAX: usize = 50;

/// The reason for which a message with this trace counts as looping. `None` if it does not. `mta` and `domain` identify
/// this MTA.
pub(super) fn why(
    trace: &[TraceElement],
    internal: &[InternalTraceElement],
    (mta, domain): (&str, &GlobalDomain),
) -> Option<&'static str> {
    if trace.len().max(internal.len()) >= TRACE_MAX {
        return Some("its trace is full");
    }
    if domains_passed(trace) > DOMAINS_MAX {
        return Some("it has passed more than 50 domains");
    }
    let is_here =
        |visit: &&InternalTraceElement| &*visit.mta == mta && visit.domain.is_same(domain);
    if internal.iter().filter(is_here).count() > VISITS_MAX {
        return Some("it was at this MTA more than 5 times");
    }
    if trace.iter().filter(|visit| visit.domain.is_same(domain)).count() > OWN_ELEMENTS_MAX {
        return Some("it has passed this domain more than 50 times");
    }
    has_come_back(trace, domain).then_some("it was in this domain before")
}

/// Counts domains. Neighbouring elements of one domain count once, since some MTAs write one for each recipient.
fn domains_passed(trace: &[TraceElement]) -> usize {
    let pairs = trace.iter().zip(trace.iter().skip(1));
    let changes = pairs.filter(|(one, next)| !one.domain.is_same(&next.domain)).count();
    changes + usize::from(!trace.is_empty())
}

/// Returns true if the message left this domain and returned without redirection, expansion or rerouting in between.
fn has_come_back(trace: &[TraceElement], domain: &GlobalDomain) -> bool {
    let Some(last) = trace.iter().rposition(|visit| visit.domain.is_same(domain)) else {
        return false;
    };
    let since = trace.get(last..).unwrap_or_default();
    let is_excused = |visit: &TraceElement| {
        visit.supplied.action == RoutingAction::Rerouted || !visit.supplied.other_actions.is_empty()
    };
    since.len() > 1 && !since.iter().any(is_excused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use x400::mts::Flags;
    use x400::mts::trace::Supplied;

    fn domain(name: &str) -> GlobalDomain {
        GlobalDomain { country: "GB".into(), admd: " ".into(), prmd: Some(name.into()) }
    }

    fn visit(name: &str) -> TraceElement {
        TraceElement { domain: domain(name), supplied: Supplied::default() }
    }

    fn why_of(trace: &[TraceElement], visits: usize) -> Option<&'static str> {
        let ours = domain("Ours");
        let visit = InternalTraceElement {
            domain: ours.clone(),
            mta: "relay".into(),
            supplied: Supplied::default(),
        };
        why(trace, &vec![visit; visits], ("relay", &ours))
    }

    #[test]
    fn fifty_domains_pass_and_neighbours_count_once() {
        let others = |count: usize| (0..count).map(|n| visit(&format!("d{n}"))).collect::<Vec<_>>();
        assert_eq!(why_of(&others(DOMAINS_MAX), 0), None);
        assert!(why_of(&others(DOMAINS_MAX + 1), 0).is_some_and(|why| why.contains("50 domains")));
        assert_eq!(why_of(&vec![visit("one"); TRACE_MAX - 1], 0), None);
        assert!(why_of(&vec![visit("one"); TRACE_MAX], 0).is_some_and(|why| why.contains("full")));
    }

    #[test]
    fn five_visits_here_pass() {
        assert_eq!(why_of(&[visit("a")], VISITS_MAX), None);
        assert!(why_of(&[visit("a")], VISITS_MAX + 1).is_some_and(|why| why.contains("5 times")));
    }

    #[test]
    fn fifty_elements_of_our_domain_pass() {
        assert_eq!(why_of(&vec![visit("Ours"); OWN_ELEMENTS_MAX], 0), None);
        let why = why_of(&vec![visit("ours"); OWN_ELEMENTS_MAX + 1], 0);
        assert!(why.is_some_and(|why| why.contains("this domain more than 50")));
    }

    #[test]
    fn who_left_our_domain_comes_back_only_for_a_reason() {
        assert_eq!(why_of(&[visit("a"), visit("Ours")], 1), None, "another MTA of this domain");
        assert!(why_of(&[visit("ours"), visit("b")], 1).is_some_and(|why| why.contains("before")));
        let mut rerouted = visit("b");
        rerouted.supplied.action = RoutingAction::Rerouted;
        assert_eq!(why_of(&[visit("Ours"), rerouted], 1), None);
        let mut redirected = visit("Ours");
        redirected.supplied.other_actions = Flags::of(&[0]);
        assert_eq!(why_of(&[redirected, visit("b")], 1), None);
        assert_eq!(why_of(&[], 0), None);
    }
}
