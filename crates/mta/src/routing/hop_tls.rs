//! What others than the file say of TLS to the hosts of a next hop: DNSSEC (RFC 7672) and the domain
//! (RFC 8461).

use super::hosts::HostGroup;
use super::mx::MxHosts;
use crate::seams::{Dns, Policies};
use auth::mta_sts::{Mode, Policy, policy_id, record_name};
use config::TlsSources;
use mail::{Class, Culprit, Domain, EnhancedStatus, Failure};
use std::sync::Arc;

/// What holds for all hosts of a next hop; part of its ready queue's key, so that the mail of a domain
/// never goes by what another one promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopTls {
    /// TLSA records of hosts count: DNSSEC vouches for their names, or the file has them.
    pub dane: bool,
    /// The domain's policy is enforced: certificates must be valid for the names of hosts.
    pub mta_sts: bool,
}

impl HopTls {
    /// Of hosts that the file names: who wrote it vouches for them.
    #[must_use]
    pub fn of_file(sources: TlsSources) -> HopTls {
        HopTls { dane: sources.dane, mta_sts: false }
    }

    /// As it stands in the key; empty: nobody says anything.
    #[must_use]
    pub fn key(self) -> &'static str {
        match (self.dane, self.mta_sts) {
            (false, false) => "",
            (true, false) => "dane",
            (false, true) => "mta-sts",
            (true, true) => "dane,mta-sts",
        }
    }
}

/// The hosts of a domain that mail may be sent to, and what is known of them.
#[derive(Clone, Debug)]
pub struct Promised {
    pub groups: Vec<HostGroup>,
    pub tls: HopTls,
    /// The policy of the domain, whatever its mode.
    pub policy: Option<Arc<Policy>>,
}

/// Leaves out the hosts that the domain's policy does not have.
///
/// # Errors
/// It has none of them.
pub async fn as_promised(
    (dns, policies): (&impl Dns, &impl Policies),
    sources: TlsSources,
    domain: &Domain,
    found: MxHosts,
) -> Result<Promised, Failure> {
    let dane = sources.dane && found.is_secure;
    let mut promised =
        Promised { groups: found.groups, tls: HopTls { dane, mta_sts: false }, policy: None };
    if !sources.mta_sts || domain.literal().is_some() {
        return Ok(promised);
    }
    promised.policy = policy_of(dns, policies, domain).await;
    let Some(policy) = &promised.policy else { return Ok(promised) };
    if policy.mode == Mode::Enforce {
        promised.tls.mta_sts = true;
        promised.groups = allowed(policy, domain, promised.groups)?;
    }
    Ok(promised)
}

/// The policy of a domain, if it has one.
async fn policy_of(
    dns: &impl Dns,
    policies: &impl Policies,
    domain: &Domain,
) -> Option<Arc<Policy>> {
    let ascii = domain.to_ascii().ok()?;
    let ascii = ascii.to_ascii_lowercase();
    // Without an answer, what is cached counts: who keeps answers away must not be obeyed (RFC 8461
    // §5.1).
    let records = dns.txt(&record_name(&ascii)).await.unwrap_or_default();
    policies.mta_sts(&ascii, policy_id(&records)).await
}

/// RFC 8461 §5: a host that the policy does not have gets no mail.
fn allowed(
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
        "the MTA-STS policy of {domain} (enforce) has none of its MX hosts: {}",
        all.join(", ")
    );
    Err(Failure {
        class: Class::Transient,
        culprit: Culprit::Dns(Box::from(domain.as_str())),
        status: EnhancedStatus::new(4, 7, 5),
        reply: None,
        step: None,
        text: text.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::hosts::Host;
    use crate::seams::{DnsError, Mx};
    use std::net::IpAddr;

    /// A domain with a record and a policy.
    struct Far {
        record: Option<&'static str>,
        policy: &'static str,
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
        async fn mta_sts(&self, domain: &str, id: Option<&str>) -> Option<Arc<Policy>> {
            assert_eq!((domain, id), ("far.test", self.record.map(|_| "a")));
            Policy::parse(self.policy.as_bytes()).ok().map(Arc::new)
        }
    }

    const BOTH: TlsSources = TlsSources { dane: true, mta_sts: true };

    fn promised(far: &Far, sources: TlsSources, is_secure: bool) -> Result<String, Failure> {
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
        let far = |policy| Far { record: Some("v=STSv1; id=a"), policy };
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
        let policy = "version: STSv1\nmode: enforce\nmx: mx.far.test\nmax_age: 9";
        let failure = promised(&Far { record: Some("v=STSv1; id=a"), policy }, BOTH, true);
        let failure = failure.unwrap_err();
        assert_eq!(
            (failure.class, failure.status),
            (Class::Transient, EnhancedStatus::new(4, 7, 5))
        );
        assert!(
            failure.text.contains("far.test (enforce)") && failure.text.contains("c.elsewhere")
        );
        // Without an answer for the record as well.
        assert!(promised(&Far { record: None, policy }, BOTH, true).is_err());
    }
}
