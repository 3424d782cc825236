//! Problems of logs that do not accept all mail.

use crate::commit_thread::{Log, NO_IDS};
use crate::mutex::lock;
use config::SpoolSection;
use config::quantity::write_size;
use mta::custody::{COMMIT_MAX, LogPort};
use mta::problems::{ClockReading, DetectedProblem, ProblemKind};
use spool::SpoolStatus;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// All logs of the process.
pub(super) struct Logs(Vec<OneLog>);

struct OneLog {
    path: String,
    /// At most half a second old. The lock is not held during disk access.
    status: Arc<Mutex<SpoolStatus>>,
    port: Arc<LogPort>,
}

impl Logs {
    pub(super) fn of(paths: &[PathBuf], logs: &[Log]) -> Logs {
        let one = |(path, log): (&PathBuf, &Log)| OneLog {
            path: path.display().to_string(),
            status: Arc::clone(&log.status),
            port: Arc::clone(&log.port),
        };
        Logs(paths.iter().zip(logs).map(one).collect())
    }
}

impl ProblemKind for Logs {
    fn name(&self) -> &'static str {
        "log"
    }

    fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        for OneLog { path, status, port } in &self.0 {
            let status = lock(status).clone();
            let error = |text: String| DetectedProblem::error(path, text);
            if port.ids_left() == 0 {
                found(error(NO_IDS.to_owned()));
            }
            if let Some(time) = port.condition.commit.under_way(now.mono)
                && time > COMMIT_MAX
            {
                let text = format!("the spool's disk has not responded for {} s", time.as_secs());
                found(error(text).next_step("check the disk; requests wait for it"));
            }
            if let Some(poison) = &status.poisoned {
                found(error(format!("the spool accepts no mail: {poison}")));
            } else if status.full {
                found(
                    error("the spool's disk is nearly full".to_owned())
                        .next_step("free disk space"),
                );
            }
            if status.damaged_count > 0 {
                let text = format!("{} messages in the spool are damaged", status.damaged_count);
                found(error(text).next_step("`postrider spool verify` lists them"));
            }
        }
    }

    /// Their begin and end are logged by `logs.rs` and `commit_thread.rs`.
    fn has_own_lines(&self) -> bool {
        true
    }
}

/// Spools on disks that are almost full.
pub(super) struct LowSpace {
    spools: Vec<(String, Arc<Mutex<SpoolStatus>>)>,
    /// Mail is refused below this.
    min_free_bytes: u64,
}

impl LowSpace {
    pub(super) fn of(spool: &SpoolSection, logs: &[Log]) -> LowSpace {
        let one =
            |(path, log): (&PathBuf, &Log)| (path.display().to_string(), Arc::clone(&log.status));
        let spools = spool.paths.iter().zip(logs).map(one).collect();
        LowSpace { spools, min_free_bytes: spool.min_free_bytes }
    }
}

impl ProblemKind for LowSpace {
    fn name(&self) -> &'static str {
        "disk_space"
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        for (path, status) in &self.spools {
            let (free, full) = {
                let status = lock(status);
                (status.free_bytes, status.full)
            };
            let Some(free) = free.filter(|free| *free < self.min_free_bytes.saturating_mul(2))
            else {
                continue;
            };
            // A full one is a problem of the kind `log`.
            if !full {
                let (left, min) = (write_size(free), write_size(self.min_free_bytes));
                let text =
                    format!("the disk of {path} has {left} left; mail is refused below {min}");
                let step = "free disk space";
                found(DetectedProblem::warning(path.as_str(), text).next_step(step));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::{Mono, Wall};
    use mta::custody::LogCondition;
    use mta::problems::Problems;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    #[test]
    fn disk_with_less_than_twice_the_minimum_is_a_problem_until_it_is_full() {
        let status = Arc::new(Mutex::new(SpoolStatus::default()));
        let spools = vec![("spool".to_owned(), Arc::clone(&status))];
        let problems = Problems::default();
        problems.register(Arc::new(LowSpace { spools, min_free_bytes: 1 << 20 }));
        let count = || problems.ask(ClockReading::default()).len();
        assert_eq!(count(), 0, "not known");
        lock(&status).free_bytes = Some(2 << 20);
        assert_eq!(count(), 0);
        lock(&status).free_bytes = Some((2 << 20) - 1);
        assert_eq!(count(), 1);
        lock(&status).full = true;
        assert_eq!(count(), 0);
    }

    #[test]
    fn whatever_keeps_a_log_from_taking_mail_is_found() {
        let port = Arc::new(LogPort {
            send: Box::new(|_| ()),
            next_sequence: AtomicU64::new(1),
            next_blob: AtomicU64::new(1),
            log: 0,
            node: 0,
            condition: LogCondition::default(),
        });
        let status = Arc::new(Mutex::new(SpoolStatus::default()));
        let one =
            OneLog { path: "spool".into(), status: Arc::clone(&status), port: Arc::clone(&port) };
        let problems = Problems::default();
        problems.register(Arc::new(Logs(vec![one])));
        let texts = |seconds: u64| {
            let now = ClockReading { mono: Mono(0) + Duration::from_secs(seconds), wall: Wall(0) };
            problems.ask(now).into_iter().map(|one| one.text).collect::<Vec<_>>()
        };
        assert!(texts(0).is_empty());
        port.condition.commit.begin(Mono(0));
        assert!(texts(1).is_empty(), "a slow commit is none that hangs");
        assert_eq!(texts(6), ["the spool's disk has not responded for 6 s"]);
        port.condition.commit.end();
        assert!(texts(6).is_empty());
        lock(&status).full = true;
        assert_eq!(texts(6), ["the spool's disk is nearly full"]);
        lock(&status).poisoned = Some("Input/output error".into());
        lock(&status).damaged_count = 2;
        let both = [
            "the spool accepts no mail: Input/output error",
            "2 messages in the spool are damaged",
        ];
        assert_eq!(texts(6), both);
        port.next_sequence.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(texts(6)[0], NO_IDS);
    }
}
