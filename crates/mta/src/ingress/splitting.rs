//! Splits a message into several, for recipients with different content.

use super::draft::Draft;
use super::intake::Content;
use super::refusals;
use crate::facts::{Owner, SentFrom};
use mail::{Envelope, Mailbox, Recipient, Refusal};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Draft {
    /// Splits the message: recipients of group 0 stay, and those of each further group get a message with the same
    /// content, sender and options. `group_of` is the group of each recipient.
    ///
    /// # Errors
    /// The content can't be copied.
    pub async fn split(&mut self, group_of: &[usize]) -> Result<(), Refusal> {
        let groups = group_of.iter().max().map_or(1, |last| last + 1);
        // Recipients move last: a refusal in between names them all.
        for _ in 1..groups {
            let twin = self.twin().await?;
            self.twins.push(twin);
        }
        let mut recipients: Vec<Vec<Recipient>> = vec![Vec::new(); groups];
        let of_recipients = std::mem::take(&mut self.envelope.recipients).into_iter();
        for (recipient, group) in of_recipients.zip(group_of) {
            recipients[*group].push(recipient);
        }
        let records = std::mem::take(&mut self.records).split(group_of, groups);
        for (group, parts) in recipients.into_iter().zip(records).enumerate() {
            if let Some(part) = self.part_mut(group) {
                (part.envelope.recipients, part.records) = parts;
            }
        }
        Ok(())
    }

    /// Undoes [`Draft::split`] for a refusal: all recipients are in this message, and no part has a body file.
    pub(super) fn rejoin(&mut self) {
        self.forget_blob();
        for mut twin in std::mem::take(&mut self.twins) {
            twin.forget_blob();
            self.envelope.recipients.append(&mut twin.envelope.recipients);
        }
    }

    /// The message for recipients of a group: this one for group 0, else one split off.
    #[must_use]
    pub fn part_mut(&mut self, group: usize) -> Option<&mut Draft> {
        match group.checked_sub(1) {
            None => Some(self),
            Some(at) => self.twins.get_mut(at),
        }
    }

    /// Replaces recipients by these, in the order of the envelope; `None` stays. Of recipients with the same address the
    /// first one is kept. Returns false for each recipient that is dropped.
    pub fn rename_recipients(&mut self, names: Vec<Option<Mailbox>>) -> Vec<bool> {
        for (recipient, name) in self.envelope.recipients.iter_mut().zip(names) {
            if let Some(name) = name {
                recipient.mailbox = name;
            }
        }
        let mut seen = BTreeSet::new();
        let key = |one: &Recipient| {
            let local = one.mailbox.local_unquoted().into_owned();
            (local, one.mailbox.domain_str().to_ascii_lowercase())
        };
        let all = self.envelope.recipients.iter();
        let is_kept: Vec<bool> = all.map(|one| seen.insert(key(one))).collect();
        if is_kept.contains(&false) {
            let group_of: Vec<usize> = is_kept.iter().map(|kept| usize::from(!kept)).collect();
            let mut records = std::mem::take(&mut self.records).split(&group_of, 2);
            self.records = records.swap_remove(0);
            let mut kept = is_kept.iter();
            self.envelope.recipients.retain(|_| kept.next() == Some(&true));
        }
        is_kept
    }

    /// The owner of the list that has a recipient: the sender of the recipient's copy.
    #[must_use]
    pub fn owner_of(&self, index: usize) -> Option<&Mailbox> {
        let record = u32::try_from(index).ok().and_then(|index| self.records.get(index))?;
        match &record.from {
            SentFrom::Owner(owner) => Some(&owner.address),
            SentFrom::Sender | SentFrom::Rewritten => None,
        }
    }

    /// Replaces the addresses of owners, in the order of the recipients; `None` stays. Reports go to the same mailboxes.
    pub fn rename_owners(&mut self, names: Vec<Option<Mailbox>>) {
        // Members of a list share its owner.
        let mut last: Option<(Arc<Owner>, Arc<Owner>)> = None;
        for (index, name) in (0..).zip(names) {
            let Some(name) = name else { continue };
            let record = self.records.get_mut(index);
            let SentFrom::Owner(owner) = &mut record.from else { continue };
            let known =
                last.as_ref().filter(|(old, new)| Arc::ptr_eq(old, owner) && new.address == name);
            let new = match known {
                Some((_, new)) => Arc::clone(new),
                None => Arc::new(Owner { address: name, reports_to: owner.reports_to.clone() }),
            };
            last = Some((std::mem::replace(owner, Arc::clone(&new)), new));
        }
    }

    /// A message with the same content and no recipients. It shares the content in memory; a body file is copied.
    async fn twin(&self) -> Result<Draft, Refusal> {
        let id = self.contents.id_beside(self.content.id).ok_or(refusals::STOPPING)?;
        let content = Content { id, blob: None, pieces: self.content.pieces.clone() };
        let envelope = Envelope { recipients: Vec::new(), ..self.envelope.clone() };
        let mut twin = self.like(content, envelope);
        if self.content.blob.is_some() {
            let mut copy = twin.gather();
            let mut offset = 0;
            loop {
                let piece = self.read(offset).await?;
                if piece.is_empty() {
                    break;
                }
                copy.push(&piece).await?;
                offset += piece.len() as u64;
            }
            twin.replace_content(copy.finish().await?);
        }
        Ok(twin)
    }

    /// Number of recipients, with those of messages split off.
    pub(super) fn recipients_count(&self) -> usize {
        let twins = self.twins.iter().map(|twin| twin.envelope.recipients.len());
        self.envelope.recipients.len() + twins.sum::<usize>()
    }
}
