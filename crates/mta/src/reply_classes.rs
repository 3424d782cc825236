//! Classification of peers' negative replies, for a shard.

use classes::{Classes, Classifier, PeerReply, ReplyClassification, without_words};
use config::shaping::Providers;
use mail::{Culprit, EnhancedStatus, Failure, Reply};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

/// The rules in force, for all shards.
#[derive(Debug)]
pub(crate) struct ClassesInForce(Mutex<Arc<Classes>>);

impl Default for ClassesInForce {
    fn default() -> ClassesInForce {
        ClassesInForce(Mutex::new(Classes::builtin()))
    }
}

impl ClassesInForce {
    pub(crate) fn get(&self) -> Arc<Classes> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, classes: Arc<Classes>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = classes;
    }
}

/// Classifies replies by the rules, with a cache.
#[derive(Debug)]
pub(crate) struct ReplyClasses {
    classifier: RefCell<Classifier>,
    /// Maps hosts to providers.
    providers: RefCell<Providers>,
}

impl ReplyClasses {
    pub(crate) fn new(classes: Arc<Classes>, providers: Providers) -> ReplyClasses {
        let classifier = RefCell::new(Classifier::new(classes));
        ReplyClasses { classifier, providers: RefCell::new(providers) }
    }

    /// Replaces the rules and providers.
    pub(crate) fn adopt(&self, classes: Arc<Classes>, providers: Providers) {
        self.classifier.borrow_mut().adopt(classes);
        *self.providers.borrow_mut() = providers;
    }

    /// The class of a failure by a peer's reply. Local errors and network errors have no class.
    pub(crate) fn of(&self, failure: &Failure) -> Option<ReplyClassification> {
        let (Culprit::Peer(peer), Some(heard)) = (&failure.culprit, failure.heard()) else {
            return None;
        };
        let mut classifier = self.classifier.borrow_mut();
        let providers = self.providers.borrow();
        let provider = providers.of(host_of(peer));
        let (code, status) = (heard.code, heard.enhanced);
        classifier.classify(&PeerReply { code, status, provider, text: &heard.text })
    }
}

/// Removes these strings from a peer's reply, for matching.
pub(crate) fn leave_out_of(failure: &mut Failure, ours: &[String]) {
    let Some(reply) = failure.reply.as_ref().filter(|_| failure.heard.is_none()) else { return };
    let words: Vec<&str> = ours.iter().map(String::as_str).collect();
    let text = without_words(&reply.text, &words);
    // A name may look like a status code, and be repeated in its place.
    let is_own = |status: &EnhancedStatus| words.contains(&&*status.to_string());
    let enhanced = reply.enhanced.filter(|status| !is_own(status));
    if *text != *reply.text || enhanced != reply.enhanced {
        failure.heard = Some(Box::new(Reply { code: reply.code, enhanced, text: text.into() }));
    }
}

/// The host's name in `mx.example.com[192.0.2.1]:25` or `mx.example.com:25`.
fn host_of(peer: &str) -> &str {
    match peer.split_once(['[', ':']) {
        Some((host, _)) => host,
        None => peer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::classes::{FailureKind, ReplyClass};
    use mail::{Class, Step};

    fn of(failure: &Failure) -> Option<(ReplyClass, FailureKind)> {
        let classes = ReplyClasses::new(Classes::builtin(), Providers::default());
        classes.of(failure).map(|verdict| (verdict.class, verdict.kind))
    }

    #[test]
    fn providers_that_our_rules_name_are_known() {
        let known = Providers::default();
        for (name, _) in Classes::builtin().providers() {
            assert!(known.knows(name), "{name}");
        }
    }

    #[test]
    fn what_a_peer_repeats_has_no_class() {
        for (local, text) in [
            ("spamhaus", "User spamhaus unknown"),
            ("virus-alert", "virus-alert: no such mailbox"),
            ("mailbox.full", "unknown user mailbox.full"),
        ] {
            let mut failure = Failure::peer("mx.test", Reply::bare(550, text), Step::RcptTo);
            leave_out_of(&mut failure, &[local.to_owned()]);
            assert_eq!(of(&failure).map(|of| of.0), Some(ReplyClass::UnknownRecipient), "{text}");
        }
    }

    #[test]
    fn peers_are_known_by_their_host() {
        for (peer, host) in [
            ("mx.a.test[192.0.2.1]:25", "mx.a.test"),
            ("mx.a.test:25", "mx.a.test"),
            ("mx.a.test", "mx.a.test"),
            ("[2001:db8::1]:25", ""),
        ] {
            assert_eq!(host_of(peer), host);
        }
        let reply = Reply::new(550, (5, 4, 1), "Recipient address rejected: Access denied.");
        let at = |host: &str| of(&Failure::peer(host, reply.clone(), Step::RcptTo)).unwrap().0;
        assert_eq!(
            at("a-test.mail.protection.outlook.com[192.0.2.1]:25"),
            ReplyClass::UnknownRecipient
        );
        assert_eq!(at("mx.a.test[192.0.2.1]:25"), ReplyClass::Policy);
    }

    #[test]
    fn only_what_a_peer_said_has_a_class() {
        let status = EnhancedStatus::new(4, 3, 1);
        assert_eq!(of(&Failure::local(Class::Permanent, status, "mailbox full")), None);
        assert_eq!(of(&Failure::network("mx:25", status, "connection timed out")), None);
        let reply = Reply::new(452, (4, 2, 2), "mailbox full");
        let said = Failure::peer("mx", reply.clone(), Step::RcptTo);
        assert_eq!(of(&said), Some((ReplyClass::MailboxFull, FailureKind::Soft)));
        let ours = Failure { culprit: Culprit::Local, ..said };
        assert_eq!(of(&ours), None);
        // A positive reply in the wrong place has no class.
        assert_eq!(of(&Failure::peer("mx", Reply::bare(250, "mailbox full"), Step::Data)), None);
    }
}
