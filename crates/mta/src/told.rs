//! What was told on the console a moment ago: shards find out the same, and one line is enough.

use mail::Mono;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What was told, by name, and until when it is no news.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<BTreeMap<Arc<str>, Mono>>);

impl Told {
    /// Whether it is news, which it is no more for so long then.
    pub(crate) fn is_news(&self, name: &Arc<str>, now: Mono, lasts: Duration) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, until| *until > now);
        told.insert(Arc::clone(name), now + lasts).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_again_and_again_is_told_once() {
        let (told, lasts) = (Told::default(), Duration::from_secs(60));
        let (one, other): (Arc<str>, Arc<str>) = ("ip-1".into(), "ip-2".into());
        assert!(told.is_news(&one, Mono(0), lasts) && !told.is_news(&one, Mono(1), lasts));
        assert!(told.is_news(&other, Mono(2), lasts));
        assert!(told.is_news(&one, Mono(2) + lasts, lasts));
    }
}
