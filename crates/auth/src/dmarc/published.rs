//! Checks of a domain's published policy, for senders.

use super::record::{Record, is_policy};
use super::{Policy, RequestedPolicy, belongs, policy};
use crate::records::{Records, Unanswered};
use std::fmt;

/// The reason why a domain has no effective policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyFinding {
    /// Neither the domain nor one above it has one.
    Missing,
    /// The domain has several, which counts for none (RFC 7489 §6.6.3).
    Several,
    /// The domain's record is unreadable, or has no request.
    Malformed,
    /// There was no answer.
    Unanswered(Unanswered),
}

impl fmt::Display for PolicyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyFinding::Missing => f.write_str("no policy"),
            PolicyFinding::Several => f.write_str("more than one policy record: none applies"),
            PolicyFinding::Malformed => f.write_str("not a policy: p= must follow v=DMARC1"),
            PolicyFinding::Unanswered(why) => write!(f, "no answer: {why}"),
        }
    }
}

/// The policy that holds for mail of a domain's authors.
pub struct Published {
    domain: String,
    policy: Policy,
}

impl Published {
    /// Looks up the policy. An invalid record of the domain itself is an error here, although receivers skip it and use
    /// a domain above.
    ///
    /// # Errors
    /// Returns the reason if no policy applies.
    pub async fn find<R: Records>(records: &R, domain: &str) -> Result<Published, PolicyFinding> {
        let own =
            records.txt(&format!("_dmarc.{domain}")).await.map_err(PolicyFinding::Unanswered)?;
        match own.iter().filter(|txt| is_policy(txt)).count() {
            0 => {}
            1 if Record::find(&own).is_none() => return Err(PolicyFinding::Malformed),
            1 => {}
            _ => return Err(PolicyFinding::Several),
        }
        let policy = policy(records, domain).await.map_err(PolicyFinding::Unanswered)?;
        let policy = policy.ok_or(PolicyFinding::Missing)?;
        Ok(Published { domain: domain.to_owned(), policy })
    }

    /// The domain of the record: the domain itself, or one above it.
    #[must_use]
    pub fn of(&self) -> &str {
        &self.policy.of
    }

    /// The policy's request for mail that fails.
    #[must_use]
    pub fn wish(&self) -> RequestedPolicy {
        let record = &self.policy.record;
        if self.policy.of == self.domain { record.wish } else { record.wish_below }
    }

    /// Returns true if aggregate reports are requested.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        self.policy.record.report_to.is_some()
    }

    /// Returns true if the record has an invalid or repeated tag. It is ignored here, but other receivers may ignore
    /// the whole record.
    #[must_use]
    pub fn has_mistakes(&self) -> bool {
        self.policy.record.has_mistakes
    }

    /// Returns true if signatures must have exactly the author's domain (`adkim=s`).
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.policy.record.is_strict_dkim
    }

    /// Returns true if a valid signature of this domain aligns with the author (RFC 7489 §3.1.1).
    ///
    /// # Errors
    /// Returns an error if a query failed.
    pub async fn is_aligned<R: Records>(
        &self,
        records: &R,
        signer: &str,
    ) -> Result<bool, Unanswered> {
        let is_strict = self.policy.record.is_strict_dkim;
        belongs(records, &self.policy, &self.domain, signer, is_strict).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Zone, now};

    fn zone() -> Zone {
        Zone::of(&[
            ("_dmarc.a.example", "v=DMARC1; p=reject; sp=quarantine; rua=mailto:a@a.example"),
            ("_dmarc.s.example", "v=DMARC1; p=none; adkim=s"),
            ("_dmarc.two.example", "v=DMARC1; p=none"),
            ("_dmarc.two.example", "v=DMARC1; p=reject"),
            ("_dmarc.bad.a.example", "v=DMARC1; p=perhaps"),
            ("_dmarc.text.a.example", "something else"),
            ("_dmarc.slip.test", "v=DMARC1; p=reject;; rua=mailto:a@a.example"),
            ("_dmarc.own.a.example", "v=DMARC1; p=none; psd=n"),
            ("_dmarc.dead.test", "?"),
        ])
    }

    #[test]
    fn a_domain_has_one_policy_or_a_reason_why_not() {
        let found = |domain: &str| match now(Published::find(&zone(), domain)) {
            Ok(found) => {
                let mistaken = if found.has_mistakes() { " mistaken" } else { "" };
                let wish = found.wish().as_str();
                format!("{} {wish} {}{mistaken}", found.of(), found.is_reported())
            }
            Err(why) => format!("{why:?}"),
        };
        for (domain, expected) in [
            ("a.example", "a.example reject true"),
            ("x.a.example", "a.example quarantine true"),
            ("text.a.example", "a.example quarantine true"),
            ("s.example", "s.example none false"),
            ("two.example", "Several"),
            ("bad.a.example", "Malformed"),
            ("none.test", "Missing"),
            ("slip.test", "slip.test reject true mistaken"),
            ("dead.test", "Unanswered(NoAnswer(\"timeout\"))"),
        ] {
            assert_eq!(found(domain), expected, "{domain}");
        }
    }

    #[test]
    fn a_signature_counts_for_authors_of_its_organization() {
        for (author, signer, expected) in [
            ("a.example", "a.example", true),
            ("x.a.example", "a.example", true),
            ("a.example", "x.a.example", true),
            ("a.example", "own.a.example", false),
            ("a.example", "esp.test", false),
            ("s.example", "s.example", true),
            ("s.example", "x.s.example", false),
        ] {
            let zone = zone();
            let found = now(Published::find(&zone, author)).map_err(|why| why.to_string()).unwrap();
            assert_eq!(now(found.is_aligned(&zone, signer)), Ok(expected), "{author} {signer}");
            assert_eq!(found.is_strict(), author == "s.example");
        }
    }
}
