//! Output of check results as text and JSON.

use super::lookups::RecordedLookup;
use crate::terminal::clean;
use auth::checks::Verdicts;
use auth::results::lines;
use serde_json::{Value, json};
use std::fmt;

/// The verdicts on a message, and the records that led there.
pub(super) struct AuthReport {
    /// Our name.
    pub(super) server: String,
    pub(super) verdicts: Verdicts,
    pub(super) told: Vec<RecordedLookup>,
}

impl AuthReport {
    pub(super) fn to_json(&self) -> Value {
        let Verdicts { spf, dkim, signatures_left, dmarc, arc, .. } = &self.verdicts;
        let signatures = dkim.iter().flatten().map(|outcome| {
            let signer = outcome.signer.as_ref();
            json!({
                "verdict": outcome.verdict.as_str(),
                "reason": outcome.reason,
                "domain": signer.map(|signer| &signer.domain),
                "selector": signer.map(|signer| &signer.selector),
                "algorithm": signer.map(|signer| signer.algorithm.as_str()),
            })
        });
        let records = self.told.iter().map(|answered| {
            json!({
                "type": answered.kind,
                "name": answered.name,
                "records": answered.records.as_ref().ok(),
                "trouble": answered.records.as_ref().err().map(ToString::to_string),
            })
        });
        json!({
            "spf": spf.as_ref().map(|outcome| json!({
                "verdict": outcome.verdict.as_str(),
                "domain": outcome.domain,
                "reason": outcome.reason,
                "explanation": outcome.explanation,
            })),
            "dkim": signatures.collect::<Vec<_>>(),
            "signatures_not_looked_at": signatures_left,
            "dmarc": dmarc.as_ref().map(|outcome| json!({
                "verdict": outcome.verdict.as_str(),
                "domain": outcome.domain,
                "policy": outcome.wish.as_str(),
                "reason": outcome.reason,
            })),
            "arc": arc.as_ref().map(|outcome| json!({
                "verdict": outcome.verdict.as_str(),
                "sealers": outcome.sealers,
                "reason": outcome.reason,
            })),
            "records": records.collect::<Vec<_>>(),
            "authentication_results": lines(&self.server, &self.verdicts).join("\r\n\t"),
        })
    }
}

fn line(
    f: &mut fmt::Formatter<'_>,
    check: &str,
    verdict: &str,
    of: &str,
    reason: &str,
) -> fmt::Result {
    let of = clean(of);
    let text = match (of.is_empty(), reason.is_empty()) {
        (_, true) => of,
        (true, false) => clean(reason),
        (false, false) => format!("{of}: {}", clean(reason)),
    };
    writeln!(f, "{}", format!("{check:<7}{verdict:<11}{text}").trim_end())
}

impl fmt::Display for AuthReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdicts = &self.verdicts;
        if let Some(spf) = &verdicts.spf {
            line(f, "spf", spf.verdict.as_str(), &spf.domain, &spf.reason)?;
        }
        if verdicts.dkim.as_ref().is_some_and(Vec::is_empty) {
            line(f, "dkim", "none", "", "the message is not signed")?;
        }
        for outcome in verdicts.dkim.iter().flatten() {
            let signer = outcome.signer.as_ref().map(|signer| {
                format!("{}, {}, {}", signer.domain, signer.selector, signer.algorithm.as_str())
            });
            let signer = signer.unwrap_or_default();
            line(f, "dkim", outcome.verdict.as_str(), &signer, &outcome.reason)?;
        }
        if let Some(dmarc) = &verdicts.dmarc {
            let domain = dmarc.domain.as_deref().unwrap_or_default();
            line(f, "dmarc", dmarc.verdict.as_str(), domain, &dmarc.reason)?;
            line(f, "", "", "", &format!("policy: {}", dmarc.wish.as_str()))?;
        }
        if let Some(arc) = &verdicts.arc {
            line(f, "arc", arc.verdict.as_str(), &arc.sealers.join(", "), &arc.reason)?;
        }
        writeln!(f, "\nrecords")?;
        for RecordedLookup { kind, name, records } in &self.told {
            let name = clean(name);
            match records {
                Ok(records) if records.is_empty() => writeln!(f, "  {kind:<4} {name}: none")?,
                Ok(records) => {
                    for record in records {
                        writeln!(f, "  {kind:<4} {name}: {}", clean(record))?;
                    }
                }
                Err(trouble) => writeln!(f, "  {kind:<4} {name}: lookup failed: {trouble}")?,
            }
        }
        writeln!(f, "\n{}", lines(&self.server, verdicts).join("\n    "))
    }
}
