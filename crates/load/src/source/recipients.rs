//! Who messages go to.

use crate::random::Shares;
use std::fmt::Write as _;

/// Local part of every address when they need not differ.
const LOCAL_PART: &str = "user";

/// Where addresses come from.
#[derive(Clone, Debug)]
enum Origin {
    /// Taken in turn.
    List(Vec<String>),
    /// Domains taken in turn.
    Domains(Vec<String>),
    /// Drawn by their weights.
    Weighted(Shares<String>),
    /// `domain0.SUFFIX`, `domain1.SUFFIX`, …, taken in turn.
    Generated { count: u64, suffix: String },
}

/// Chooses the recipients of each message.
#[derive(Clone, Debug)]
pub struct Recipients {
    origin: Origin,
    /// Each address is used once in a run.
    distinct: bool,
    per_message: u64,
}

impl Recipients {
    /// From a list of addresses, taken in turn.
    ///
    /// # Errors
    /// An empty list, one with a repetition or shorter than a message needs, an address that can't
    /// stand in a ledger.
    pub fn list(list: Vec<String>, per_message: u64) -> Result<Recipients, String> {
        if let Some(bad) = list.iter().find(|address| !is_plain(address)) {
            return Err(format!("{bad:?} is not an address this tool can send to"));
        }
        if (list.len() as u64) < per_message.max(1) {
            return Err(format!("{} addresses, {per_message} per message", list.len()));
        }
        let mut sorted: Vec<&String> = list.iter().collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("{} is listed twice", pair[0]));
        }
        Ok(Recipients { origin: Origin::List(list), distinct: false, per_message })
    }

    /// `user@DOMAIN`, or `user<n>@DOMAIN` where addresses must differ.
    ///
    /// # Errors
    /// An empty list, or a domain that can't stand in an address.
    pub fn domains(
        domains: Vec<String>,
        distinct: bool,
        per_message: u64,
    ) -> Result<Recipients, String> {
        if domains.is_empty() {
            return Err("no domains".to_owned());
        }
        if let Some(bad) = domains.iter().find(|name| !is_plain(&format!("x@{name}"))) {
            return Err(format!("{bad:?} is not a domain"));
        }
        Ok(Recipients { origin: Origin::Domains(domains), distinct, per_message })
    }

    /// The same with domains that are drawn by their weights: `DOMAIN` and a weight behind it or none.
    ///
    /// # Errors
    /// As of [`Recipients::domains`].
    pub fn weighted(
        domains: Vec<(String, u64)>,
        distinct: bool,
        per_message: u64,
    ) -> Result<Recipients, String> {
        if let Some((bad, _)) = domains.iter().find(|(name, _)| !is_plain(&format!("x@{name}"))) {
            return Err(format!("{bad:?} is not a domain"));
        }
        let shares = Shares::new(domains.into_iter().map(|(name, weight)| (weight, name)));
        let origin = Origin::Weighted(shares.ok_or("no domains")?);
        Ok(Recipients { origin, distinct, per_message })
    }

    /// The same with `count` made-up domains.
    ///
    /// # Errors
    /// No domains, or a suffix that can't stand in an address.
    pub fn generated(
        count: u64,
        suffix: &str,
        distinct: bool,
        per_message: u64,
    ) -> Result<Recipients, String> {
        if count == 0 || !is_plain(&format!("x@{suffix}")) {
            return Err(format!("{count} domains under {suffix:?}"));
        }
        let origin = Origin::Generated { count, suffix: suffix.to_owned() };
        Ok(Recipients { origin, distinct, per_message })
    }

    /// How many a message has.
    #[must_use]
    pub fn per_message(&self) -> u64 {
        self.per_message
    }

    /// Appends the address of recipient `index` (below [`Recipients::per_message`]) of message
    /// number `message`.
    pub fn write(&self, message: u64, index: u64, out: &mut String) {
        let number = message.wrapping_mul(self.per_message).wrapping_add(index);
        let local = |out: &mut String| {
            out.push_str(LOCAL_PART);
            // Two recipients of one message always differ.
            let suffix = if self.distinct { Some(number) } else { (index > 0).then_some(index) };
            if let Some(suffix) = suffix {
                // Writing to a String can't fail.
                let _ = write!(out, "{suffix}");
            }
            out.push('@');
        };
        match &self.origin {
            Origin::List(list) => out.push_str(&list[(number % list.len() as u64) as usize]),
            Origin::Domains(domains) => {
                local(out);
                out.push_str(&domains[(number % domains.len() as u64) as usize]);
            }
            Origin::Weighted(domains) => {
                local(out);
                out.push_str(domains.pick(number).map_or("", String::as_str));
            }
            Origin::Generated { count, suffix } => {
                local(out);
                let _ = write!(out, "domain{}.{suffix}", number % count);
            }
        }
    }
}

/// Fits into angle brackets and into a line of the ledger.
fn is_plain(address: &str) -> bool {
    let parts = address.rsplit_once('@');
    parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
        && address.chars().all(|c| !c.is_whitespace() && !c.is_control() && !"<>".contains(c))
}

#[cfg(test)]
mod tests {
    use super::Recipients;
    use std::collections::HashSet;

    fn all(recipients: &Recipients, messages: u64) -> Vec<String> {
        let per_message = recipients.per_message();
        let pairs = (0..messages).flat_map(|m| (0..per_message).map(move |index| (m, index)));
        pairs
            .map(|(message, index)| {
                let mut address = String::new();
                recipients.write(message, index, &mut address);
                address
            })
            .collect()
    }

    #[test]
    fn distinct_addresses_never_repeat_and_spread_over_all_domains() {
        let recipients = Recipients::generated(10, "test", true, 3).expect("valid");
        let addresses = all(&recipients, 1000);
        assert_eq!(addresses.iter().collect::<HashSet<_>>().len(), 3000);
        let domains: HashSet<_> = addresses.iter().filter_map(|a| a.split_once('@')).collect();
        assert_eq!(domains.iter().map(|(_, domain)| domain).collect::<HashSet<_>>().len(), 10);
        assert_eq!(addresses[4], "user4@domain4.test");
    }

    #[test]
    fn recipients_of_one_message_differ() {
        let domains = vec!["a.test".to_owned(), "b.test".to_owned()];
        let recipients = Recipients::domains(domains, false, 5).expect("valid");
        let addresses = all(&recipients, 3);
        for message in addresses.chunks(5) {
            assert_eq!(message.iter().collect::<HashSet<_>>().len(), 5, "{message:?}");
        }
        assert_eq!(addresses[0], "user@a.test");
        let list = ["a@x", "b@x", "c@x"].map(str::to_owned).to_vec();
        assert_eq!(
            all(&Recipients::list(list, 2).expect("valid"), 2),
            ["a@x", "b@x", "c@x", "a@x"]
        );
    }

    #[test]
    fn weighted_domains_come_in_their_shares() {
        let domains = vec![("big.test".to_owned(), 9), ("small.test".to_owned(), 1)];
        let recipients = Recipients::weighted(domains, true, 1).expect("valid");
        let addresses = all(&recipients, 10_000);
        let small = addresses.iter().filter(|address| address.ends_with("@small.test")).count();
        assert!((900..1_100).contains(&small), "{small}");
        assert_eq!(addresses.iter().collect::<HashSet<_>>().len(), 10_000);
        assert_eq!(addresses, all(&recipients, 10_000));
        assert!(Recipients::weighted(vec![], true, 1).is_err());
        assert!(Recipients::weighted(vec![("a b".into(), 1)], true, 1).is_err());
    }

    #[test]
    fn impossible_wishes_are_refused() {
        assert!(Recipients::list(vec![], 1).is_err());
        assert!(Recipients::list(vec!["a@x".into()], 2).is_err());
        assert!(Recipients::list(vec!["a@x".into(), "a@x".into()], 1).is_err());
        assert!(Recipients::list(vec!["a b@x".into()], 1).is_err());
        assert!(Recipients::list(vec!["nobody".into()], 1).is_err());
        assert!(Recipients::domains(vec![], false, 1).is_err());
        assert!(Recipients::domains(vec!["a>b".into()], false, 1).is_err());
        assert!(Recipients::generated(0, "test", false, 1).is_err());
    }
}
