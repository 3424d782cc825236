//! Failures by what they mean: as many numbers as there are classes, whatever peers say.

use super::{Counter, Description, MetricSet, Read};
use ::classes::ReplyClass;

const CLASSES: usize = ReplyClass::ALL.len();

/// The label of each class.
static LABELS: [[(&str, &str); 1]; CLASSES] = {
    let mut labels = [[("class", "")]; CLASSES];
    let mut n = 0;
    while n < CLASSES {
        labels[n] = [("class", ReplyClass::ALL[n].as_str())];
        n += 1;
    }
    labels
};

/// What peers' refusals were, over all shards.
#[derive(Debug, Default)]
pub struct ClassMetrics {
    deferrals: [Counter; CLASSES],
    failures: [Counter; CLASSES],
}

impl ClassMetrics {
    /// So many recipients were deferred for this.
    pub fn note_deferrals(&self, class: ReplyClass, recipients: u64) {
        self.deferrals[class as usize].add(recipients);
    }

    /// A recipient failed for this.
    pub fn note_failure(&self, class: ReplyClass) {
        self.failures[class as usize].inc();
    }
}

impl MetricSet for ClassMetrics {
    fn each(&self, show: &mut dyn FnMut(&Description, super::Value)) {
        let sets = [
            (
                "deferrals_by_class",
                "Attempts that a peer's reply put off, per recipient, by the class of the reply.",
                &self.deferrals,
            ),
            (
                "failures_by_class",
                "Recipients that failed for good by a peer's reply, by the class of the reply.",
                &self.failures,
            ),
        ];
        for (name, help, counters) in sets {
            for (counter, labels) in counters.iter().zip(&LABELS) {
                show(&Description { name, labels, help }, counter.read());
            }
        }
    }
}
