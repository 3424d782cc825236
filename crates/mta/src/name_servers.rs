//! Whether the name servers answer, as far as the lookups of all shards tell. A zone that is dead makes
//! its own domains wait; when no name at all is found any more, that is worth a line of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// So many lookups in a row, of whatever names, that got no answer.
const SILENCE_MIN: u32 = 8;

/// What the lookups came to lately.
#[derive(Debug, Default)]
pub struct NameServers {
    /// Lookups without an answer since the last that had one.
    unanswered: AtomicU32,
    /// Why the last of them had none, once it was told.
    told: Mutex<Option<String>>,
}

impl NameServers {
    /// A lookup was answered, if only by "there is no such name". Whether that is news.
    pub(crate) fn answered(&self) -> bool {
        // Nearly always nothing is to be done: a read that others can share.
        if self.unanswered.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.unanswered.store(0, Ordering::Relaxed);
        self.told.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    /// A lookup got no answer. How many it was in a row, if it is time to tell.
    pub(crate) fn unanswered(&self, reason: &str) -> Option<u32> {
        let count = self.unanswered.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if count < SILENCE_MIN {
            return None;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = told.is_none();
        *told = Some(reason.to_owned());
        is_news.then_some(count)
    }

    /// A sentence while they do not answer.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.as_ref().map(|reason| format!("the name servers do not answer: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_told_once_and_so_is_its_end() {
        let servers = NameServers::default();
        assert!(!servers.answered(), "there was no trouble");
        for _ in 1..SILENCE_MIN {
            assert_eq!(servers.unanswered("timed out"), None);
        }
        assert_eq!(servers.trouble(), None);
        assert_eq!(servers.unanswered("timed out"), Some(SILENCE_MIN));
        assert_eq!(servers.unanswered("SERVFAIL"), None, "told already");
        assert_eq!(servers.trouble().as_deref(), Some("the name servers do not answer: SERVFAIL"));
        assert!(servers.answered());
        assert!(!servers.answered());
        assert_eq!(servers.trouble(), None);
    }

    #[test]
    fn an_answer_in_between_is_an_answer() {
        let servers = NameServers::default();
        for _ in 0..10 * SILENCE_MIN {
            assert_eq!(servers.unanswered("timed out"), None);
            assert!(!servers.answered());
        }
    }
}
