//! REQUIRETLS and `TLS-Required: No` (RFC 8689): the TLS requirement of a message on a route.

use super::hop_tls::{HopTls, Promised, Unpromised, as_promised, policy_hosts};
use super::mx::MxHosts;
use crate::seams::{Dns, Policies};
use auth::mta_sts::Mode;
use config::{Destination, Settings, TlsSources};
use mail::{Class, Domain, EnhancedStatus, Failure, RequireTls};

/// RFC 8689 §4.2.1: "Encryption needed".
pub const ENCRYPTION_NEEDED: EnhancedStatus = EnhancedStatus::new(5, 7, 10);
/// RFC 8689 §4.2.1: "REQUIRETLS needed".
pub const REQUIRETLS_NEEDED: EnhancedStatus = EnhancedStatus::new(5, 7, 30);

/// The TLS requirement of messages on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TlsRequirement {
    /// The sources of TLS requirements that apply.
    pub(crate) sources: TlsSources,
    /// TLS is mandatory, with authenticated hosts that offer REQUIRETLS.
    pub(crate) required: bool,
}

impl TlsRequirement {
    /// For messages with this requirement.
    pub(crate) fn new(channel: &dyn Settings, asked: RequireTls) -> TlsRequirement {
        let (as_routed, required) = (channel.tls_sources(), channel.tls_sources_required());
        match (asked, required) {
            (RequireTls::Yes, Some(sources)) => TlsRequirement { sources, required: true },
            // `TLS-Required: No` disables the recipient domain's requirements, not the operator's (RFC 8689 §3).
            (RequireTls::No, _) if matches!(channel.destination(), Destination::Mx { .. }) => {
                TlsRequirement { sources: TlsSources::default(), required: false }
            }
            _ => TlsRequirement { sources: as_routed, required: false },
        }
    }

    /// The sources that apply once the DNSSEC state of the host names is known.
    pub(crate) fn sources_given(self, channel: &dyn Settings, found: &MxHosts) -> TlsSources {
        let mut sources = self.sources;
        if self.required && found.is_secure {
            // One secure source for the names is enough.
            sources.mta_sts = channel.tls_sources().mta_sts;
        }
        sources
    }

    /// The requirement for hosts from the configuration or a table.
    pub(crate) fn of_named_hosts(self) -> HopTls {
        HopTls { required: self.required, ..HopTls::of_file(self.sources) }
    }
}

/// The hosts of a domain for a REQUIRETLS message (RFC 8689 §4.2.1). DNSSEC or an MTA-STS policy in any mode but `none`
/// must authenticate their names. An address literal needs neither.
///
/// # Errors
/// Neither applies, which is a permanent failure.
pub(crate) fn vouched(domain: &Domain, mut promised: Promised) -> Result<Promised, Failure> {
    promised.tls.required = true;
    if promised.tls.dane || promised.tls.mta_sts || domain.literal().is_some() {
        return Ok(promised);
    }
    match &promised.policy {
        Some(policy) if policy.mode != Mode::None => {
            let hosts = policy_hosts(policy, domain, promised.groups);
            promised.groups = hosts.map_err(|failure| refused(domain, &failure.text))?;
            promised.tls.mta_sts = true;
            Ok(promised)
        }
        _ => {
            let text = "its MX hosts are secure neither by DNSSEC nor by an MTA-STS policy";
            Err(refused(domain, text))
        }
    }
}

/// Checks in advance if a REQUIRETLS message could be sent to the domain's MX hosts on a route.
///
/// # Errors
/// No host may receive it, temporarily or permanently.
pub async fn would_meet(
    seams: (&impl Dns, &impl Policies),
    channel: &dyn Settings,
    domain: &Domain,
    found: MxHosts,
) -> Result<Promised, Failure> {
    let terms = TlsRequirement::new(channel, RequireTls::Yes);
    let sources = terms.sources_given(channel, &found);
    let promised = as_promised(seams, sources, domain, found).await;
    vouched(domain, promised.map_err(Unpromised::failure)?)
}

fn refused(domain: &Domain, why: &str) -> Failure {
    let text = format!("the message requires TLS on each hop (REQUIRETLS): {why}");
    Failure::dns(Class::Permanent, domain.as_str(), ENCRYPTION_NEEDED, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::hosts::{Host, HostGroup};
    use auth::mta_sts::Policy;
    use std::sync::Arc;

    fn promised(tls: HopTls, mode: Option<&str>) -> Promised {
        let host = |name: &str| Host { name: name.into(), port: 25 };
        let group = HostGroup { hosts: vec![host("a.far.test"), host("b.far.test")] };
        let text = |mode| format!("version: STSv1\nmode: {mode}\nmx: b.far.test\nmax_age: 9");
        let policy = mode.map(|mode| Arc::new(Policy::parse(text(mode).as_bytes()).unwrap()));
        Promised { groups: vec![group], tls, policy }
    }

    fn hosts(tls: HopTls, mode: Option<&str>) -> Result<String, Failure> {
        let domain = Domain::parse("far.test").unwrap();
        let found = vouched(&domain, promised(tls, mode))?;
        let names: Vec<String> =
            found.groups.iter().flat_map(|g| &g.hosts).map(|host| host.name.to_string()).collect();
        Ok(format!("[{}] {}", found.tls.key(), names.join(" ")))
    }

    #[test]
    fn somebody_vouches_for_hosts_that_get_such_mail() {
        const NOBODY: HopTls = HopTls { dane: false, mta_sts: false, required: false };
        let dane = HopTls { dane: true, ..NOBODY };
        assert_eq!(hosts(dane, None).unwrap(), "[requiretls,dane] a.far.test b.far.test");
        let enforced = HopTls { mta_sts: true, ..NOBODY };
        let seen = hosts(enforced, Some("enforce")).unwrap();
        assert_eq!(seen, "[requiretls,mta-sts] a.far.test b.far.test", "left out before");
        let seen = hosts(NOBODY, Some("testing")).unwrap();
        assert_eq!(seen, "[requiretls,mta-sts] b.far.test");
        for mode in [None, Some("none")] {
            let failure = hosts(NOBODY, mode).unwrap_err();
            assert_eq!((failure.class, failure.status), (Class::Permanent, ENCRYPTION_NEEDED));
        }
    }

    #[test]
    fn an_address_literal_needs_nobody_who_vouches_for_it() {
        let domain = Domain::parse("[192.0.2.1]").unwrap();
        let found = vouched(&domain, promised(HopTls::default(), None)).unwrap();
        assert_eq!(found.tls.key(), "requiretls");
    }
}
