//! Logs that stop writing after a disk error: only recovery can determine the durable part. So the process ends, and
//! its supervisor restarts it.

use crate::limited_work::awaited;
use crate::mutex::lock;
use spool::SpoolStatus;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time for which a server without a writing log continues: requests in progress are answered, and watchdogs see the
/// reason.
pub(crate) const GRACE: Duration = Duration::from_secs(20);
/// Interval of the checks.
pub(crate) const LOOKED_EVERY: Duration = Duration::from_secs(1);
/// The file by which a disk is tried.
const TRIAL: &str = "trial";

/// Waits until a restart is due: no log has written for a while, or the disk of a stopped log has recovered.
pub(crate) async fn wait(
    logs: Vec<Arc<Mutex<SpoolStatus>>>,
    paths: Vec<PathBuf>,
    (grace, looked_every): (Duration, Duration),
) -> String {
    let mut since = None;
    loop {
        tokio::time::sleep(looked_every).await;
        let poisons: Vec<_> = logs.iter().map(|status| lock(status).poisoned.clone()).collect();
        let Some((number, poison)) =
            poisons.iter().enumerate().find_map(|(n, poison)| Some((n, poison.clone()?)))
        else {
            since = None;
            continue;
        };
        if since.get_or_insert_with(Instant::now).elapsed() < grace {
            continue;
        }
        let is_over = poisons.iter().all(Option::is_some);
        // While other logs write, a start that fails would cost more than it repairs.
        let path = paths.get(number).cloned().unwrap_or_default();
        let tried = path.clone();
        // A disk that does not answer is not well.
        if is_over || awaited(GRACE, move || try_out(&tried).is_ok()).await == Some(true) {
            return format!(
                "the log in {} stopped writing ({poison}): the server exits with an error, so \
                 that a restart recovers it",
                path.display()
            );
        }
        since = None;
    }
}

/// Tests that a disk accepts writes.
fn try_out(directory: &Path) -> io::Result<()> {
    let path = directory.join(TRIAL);
    let tried = File::create(&path).and_then(|mut file| {
        file.write_all(b"trial")?;
        file.sync_all()
    });
    let _ = fs::remove_file(&path);
    tried
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(poison: Option<&str>) -> Arc<Mutex<SpoolStatus>> {
        let poisoned = poison.map(Into::into);
        Arc::new(Mutex::new(SpoolStatus { poisoned, ..SpoolStatus::default() }))
    }

    /// Why it ends; `None`: it goes on.
    fn end(logs: Vec<Arc<Mutex<SpoolStatus>>>, paths: &[PathBuf]) -> Option<String> {
        const EVERY: Duration = Duration::from_millis(2);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let ended = wait(logs, paths.to_vec(), (10 * EVERY, EVERY));
            tokio::time::timeout(500 * EVERY, ended).await.ok()
        })
    }

    #[test]
    fn a_server_without_a_log_that_writes_ends_and_one_with_another_only_when_the_disk_is_well() {
        let directory = tempfile::tempdir().unwrap();
        let both = [PathBuf::from("/nonexistent"), directory.path().to_owned()];
        assert!(end(vec![log(Some("EIO"))], &both[..1]).unwrap().contains("EIO"));
        assert_eq!(end(vec![log(Some("EIO")), log(None)], &both), None);
        assert!(end(vec![log(None), log(Some("EIO"))], &both).is_some());
        assert_eq!(end(vec![log(None), log(None)], &both), None);
    }

    #[test]
    fn a_disk_is_tried_and_nothing_is_left_there() {
        let directory = tempfile::tempdir().unwrap();
        assert!(try_out(directory.path()).is_ok());
        assert!(try_out(Path::new("/nonexistent")).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
