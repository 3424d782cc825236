//! Sets the two files against each other.

use super::{Arrival, ArrivalState, Fate, Sent};
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// A message and a recipient that something is said about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The message.
    pub id: String,
    /// Its recipient.
    pub recipient: String,
}

/// Findings of one kind: all counted, the first ones listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub listed: Vec<Finding>,
}

impl Findings {
    fn add(&mut self, list_max: usize, id: &str, recipient: &str) {
        self.count += 1;
        if self.listed.len() < list_max {
            self.listed.push(Finding { id: id.into(), recipient: recipient.into() });
        }
    }
}

/// The result. What is said of recipients counts pairs of message and recipient.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Messages that were acknowledged.
    pub acked_messages: u64,
    /// Their recipients: so many deliveries are due.
    pub acked_recipients: u64,
    /// Messages that were refused.
    pub refused_messages: u64,
    /// Messages whose fate the source doesn't know.
    pub unknown_messages: u64,
    /// Messages whose content was never begun.
    pub unsent_messages: u64,
    /// Lines in the sink's file that carry an id.
    pub arrivals: u64,
    /// Lines in the sink's file without an id of ours.
    pub unidentified_arrivals: u64,
    /// Acknowledged, never arrived: loss.
    pub missing: Findings,
    /// Arrived once more; each time counts.
    pub duplicates: Findings,
    /// Arrived, but not as it was sent.
    pub damaged: Findings,
    /// Arrived at a recipient that the message was not accepted for.
    pub misdelivered: Findings,
    /// Doubtful, and arrived (allowed).
    pub unknown_arrived: Findings,
    /// Refused, and arrived all the same.
    pub refused_arrived: Findings,
    /// Never begun, and arrived all the same.
    pub unsent_arrived: Findings,
    /// With an id that the source's file doesn't know (a source that was killed, another run).
    pub unlisted_arrived: Findings,
}

/// Compares the texts of a source's and a sink's file. `list_max` findings of each kind are listed.
///
/// # Errors
/// The number and text of a line that is none, or an id that the source lists twice.
pub fn audit(source: &str, sink: &str, list_max: usize) -> Result<Audit, String> {
    let mut audit = Audit::default();
    let mut sent = HashMap::with_capacity(source.lines().count());
    for (number, line) in source.lines().enumerate() {
        let entry = Sent::parse(line)
            .ok_or_else(|| format!("source file, line {}: {line:?}", number + 1))?;
        match entry.fate {
            Fate::Acked => audit.acked_messages += 1,
            Fate::Refused(_) => audit.refused_messages += 1,
            Fate::Unknown => audit.unknown_messages += 1,
            Fate::Unsent => audit.unsent_messages += 1,
        }
        if sent.insert(entry.id, entry).is_some() {
            return Err(format!("source file, line {}: {} came before", number + 1, entry.id));
        }
    }
    let mut arrived = HashSet::with_capacity(sink.lines().count());
    for (number, line) in sink.lines().enumerate() {
        let arrival = Arrival::parse(line)
            .ok_or_else(|| format!("sink file, line {}: {line:?}", number + 1))?;
        if arrival.id == "-" {
            audit.unidentified_arrivals += 1;
            continue;
        }
        audit.arrivals += 1;
        let first = arrived.insert((arrival.id, arrival.recipient));
        audit.judge(&arrival, sent.get(arrival.id), first, list_max);
    }
    // In the file's order, so that the same files give the same list.
    for entry in source.lines().filter_map(Sent::parse).filter(|sent| sent.fate == Fate::Acked) {
        for recipient in recipients(&entry) {
            audit.acked_recipients += 1;
            if !arrived.contains(&(entry.id, recipient)) {
                audit.missing.add(list_max, entry.id, recipient);
            }
        }
    }
    Ok(audit)
}

fn recipients<'a>(sent: &Sent<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    sent.recipients.split_ascii_whitespace()
}

impl Audit {
    fn judge(&mut self, arrival: &Arrival, sent: Option<&Sent>, first: bool, list_max: usize) {
        let &Arrival { id, recipient, state } = arrival;
        if !first {
            self.duplicates.add(list_max, id, recipient);
        }
        if state == ArrivalState::Damaged {
            self.damaged.add(list_max, id, recipient);
        }
        let Some(sent) = sent else {
            return self.unlisted_arrived.add(list_max, id, recipient);
        };
        match sent.fate {
            Fate::Refused(_) => self.refused_arrived.add(list_max, id, recipient),
            Fate::Unsent => self.unsent_arrived.add(list_max, id, recipient),
            Fate::Acked | Fate::Unknown if !recipients(sent).any(|known| known == recipient) => {
                self.misdelivered.add(list_max, id, recipient);
            }
            Fate::Acked => {}
            Fate::Unknown => self.unknown_arrived.add(list_max, id, recipient),
        }
    }

    /// Nothing acknowledged is missing, nothing is damaged or misdelivered, nothing arrived that
    /// was never begun, and there are no more duplicates than `duplicates_max`.
    ///
    /// Refused messages that arrived don't count against it: a peer may refuse after a time-out of
    /// its own what it has passed on.
    #[must_use]
    pub fn is_clean(&self, duplicates_max: u64) -> bool {
        let bad = [&self.missing, &self.damaged, &self.misdelivered, &self.unsent_arrived];
        bad.iter().all(|findings| findings.count == 0) && self.duplicates.count <= duplicates_max
    }

    /// The same with so many findings of each kind listed at most; all stay counted.
    #[must_use]
    pub fn shortened(mut self, list_max: usize) -> Audit {
        let Audit { missing, duplicates, damaged, misdelivered, .. } = &mut self;
        for findings in [missing, duplicates, damaged, misdelivered] {
            findings.listed.truncate(list_max);
        }
        let Audit { unknown_arrived, refused_arrived, unsent_arrived, unlisted_arrived, .. } =
            &mut self;
        for findings in [unknown_arrived, refused_arrived, unsent_arrived, unlisted_arrived] {
            findings.listed.truncate(list_max);
        }
        self
    }

    fn kinds(&self) -> [(&'static str, &Findings); 8] {
        [
            ("missing", &self.missing),
            ("duplicate", &self.duplicates),
            ("damaged", &self.damaged),
            ("misdelivered", &self.misdelivered),
            ("unknown that arrived", &self.unknown_arrived),
            ("refused that arrived", &self.refused_arrived),
            ("unsent that arrived", &self.unsent_arrived),
            ("unlisted that arrived", &self.unlisted_arrived),
        ]
    }

    /// All counts, for a table.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, String)> {
        let counts = [
            ("acked messages", self.acked_messages),
            ("acked recipients", self.acked_recipients),
            ("refused messages", self.refused_messages),
            ("unknown messages", self.unknown_messages),
            ("unsent messages", self.unsent_messages),
            ("arrivals", self.arrivals),
            ("unidentified arrivals", self.unidentified_arrivals),
        ];
        let kinds = self.kinds().map(|(name, findings)| (name, findings.count));
        let rows = counts.into_iter().chain(kinds);
        rows.map(|(name, count)| (name.to_owned(), count.to_string())).collect()
    }

    /// What is listed: kind, message, recipient.
    pub fn findings(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        self.kinds().into_iter().flat_map(|(kind, findings)| {
            let listed = findings.listed.iter();
            listed.map(move |found| (kind, found.id.as_str(), found.recipient.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::audit;

    const SOURCE: &str = "\
        r-0 acked a@x b@x\n\
        r-1 refused 452\n\
        r-2 unknown a@x\n\
        r-3 unsent\n\
        r-4 acked c@x\n\
        r-5 unknown a@x\n";

    #[test]
    fn each_kind_is_told_apart() {
        let sink = "\
            r-0 a@x\n\
            r-0 a@x\n\
            r-0 a@x\n\
            r-1 a@x\n\
            r-2 a@x\n\
            r-3 a@x\n\
            r-4 c@x damaged\n\
            r-4 d@x\n\
            q-9 a@x\n\
            - a@x\n";
        let audit = audit(SOURCE, sink, 1).expect("well-formed");
        assert_eq!((audit.acked_messages, audit.acked_recipients), (2, 3));
        assert_eq!((audit.refused_messages, audit.unknown_messages), (1, 2));
        assert_eq!((audit.unsent_messages, audit.arrivals, audit.unidentified_arrivals), (1, 9, 1));
        let counts = audit.kinds().map(|(_, findings)| findings.count);
        assert_eq!(counts, [1, 2, 1, 1, 1, 1, 1, 1]);
        assert_eq!(audit.missing.listed[0].recipient, "b@x");
        assert_eq!(audit.duplicates.listed.len(), 1);
        assert!(!audit.is_clean(2));
    }

    #[test]
    fn clean_only_within_the_duplicates_allowed() {
        let sink = "r-0 a@x\nr-0 b@x\nr-4 c@x\nr-4 c@x\nr-2 a@x\n";
        let audit = audit(SOURCE, sink, 10).expect("well-formed");
        assert!(audit.is_clean(1) && !audit.is_clean(0));
        assert_eq!(audit.missing.count, 0);
    }

    #[test]
    fn one_missing_recipient_of_several_is_a_loss() {
        let audit = audit(SOURCE, "r-0 a@x\nr-4 c@x\n", 10).expect("well-formed");
        assert_eq!(audit.missing.count, 1);
        assert!(!audit.is_clean(100));
    }

    #[test]
    fn bad_lines_are_errors() {
        assert!(audit("nonsense\n", "", 1).is_err());
        assert!(audit("", "nonsense\n", 1).is_err());
        assert!(audit("r-0 unsent\nr-0 unsent\n", "", 1).is_err());
    }
}
