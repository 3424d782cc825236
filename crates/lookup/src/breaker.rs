//! Keeps questions from a server that does not answer.

use super::{LookupError, LookupErrorKind};
use mail::Mono;
use std::time::Duration;

/// Number of unanswered requests in a row that opens the breaker.
pub const FAILURES_MAX: u32 = 5;
/// First pause before a probe tests the server again.
pub const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// Each try that fails doubles the pause, up to this.
pub const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Closed while the server answers; open, with a probe now and then, while it does not.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// Requests in a row without an answer.
    failures: u32,
    /// Error of the last of these requests.
    trouble: Option<LookupError>,
    open: Option<OpenCircuit>,
}

#[derive(Debug)]
struct OpenCircuit {
    pause: Duration,
    /// Time of the next probe; [`Mono::NEVER`] while one is pending.
    probe_at: Mono,
}

impl Breaker {
    /// The error for all lookups while the breaker is open.
    pub(super) fn refusal(&self) -> Option<&LookupError> {
        self.open.as_ref().and(self.trouble.as_ref())
    }

    /// The error of the last request; `None` after an answer.
    pub(super) fn trouble(&self) -> Option<&LookupError> {
        self.trouble.as_ref()
    }

    /// Time of the next probe; [`Mono::NEVER`] if none is due.
    pub(super) fn probe_at(&self) -> Mono {
        self.open.as_ref().map_or(Mono::NEVER, |open| open.probe_at)
    }

    /// A probe begins.
    pub(super) fn begin_probe(&mut self) {
        if let Some(open) = &mut self.open {
            open.probe_at = Mono::NEVER;
        }
    }

    /// The server has answered any request.
    pub(super) fn handle_answer(&mut self) {
        *self = Breaker::default();
    }

    /// A request failed: with `trouble`, or without evidence about the server. Returns true if this opens the breaker.
    pub(super) fn handle_failure(
        &mut self,
        now: Mono,
        trouble: Option<LookupError>,
        is_probe: bool,
    ) -> bool {
        if let Some(open) = &mut self.open {
            // Requests from before the opening give no new information.
            if is_probe {
                if trouble.is_some() {
                    open.pause = (open.pause * 2).min(PAUSE_MAX);
                }
                open.probe_at = now + open.pause;
                self.trouble = trouble.or(self.trouble.take());
            }
            return false;
        }
        let Some(trouble) = trouble else { return false };
        self.failures += 1;
        self.trouble = Some(trouble);
        if self.failures < FAILURES_MAX {
            return false;
        }
        self.open = Some(OpenCircuit { pause: PAUSE_FIRST, probe_at: now + PAUSE_FIRST });
        true
    }
}

/// Returns true if an error means that the server does not answer, rather than a problem of one key or too many
/// lookups.
pub(super) fn is_silence(trouble: &LookupError) -> bool {
    match trouble.kind {
        LookupErrorKind::Unreachable | LookupErrorKind::Timeout | LookupErrorKind::Wrong => true,
        LookupErrorKind::Key | LookupErrorKind::Busy => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead() -> Option<LookupError> {
        Some(LookupError::new(LookupErrorKind::Unreachable, "connection refused"))
    }

    fn opened(at: Mono) -> Breaker {
        let mut breaker = Breaker::default();
        for n in 1..=FAILURES_MAX {
            assert_eq!(breaker.handle_failure(at, dead(), false), n == FAILURES_MAX, "{n}");
            assert_eq!(breaker.refusal().is_some(), n == FAILURES_MAX);
            assert!(breaker.trouble().is_some());
        }
        breaker
    }

    #[test]
    fn it_opens_at_so_many_failures_in_a_row_and_no_sooner() {
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            for _ in 1..FAILURES_MAX {
                assert!(!breaker.handle_failure(Mono(0), dead(), false));
            }
            // A busy pool is neither an answer nor a silence.
            assert!(!breaker.handle_failure(Mono(0), None, false));
            breaker.handle_answer();
            assert_eq!((breaker.trouble(), breaker.probe_at()), (None, Mono::NEVER));
        }
        opened(Mono(0));
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew() {
        let mut now = Mono(0);
        let mut breaker = opened(now);
        for seconds in [1, 2, 4, 8, 16, 30, 30, 30] {
            assert_eq!(breaker.probe_at().since(now), Duration::from_secs(seconds));
            now = breaker.probe_at();
            breaker.begin_probe();
            assert_eq!(breaker.probe_at(), Mono::NEVER, "one at a time");
            assert!(!breaker.handle_failure(now, dead(), true));
        }
        breaker.handle_answer();
        assert_eq!(breaker.refusal(), None);
        assert_eq!(opened(now).probe_at().since(now), PAUSE_FIRST);
    }

    #[test]
    fn requests_from_before_it_opened_change_no_pause() {
        let mut breaker = opened(Mono(0));
        let probe_at = breaker.probe_at();
        assert!(!breaker.handle_failure(Mono(5), dead(), false));
        assert_eq!(breaker.probe_at(), probe_at);
        breaker.begin_probe();
        assert!(!breaker.handle_failure(probe_at, dead(), false));
        assert_eq!(breaker.probe_at(), Mono::NEVER);
        // A probe that found out nothing is made again, no later than the last.
        assert!(!breaker.handle_failure(probe_at, None, true));
        assert_eq!(breaker.probe_at().since(probe_at), PAUSE_FIRST);
        assert_eq!(breaker.refusal(), dead().as_ref());
    }
}
