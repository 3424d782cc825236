//! A cost that is known beforehand, to prove a meter with.

use crate::cpu::thread_time;
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

/// The file is written over and over, so that it doesn't fill the disk.
const BALLAST_BYTES_MAX: u64 = 64 << 20;

/// What is spent for each message.
#[derive(Debug)]
pub(super) struct KnownCost {
    burn: Duration,
    ballast: Option<Ballast>,
}

#[derive(Debug)]
struct Ballast {
    file: File,
    bytes: Vec<u8>,
    at: Cell<u64>,
}

impl KnownCost {
    /// So many microseconds of processor time, and so many bytes to this file, if there is one.
    ///
    /// # Errors
    /// When the file can't be made.
    pub(super) fn new(
        burn_us: u64,
        ballast: Option<&Path>,
        ballast_bytes: usize,
    ) -> io::Result<KnownCost> {
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            let file = options.create(true).truncate(true).write(true).open(path)?;
            Ok::<_, io::Error>(Ballast { file, bytes: vec![0x5a; ballast_bytes], at: Cell::new(0) })
        };
        let ballast = ballast.map(open).transpose()?;
        Ok(KnownCost { burn: Duration::from_micros(burn_us), ballast })
    }

    /// Whether anything is spent.
    pub(super) fn is_any(&self) -> bool {
        !self.burn.is_zero() || self.ballast.is_some()
    }

    /// Spends it once. The thread waits: this is no way to serve anybody well.
    ///
    /// # Errors
    /// When the file can't be written or synced.
    pub(super) fn spend(&self) -> io::Result<()> {
        if !self.burn.is_zero() {
            let begun = thread_time();
            while thread_time().saturating_sub(begun) < self.burn {
                std::hint::spin_loop();
            }
        }
        let Some(ballast) = &self.ballast else { return Ok(()) };
        let size = ballast.bytes.len() as u64;
        let at = ballast.at.get();
        ballast.file.write_all_at(&ballast.bytes, at)?;
        ballast.file.sync_data()?;
        let next = at + size;
        ballast.at.set(if next + size > BALLAST_BYTES_MAX { 0 } else { next });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::KnownCost;
    use crate::cpu::thread_time;
    use std::time::Duration;

    #[test]
    fn it_costs_what_it_says() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ballast");
        let cost = KnownCost::new(2000, Some(&path), 4096).expect("made");
        let begun = thread_time();
        for _ in 0..5 {
            cost.spend().expect("written");
        }
        assert!(thread_time() - begun >= Duration::from_millis(10));
        assert_eq!(std::fs::metadata(&path).expect("there").len(), 5 * 4096);
    }
}
