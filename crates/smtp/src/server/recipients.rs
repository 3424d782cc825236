//! Finds recipients that a transaction has already.

use mail::{Mailbox, Recipient};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Up to this number of recipients, a linear search is used.
const FEW: usize = 8;

/// Finds a recipient that was accepted before, in time that hardly grows with their number.
#[derive(Debug, Default)]
pub(super) struct RecipientIndex {
    /// Fingerprint and index of the recipients indexed so far: always a prefix of the list.
    seen: BTreeSet<(u64, u32)>,
}

impl RecipientIndex {
    /// Position of the recipient that an earlier RCPT named. `recipients` are those of the last call, and the ones
    /// added since.
    pub(super) fn find(&mut self, recipients: &[Recipient], mailbox: &Mailbox) -> Option<usize> {
        if recipients.len() <= FEW {
            return recipients.iter().position(|recipient| recipient.mailbox.is_same(mailbox));
        }
        for (at, recipient) in (0..).zip(recipients).skip(self.seen.len()) {
            self.seen.insert((fingerprint(&recipient.mailbox), at));
        }
        let print = fingerprint(mailbox);
        let alike = self.seen.range((print, 0)..=(print, u32::MAX)).map(|(_, at)| *at as usize);
        let is_same = |at: &usize| recipients.get(*at).is_some_and(|r| r.mailbox.is_same(mailbox));
        alike.into_iter().find(is_same)
    }
}

/// Merges the options of `again`, which names the same mailbox, into the recipient at `at`: it gets one copy, as in
/// Postfix and Exim.
pub(super) fn merge(recipients: &mut [Recipient], at: usize, again: Recipient) {
    if let Some(recipient) = recipients.get_mut(at) {
        recipient.notify = recipient.notify.union(again.notify);
        recipient.orcpt = recipient.orcpt.take().or(again.orcpt);
    }
}

/// Hash of a mailbox, equal for equal mailboxes.
fn fingerprint(mailbox: &Mailbox) -> u64 {
    let mut hasher = DefaultHasher::new();
    if mailbox.has_domain() {
        mailbox.local_unquoted().hash(&mut hasher);
        mailbox.domain().as_str().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Notify;

    fn recipient(text: &str) -> Recipient {
        let mailbox = Mailbox::parse(text, false).expect("an address");
        Recipient { mailbox, notify: Notify::UNSPECIFIED, orcpt: None }
    }

    #[test]
    fn each_is_found_among_few_and_among_many() {
        let mut index = RecipientIndex::default();
        let mut recipients = Vec::new();
        for number in 0..1_000_usize {
            let other_form = recipient(&format!("\"u{number}\"@HOST.example")).mailbox;
            assert_eq!(index.find(&recipients, &other_form), None, "{number}");
            recipients.push(recipient(&format!("u{number}@host.example")));
            for at in [0, number / 2, number] {
                let other_form = recipient(&format!("\"u{at}\"@Host.Example")).mailbox;
                assert_eq!(index.find(&recipients, &other_form), Some(at));
            }
        }
        assert_eq!(index.find(&recipients, &recipient("U1@host.example").mailbox), None);
        recipients.push(recipient("postmaster"));
        assert_eq!(index.find(&recipients, &recipient("PostMaster").mailbox), Some(1_000));
    }
}
