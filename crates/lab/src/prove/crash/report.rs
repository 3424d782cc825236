//! What a run found.

use super::maildirs::Judgement;
use crate::prove::relay::Verified;
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
    #[serde(flatten)]
    pub(super) aftermath: Aftermath,
}

/// What a kill left behind.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Aftermath {
    /// What became of the spool's disk, if its power was cut.
    pub(super) cut: Option<Cut>,
    /// What became of the mailboxes' disk, if its power was cut.
    pub(super) mail_cut: Option<Cut>,
    pub(super) verified: Verified,
    /// What lay in mailboxes, if mail went there.
    pub(super) mailboxes: Option<Judgement>,
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kill { moment, aim_met, acked, start_ms: _, aftermath } = self;
        let Aftermath { cut, mail_cut, verified, mailboxes } = aftermath;
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
        for (disk, cut) in [("power", cut), ("mailboxes' power", mail_cut)] {
            let Some(Cut { loss, unflushed_writes, unflushed_bytes, kept_bytes }) = cut else {
                continue;
            };
            write!(
                f,
                "; {disk} cut: of {unflushed_writes} unflushed writes with {unflushed_bytes} bytes \
                 {kept_bytes} are kept ({loss:?})"
            )?;
        }
        mailboxes.iter().try_for_each(|judgement| write!(f, "; {judgement}"))
    }
}

/// The whole run.
#[derive(Debug)]
pub(super) struct CrashReport {
    pub(super) seed: u64,
    pub(super) kills: Vec<Kill>,
    /// How long it took, from the last start on, to deliver everything.
    pub(super) drained: Duration,
    /// The spool after the last, orderly stop.
    pub(super) left: Verified,
    pub(super) audit: Audit,
    /// What lay in mailboxes at the end, if mail went there.
    pub(super) mailboxes: Option<Judgement>,
    pub(super) duplicates_max: u64,
}

impl CrashReport {
    pub(super) fn is_good(&self) -> bool {
        let looks = self.kills.iter().map(|kill| &kill.aftermath.verified).chain([&self.left]);
        self.judgements().all(Judgement::is_good)
            && looks.map(|verified| verified.damaged).sum::<u64>() == 0
            && self.audit.is_clean(self.duplicates_max)
            && self.left.live_messages == 0
    }

    /// What lay in mailboxes after each kill, and at the end.
    fn judgements(&self) -> impl Iterator<Item = &Judgement> {
        let after_kills = self.kills.iter().filter_map(|kill| kill.aftermath.mailboxes.as_ref());
        after_kills.chain(&self.mailboxes)
    }

    fn lost_max(&self) -> u64 {
        self.judgements().map(|judgement| judgement.lost).max().unwrap_or(0)
    }

    /// Looks into mailboxes that found anything wrong.
    fn wrong_looks(&self) -> usize {
        self.judgements().filter(|judgement| !judgement.is_good()).count()
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
                "mailboxes": self.mailboxes,
            });
            println!("{value}");
            return;
        }
        let count = |name: &str, so: &dyn Fn(&Kill) -> bool| {
            (name.to_owned(), self.kills.iter().filter(|kill| so(kill)).count().to_string())
        };
        let mut rows = vec![
            count("kills", &|_| true),
            count("power cuts", &|kill| kill.aftermath.cut.is_some()),
            count("power cuts amid unflushed writes", &|kill| is_amid(kill.aftermath.cut)),
            count("in recovery", &|kill| kill.moment == "recovery"),
            count("in compaction", &|kill| kill.aftermath.verified.copied_messages > 0),
            count("with a torn batch", &|kill| kill.aftermath.verified.torn_batches > 0),
            count("with an orphan blob", &|kill| kill.aftermath.verified.orphan_blobs > 0),
            count("with damage", &|kill| kill.aftermath.verified.damaged > 0),
            ("acked per cycle, at least".to_owned(), least.to_string()),
            ("duplicates allowed".to_owned(), self.duplicates_max.to_string()),
            ("left in the spool".to_owned(), self.left.live_messages.to_string()),
            ("milliseconds to start".to_owned(), self.start_times()),
            ("seconds to drain".to_owned(), format!("{:.1}", self.drained.as_secs_f64())),
        ];
        if let Some(end) = &self.mailboxes {
            rows.extend([
                count("amid unflushed writes to mailboxes", &|kill| {
                    is_amid(kill.aftermath.mail_cut)
                }),
                count("in a lull", &|kill| kill.moment == "lull" && kill.aim_met),
                ("deliveries recorded".to_owned(), end.recorded.to_string()),
                (
                    "recorded deliveries lost, most after one kill".to_owned(),
                    self.lost_max().to_string(),
                ),
                ("checks that found a fault".to_owned(), self.wrong_looks().to_string()),
            ]);
        }
        rows.extend(self.audit.rows());
        println!("{}", value_table(&rows));
        for (kind, id, recipient) in self.audit.findings() {
            println!("{kind} {id} {recipient}");
        }
        for finding in self.judgements().flat_map(|judgement| &judgement.findings) {
            println!("{finding}");
        }
        println!("{}", if self.is_good() { "accounted for" } else { "NOT accounted for" });
    }
}

/// Whether the power went while something was written and not flushed.
fn is_amid(cut: Option<Cut>) -> bool {
    cut.is_some_and(|cut| cut.unflushed_writes > 0)
}
