//! The name of a client: one that its address has by the DNS, and that has the address (RFC 8601 §3,
//! "iprev"; RFC 1912 §2.1).

use crate::records::{Family, Records, verdicts};
use mail::Refusal;
use std::net::IpAddr;

/// Maximum number of names looked up for an address. A mail server has one (RFC 1912 §2.1).
pub const NAMES_MAX: usize = 5;

/// A name of the DNS has no more octets (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;

verdicts! {
    /// RFC 8601 §2.7.3.
    enum IprevResult {
        /// The address has a name that has the address.
        Pass = "pass",
        /// It has names, and none has the address.
        Fail = "fail",
        /// It has no name.
        PermError = "permerror",
    }
}

/// Result of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IprevCheck {
    pub verdict: IprevResult,
    /// The name verified in both directions: letters, digits, hyphens, underscores and dots.
    pub name: Option<Box<str>>,
}

impl IprevCheck {
    /// A result without a name.
    #[must_use]
    pub fn without_name(verdict: IprevResult) -> IprevCheck {
        IprevCheck { verdict, name: None }
    }

    /// A result with a verified name; an invalid name counts as a mismatch.
    #[must_use]
    pub fn of_name(name: &str) -> IprevCheck {
        match is_name(name) {
            true => IprevCheck { verdict: IprevResult::Pass, name: Some(name.into()) },
            false => IprevCheck::without_name(IprevResult::Fail),
        }
    }

    /// The refusal of a client without a verified name (RFC 7372 §3.3); `None` if it has one, or on a DNS error without
    /// `defers`.
    #[must_use]
    pub fn refusal(&self, defers: bool) -> Option<Refusal> {
        let (refusal, text) = match self.verdict {
            IprevResult::Pass => return None,
            IprevResult::TempError if !defers => return None,
            IprevResult::TempError | IprevResult::CutShort => {
                let text = "Temporary DNS failure: client host name; try again later";
                (Refusal::transient((7, 25), ""), text)
            }
            IprevResult::Fail => (
                Refusal::permanent((7, 25), ""),
                "Client host rejected: forward and reverse DNS do not match",
            ),
            IprevResult::PermError => {
                (Refusal::permanent((7, 25), ""), "Client host rejected: cannot find your hostname")
            }
        };
        Some(Refusal { text: text.into(), ..refusal })
    }
}

/// Looks the name of a client up.
pub async fn check<R: Records>(records: &R, client: IpAddr) -> IprevCheck {
    let client = client.to_canonical();
    let names = match records.names(client).await {
        Ok(names) => names,
        Err(unanswered) => return IprevCheck::without_name(IprevResult::of(&unanswered)),
    };
    if names.is_empty() {
        return IprevCheck::without_name(IprevResult::PermError);
    }
    let mut verdict = IprevResult::Fail;
    for name in names.iter().filter(|name| is_name(name)).take(NAMES_MAX) {
        match records.addresses(name, Family::of(client)).await {
            Ok(addresses) if addresses.contains(&client) => return IprevCheck::of_name(name),
            Ok(_) => {}
            Err(_) if verdict == IprevResult::CutShort => {}
            Err(unanswered) => verdict = IprevResult::of(&unanswered),
        }
    }
    IprevCheck::without_name(verdict)
}

/// Returns true if it is valid as a host name, including in a header.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{DnsAnswer, Unanswered};
    use crate::testing::now;
    use std::cell::Cell;

    /// The names of every address, and the hosts that have `192.0.2.1`; `?` has no answer.
    struct Dns {
        names: Vec<String>,
        hosts: &'static [&'static str],
        asked: Cell<usize>,
    }

    impl Records for Dns {
        async fn txt(&self, _name: &str) -> DnsAnswer<Vec<u8>> {
            Ok(Vec::new())
        }

        async fn addresses(&self, host: &str, family: Family) -> DnsAnswer<IpAddr> {
            self.asked.set(self.asked.get() + 1);
            assert_eq!(family, Family::V4);
            match host {
                "unanswered.test" => Err(Unanswered::NoAnswer("timeout".into())),
                host if self.hosts.contains(&host) => {
                    Ok(vec![[192, 0, 2, 9].into(), [192, 0, 2, 1].into()])
                }
                _ => Ok(vec![[192, 0, 2, 9].into()]),
            }
        }

        async fn mail_hosts(&self, _domain: &str) -> DnsAnswer<String> {
            Ok(Vec::new())
        }

        async fn names(&self, _address: IpAddr) -> DnsAnswer<String> {
            match self.names.iter().any(|name| name == "?") {
                true => Err(Unanswered::NoAnswer("timeout".into())),
                false => Ok(self.names.clone()),
            }
        }
    }

    fn found(names: &[&str]) -> (&'static str, Option<Box<str>>, usize) {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let dns = Dns { names, hosts: &["mail.test"], asked: Cell::new(0) };
        let outcome = now(check(&dns, "::ffff:192.0.2.1".parse().unwrap()));
        (outcome.verdict.as_str(), outcome.name, dns.asked.get())
    }

    #[test]
    fn a_name_counts_when_both_ways_agree() {
        assert_eq!(found(&["mail.test"]), ("pass", Some("mail.test".into()), 1));
        assert_eq!(found(&["other.test", "mail.test"]), ("pass", Some("mail.test".into()), 2));
        assert_eq!(found(&["unanswered.test", "mail.test"]).0, "pass");
        assert_eq!(found(&["other.test"]), ("fail", None, 1));
        assert_eq!(found(&["unanswered.test", "other.test"]), ("temperror", None, 2));
        assert_eq!(found(&[]), ("permerror", None, 0));
        assert_eq!(found(&["?"]), ("temperror", None, 0));
        // What is no name is not asked for.
        assert_eq!(found(&["a b", "x\r\ny", "", &"x".repeat(254)]), ("fail", None, 0));
    }

    #[test]
    fn the_first_five_names_are_asked_for() {
        let many = |before: usize| {
            let others: Vec<String> = (0..before).map(|n| format!("n{n}.test")).collect();
            let names: Vec<&str> = others.iter().map(String::as_str).chain(["mail.test"]).collect();
            found(&names).0
        };
        assert_eq!((many(NAMES_MAX - 1), many(NAMES_MAX)), ("pass", "fail"));
    }

    #[test]
    fn what_a_client_without_a_name_is_told() {
        let told = |verdict, defers| {
            let refusal = IprevCheck::without_name(verdict).refusal(defers)?;
            Some(format!("{} {}", refusal.code(), refusal.status))
        };
        for defers in [false, true] {
            assert_eq!(told(IprevResult::Pass, defers), None);
            assert_eq!(told(IprevResult::Fail, defers).as_deref(), Some("550 5.7.25"));
            assert_eq!(told(IprevResult::PermError, defers).as_deref(), Some("550 5.7.25"));
        }
        assert_eq!(told(IprevResult::TempError, false), None);
        assert_eq!(told(IprevResult::TempError, true).as_deref(), Some("450 4.7.25"));
    }
}
