//! Progress of a build on stderr: a bar on a terminal, otherwise a line every few seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Read};
use std::time::{Duration, Instant};

/// Between two lines when stderr is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Number of keys between two readings of the clock.
const KEYS_STEP: u64 = 10_000;

/// Shows how much of the source was read.
pub(super) struct BuildProgress {
    bar: Option<ProgressBar>,
    begun: Instant,
    told: Instant,
    keys_count: u64,
}

impl BuildProgress {
    /// `total_bytes` is the length of the source, where it is known.
    pub(super) fn new(total_bytes: Option<u64>) -> BuildProgress {
        let bar = io::stderr().is_terminal().then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(10);
            let bar = ProgressBar::with_draw_target(total_bytes, target);
            let template = match total_bytes {
                Some(_) => "{wide_bar} {bytes}/{total_bytes} {msg}, {eta} left",
                None => "{spinner} {bytes} {msg}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        BuildProgress { bar, begun: now, told: now, keys_count: 0 }
    }

    /// Counts the octets read from `reader`.
    pub(super) fn reading<R>(&self, reader: R) -> ProgressReader<R> {
        ProgressReader { reader, bar: self.bar.clone() }
    }

    /// Another key was taken.
    pub(super) fn add_key(&mut self) {
        self.keys_count += 1;
        if !self.keys_count.is_multiple_of(KEYS_STEP) {
            return;
        }
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} keys", self.keys_count));
        } else if self.told.elapsed() >= LINE_INTERVAL {
            self.tell(&format!("{} keys", self.keys_count));
        }
    }

    /// All keys were taken.
    pub(super) fn add_index(&mut self) {
        match &self.bar {
            Some(bar) => bar.set_message("writing the index"),
            None if self.begun.elapsed() >= LINE_INTERVAL => {
                self.tell(&format!("{} keys, writing the index", self.keys_count));
            }
            None => {}
        }
    }

    fn tell(&mut self, text: &str) {
        self.told = Instant::now();
        eprintln!("{:>5} s: {text}", self.begun.elapsed().as_secs());
    }
}

impl Drop for BuildProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A reader that moves the bar.
pub(super) struct ProgressReader<R> {
    reader: R,
    bar: Option<ProgressBar>,
}

impl<R: Read> Read for ProgressReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        if let Some(bar) = &self.bar {
            bar.inc(count as u64);
        }
        Ok(count)
    }
}
