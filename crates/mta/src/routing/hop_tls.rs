//! TLS requirements for the hosts of a next hop from DNSSEC (RFC 7672) and the recipient domain's MTA-STS policy (RFC
//! 8461).

use super::hosts::HostGroup;
use super::mx::MxHosts;
use crate::seams::{Dns, Policies, PolicyQuestion, Unfetched};
use auth::mta_sts::{Mode, Policy, policy_id, record_name};
use config::TlsSources;
use mail::{Class, Domain, EnhancedStatus, Failure};
use std::sync::Arc;

/// TLS requirements for all hosts of a next hop. Part of the ready queue's key, so that one domain's policy never
/// applies to another one's mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopTls {
    /// TLSA records apply: the host names are secured by DNSSEC or from the configuration.
    pub dane: bool,
    /// The domain's MTA-STS policy is enforced: certificates must be valid for the host names.
    pub mta_sts: bool,
    /// For REQUIRETLS messages (RFC 8689): hosts must be authenticated and offer REQUIRETLS.
    pub required: bool,
}

impl HopTls {
    /// For hosts in the configuration, which counts as a secure source.
    #[must_use]
    pub fn of_file(sources: TlsSources) -> HopTls {
        HopTls { dane: sources.dane, ..HopTls::default() }
    }

    /// The value in the queue key. Empty without requirements.
    #[must_use]
    pub fn key(self) -> &'static str {
        match (self.dane, self.mta_sts, self.required) {
            (false, false, false) => "",
            (true, false, false) => "dane",
            (false, true, false) => "mta-sts",
            (true, true, false) => "dane,mta-sts",
            (false, false, true) => "requiretls",
            (true, false, true) => "requiretls,dane",
            (false, true, true) => "requiretls,mta-sts",
            (true, true, true) => "requiretls,dane,mta-sts",
        }
    }
}

/// The permitted hosts of a domain, with their TLS requirements.
#[derive(Clone, Debug)]
pub struct Promised {
    pub groups: Vec<HostGroup>,
    pub tls: HopTls,
    /// The domain's policy in any mode.
    pub policy: Option<Arc<Policy>>,
}

/// The reason why no host of a domain may receive its mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unpromised {
    /// The policy excludes all hosts. This overrides earlier results.
    Excluded(Failure, Arc<Policy>),
    /// Unknown, because the policy can't be determined now.
    Unknown(Failure),
}

impl Unpromised {
    #[must_use]
    pub fn failure(self) -> Failure {
        let (Unpromised::Excluded(failure, _) | Unpromised::Unknown(failure)) = self;
        failure
    }
}

/// Removes hosts that the domain's MTA-STS policy does not list.
///
/// # Errors
/// The policy lists none of the hosts, or can't be determined now.
pub async fn as_promised(
    (dns, policies): (&impl Dns, &impl Policies),
    sources: TlsSources,
    domain: &Domain,
    found: MxHosts,
) -> Result<Promised, Unpromised> {
    let dane = sources.dane && found.is_secure;
    let mut promised =
        Promised { groups: found.groups, tls: HopTls { dane, ..HopTls::default() }, policy: None };
    if !sources.mta_sts || domain.literal().is_some() {
        return Ok(promised);
    }
    let policy = policy_of(dns, policies, sources, domain).await;
    promised.policy =
        policy.map_err(|Unfetched(why)| Unpromised::Unknown(unfetched(domain, &why)))?;
    let Some(policy) = &promised.policy else { return Ok(promised) };
    if policy.mode == Mode::Enforce {
        promised.tls.mta_sts = true;
        let excluded = |failure| Unpromised::Excluded(failure, Arc::clone(policy));
        promised.groups = policy_hosts(policy, domain, promised.groups).map_err(excluded)?;
    }
    Ok(promised)
}

/// Turns a permanent DNS failure without DNSSEC into a temporary one while the domain has an enforced MTA-STS policy. A
/// forged DNS answer must not be able to bounce the mail.
pub async fn doubted(
    policies: &impl Policies,
    sources: TlsSources,
    domain: &Domain,
    failure: Failure,
) -> Failure {
    let ascii = match domain.to_ascii() {
        Ok(ascii) if sources.mta_sts && failure.class == Class::Permanent => ascii,
        _ => return failure,
    };
    let ascii = ascii.to_ascii_lowercase();
    let question = PolicyQuestion { domain: &ascii, id: None, public_only: sources.public_only };
    let policy = policies.mta_sts(question).await;
    if !policy.is_ok_and(|policy| policy.is_some_and(|policy| policy.mode == Mode::Enforce)) {
        return failure;
    }
    let text = format!("{}, against the MTA-STS policy of {domain} (enforce)", failure.text);
    failure.for_now(text)
}

/// The policy of a domain, if it has one.
async fn policy_of(
    dns: &impl Dns,
    policies: &impl Policies,
    sources: TlsSources,
    domain: &Domain,
) -> Result<Option<Arc<Policy>>, Unfetched> {
    let Ok(ascii) = domain.to_ascii() else { return Ok(None) };
    let ascii = ascii.to_ascii_lowercase();
    // If the lookup fails, the cached policy applies: an attacker could suppress answers (RFC 8461 §5.1).
    let records = dns.txt(&record_name(&ascii)).await.unwrap_or_default();
    let id = policy_id(&records);
    let question = PolicyQuestion { domain: &ascii, id, public_only: sources.public_only };
    policies.mta_sts(question).await
}

/// 4.3.0: other or undefined mail system status (RFC 3463 §3.4).
fn unfetched(domain: &Domain, why: &str) -> Failure {
    let text = format!("the MTA-STS policy of {domain} cannot be fetched: {why}");
    Failure::local(Class::Transient, EnhancedStatus::new(4, 3, 0), text)
}

/// Keeps the hosts that the policy lists (RFC 8461 §5).
pub(super) fn policy_hosts(
    policy: &Policy,
    domain: &Domain,
    groups: Vec<HostGroup>,
) -> Result<Vec<HostGroup>, Failure> {
    let names = |groups: &[HostGroup]| -> Vec<String> {
        groups.iter().flat_map(|group| &group.hosts).map(|host| host.name.to_string()).collect()
    };
    let all = names(&groups);
    let only = |mut group: HostGroup| {
        group.hosts.retain(|host| policy.has_host(&host.name));
        group
    };
    let kept: Vec<HostGroup> =
        groups.into_iter().map(only).filter(|group| !group.hosts.is_empty()).collect();
    if !kept.is_empty() {
        return Ok(kept);
    }
    let text = format!(
        "the MTA-STS policy of {domain} ({}) lists none of its MX hosts: {}",
        policy.mode.word(),
        all.join(", ")
    );
    Err(Failure::dns(Class::Transient, domain.as_str(), EnhancedStatus::new(4, 7, 5), text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::hosts::Host;
    use crate::seams::{DnsError, Mx};
    use mail::Culprit;
    use std::net::IpAddr;

    /// A domain with a record and a policy.
    struct Far {
        record: Option<&'static str>,
        policy: &'static str,
        /// There is no answer for its record.
        is_away: bool,
    }

    impl Dns for Far {
        async fn mx(&self, _: &str) -> Result<Vec<Mx>, DnsError> {
            Err(DnsError::NoRecords)
        }

        async fn addresses(&self, _: &str) -> Result<Vec<IpAddr>, DnsError> {
            Err(DnsError::NoRecords)
        }

        async fn txt(&self, name: &str) -> Result<Vec<Vec<u8>>, DnsError> {
            assert_eq!(name, "_mta-sts.far.test");
            let record = self.record.ok_or(DnsError::Transient("SERVFAIL".to_owned()))?;
            Ok(vec![record.as_bytes().to_vec()])
        }
    }

    impl Policies for Far {
        async fn mta_sts(
            &self,
            question: PolicyQuestion<'_>,
        ) -> Result<Option<Arc<Policy>>, Unfetched> {
            let id = self.record.map(|_| "a").filter(|_| !self.is_away);
            let expected = PolicyQuestion { domain: "far.test", id, public_only: false };
            assert_eq!(question, expected);
            match self.policy {
                "unfetched" => Err(Unfetched("no descriptors".to_owned())),
                policy => Ok(Policy::parse(policy.as_bytes()).ok().map(Arc::new)),
            }
        }
    }

    const BOTH: TlsSources = TlsSources { dane: true, mta_sts: true, public_only: false };

    fn promised(far: &Far, sources: TlsSources, is_secure: bool) -> Result<String, Unpromised> {
        let host = |name: &str| Host { name: name.into(), port: 25 };
        let group = |names: &[&str]| HostGroup { hosts: names.iter().map(|n| host(n)).collect() };
        let groups = vec![group(&["a.far.test"]), group(&["b.far.test", "c.elsewhere.test"])];
        let domain = Domain::parse("Far.test").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let asked = as_promised((far, far), sources, &domain, MxHosts { groups, is_secure });
        let promised = runtime.block_on(asked)?;
        let names = |group: &HostGroup| {
            group.hosts.iter().map(|host| host.name.to_string()).collect::<Vec<_>>().join(" ")
        };
        let groups: Vec<String> = promised.groups.iter().map(names).collect();
        Ok(format!("[{}] {}", promised.tls.key(), groups.join(" / ")))
    }

    #[test]
    fn hosts_that_an_enforced_policy_does_not_have_are_left_out() {
        let far = |policy| Far { record: Some("v=STSv1; id=a"), policy, is_away: false };
        const ALL: &str = "a.far.test / b.far.test c.elsewhere.test";
        let enforced = far("version: STSv1\nmode: enforce\nmx: *.far.test\nmax_age: 9");
        assert_eq!(
            promised(&enforced, BOTH, true).unwrap(),
            "[dane,mta-sts] a.far.test / b.far.test"
        );
        let seen = promised(&enforced, BOTH, false).unwrap();
        assert_eq!(seen, "[mta-sts] a.far.test / b.far.test");
        let one = far("version: STSv1\nmode: enforce\nmx: b.far.test\nmax_age: 9");
        assert_eq!(promised(&one, BOTH, false).unwrap(), "[mta-sts] b.far.test");
        let dane = TlsSources { mta_sts: false, ..BOTH };
        assert_eq!(promised(&one, dane, true).unwrap(), format!("[dane] {ALL}"));
        for mode in ["testing", "none"] {
            let text = format!("version: STSv1\nmode: {mode}\nmx: x.test\nmax_age: 9");
            let lax = far(Box::leak(text.into_boxed_str()));
            assert_eq!(promised(&lax, BOTH, false).unwrap(), format!("[] {ALL}"));
        }
        let none = far("");
        assert_eq!(promised(&none, BOTH, false).unwrap(), format!("[] {ALL}"));
    }

    #[test]
    fn a_policy_that_has_none_of_the_hosts_makes_mail_wait() {
        let far = |policy| Far { record: Some("v=STSv1; id=a"), policy, is_away: false };
        let policy = "version: STSv1\nmode: enforce\nmx: mx.far.test\nmax_age: 9";
        let failure = promised(&far(policy), BOTH, true).unwrap_err();
        let Unpromised::Excluded(failure, _) = failure else { panic!("{failure:?}") };
        assert_eq!(
            (failure.class, failure.status),
            (Class::Transient, EnhancedStatus::new(4, 7, 5))
        );
        assert!(
            failure.text.contains("far.test (enforce)") && failure.text.contains("c.elsewhere")
        );
        // Without an answer for the record as well.
        assert!(promised(&Far { record: None, ..far(policy) }, BOTH, true).is_err());
    }

    #[test]
    fn mail_waits_where_it_is_not_known_whether_there_is_a_policy() {
        let far = Far { record: Some("v=STSv1; id=a"), policy: "unfetched", is_away: false };
        let failure = promised(&far, BOTH, true).unwrap_err();
        let Unpromised::Unknown(failure) = failure else { panic!("{failure:?}") };
        assert_eq!((failure.class, &failure.culprit), (Class::Transient, &Culprit::Local));
        assert!(failure.text.contains("no descriptors"));
    }

    #[test]
    fn what_the_dns_says_for_good_is_not_final_while_a_policy_is_in_force() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let domain = Domain::parse("Far.test").unwrap();
        let status = EnhancedStatus::new(5, 1, 10);
        let said = Failure::local(Class::Permanent, status, "the domain takes no mail");
        let told = |policy, sources| {
            let far = Far { record: Some(""), policy, is_away: true };
            runtime.block_on(doubted(&far, sources, &domain, said.clone()))
        };
        let enforced = "version: STSv1\nmode: enforce\nmx: mx.far.test\nmax_age: 9";
        let failure = told(enforced, BOTH);
        let expected = (Class::Transient, EnhancedStatus::new(4, 1, 10));
        assert_eq!((failure.class, failure.status), expected);
        assert!(failure.text.starts_with("the domain takes no mail, against the MTA-STS"));
        assert_eq!(told("version: STSv1\nmode: none\nmax_age: 9", BOTH), said);
        assert_eq!(told("", BOTH), said);
        assert_eq!(told(enforced, TlsSources { mta_sts: false, ..BOTH }), said);
    }
}
