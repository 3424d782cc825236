//! The last failed dialogue with each next hop, for operators.

use crate::control::FailedDialogue;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Maximum number of next hops with a dialogue. A further one replaces the oldest.
pub const DIALOGUES_MAX: usize = 64;

/// Failed dialogues by next hop.
#[derive(Debug, Default)]
pub(crate) struct Dialogues(Mutex<BTreeMap<Box<str>, FailedDialogue>>);

impl Dialogues {
    /// Keeps a dialogue in place of an earlier one with the same next hop.
    pub(crate) fn keep(&self, dialogue: FailedDialogue) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !all.contains_key(&*dialogue.next_hop);
        if is_new && all.len() >= DIALOGUES_MAX {
            let oldest = all.iter().min_by_key(|(_, kept)| kept.at).map(|(name, _)| name.clone());
            oldest.and_then(|name| all.remove(&name));
        }
        all.insert(dialogue.next_hop.as_str().into(), dialogue);
    }

    pub(crate) fn of(&self, next_hop: &str) -> Option<FailedDialogue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(next_hop).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Wall;

    #[test]
    fn the_oldest_gives_way_at_the_maximum() {
        let dialogues = Dialogues::default();
        let keep = |n: usize, at: u64| {
            let (next_hop, peer, text) = (format!("smtp:{n}"), String::new(), at.to_string());
            dialogues.keep(FailedDialogue { next_hop, peer, at: Wall(at), text });
        };
        (0..DIALOGUES_MAX).for_each(|n| keep(n, n as u64));
        keep(0, 1_000);
        assert!(dialogues.of("smtp:1").is_some());
        keep(DIALOGUES_MAX, 1_001);
        assert_eq!(dialogues.of("smtp:1"), None);
        assert_eq!(dialogues.of("smtp:0").map(|kept| kept.text).as_deref(), Some("1000"));
        assert!(dialogues.of(&format!("smtp:{DIALOGUES_MAX}")).is_some());
    }
}
