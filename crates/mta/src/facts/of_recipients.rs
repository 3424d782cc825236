//! Facts of single recipients: a record for each while a message is a draft, and lists of indexes in the spool.

use super::values::Fact;
use crate::event::Given;
use bytes::Bytes;
use mail::{Class, EnhancedStatus, Failure, Mailbox, Recipient, Refusal};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Prefix of the route of a recipient that was rejected when the message was accepted. No configured route starts with
/// it.
pub(crate) const REFUSED: &str = "<refused> ";

/// Maximum length of a stored rejection text in octets.
const REFUSED_BYTES_MAX: usize = 256;

/// The owner of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The reverse-path of the list's mail.
    pub address: Mailbox,
    /// The mailboxes to which the address expands: they get the reports.
    pub reports_to: Box<[Mailbox]>,
}

/// The reverse-path for a recipient of a draft.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SentFrom {
    #[default]
    Sender,
    /// A local address in place of the sender (SRS).
    Rewritten,
    /// The owner of the recipient's list.
    Owner(Arc<Owner>),
}

/// Facts of one recipient beside its envelope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecipientFacts {
    pub(crate) from: SentFrom,
    /// Given recipients for which it stands; empty: it was given itself, or added here.
    pub(crate) stands_for: SmallVec<[Rc<Mailbox>; 1]>,
    /// It takes the route of postmaster mail instead of its domain's.
    pub(crate) is_for_postmaster: bool,
    /// Not delivered; the reason is reported.
    pub(crate) refused: Option<Refusal>,
}

/// A record for each recipient, in the order of the envelope. Recipients without facts at the end need none: most
/// messages have no record at all.
#[derive(Debug, Default)]
pub(crate) struct RecipientRecords(Vec<RecipientFacts>);

impl RecipientRecords {
    /// `None` if it has no facts.
    pub(crate) fn get(&self, index: u32) -> Option<&RecipientFacts> {
        self.0.get(index as usize)
    }

    /// Given recipients for which this one stands; empty: for itself.
    pub(crate) fn stands_for(&self, index: u32) -> &[Rc<Mailbox>] {
        self.get(index).map_or(&[], |record| &record.stands_for)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut RecipientFacts {
        let index = index as usize;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, RecipientFacts::default);
        }
        &mut self.0[index]
    }

    /// The given recipient of each expanded one, by index, for logs. The first one, if it stands for several.
    pub(crate) fn originals(&self) -> Given {
        let first = |(record, index): (&RecipientFacts, u32)| {
            record.stands_for.first().map(|given| (index, Box::from(given.as_str())))
        };
        let all: Vec<(u32, Box<str>)> = self.0.iter().zip(0..).filter_map(first).collect();
        (!all.is_empty()).then(|| Arc::new(all))
    }

    /// All given recipients in the records.
    pub(crate) fn given(&self) -> impl Iterator<Item = &Mailbox> {
        self.0.iter().flat_map(|record| &record.stands_for).map(|given| &**given)
    }

    /// Removes a recipient as given in the envelope, with all recipients that stand for it alone. Returns false, and
    /// changes nothing, if no recipient would be left.
    pub(crate) fn remove(&mut self, recipients: &mut Vec<Recipient>, given: &Mailbox) -> bool {
        let is_kept = |(recipient, index): (&Recipient, u32)| match self.stands_for(index) {
            [] => !recipient.mailbox.is_same(given),
            known => known.iter().any(|known| !known.is_same(given)),
        };
        let kept: Vec<bool> = recipients.iter().zip(0..).map(is_kept).collect();
        if !kept.contains(&true) {
            return false;
        }
        let mut of_recipients = kept.iter();
        recipients.retain(|_| of_recipients.next() == Some(&true));
        let mut of_records = kept.iter();
        self.0.retain(|_| of_records.next() == Some(&true));
        for record in &mut self.0 {
            record.stands_for.retain(|known| !known.is_same(given));
        }
        true
    }

    /// Splits the records of `count` recipients: those of group `n` go to the n-th result.
    pub(crate) fn split(self, group_of: &[usize], groups: usize) -> Vec<RecipientRecords> {
        let mut split: Vec<RecipientRecords> = Vec::new();
        split.resize_with(groups, RecipientRecords::default);
        let has_any = !self.0.is_empty();
        let records = self.0.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        for (group, record) in group_of.iter().zip(records).filter(|_| has_any) {
            if let Some(records) = split.get_mut(*group) {
                records.0.push(record.unwrap_or_default());
            }
        }
        split
    }

    fn indexed(&self) -> impl Iterator<Item = (u32, &RecipientFacts)> {
        (0..).zip(&self.0)
    }

    /// The encoded lists.
    pub(crate) fn lists(&self) -> Lists {
        let mut lists = Lists::default();
        let (mut forwarded, mut reasons) = (Vec::new(), BTreeMap::<String, Vec<u32>>::new());
        let mut owners = BTreeMap::<&Owner, Vec<u32>>::new();
        for (index, record) in self.indexed() {
            let RecipientFacts { from, stands_for: _, is_for_postmaster, refused } = record;
            match from {
                SentFrom::Sender => {}
                SentFrom::Rewritten => forwarded.push(index),
                SentFrom::Owner(owner) => owners.entry(owner).or_default().push(index),
            }
            if *is_for_postmaster {
                lists.postmasters.extend_from_slice(&index.to_le_bytes());
            }
            if let Some(refusal) = refused {
                reasons.entry(reason_of(refusal)).or_default().push(index);
            }
        }
        lists.forwarded = runs_of(&forwarded);
        for (owner, indexes) in owners {
            let reports_to: Vec<&str> = owner.reports_to.iter().map(Mailbox::as_str).collect();
            let (address, reports_to) = (owner.address.as_str(), reports_to.join("\n"));
            let parts = [address.as_bytes(), reports_to.as_bytes(), &runs_of(&indexes)];
            parts.into_iter().for_each(|part| push_part(&mut lists.owners, part));
        }
        for (reason, indexes) in reasons {
            push_part(&mut lists.refused, &runs_of(&indexes));
            push_part(&mut lists.refused, reason.as_bytes());
        }
        lists
    }
}

/// Indexes of recipients, encoded for the spool, by fact.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    postmasters: Vec<u8>,
    forwarded: Vec<u8>,
    owners: Vec<u8>,
    refused: Vec<u8>,
}

impl Lists {
    pub(crate) fn postmasters(&self) -> Option<Places<'_>> {
        (!self.postmasters.is_empty()).then_some(Places(&self.postmasters))
    }

    pub(crate) fn forwarded(&self) -> Option<Runs<'_>> {
        (!self.forwarded.is_empty()).then_some(Runs(&self.forwarded))
    }

    pub(crate) fn owners(&self) -> Option<Owners<'_>> {
        (!self.owners.is_empty()).then_some(Owners(&self.owners))
    }

    pub(crate) fn refused(&self) -> Option<Refusals<'_>> {
        (!self.refused.is_empty()).then_some(Refusals(&self.refused))
    }
}

/// Lists are used in their encoded form.
macro_rules! lists {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name<'a>(&'a [u8]);

        impl<'a> Fact<'a> for $name<'a> {
            fn write(self) -> Bytes {
                Bytes::copy_from_slice(self.0)
            }

            fn read(value: &'a Bytes) -> Option<$name<'a>> {
                Some($name(value))
            }
        }
    )*};
}

lists! {
    /// Indexes one by one.
    Places,
    /// Indexes in order: the first of each run, and its length.
    Runs,
    /// Owners of lists, each with its report addresses and runs of recipients.
    Owners,
    /// Runs of recipients, each with a reason.
    Refusals,
}

impl Places<'_> {
    pub(crate) fn has(self, index: u32) -> bool {
        self.0.chunks(4).any(|piece| piece == index.to_le_bytes())
    }
}

impl Runs<'_> {
    pub(crate) fn has(self, index: u32) -> bool {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        self.0.chunks_exact(8).any(|run| {
            let (first, count) = run.split_at(4);
            index.checked_sub(number(first)).is_some_and(|at| at < number(count))
        })
    }
}

impl<'a> Owners<'a> {
    pub(crate) fn of(self, index: u32) -> Option<KeptOwner<'a>> {
        let mut rest = self.0;
        loop {
            let (address, reports_to, runs);
            (address, rest) = part(rest)?;
            (reports_to, rest) = part(rest)?;
            (runs, rest) = part(rest)?;
            if Runs(runs).has(index) {
                let text = |part| std::str::from_utf8(part).ok();
                return Some(KeptOwner { address: text(address)?, reports_to: text(reports_to)? });
            }
        }
    }
}

impl<'a> Refusals<'a> {
    /// The reason, after [`REFUSED`].
    pub(crate) fn of(self, index: u32) -> Option<&'a str> {
        let mut rest = self.0;
        loop {
            let (runs, reason);
            (runs, rest) = part(rest)?;
            (reason, rest) = part(rest)?;
            if Runs(runs).has(index) {
                return std::str::from_utf8(reason).ok();
            }
        }
    }
}

/// The owner of a list in encoded form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptOwner<'a> {
    /// The reverse-path of the list's mail.
    pub(crate) address: &'a str,
    /// Addresses that get the reports, one per line.
    pub(crate) reports_to: &'a str,
}

impl KeptOwner<'_> {
    /// Decodes it.
    pub(crate) fn read(self) -> Option<Owner> {
        let address = |text: &str| Mailbox::parse(text, true).ok();
        let reports_to = self.reports_to.split('\n').map(address).collect::<Option<_>>()?;
        Some(Owner { address: address(self.address)?, reports_to })
    }
}

/// The failure of recipients in a scheduled queue with this route; `None` if they were not rejected.
pub(crate) fn failure_of_refused(route: &str) -> Option<Failure> {
    let (status, text) = route.strip_prefix(REFUSED)?.split_once(' ')?;
    let mut numbers = status.split('.').map(|number| number.parse::<u16>().ok());
    let (subject, detail) = (numbers.nth(1)??, numbers.next()??);
    let status = EnhancedStatus::new(5, subject, detail);
    Some(Failure::local(Class::Permanent, status, text))
}

fn reason_of(refusal: &Refusal) -> String {
    let mut reason = format!("{REFUSED}{} {}", refusal.status, refusal.text);
    reason.truncate(reason.floor_char_boundary(REFUSED_BYTES_MAX));
    reason
}

fn runs_of(indexes: &[u32]) -> Vec<u8> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == *index => *count += 1,
            _ => runs.push((*index, 1)),
        }
    }
    let numbers = runs.into_iter().flat_map(|(first, count)| [first, count]);
    numbers.flat_map(u32::to_le_bytes).collect()
}

fn push_part(list: &mut Vec<u8>, part: &[u8]) {
    list.extend_from_slice(&(part.len() as u32).to_le_bytes());
    list.extend_from_slice(part);
}

/// Splits off a part that has its length before it; `None` at the end.
pub(super) fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
