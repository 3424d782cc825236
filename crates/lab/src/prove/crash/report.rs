//! What a run found.

use crate::prove::verified::Verified;
use crate::stand::power::Cut;
use load::ledger::Audit;
use load::stats::value_table;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// One kill.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Kill {
    pub(super) moment: &'static str,
    /// The moment came, and the kill followed.
    pub(super) aim_met: bool,
    /// Messages acknowledged since the kill before.
    pub(super) acked: u64,
    /// From the start of the process that was killed until it listened, if it got so far.
    pub(super) start_ms: Option<u64>,
    /// What became of the disk, if its power was cut.
    pub(super) cut: Option<Cut>,
    pub(super) verified: Verified,
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kill { moment, aim_met, acked, start_ms: _, cut, verified } = self;
        let missed = if *aim_met { "" } else { " (missed)" };
        write!(
            f,
            "killed: {moment}{missed}, {acked} acked before; {} live in {} segments, \
             {} copied, {} torn batches, {} orphan blobs",
            verified.live_messages,
            verified.segments,
            verified.copied_messages,
            verified.torn_batches,
            verified.orphan_blobs,
        )?;
        if let Some(Cut { loss, unflushed_writes, unflushed_bytes, kept_bytes }) = cut {
            write!(
                f,
                "; power cut: of {unflushed_writes} unflushed writes with {unflushed_bytes} bytes \
                 {kept_bytes} are kept ({loss:?})"
            )?;
        }
        Ok(())
    }
}

/// The whole run.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) kills: Vec<Kill>,
    /// How long it took, from the last start on, to deliver everything.
    pub(super) drained: Duration,
    /// The spool after the last, orderly stop.
    pub(super) left: Verified,
    pub(super) audit: Audit,
    pub(super) duplicates_max: u64,
}

impl Report {
    pub(super) fn is_good(&self) -> bool {
        let looks = self.kills.iter().map(|kill| &kill.verified).chain([&self.left]);
        looks.map(|verified| verified.damaged).sum::<u64>() == 0
            && self.audit.is_clean(self.duplicates_max)
            && self.left.live_messages == 0
    }

    /// Middle and longest time of a start to the listening socket.
    fn start_times(&self) -> String {
        let mut times: Vec<u64> = self.kills.iter().filter_map(|kill| kill.start_ms).collect();
        times.sort_unstable();
        let middle = times.get(times.len() / 2).copied().unwrap_or(0);
        format!("{middle} (longest {})", times.last().copied().unwrap_or(0))
    }

    pub(super) fn print(&self, json: bool) {
        let under_load =
            self.kills.iter().filter(|k| !matches!(k.moment, "recovery" | "just started"));
        let least = under_load.map(|kill| kill.acked).min().unwrap_or(0);
        if json {
            let value = serde_json::json!({
                "ok": self.is_good(),
                "seed": self.seed,
                "kills": self.kills,
                "acked_per_cycle_min": least,
                "drained_seconds": self.drained.as_secs_f64(),
                "left": self.left,
                "duplicates_max": self.duplicates_max,
                "audit": self.audit,
            });
            println!("{value}");
            return;
        }
        let count = |name: &str, so: &dyn Fn(&Kill) -> bool| {
            (name.to_owned(), self.kills.iter().filter(|kill| so(kill)).count().to_string())
        };
        let mut rows = vec![
            count("kills", &|_| true),
            count("power cuts", &|kill| kill.cut.is_some()),
            count("of them amid unflushed writes", &|kill| {
                kill.cut.is_some_and(|cut| cut.unflushed_writes > 0)
            }),
            count("in recovery", &|kill| kill.moment == "recovery"),
            count("in compaction", &|kill| kill.verified.copied_messages > 0),
            count("with a torn batch", &|kill| kill.verified.torn_batches > 0),
            count("with an orphan blob", &|kill| kill.verified.orphan_blobs > 0),
            count("with damage", &|kill| kill.verified.damaged > 0),
            ("acked per cycle, at least".to_owned(), least.to_string()),
            ("duplicates allowed".to_owned(), self.duplicates_max.to_string()),
            ("left in the spool".to_owned(), self.left.live_messages.to_string()),
            ("milliseconds to start".to_owned(), self.start_times()),
            ("seconds to drain".to_owned(), format!("{:.1}", self.drained.as_secs_f64())),
        ];
        rows.extend(self.audit.rows());
        println!("{}", value_table(&rows));
        for (kind, id, recipient) in self.audit.findings() {
            println!("{kind} {id} {recipient}");
        }
        println!("{}", if self.is_good() { "accounted for" } else { "NOT accounted for" });
    }
}
