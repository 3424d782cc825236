//! What a run has come to: in the end, and a line for each minute, as postal prints it.

use crate::ledger::Fate;
use crate::stats::{Latency, Tenths, latency_table, rate, value_table};
use crate::tls::HandshakeCount;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The first line of a file of minutes: as postal's, without what it says of TLS.
const HEADING: &str = "time,messages,data(K),errors,connections";
/// From one of its lines to the next.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Counts of a run that goes on.
#[derive(Debug)]
pub(crate) struct Tally {
    start: Instant,
    /// When the last message was answered.
    last: Duration,
    pub(crate) acked: u64,
    acked_recipients: u64,
    /// Of their bodies.
    acked_bytes: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    unsent: u64,
    refused_by_reply: BTreeMap<(&'static str, u16), u64>,
    recipients_refused: BTreeMap<u16, u64>,
    connections: u64,
    broken: BTreeMap<String, u64>,
    connect_failures: BTreeMap<String, u64>,
    /// Sessions that ended for want of a connection.
    pub(crate) gave_up: u64,
    lacks_pipelining: bool,
    lacks_chunking: bool,
    lacks_eight_bit: bool,
    latency: Latency,
    connect: Latency,
    /// From the last byte of the content to its reply.
    pub(crate) acceptance: Latency,
    tenths: Tenths,
}

impl Tally {
    pub(crate) fn new(start: Instant, total: u64) -> Tally {
        Tally {
            start,
            last: Duration::ZERO,
            acked: 0,
            acked_recipients: 0,
            acked_bytes: 0,
            refused: 0,
            unknown: 0,
            unsent: 0,
            refused_by_reply: BTreeMap::new(),
            recipients_refused: BTreeMap::new(),
            connections: 0,
            broken: BTreeMap::new(),
            connect_failures: BTreeMap::new(),
            gave_up: 0,
            lacks_pipelining: false,
            lacks_chunking: false,
            lacks_eight_bit: false,
            latency: Latency::default(),
            connect: Latency::default(),
            acceptance: Latency::default(),
            tenths: Tenths::new(total),
        }
    }

    pub(crate) fn settle(
        &mut self,
        fate: Fate,
        phase: &'static str,
        recipients: u64,
        body_bytes: usize,
        intended: Instant,
    ) {
        match fate {
            Fate::Acked => {
                let now = Instant::now();
                self.acked += 1;
                self.acked_recipients += recipients;
                self.acked_bytes += body_bytes as u64;
                self.latency.record(now - intended);
                self.last = now - self.start;
                self.tenths.handle_count(self.acked, || now - self.start);
            }
            Fate::Refused(code) => {
                self.refused += 1;
                *self.refused_by_reply.entry((phase, code)).or_default() += 1;
                self.last = self.start.elapsed();
            }
            Fate::Unknown => self.unknown += 1,
            Fate::Unsent => self.unsent += 1,
        }
    }

    pub(crate) fn recipient_refused(&mut self, code: u16) {
        *self.recipients_refused.entry(code).or_default() += 1;
    }

    pub(crate) fn connected(&mut self, time: Duration) {
        self.connections += 1;
        self.connect.record(time);
    }

    pub(crate) fn connect_failed(&mut self, why: String) {
        *self.connect_failures.entry(why).or_default() += 1;
    }

    pub(crate) fn broken(&mut self, why: &str) {
        *self.broken.entry(why.to_owned()).or_default() += 1;
    }

    /// What was asked for and is not offered.
    pub(crate) fn lacks(&mut self, pipelining: bool, chunking: bool, eight_bit: bool) {
        self.lacks_pipelining |= pipelining;
        self.lacks_chunking |= chunking;
        self.lacks_eight_bit |= eight_bit;
    }

    /// Messages whose fate is decided, one way or the other.
    pub(crate) fn decided(&self) -> u64 {
        self.acked + self.refused + self.unknown
    }

    /// What a line for each minute is made of.
    pub(crate) fn counts(&self) -> Counts {
        let failures = self.connect_failures.values().sum::<u64>();
        Counts {
            messages: self.acked,
            bytes: self.acked_bytes,
            errors: self.refused + self.unknown + failures,
            connections: self.connections,
        }
    }

    /// What was asked for and not had: such a run measured something else.
    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        [
            (self.lacks_pipelining, "the server does not offer PIPELINING: not used"),
            (self.lacks_chunking, "the server does not offer CHUNKING: DATA was used"),
            (
                self.lacks_eight_bit,
                "the server does not offer 8BITMIME: sent without BODY=8BITMIME",
            ),
        ]
        .into_iter()
        .filter_map(|(lacking, text)| lacking.then_some(text))
        .collect()
    }

    pub(crate) fn to_json(
        &self,
        run_id: &str,
        body_bytes: &str,
        handshakes: &HandshakeCount,
    ) -> Value {
        let replies = self.refused_by_reply.iter();
        let replies: BTreeMap<String, u64> =
            replies.map(|((phase, code), count)| (format!("{phase} {code}"), *count)).collect();
        json!({
            "run_id": run_id,
            "body_bytes": body_bytes,
            "seconds": self.last.as_secs_f64(),
            "messages_per_second": rate(self.acked, self.last),
            "messages_per_second_by_tenth": self.tenths.rates(),
            "acked": self.acked,
            "acked_recipients": self.acked_recipients,
            "refused": self.refused,
            "unknown": self.unknown,
            "unsent": self.unsent,
            "refused_by_reply": replies,
            "recipients_refused_by_reply": self.recipients_refused,
            "connections": self.connections,
            "handshakes": handshakes.all.get(),
            "handshakes_resumed": handshakes.resumed.get(),
            "connections_broken": self.broken,
            "connect_failures": self.connect_failures,
            "sessions_gave_up": self.gave_up,
            "warnings": self.warnings(),
            "latency_us": self.latency.to_json(),
            "latency_us_counts": self.latency.buckets(),
            "connect_us": self.connect.to_json(),
            "acceptance_us": self.acceptance.to_json(),
        })
    }

    /// `phases`: what the times of connecting and of acceptance are called.
    pub(crate) fn to_table(&self, phases: [&str; 2]) -> String {
        let rates = self.tenths.rates();
        let mut rows: Vec<(String, String)> = [
            ("messages/s", format!("{:.0}", rate(self.acked, self.last))),
            ("seconds", format!("{:.2}", self.last.as_secs_f64())),
            ("acked", self.acked.to_string()),
            ("refused", self.refused.to_string()),
            ("unknown", self.unknown.to_string()),
            ("unsent", self.unsent.to_string()),
            ("connections", self.connections.to_string()),
            ("sessions ended without a connection", self.gave_up.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec();
        if let (Some(first), Some(last), 10) = (rates.first(), rates.last(), rates.len()) {
            rows.insert(1, ("messages/s, first tenth".to_owned(), format!("{first:.0}")));
            rows.insert(2, ("messages/s, last tenth".to_owned(), format!("{last:.0}")));
        }
        for ((phase, code), count) in &self.refused_by_reply {
            rows.push((format!("refused: {code} at {phase}"), count.to_string()));
        }
        for (code, count) in &self.recipients_refused {
            rows.push((format!("recipients refused: {code}"), count.to_string()));
        }
        for (why, count) in &self.broken {
            rows.push((format!("connection broken: {why}"), count.to_string()));
        }
        for (why, count) in &self.connect_failures {
            rows.push((format!("could not connect: {why}"), count.to_string()));
        }
        let [connect, acceptance] = phases;
        let times =
            [("message", &self.latency), (connect, &self.connect), (acceptance, &self.acceptance)];
        format!("{}\n{}", value_table(&rows), latency_table(&times))
    }
}

/// What has happened since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    pub(crate) connections: u64,
}

/// A file with a line for each minute: what happened in that minute, not since the beginning.
#[derive(Debug)]
pub(crate) struct Minutes {
    file: Option<File>,
    /// Until now.
    told: Counts,
}

impl Minutes {
    /// Creates the file anew. Without a path, writes nothing.
    pub(crate) fn create(path: Option<&Path>) -> io::Result<Minutes> {
        let mut file = path.map(File::create).transpose()?;
        if let Some(file) = &mut file {
            writeln!(file, "{HEADING}")?;
        }
        Ok(Minutes { file, told: Counts::default() })
    }

    /// A minute is over, or the run.
    pub(crate) fn end_one(&mut self, tally: &Tally) {
        let counts = tally.counts();
        let line = line(SystemTime::now(), self.told, counts);
        self.told = counts;
        if let Some(file) = &mut self.file {
            // What became of each message is in the ledger: a run is not broken off for this.
            let _ = file.write_all(line.as_bytes());
        }
    }
}

fn line(at: SystemTime, before: Counts, now: Counts) -> String {
    let minutes = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 60;
    let (hour, minute) = (minutes / 60 % 24, minutes % 60);
    let messages = now.messages - before.messages;
    let kilobytes = now.bytes / 1024 - before.bytes / 1024;
    let errors = now.errors - before.errors;
    let connections = now.connections - before.connections;
    format!("{hour:02}:{minute:02},{messages},{kilobytes},{errors},{connections}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_is_new_and_loses_no_kilobyte() {
        let at = UNIX_EPOCH + Duration::from_secs(1_795_042_800);
        let first = Counts { messages: 3, bytes: 2000, errors: 1, connections: 2 };
        assert_eq!(line(at, Counts::default(), first), "23:00,3,1,1,2\n");
        let second = Counts { messages: 5, bytes: 4096, errors: 1, connections: 3 };
        assert_eq!(line(at + Duration::from_secs(60), first, second), "23:01,2,3,0,1\n");
    }
}
