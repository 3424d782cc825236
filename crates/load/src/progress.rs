//! How far a run is: a bar on a terminal, otherwise a line every few seconds, both on stderr.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Between two lines when stderr is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Between two drawings of the bar.
const BAR_INTERVAL: Duration = Duration::from_millis(100);

/// Shows one count on its way to a total.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    total: Option<u64>,
    bar: Option<ProgressBar>,
    begun: Instant,
    last: (Instant, u64),
}

impl Progress {
    /// `what` is counted, for instance `sent`.
    #[must_use]
    pub fn new(what: &'static str, total: Option<u64>) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(10));
            let template = match total {
                Some(_) => "{wide_bar} {pos}/{len} {msg} {per_sec}, {eta} left",
                None => "{spinner} {pos} {msg} {per_sec}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_message(what);
            bar
        });
        let now = Instant::now();
        Progress { what, total, bar, begun: now, last: (now, 0) }
    }

    /// Shows `count` again and again; never ends, to be dropped.
    pub async fn follow(mut self, count: impl Fn() -> u64) {
        let interval = if self.bar.is_some() { BAR_INTERVAL } else { LINE_INTERVAL };
        loop {
            tokio::time::sleep(interval).await;
            self.show(count());
        }
    }

    /// Shows `count` now, if the last time is long enough ago.
    pub fn tell(&mut self, count: u64) {
        if self.bar.is_some() || self.last.0.elapsed() >= LINE_INTERVAL {
            self.show(count);
        }
    }

    fn show(&mut self, count: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(count);
            return;
        }
        let now = Instant::now();
        let (then, before) = self.last;
        self.last = (now, count);
        let total = self.total.map(|total| format!("/{total}")).unwrap_or_default();
        let rate = crate::stats::rate(count.saturating_sub(before), now - then);
        let seconds = (now - self.begun).as_secs();
        // Silence while nothing happens: an idle sink must not fill a log.
        if count != before {
            eprintln!("{seconds:>5} s: {count}{total} {}, {rate:.0}/s", self.what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
