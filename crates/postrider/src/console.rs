//! The log for operators: on standard error, in the journal, or in syslog.

mod daemons;
mod output;
mod stderr;

pub(crate) use output::{LogEntry, LogFields};

use crate::mutex::lock;
use crate::terminal::is_hidden;
use config::{Config, LogLevel, LogTarget};
use daemons::DaemonOutput;
use mta::console::{Console, FAILED_LOGIN, Level};
use mta::metrics::Counter;
use output::{LogOutput, LogPlan, Taken};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use stderr::StderrOutput;

/// Rate limit for lines of one kind and level.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// At once.
    burst: f64,
    /// Refill per second.
    per_second: f64,
}

/// Of most kinds.
const USUAL: Allowance = Allowance { burst: 20.0, per_second: 1.0 };
/// Programs that ban clients by failed logins (fail2ban) must see each client a few times, for any number of clients. A
/// server hardly checks more than this per second, since password checks are slow on purpose.
const OF_FAILED_LOGINS: Allowance = Allowance { burst: 1_000.0, per_second: 100.0 };

impl Allowance {
    fn of(kind: &str) -> Allowance {
        if kind == FAILED_LOGIN { OF_FAILED_LOGINS } else { USUAL }
    }
}

/// The kind of the lines with listening addresses.
pub(crate) const LISTENERS: &str = "listen";
/// Maximum length of a line: a peer's text may be long.
const LINE_BYTES_MAX: usize = 2_048;

/// Writes log lines to the destination that the configuration names; to standard error until it is known.
pub(crate) struct ConsoleLog {
    /// The least important level that is shown, as a number.
    level: AtomicU8,
    metrics: Arc<ConsoleMetrics>,
    inside: Mutex<ConsoleOutput>,
}

mta::metric_set! {
    /// Of the log for operators.
    ConsoleMetrics:

    lost: Counter = "log_lines_lost" {} "Log lines that the journal or syslog did not take.";
}

struct ConsoleOutput {
    plan: LogPlan,
    out: Box<dyn LogOutput>,
    /// For lines that `out` does not take.
    stderr: StderrOutput,
    /// Lines lost since the last one that was taken.
    lost: u64,
    meters: BTreeMap<(Level, &'static str), Meter>,
}

/// A bucket of tokens.
#[derive(Debug)]
struct Meter {
    level: f64,
    refilled: Instant,
    suppressed: u64,
}

impl fmt::Debug for ConsoleLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleLog").field("level", &self.level).finish_non_exhaustive()
    }
}

impl ConsoleLog {
    /// On standard error: in colour on a terminal, with the journal's prefixes under systemd.
    #[must_use]
    pub(crate) fn stderr(level: Level) -> ConsoleLog {
        let plan = LogPlan::default();
        ConsoleLog::new(level, &plan, output(&plan))
    }

    fn new(level: Level, plan: &LogPlan, out: Box<dyn LogOutput>) -> ConsoleLog {
        let plan = plan.clone();
        let stderr = StderrOutput::new(&plan);
        let meters = BTreeMap::new();
        ConsoleLog {
            level: AtomicU8::new(level as u8),
            metrics: Arc::default(),
            inside: Mutex::new(ConsoleOutput { plan, out, stderr, lost: 0, meters }),
        }
    }

    /// Sets level, destination and format from the configuration.
    pub(crate) fn follow(&self, config: &Config) {
        self.level.store(level_of(config) as u8, Ordering::Relaxed);
        let plan = LogPlan::of(config);
        let mut inside = lock(&self.inside);
        if inside.plan != plan {
            inside.out.flush();
            inside.out = output(&plan);
            inside.stderr = StderrOutput::new(&plan);
            inside.plan = plan;
        }
    }

    pub(crate) fn metrics(&self) -> Arc<ConsoleMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Writes lines that are not limited in number. `fill` passes each to its argument, and makes its text while shards
    /// may write.
    pub(crate) fn write_all(&self, fill: impl FnOnce(&mut dyn FnMut(&LogEntry<'_>))) {
        fill(&mut |entry| {
            if self.shows(entry.level) {
                lock(&self.inside).put(entry, &self.metrics);
            }
        });
        lock(&self.inside).out.flush();
    }
}

impl ConsoleOutput {
    /// Writes a line, or counts it as lost. [`LogOutput::flush`] follows.
    fn put(&mut self, entry: &LogEntry<'_>, metrics: &ConsoleMetrics) {
        if self.out.write(entry) == Taken::Yes {
            if self.lost > 0 {
                let text = format!("lines lost: count={}", self.lost);
                let told = LogEntry { level: Level::Warn, text: &text, ..LogEntry::own("log") };
                if self.out.write(&told) == Taken::Yes {
                    self.lost = 0;
                }
            }
            return;
        }
        self.lost += 1;
        metrics.lost.add(1);
        if entry.level <= Level::Warn {
            self.stderr.write(entry);
            self.stderr.flush();
        }
    }
}

impl Console for ConsoleLog {
    fn shows(&self, level: Level) -> bool {
        level as u8 <= self.level.load(Ordering::Relaxed)
    }

    fn line(&self, level: Level, kind: &'static str, text: fmt::Arguments<'_>) {
        if !self.shows(level) {
            return;
        }
        let mut inside = lock(&self.inside);
        // Debug output is not limited, nor are lines that the configuration limits (listeners).
        let is_unlimited = level >= Level::Debug || kind == LISTENERS;
        let suppressed = if is_unlimited {
            0
        } else {
            let Some(suppressed) = admit(&mut inside.meters, level, kind, Instant::now()) else {
                return;
            };
            suppressed
        };
        let mut line = one_line(text);
        if suppressed > 0 {
            let _ = write!(line, " suppressed={suppressed}");
        }
        inside.put(&LogEntry { level, text: &line, ..LogEntry::own(kind) }, &self.metrics);
        inside.out.flush();
    }
}

/// The destination that is configured.
fn output(plan: &LogPlan) -> Box<dyn LogOutput> {
    match plan.to {
        LogTarget::Stderr => Box::new(StderrOutput::new(plan)),
        LogTarget::Journald => Box::new(DaemonOutput::journal(plan.format)),
        LogTarget::Syslog => Box::new(DaemonOutput::syslog(plan.format)),
    }
}

/// The minimum level of lines.
fn level_of(config: &Config) -> Level {
    match config.log.level {
        LogLevel::Error => Level::Error,
        LogLevel::Warn => Level::Warn,
        LogLevel::Info => Level::Info,
        LogLevel::Debug => Level::Debug,
        LogLevel::Trace => Level::Trace,
    }
}

/// The text without control characters, cut at [`LINE_BYTES_MAX`].
pub(crate) fn one_line(text: fmt::Arguments<'_>) -> String {
    let mut line = OneLine { text: String::new(), room: LINE_BYTES_MAX, cut: false };
    let _ = line.write_fmt(text);
    line.text
}

/// `Some(n)` if a line may be written: `n` of its kind were suppressed since the last one.
fn admit(
    meters: &mut BTreeMap<(Level, &'static str), Meter>,
    level: Level,
    kind: &'static str,
    now: Instant,
) -> Option<u64> {
    let Allowance { burst, per_second } = Allowance::of(kind);
    let meter =
        meters.entry((level, kind)).or_insert(Meter { level: burst, refilled: now, suppressed: 0 });
    let elapsed = now.saturating_duration_since(meter.refilled).as_secs_f64();
    meter.level = (meter.level + elapsed * per_second).min(burst);
    meter.refilled = now;
    if meter.level < 1.0 {
        meter.suppressed += 1;
        return None;
    }
    meter.level -= 1.0;
    Some(std::mem::take(&mut meter.suppressed))
}

/// Text of unauthenticated clients on one line, without control characters, and truncated.
struct OneLine {
    text: String,
    /// Bytes that may still be added.
    room: usize,
    cut: bool,
}

impl fmt::Write for OneLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            let escaped = match c {
                '\n' => "\\n",
                '\r' => "\\r",
                '\t' => "\\t",
                c if is_hidden(c) => "\u{fffd}",
                _ => "",
            };
            let length = if escaped.is_empty() { c.len_utf8() } else { escaped.len() };
            if length > self.room {
                if !std::mem::replace(&mut self.cut, true) {
                    self.text.push('…');
                }
                self.room = 0;
                return Ok(());
            }
            self.room -= length;
            if escaped.is_empty() {
                self.text.push(c);
            } else {
                self.text.push_str(escaped);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::stderr::Style;
    use super::*;
    use std::io::Write;
    use std::time::Duration;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(style: Style, lines: impl FnOnce(&dyn Console)) -> String {
        let (out, plan) = (Shared::default(), LogPlan::default());
        let stderr = StderrOutput::to(Box::new(out.clone()), style, &plan);
        lines(&ConsoleLog::new(Level::Info, &plan, Box::new(stderr)));
        String::from_utf8(out.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_stranger_cannot_forge_lines_or_drive_the_terminal() {
        let evil = "a\r\n2026 error all is lost \u{1b}[2J\u{9b}\u{202e}\u{200b}";
        let text = written(Style::Plain, |console| console.warn("peer", format_args!("{evil}")));
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("warn  peer: a\\r\\n2026 error"), "{text}");
        assert!(!text.trim_end().chars().any(is_hidden), "{text:?}");
    }

    #[test]
    fn long_lines_are_cut() {
        let long = "ü".repeat(10_000);
        let text = written(Style::Journal, |console| console.error("peer", format_args!("{long}")));
        assert!(text.starts_with("<3>peer: ü"));
        assert!(text.len() < LINE_BYTES_MAX + 16 && text.ends_with("…\n"), "{}", text.len());
    }

    #[test]
    fn levels_below_are_not_even_formatted() {
        struct Bomb;
        impl fmt::Display for Bomb {
            fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
                panic!("formatted");
            }
        }
        let text = written(Style::Plain, |console| console.debug("x", format_args!("{Bomb}")));
        assert_eq!(text, "");
    }

    #[test]
    fn a_flood_of_one_kind_is_cut_short_and_leaves_others_alone() {
        let text = written(Style::Plain, |console| {
            for n in 0..10_000 {
                console.warn("peer", format_args!("n={n}"));
            }
            console.warn("disk", format_args!("full"));
        });
        let of_peer = text.lines().filter(|line| line.contains("peer:")).count();
        assert!((20..=30).contains(&of_peer), "{of_peer}");
        assert!(text.contains("disk: full"));
    }

    #[test]
    fn failed_logins_are_told_one_by_one_as_far_as_a_disk_can_bear() {
        let mut meters = BTreeMap::new();
        let start = Instant::now();
        let mut shown = |now| {
            let mut at_once = || admit(&mut meters, Level::Warn, FAILED_LOGIN, now).is_some();
            (0..5_000).filter(|_| at_once()).count()
        };
        assert_eq!(shown(start), 1_000);
        assert_eq!(shown(start + Duration::from_secs(1)), 100);
    }

    #[test]
    fn each_listener_is_told_however_many_there_are() {
        let text = written(Style::Plain, |console| {
            for n in 0..100 {
                console.line(Level::Info, LISTENERS, format_args!("listening on {n}"));
            }
        });
        assert_eq!(text.lines().count(), 100);
    }

    #[test]
    fn what_was_suppressed_is_counted() {
        let mut meters = BTreeMap::new();
        let start = Instant::now();
        let mut shown = 0;
        for _ in 0..100 {
            shown += u64::from(admit(&mut meters, Level::Warn, "peer", start).is_some());
        }
        assert_eq!(shown, 20);
        let later = start + Duration::from_secs(1);
        assert_eq!(admit(&mut meters, Level::Warn, "peer", later), Some(80));
        assert_eq!(admit(&mut meters, Level::Warn, "peer", later), None);
    }
}
