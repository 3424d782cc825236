//! The rewriting of one message.

use super::map::{MapError, is_changeable, rewritten};
use super::settings::{AddressKind, RewriteRule};
use super::{RewriteStage, RewriteText, spans};
use crate::stages::edits::Edits;
use crate::stages::header_text;
use config::{MailFacts, StageSection as _};
use mail::header::Field;
use mail::{Mailbox, MessageId, Refusal};
use mta::ingress::{Draft, Session, no_answer};
use mta::seams::{Time as _, World};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Messages that one message may become.
const MESSAGES_MAX: usize = 16;
/// Recipients of one message take too many kinds of rewriting: an error of the configuration.
const TOO_MANY_MESSAGES: Refusal =
    Refusal::transient((3, 5), "Server configuration error; try again later");

/// Addresses of one message that are looked up; further ones stay as they are.
const ADDRESSES_MAX: usize = 10_000;
/// Addresses looked up before a pause, in which other sessions run.
const BETWEEN_PAUSES: usize = 200;
/// Length of the pause.
const PAUSE: Duration = Duration::from_millis(1);
/// Console lines for one message.
const LOGGED_MAX: usize = 10;

/// The rules for each recipient.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// Lists of rules that change the sender or the content, each for some recipients; the first is that of the first
    /// recipient.
    pub(super) groups: Vec<Vec<usize>>,
    /// The list for each recipient.
    pub(super) group_of: Vec<usize>,
}

impl Selection {
    fn push(&mut self, rules: &[usize]) {
        let known = self.groups.iter().position(|group| *group == rules);
        self.group_of.push(known.unwrap_or(self.groups.len()));
        if known.is_none() {
            self.groups.push(rules.to_vec());
        }
    }

    /// Without the recipients that are not kept.
    fn retain(self, is_kept: &[bool]) -> Selection {
        let mut kept = Selection::default();
        let groups = self.group_of.iter().zip(is_kept).filter(|(_, kept)| **kept);
        for (group, _) in groups {
            kept.push(self.groups.get(*group).map_or(&[], Vec::as_slice));
        }
        kept
    }
}

/// New header fields, each with the position of the one that it replaces, in order.
pub(super) type ChangedFields = Vec<(Range<usize>, Vec<u8>)>;

/// The changes for some recipients of a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// The new sender. `None`: it stays.
    pub(super) sender: Option<Mailbox>,
    /// Of the fields that this server added.
    pub(super) added: ChangedFields,
    /// Of the content.
    pub(super) header: ChangedFields,
}

impl Changes {
    /// Changes the message.
    ///
    /// # Errors
    /// The content can't be read or stored.
    pub(super) async fn apply(self, draft: &mut Draft) -> Result<(), Refusal> {
        if self.sender.is_some() {
            draft.set_sender(self.sender);
        }
        if !self.added.is_empty() {
            let text = replaced(draft.added_fields(), self.added);
            draft.replace_added_fields(text);
        }
        let mut edits = Edits::default();
        for (range, field) in self.header {
            edits.put(range.start as u64..range.end as u64, field, true)?;
        }
        edits.apply(draft).await
    }
}

fn replaced(text: &[u8], changed: ChangedFields) -> Vec<u8> {
    let (mut new, mut from) = (Vec::with_capacity(text.len()), 0);
    for (range, field) in changed {
        new.extend_from_slice(text.get(from..range.start).unwrap_or_default());
        new.extend_from_slice(&field);
        from = range.end;
    }
    new.extend_from_slice(text.get(from..).unwrap_or_default());
    new
}

/// The rewriting of one message.
pub(super) struct Rewriting<'a, W: World> {
    stage: &'a RewriteStage<W>,
    /// Lookups take turns with those of other clients.
    tables: W::Tables,
    /// Addresses may have characters beyond ASCII.
    smtputf8: bool,
    id: MessageId,
    /// Results of lookups, by rule and address.
    known: BTreeMap<(usize, Mailbox), Option<Mailbox>>,
    logged: usize,
}

impl<'a, W: World> Rewriting<'a, W> {
    pub(super) fn new(
        stage: &'a RewriteStage<W>,
        session: &Session,
        draft: &Draft,
    ) -> Rewriting<'a, W> {
        let asker = session.client().requester();
        let tables = stage.world.tables(asker);
        let (smtputf8, id) = (draft.envelope().smtputf8, draft.id());
        Rewriting { stage, tables, smtputf8, id, known: BTreeMap::new(), logged: 0 }
    }

    /// Finds the rules for each recipient, and replaces recipients. A rule sees the recipient after earlier rules.
    pub(super) async fn select(
        &mut self,
        session: &Session,
        draft: &mut Draft,
    ) -> Result<Selection, Refusal> {
        let (client, stage) = (session.client(), self.stage);
        let (sender, tenant) = (draft.envelope().reverse_path.clone(), draft.tenancy().cloned());
        let facts = MailFacts { sender: sender.as_ref(), ..client.facts(tenant.as_ref()) };
        let mut selection = Selection::default();
        let count = draft.envelope().recipients.len();
        let (mut names, mut owners) = (Vec::with_capacity(count), Vec::new());
        let mut rules = Vec::with_capacity(stage.rules.all.len());
        for (index, recipient) in draft.envelope().recipients.iter().enumerate() {
            rules.clear();
            let mut current = recipient.mailbox.clone();
            for (at, rule) in stage.rules.all.iter().enumerate() {
                let facts = MailFacts { recipient: Some(&current), ..facts };
                if !self.is_for(rule, &facts, session.may_relay()).await? {
                    continue;
                }
                rules.extend(rule.changes_content().then_some(at));
                let new = self.look_up(&[at], AddressKind::EnvelopeRecipient, &current).await?;
                current = new.unwrap_or(current);
            }
            selection.push(&rules);
            names.push((current != recipient.mailbox).then_some(current));
            // The sender of this copy. Mail without a sender keeps none.
            if let Some(owner) = draft.owner_of(index).filter(|_| sender.is_some()) {
                let new = self.look_up(&rules, AddressKind::EnvelopeSender, owner).await?;
                owners.resize(index + 1, None);
                owners[index] = new;
            }
        }
        draft.rename_owners(owners);
        if names.iter().all(Option::is_none) {
            return Ok(selection);
        }
        let is_kept = draft.rename_recipients(names);
        Ok(if is_kept.contains(&false) { selection.retain(&is_kept) } else { selection })
    }

    /// Returns true if a rule applies to the recipient in `facts`.
    async fn is_for(
        &self,
        rule: &RewriteRule,
        facts: &MailFacts<'_>,
        may_relay: bool,
    ) -> Result<bool, Refusal> {
        let RewriteStage { rules, console, .. } = self.stage;
        let is_for = rules.is_for(rule, &self.tables, facts, may_relay).await;
        is_for.map_err(|trouble| no_answer(&**console, &trouble))
    }

    /// The changes for each group of recipients, and the group of each recipient. Recipients with the same changes are
    /// one group.
    pub(super) async fn changes(
        &mut self,
        draft: &Draft,
        selection: Selection,
    ) -> Result<(Vec<Changes>, Vec<usize>), Refusal> {
        let mut rules = selection.groups.iter().flatten();
        let rule = |at: &usize| self.stage.rules.all.get(*at);
        let content = match rules.any(|at| rule(at).is_some_and(RewriteRule::changes_header)) {
            true => header_text(draft).await?.0,
            false => Vec::new(),
        };
        let (mut all, mut place_of) = (Vec::new(), Vec::with_capacity(selection.groups.len()));
        for rules in &selection.groups {
            let changes = self.changes_by(draft, &content, rules).await?;
            let known = all.iter().position(|known| *known == changes);
            place_of.push(known.unwrap_or(all.len()));
            if known.is_none() {
                all.push(changes);
            }
            if all.len() > MESSAGES_MAX {
                return Err(TOO_MANY_MESSAGES);
            }
        }
        let of_group = |group: &usize| place_of.get(*group).copied().unwrap_or_default();
        let group_of = selection.group_of.iter().map(of_group).collect();
        Ok((all, group_of))
    }

    async fn changes_by(
        &mut self,
        draft: &Draft,
        content: &[u8],
        rules: &[usize],
    ) -> Result<Changes, Refusal> {
        let sender = match &draft.envelope().reverse_path {
            Some(sender) => self.look_up(rules, AddressKind::EnvelopeSender, sender).await?,
            None => None,
        };
        let added = self.header(rules, draft.added_fields()).await?;
        let header = self.header(rules, content).await?;
        Ok(Changes { sender, added, header })
    }

    /// The changed fields of a header.
    async fn header(&mut self, rules: &[usize], header: &[u8]) -> Result<ChangedFields, Refusal> {
        let mut changed = Vec::new();
        for field in mail::header::fields(header) {
            let Some(kind) = AddressKind::of_field(&field) else { continue };
            let whole = header.get(field.range.clone()).unwrap_or_default();
            let text = self.field(rules, kind, (&field, whole)).await?;
            changed.extend(text.map(|text| (field.range, text)));
        }
        Ok(changed)
    }

    /// A field with replaced addresses; everything else stays. `None`: no address is replaced.
    async fn field(
        &mut self,
        rules: &[usize],
        kind: AddressKind,
        (field, whole): (&Field<'_>, &[u8]),
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let value_at = whole.iter().position(|byte| *byte == b':').map_or(0, |colon| colon + 1);
        let (mut text, mut from) = (Vec::new(), 0);
        for range in spans::addresses(field.value) {
            let address = field.value.get(range.clone()).unwrap_or_default();
            let mailbox = std::str::from_utf8(address).ok();
            let Some(mailbox) = mailbox.and_then(|text| Mailbox::parse(text, true).ok()) else {
                continue;
            };
            if let Some(new) = self.look_up(rules, kind, &mailbox).await? {
                let range = range.start + value_at..range.end + value_at;
                text.extend_from_slice(whole.get(from..range.start).unwrap_or_default());
                text.extend_from_slice(new.as_str().as_bytes());
                from = range.end;
            }
        }
        if from == 0 {
            return Ok(None);
        }
        text.extend_from_slice(whole.get(from..).unwrap_or_default());
        Ok(Some(text))
    }

    /// The address after all rules for addresses of this kind, one after another. `None`: it stays the same.
    async fn look_up(
        &mut self,
        rules: &[usize],
        kind: AddressKind,
        address: &Mailbox,
    ) -> Result<Option<Mailbox>, Refusal> {
        if !is_changeable(address) {
            return Ok(None);
        }
        let stage = self.stage;
        let mut current = address.clone();
        for at in rules {
            let Some(rule) = stage.rules.all.get(*at).filter(|rule| rule.kinds.contains(&kind))
            else {
                continue;
            };
            let key = (*at, current.clone());
            let new = match self.known.get(&key) {
                Some(known) => known.clone(),
                None if self.known.len() >= ADDRESSES_MAX => {
                    self.log(format_args!("more than {ADDRESSES_MAX} addresses; the rest stays"));
                    None
                }
                None => {
                    let new = self.ask(rule, &current).await?;
                    self.known.insert(key, new.clone());
                    new
                }
            };
            current = new.unwrap_or(current);
        }
        Ok((current != *address).then_some(current))
    }

    async fn ask(
        &mut self,
        rule: &RewriteRule,
        address: &Mailbox,
    ) -> Result<Option<Mailbox>, Refusal> {
        let RewriteStage { rules, world, console } = self.stage;
        if (self.known.len() + 1).is_multiple_of(BETWEEN_PAUSES) {
            let time = world.time();
            time.sleep_until(time.now() + PAUSE).await;
        }
        let table = (&self.tables, &rule.table);
        match rewritten(table, &rules.names, address, self.smtputf8).await {
            Ok(new) => Ok(new),
            Err(MapError::Lookup(trouble)) => Err(no_answer(&**console, &trouble)),
            Err(why) => {
                let name = &rule.table.name;
                self.log(format_args!("table {name}: {address} stays: {why}"));
                Ok(None)
            }
        }
    }

    /// Logs a line for this message, unless there were too many.
    fn log(&mut self, text: fmt::Arguments<'_>) {
        if self.logged < LOGGED_MAX {
            self.stage.console.warn(RewriteText::KEY, format_args!("{}: {text}", self.id));
        }
        self.logged += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_replaced_at_their_places() {
        let changed = vec![(3..6, b"XY".to_vec()), (6..7, Vec::new())];
        assert_eq!(replaced(b"abcdefgh", changed), b"abcXYh");
        assert_eq!(replaced(b"abc", Vec::new()), b"abc");
    }
}
