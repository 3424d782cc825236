//! Rules with a cache of recent replies.

use crate::classes::{Classes, ReplyClassification};
use crate::said::{PeerReply, push_words};
use mail::Recent;
use std::sync::Arc;

/// Maximum number of cached replies. With [`crate::REPLY_BYTES_MAX`] octets each, that is half a megabyte.
pub const CACHE_MAX: usize = 1_024;

/// The classifier of one thread. Peers repeat their replies; a peer that does not costs a match for each
/// reply, and the cache keeps its size.
#[derive(Debug)]
pub struct Classifier {
    classes: Arc<Classes>,
    known: Recent<Box<str>, ReplyClassification>,
    key: String,
}

impl Classifier {
    /// A classifier with an empty cache.
    #[must_use]
    pub fn new(classes: Arc<Classes>) -> Classifier {
        Classifier { classes, known: Recent::new(CACHE_MAX), key: String::new() }
    }

    /// The rules.
    #[must_use]
    pub fn classes(&self) -> &Arc<Classes> {
        &self.classes
    }

    /// Replaces the rules and clears the cache.
    pub fn adopt(&mut self, classes: Arc<Classes>) {
        *self = Classifier::new(classes);
    }

    /// Classifies a failing reply; `None` for another reply.
    pub fn classify(&mut self, said: &PeerReply<'_>) -> Option<ReplyClassification> {
        if !said.is_failure() {
            return None;
        }
        let provider = self.classes.provider_index(said.provider);
        self.key.clear();
        push_key(said, provider, &mut self.key);
        let start = self.key.len();
        push_words(said.text, &mut self.key);
        if let Some(known) = self.known.get(&*self.key) {
            return Some(known);
        }
        let verdict = self.classes.judge(said, provider, &self.key[start..]);
        self.known.insert(self.key.as_str().into(), verdict);
        Some(verdict)
    }

    /// Number of cached replies.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.known.len()
    }
}

/// Writes all properties of a reply except its text as an unambiguous prefix of the key.
fn push_key(said: &PeerReply<'_>, provider: Option<usize>, key: &mut String) {
    use std::fmt::Write as _;
    // Writing to a String can't fail.
    let _ = match said.status {
        Some(status) => write!(key, "{} {status}", said.code),
        None => write!(key, "{} -", said.code),
    };
    let _ = match provider {
        Some(provider) => writeln!(key, " {provider}"),
        None => writeln!(key, " -"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReplyClass;

    fn said(text: &str) -> PeerReply<'_> {
        PeerReply { code: 550, status: None, provider: None, text }
    }

    #[test]
    fn different_replies_without_end_leave_the_memory_as_it_is() {
        let mut classifier = Classifier::new(Classes::builtin());
        for n in 0..3 * CACHE_MAX {
            let text = format!("{n} user unknown");
            let verdict = classifier.classify(&said(&text)).unwrap();
            assert_eq!(verdict.class, ReplyClass::UnknownRecipient);
            assert!(classifier.remembered() <= CACHE_MAX);
            // What is asked for again and again stays.
            assert_eq!(classifier.classify(&said("0 user unknown")), Some(verdict));
        }
        assert!(classifier.remembered() > CACHE_MAX / 4);
    }

    #[test]
    fn what_is_remembered_is_what_was_found() {
        let classes = Classes::builtin();
        let mut classifier = Classifier::new(Arc::clone(&classes));
        for round in 0..2 {
            for code in [250, 421, 450, 550, 552, 600] {
                for text in ["", "user unknown", "mailbox full", "rate limited", "spam"] {
                    for provider in [None, Some("google"), Some("nobody")] {
                        let said = PeerReply { code, status: None, provider, text };
                        assert_eq!(classifier.classify(&said), classes.classify(&said), "{round}");
                    }
                }
            }
        }
    }
}
