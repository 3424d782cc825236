//! What must be there in time.

use super::{Account, Bounds, name_of};
use crate::names::WELL_DOMAIN;
use std::collections::BTreeMap;

impl Account {
    /// A process begins.
    pub fn handle_start(&self) {
        let now_us = self.trace.now_us();
        self.records.borrow_mut().starts_us.push(now_us);
    }

    /// A host has heard MAIL with this sender.
    pub fn note_mail(&self, sender: &str) {
        *self.records.borrow_mut().mails.entry(name_of(sender).to_owned()).or_default() += 1;
    }

    /// How often hosts have heard MAIL of the message that has this recipient.
    #[must_use]
    pub fn mails(&self, recipient: &str) -> u32 {
        self.records().mails.get(name_of(recipient)).copied().unwrap_or(0)
    }

    /// What is for the domain that is well does not wait for others, on shards that know it.
    pub(super) fn check_well(&self, (from_us, within_us): (u64, u64)) {
        let mut late = Vec::new();
        let records = self.records();
        let of = |recipient: &String| records.submissions.get(name_of(recipient));
        let well = || records.arrived_us.iter().filter(|(to, _)| to.ends_with(WELL_DOMAIN));
        let mut known: BTreeMap<u16, u64> = BTreeMap::new();
        for (recipient, &at_us) in well() {
            if let Some(shard) = of(recipient).and_then(|submission| submission.shard) {
                let first_us = known.entry(shard).or_insert(at_us);
                *first_us = at_us.min(*first_us);
            }
        }
        for (recipient, &at_us) in well() {
            let Some(submission) = of(recipient) else { continue };
            let known_us = submission.shard.and_then(|shard| known.get(&shard).copied());
            let (Some(since_us), Some(known_us)) = (submission.acknowledged_us, known_us) else {
                continue;
            };
            if since_us >= known_us.max(from_us) && at_us > since_us + within_us {
                late.push((recipient.clone(), at_us - since_us));
            }
        }
        drop(records);
        for (recipient, us) in late {
            let what = format!("is well and was reached after {} ms", us / 1_000);
            self.violate_about(&recipient, &what);
        }
    }

    /// What is for hosts one of which is well is there in time, whatever the other one does.
    pub(super) fn check_stumbling(&self, bounds: &Bounds) {
        let (domains, within_us) = &bounds.stumbling;
        let mut late = Vec::new();
        let records = self.records();
        for (recipient, &at_us) in &records.arrived_us {
            let domain = recipient.rsplit('@').next().unwrap_or_default();
            if !domains.iter().any(|own| own == domain) {
                continue;
            }
            let submission = records.submissions.get(name_of(recipient));
            let Some(since_us) = submission.and_then(|submission| submission.acknowledged_us)
            else {
                continue;
            };
            // While there was no process nothing could go.
            let begun_us = records.starts_us.iter().rev().find(|&&start_us| start_us <= at_us);
            let waited_us = at_us.saturating_sub(since_us.max(begun_us.copied().unwrap_or(0)));
            if waited_us > *within_us {
                late.push((recipient.clone(), waited_us));
            }
        }
        drop(records);
        for (recipient, us) in late {
            let what = format!("has a host that is well and was reached after {} ms", us / 1_000);
            self.violate_about(&recipient, &what);
        }
    }
}
