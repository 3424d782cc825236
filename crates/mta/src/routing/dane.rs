//! DANE: looks up the TLSA records of a host (RFC 7672 §2.2).

use crate::seams::{DaneTrust, Dns, DnsError, Vouched};
use auth::tlsa;
use std::net::IpAddr;
use std::sync::Arc;

/// The TLS requirement from TLSA records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dane {
    /// No requirement, with the reason.
    Nothing(&'static str),
    /// TLS is required without authentication, because all records are unusable (RFC 7672 §2.2).
    Encrypted,
    /// TLS is required with one of these certificates.
    Authenticated(Arc<DaneTrust>),
}

/// Looks up the TLSA records of a host with a trusted name: from a signed MX answer, or from the configuration.
///
/// # Errors
/// The DNS does not answer, or the answer is bogus: no mail may be sent there (RFC 7672 §2.1.1). This includes a host
/// without addresses, since it may have one later, with TLSA records.
pub async fn look_up(dns: &impl Dns, host: &str, port: u16) -> Result<Dane, DnsError> {
    if host.parse::<IpAddr>().is_ok() {
        return Ok(Dane::Nothing("it has no host name"));
    }
    let security = dns.host_security(host).await?;
    let host: Arc<str> = Arc::from(host);
    let bases = match security.alias {
        // The end of the alias chain first, then the host itself (RFC 7672 §2.2.2).
        Some(alias) if security.is_secure => vec![Arc::from(alias), Arc::clone(&host)],
        Some(_) if security.is_alias_secure => vec![Arc::clone(&host)],
        None if security.is_secure => vec![Arc::clone(&host)],
        // No TLSA query: name servers of unsigned zones may fail on it.
        _ => return Ok(Dane::Nothing("its addresses are not secure by DNSSEC")),
    };
    for base in bases {
        let records = match dns.tlsa(&format!("_{port}._tcp.{base}")).await {
            Ok(Vouched { answer, is_secure: true }) if !answer.is_empty() => answer,
            Ok(_) | Err(DnsError::NoRecords | DnsError::NoSuchDomain) => continue,
            Err(error) => return Err(error),
        };
        let records = tlsa::usable(records);
        if records.is_empty() {
            return Ok(Dane::Encrypted);
        }
        let mut names = vec![base];
        if !names.contains(&host) {
            names.push(host);
        }
        return Ok(Dane::Authenticated(Arc::new(DaneTrust { names, records })));
    }
    Ok(Dane::Nothing("it has no TLSA records secure by DNSSEC"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seams::{HostSecurity, Mx};
    use auth::tlsa::Tlsa;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    /// Answers as a test says, and keeps what it was asked.
    #[derive(Default)]
    struct Zones {
        host: HostSecurity,
        tlsa: BTreeMap<&'static str, Result<Vouched<Vec<Tlsa>>, DnsError>>,
        asked: RefCell<Vec<String>>,
    }

    impl Dns for Zones {
        async fn mx(&self, _: &str) -> Result<Vec<Mx>, DnsError> {
            Err(DnsError::NoRecords)
        }

        async fn addresses(&self, _: &str) -> Result<Vec<IpAddr>, DnsError> {
            Err(DnsError::NoRecords)
        }

        async fn host_security(&self, host: &str) -> Result<HostSecurity, DnsError> {
            match host {
                "broken" => Err(DnsError::Transient("SERVFAIL".to_owned())),
                "gone" => Err(DnsError::NoSuchDomain),
                _ => Ok(self.host.clone()),
            }
        }

        async fn tlsa(&self, name: &str) -> Result<Vouched<Vec<Tlsa>>, DnsError> {
            self.asked.borrow_mut().push(name.to_owned());
            self.tlsa.get(name).cloned().unwrap_or(Err(DnsError::NoSuchDomain))
        }
    }

    fn look_up(zones: &Zones, host: &str) -> Result<Dane, DnsError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(super::look_up(zones, host, 25))
    }

    fn signed(alias: Option<&str>) -> HostSecurity {
        HostSecurity { alias: alias.map(str::to_owned), is_secure: true, is_alias_secure: true }
    }

    fn record(usage: u8) -> Tlsa {
        Tlsa { usage, selector: 1, matching: 1, data: [7; 32].into() }
    }

    fn secure(records: &[u8]) -> Result<Vouched<Vec<Tlsa>>, DnsError> {
        Ok(Vouched {
            answer: records.iter().map(|usage| record(*usage)).collect(),
            is_secure: true,
        })
    }

    fn names(found: Result<Dane, DnsError>) -> Vec<String> {
        let Ok(Dane::Authenticated(trust)) = found else { panic!("{found:?}") };
        trust.names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn records_count_that_are_secure_and_usable() {
        let zones = |tlsa| Zones {
            host: signed(None),
            tlsa: BTreeMap::from([("_25._tcp.mx", tlsa)]),
            ..Zones::default()
        };
        assert_eq!(names(look_up(&zones(secure(&[3, 2, 0])), "mx")), ["mx"]);
        // RFC 7672 §2.2: all unusable.
        assert_eq!(look_up(&zones(secure(&[0, 1])), "mx"), Ok(Dane::Encrypted));
        let insecure = Ok(Vouched { answer: vec![record(3)], is_secure: false });
        for nothing in [insecure, secure(&[]), Err(DnsError::NoRecords)] {
            assert!(matches!(look_up(&zones(nothing), "mx"), Ok(Dane::Nothing(_))));
        }
        let bogus = DnsError::Transient("SERVFAIL".to_owned());
        assert_eq!(look_up(&zones(Err(bogus.clone())), "mx"), Err(bogus));
    }

    #[test]
    fn hosts_that_nobody_vouches_for_are_not_asked_for_records() {
        let zones =
            Zones { tlsa: BTreeMap::from([("_25._tcp.mx", secure(&[3]))]), ..Zones::default() };
        for host in ["mx", "192.0.2.1", "2001:db8::1"] {
            assert!(matches!(look_up(&zones, host), Ok(Dane::Nothing(_))), "{host}");
        }
        assert!(look_up(&zones, "broken").is_err());
        // When it is asked for again it may be there, with records that were not looked for.
        assert_eq!(look_up(&zones, "gone"), Err(DnsError::NoSuchDomain));
        assert!(zones.asked.borrow().is_empty());
    }

    #[test]
    fn of_aliases_the_end_comes_first_as_far_as_it_is_secure() {
        let both = [("_25._tcp.end", secure(&[3])), ("_25._tcp.mx", secure(&[3]))];
        let zones = Zones { host: signed(Some("end")), tlsa: both.into(), ..Zones::default() };
        assert_eq!(names(look_up(&zones, "mx")), ["end", "mx"]);
        let own = BTreeMap::from([("_25._tcp.mx", secure(&[3]))]);
        let zones = Zones { host: signed(Some("end")), tlsa: own.clone(), ..Zones::default() };
        assert_eq!(names(look_up(&zones, "mx")), ["mx"]);
        assert_eq!(*zones.asked.borrow(), ["_25._tcp.end", "_25._tcp.mx"]);
        // The alias leads out of the signed zone.
        let host = HostSecurity { is_secure: false, ..signed(Some("end")) };
        let zones = Zones { host, tlsa: own, ..Zones::default() };
        assert_eq!(names(look_up(&zones, "mx")), ["mx"]);
        assert_eq!(*zones.asked.borrow(), ["_25._tcp.mx"]);
    }
}
