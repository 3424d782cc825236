//! SPF: the addresses that a domain sends from (RFC 7208).

mod evaluation;
mod expansion;
mod record;

pub use evaluation::{EXCHANGES_MAX, LOOKUPS_MAX, VOID_LOOKUPS_MAX, check};

use crate::records::verdicts;
use std::net::IpAddr;

/// Input of the check.
#[derive(Clone, Copy, Debug)]
pub struct SpfQuery<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// The reverse-path; for `None`, that is `<>`, the name in EHLO is checked.
    pub sender: Option<Sender<'a>>,
    /// The client's name in EHLO.
    pub helo: &'a str,
    /// Our own name.
    pub receiver: &'a str,
    /// Seconds since 1970.
    pub now: u64,
}

/// A reverse-path, its domain in ASCII.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    pub local: &'a str,
    pub domain: &'a str,
}

verdicts! {
    /// RFC 7208 §2.6, by the names of RFC 8601 §2.7.2.
    enum SpfResult {
        /// No policy was found.
        None = "none",
        Neutral = "neutral",
        Pass = "pass",
        Fail = "fail",
        SoftFail = "softfail",
        PermError = "permerror",
    }
}

/// The checked identity (RFC 7208 §2.3, §2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The name in EHLO, for a null reverse-path.
    Helo,
    MailFrom,
}

/// Result of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpfEvaluation {
    pub verdict: SpfResult,
    pub identity: Identity,
    /// The checked domain.
    pub domain: String,
    /// Explanation of the result: the matching term, or the error.
    pub reason: String,
    /// The domain's explanation of a failure (RFC 7208 §6.2), in printable ASCII.
    pub explanation: Option<String>,
}

impl SpfEvaluation {
    /// The result for an unknown client.
    pub(crate) fn unknown() -> SpfEvaluation {
        SpfEvaluation {
            verdict: SpfResult::None,
            identity: Identity::Helo,
            domain: String::new(),
            reason: "the client address is unknown".into(),
            explanation: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::evaluation::check;
    use super::*;
    use crate::records::{DnsAnswer, Family, Records};
    use crate::testing::now;
    use std::net::IpAddr;

    const CLIENT: &str = "2001:db8::1";

    /// Hosts named `v4…` have addresses of that family alone, `v6…` both, others none.
    struct Dns {
        policy: &'static str,
        mail_hosts: &'static [&'static str],
    }

    impl Records for Dns {
        async fn txt(&self, name: &str) -> DnsAnswer<Vec<u8>> {
            Ok(match name {
                "v4.test" => vec![self.policy.into()],
                "ok.test" => vec![b"v=spf1 ip6:2001:db8::/32 -all".to_vec()],
                _ => Vec::new(),
            })
        }

        async fn addresses(&self, host: &str, family: Family) -> DnsAnswer<IpAddr> {
            Ok(match (host.get(..2), family) {
                (Some("v4" | "v6"), Family::V4) => vec![[192, 0, 2, 1].into()],
                (Some("v6"), Family::V6) => vec![CLIENT.parse().unwrap()],
                _ => Vec::new(),
            })
        }

        async fn mail_hosts(&self, _domain: &str) -> DnsAnswer<String> {
            Ok(self.mail_hosts.iter().map(|host| (*host).to_owned()).collect())
        }

        async fn names(&self, _address: IpAddr) -> DnsAnswer<String> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_term_without_addresses_of_the_clients_family_is_void_once() {
        for (policy, mail_hosts, verdict) in [
            ("v=spf1 a mx include:ok.test -all", &["v4a.test", "v4b.test"][..], SpfResult::Pass),
            ("v=spf1 mx ~all", &["v4a.test", "v4b.test", "v4c.test", "v6.test"], SpfResult::Pass),
            ("v=spf1 mx -all", &["v4a.test", "v4b.test", "v4c.test", "v4d.test"], SpfResult::Fail),
            ("v=spf1 a:x.test a:y.test include:ok.test -all", &[], SpfResult::Pass),
            // RFC 7208 §4.6.4: two void terms, and no more.
            ("v=spf1 a mx a:x.test include:ok.test -all", &["v4a.test"], SpfResult::PermError),
            ("v=spf1 mx mx:x.test a:x.test include:ok.test -all", &[], SpfResult::PermError),
        ] {
            let question = SpfQuery {
                client: CLIENT.parse().unwrap(),
                sender: Some(Sender { local: "jo", domain: "v4.test" }),
                helo: "v4.test",
                receiver: "mx.here.test",
                now: 0,
            };
            let outcome = now(check(&Dns { policy, mail_hosts }, question));
            assert_eq!(outcome.verdict, verdict, "{policy}: {}", outcome.reason);
        }
    }
}
