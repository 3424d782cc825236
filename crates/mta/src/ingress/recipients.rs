//! Recipients of a transaction that were expanded or dropped.

use super::refusals;
use super::stage::{ExpandedRecipient, Resolved};
use crate::facts::{RecipientRecords, SentFrom};
use mail::{Envelope, Mailbox, Notify, Recipient, Refusal};
use spool::RECIPIENTS_MAX;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// The resolutions of recipients in a transaction.
#[derive(Debug, Default)]
pub(super) struct Resolutions {
    /// Recipients that were not kept as given.
    others: BTreeMap<Mailbox, Resolved>,
    /// Number of recipients after expansion.
    kept: usize,
}

/// The result of applying the resolutions to an envelope.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Recipients that were dropped, if any.
    pub(super) dropped: Option<Dropped>,
    /// Indexes, in order, of expanded recipients without a list owner. They keep the message's sender.
    pub(super) instead: Vec<u32>,
    /// Records of the expanded recipients. `None` if no recipient was expanded.
    pub(super) records: Option<RecipientRecords>,
}

/// Recipients with discarded mail.
#[derive(Debug)]
pub(super) struct Dropped {
    /// The envelope as given.
    pub(super) envelope: Arc<Envelope>,
    /// Recipient indexes by reason.
    pub(super) reasons: BTreeMap<Arc<str>, Vec<u32>>,
}

impl Dropped {
    /// Drops all recipients of an envelope.
    pub(super) fn all(envelope: Envelope, reason: Arc<str>) -> Dropped {
        let indexes = (0..).take(envelope.recipients.len()).collect();
        Dropped { envelope: Arc::new(envelope), reasons: BTreeMap::from([(reason, indexes)]) }
    }
}

impl Resolutions {
    /// Checks the limit for recipients of a message after expansion.
    ///
    /// # Errors
    /// The expansion exceeds the limit together with the other recipients, or alone.
    pub(super) fn admit(&self, resolved: &Resolved) -> Result<(), Refusal> {
        match count_of(resolved) {
            count if count > RECIPIENTS_MAX => Err(refusals::BAD_ALIAS),
            count if self.kept + count > RECIPIENTS_MAX => Err(refusals::TOO_MANY_RECIPIENTS),
            _ => Ok(()),
        }
    }

    /// Notes the resolution of a recipient.
    pub(super) fn add(&mut self, given: &Mailbox, resolved: Resolved) {
        self.kept += count_of(&resolved);
        if resolved != Resolved::Kept {
            self.others.insert(given.clone(), resolved);
        }
    }

    /// Number of recipients after expansion, out of `given` in RCPT.
    pub(super) fn count_kept(&self, given: usize) -> usize {
        given.saturating_sub(self.others.len()) + self.others.values().map(count_of).sum::<usize>()
    }

    /// Applies the resolutions to the envelope. An address that occurs twice gets one copy.
    pub(super) fn apply(&mut self, envelope: &mut Envelope) -> Applied {
        if self.others.is_empty() {
            return Applied::default();
        }
        let (mut instead, mut stand) = (Vec::new(), Stand::default());
        let given = envelope.clone();
        let mut reasons: BTreeMap<Arc<str>, Vec<u32>> = BTreeMap::new();
        let mut places = BTreeMap::new();
        let before = std::mem::take(&mut envelope.recipients);
        for (recipient, index) in before.into_iter().zip(0..) {
            match self.others.remove(&recipient.mailbox) {
                None | Some(Resolved::Kept) => {
                    let put = put(recipient, envelope, &mut places);
                    stand.note_itself(&put, envelope);
                }
                Some(Resolved::Replaced(others)) => {
                    let given = Rc::new(recipient.mailbox);
                    for ExpandedRecipient { mut recipient, owner } in others {
                        // The null reverse-path stays null.
                        let owner = owner.filter(|_| envelope.reverse_path.is_some());
                        if owner.is_some() {
                            // A list ends the sender's DSN parameters, so the sender gets no reports about members (RFC
                            // 3461 §5.2.7.3).
                            (recipient.notify, recipient.orcpt) = (Notify::UNSPECIFIED, None);
                        }
                        let put = put(recipient, envelope, &mut places);
                        stand.note_other(&put, envelope, &given);
                        match owner.filter(|_| put.is_new) {
                            Some(owner) => {
                                stand.0.get_mut(put.index).from = SentFrom::Owner(owner);
                            }
                            None if put.is_new => instead.push(put.index),
                            None => {}
                        }
                    }
                }
                Some(Resolved::Dropped(reason)) => reasons.entry(reason).or_default().push(index),
            }
        }
        let dropped = (!reasons.is_empty()).then(|| Dropped { envelope: Arc::new(given), reasons });
        Applied { dropped, instead, records: Some(stand.0) }
    }
}

/// Records of the addresses in RCPT that each recipient was expanded from.
#[derive(Debug, Default)]
struct Stand(RecipientRecords);

impl Stand {
    /// The recipient was given itself.
    fn note_itself(&mut self, put: &Put, envelope: &Envelope) {
        // A recipient that was only given itself needs no record.
        if !self.0.stands_for(put.index).is_empty() {
            self.push_itself(put.index, envelope);
        }
    }

    /// The recipient was expanded from another one.
    fn note_other(&mut self, put: &Put, envelope: &Envelope, given: &Rc<Mailbox>) {
        if !put.is_new && self.0.stands_for(put.index).is_empty() {
            self.push_itself(put.index, envelope);
        }
        self.0.get_mut(put.index).stands_for.push(Rc::clone(given));
    }

    fn push_itself(&mut self, index: u32, envelope: &Envelope) {
        if let Some(own) = envelope.recipients.get(index as usize) {
            self.0.get_mut(index).stands_for.push(Rc::new(own.mailbox.clone()));
        }
    }
}

/// Number of recipients after expansion.
fn count_of(resolved: &Resolved) -> usize {
    match resolved {
        Resolved::Kept => 1,
        Resolved::Replaced(others) => others.len(),
        Resolved::Dropped(_) => 0,
    }
}

/// The position of a recipient.
struct Put {
    index: u32,
    /// It was not in the envelope before.
    is_new: bool,
}

fn put(
    recipient: Recipient,
    envelope: &mut Envelope,
    places: &mut BTreeMap<Mailbox, usize>,
) -> Put {
    let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    if let Some(at) = places.get(&recipient.mailbox)
        && let Some(known) = envelope.recipients.get_mut(*at)
    {
        known.notify = known.notify.union(recipient.notify);
        return Put { index: number(*at), is_new: false };
    }
    let index = envelope.recipients.len();
    places.insert(recipient.mailbox.clone(), index);
    envelope.recipients.push(recipient);
    Put { index: number(index), is_new: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::{BodyType, Notify};

    fn recipient(local: &str) -> Recipient {
        let mailbox = Mailbox::parse(&format!("{local}@x.test"), false).unwrap();
        Recipient { mailbox, notify: Notify::UNSPECIFIED, orcpt: None }
    }

    #[test]
    fn who_is_named_twice_gets_one_copy_and_the_dropped_are_told_by_their_places() {
        let mut resolutions = Resolutions::default();
        let members = ["b", "c"].map(|local| ExpandedRecipient::from(recipient(local))).into();
        resolutions.add(&recipient("list").mailbox, Resolved::Replaced(members));
        resolutions.add(&recipient("b").mailbox, Resolved::Kept);
        for nobody in ["n", "m"] {
            resolutions.add(&recipient(nobody).mailbox, Resolved::Dropped("unread".into()));
        }
        assert_eq!(resolutions.count_kept(5), 4);
        let mut envelope = Envelope {
            reverse_path: None,
            recipients: ["a", "n", "list", "m", "b"].map(recipient).into(),
            body: BodyType::SevenBit,
            smtputf8: false,
            ret: None,
            envid: None,
        };
        let Applied { dropped, instead, records } = resolutions.apply(&mut envelope);
        let (dropped, records) = (dropped.unwrap(), records.unwrap());
        assert_eq!(instead, [1, 2]);
        let stands_for = |index| -> Vec<&str> {
            let from = records.get(index).map(|record| &record.from);
            assert!(from.is_none_or(|from| *from == SentFrom::Sender));
            records.stands_for(index).iter().map(|given| given.local()).collect()
        };
        assert_eq!([0, 1, 2].map(stands_for), [vec![], vec!["list", "b"], vec!["list"]]);
        let kept: Vec<&str> = envelope.recipients.iter().map(|r| r.mailbox.local()).collect();
        assert_eq!(kept, ["a", "b", "c"]);
        assert_eq!(dropped.reasons, BTreeMap::from([("unread".into(), vec![1, 3])]));
        assert_eq!(dropped.envelope.recipients.len(), 5);
        let next = resolutions.apply(&mut envelope);
        assert!(next.dropped.is_none() && next.instead.is_empty(), "nothing is left for the next");
    }
}
