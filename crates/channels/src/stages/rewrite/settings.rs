//! Settings of address rewriting.

use config::{
    ConditionScope, ConditionTime, Conditions, Config, Reader, StageEntry, StageSection,
    StageSettings, TableEntry, WhenText,
};
use mail::header::Field;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Replaces addresses of a message by a table, before it is signed and stored (Postfix's canonical(5) and generic(5)).
/// Several rules apply one after another, in the order of the file. If recipients need different content, the message
/// becomes several, which are durable together. Messages of this server are not rewritten. See `docs/access.md`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct RewriteText {
    /// Name of the table. Keys are `user+tag@domain`, `user@domain`, `user` in domains of this server, and `@domain`; in
    /// tables of patterns the whole address only. Values are an address, `@domain`, or a name in our `hostname`. Required.
    table: String,
    /// Addresses that are replaced: `envelope_sender`, `envelope_recipient`, and the header fields `from`, `sender`,
    /// `reply_to`, `to` and `cc`, with their `Resent-` forms.
    addresses: Vec<String>,
    /// Names of routes: only the copies of their recipients are rewritten. Default: all.
    routes: Vec<String>,
    /// Conditions, all of which must hold. They are checked for each recipient, with the sender as the client gave it.
    /// Default: the rule applies to all mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<WhenText>,
}

impl Default for RewriteText {
    fn default() -> RewriteText {
        RewriteText {
            table: String::new(),
            addresses: KINDS.map(|(name, _)| name.to_owned()).into(),
            routes: Vec::new(),
            when: None,
        }
    }
}

/// Kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressKind {
    EnvelopeSender,
    EnvelopeRecipient,
    From,
    Sender,
    ReplyTo,
    To,
    Cc,
}

pub(super) const KINDS: [(&str, AddressKind); 7] = [
    ("envelope_sender", AddressKind::EnvelopeSender),
    ("envelope_recipient", AddressKind::EnvelopeRecipient),
    ("from", AddressKind::From),
    ("sender", AddressKind::Sender),
    ("reply_to", AddressKind::ReplyTo),
    ("to", AddressKind::To),
    ("cc", AddressKind::Cc),
];

/// Header fields with addresses (RFC 5322 §3.6.2, §3.6.3, §3.6.6).
const FIELDS: [(&str, AddressKind); 10] = [
    ("From", AddressKind::From),
    ("Sender", AddressKind::Sender),
    ("Reply-To", AddressKind::ReplyTo),
    ("To", AddressKind::To),
    ("Cc", AddressKind::Cc),
    ("Resent-From", AddressKind::From),
    ("Resent-Sender", AddressKind::Sender),
    ("Resent-Reply-To", AddressKind::ReplyTo),
    ("Resent-To", AddressKind::To),
    ("Resent-Cc", AddressKind::Cc),
];

impl AddressKind {
    fn parse(name: &str) -> Option<AddressKind> {
        KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Its name in the file.
    pub(super) fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Returns true if the address is usually a recipient, not the sender.
    pub(super) fn is_of_recipient(self) -> bool {
        matches!(self, AddressKind::EnvelopeRecipient | AddressKind::To | AddressKind::Cc)
    }

    /// The kind of the addresses in a header field.
    pub(super) fn of_field(field: &Field<'_>) -> Option<AddressKind> {
        FIELDS.iter().find(|(name, _)| field.is(name)).map(|(_, kind)| *kind)
    }
}

impl StageSection for RewriteText {
    const KEY: &'static str = "rewrite";
    const SUMMARY: &'static str = "Replacement of addresses by tables.";
    type Text = RewriteText;

    fn read(text: RewriteText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn StageSettings>> {
        reader.check_routes("routes", &text.routes);
        let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        let help = format!("use {}", names.join(", "));
        for (index, name) in text.addresses.iter().enumerate() {
            if AddressKind::parse(name).is_none() {
                let message = format!("unknown kind of address \"{name}\"");
                reader.error(&format!("addresses[{index}]"), message, &help);
            }
        }
        if text.addresses.is_empty() {
            reader.error("addresses", "names no address", &help);
        }
        if text.table.is_empty() {
            let help = "name one, for example table = \"generic\"";
            reader.error("", "a rewrite without `table`", help);
            return None;
        }
        let table = reader.table("table", &text.table)?;
        let kinds = text.addresses.iter().filter_map(|name| AddressKind::parse(name)).collect();
        let when = match &text.when {
            Some(when) => {
                let scope = ConditionScope::new(ConditionTime::Content)
                    .internet_only("rewritten")
                    .routes(&text.routes);
                Some(reader.table_at("when").conditions(when, scope)?)
            }
            None => None,
        };
        Some(Arc::new(RewriteRule { table, kinds, routes: text.routes, when }))
    }
}

/// One rule.
#[derive(Clone, Debug)]
pub(super) struct RewriteRule {
    pub(super) table: Arc<TableEntry>,
    pub(super) kinds: Vec<AddressKind>,
    /// Only recipients of these routes; empty: all recipients.
    pub(super) routes: Vec<String>,
    pub(super) when: Option<Arc<Conditions>>,
}

impl StageSettings for RewriteRule {}

impl RewriteRule {
    /// Returns true if the rule changes more than the recipient itself.
    pub(super) fn changes_content(&self) -> bool {
        self.kinds.iter().any(|kind| *kind != AddressKind::EnvelopeRecipient)
    }

    pub(super) fn changes_header(&self) -> bool {
        let is_envelope = |kind: &AddressKind| {
            matches!(kind, AddressKind::EnvelopeSender | AddressKind::EnvelopeRecipient)
        };
        !self.kinds.iter().all(is_envelope)
    }
}

/// The sections of rules, in the order of the file.
pub(super) fn entries(config: &Config) -> impl Iterator<Item = &StageEntry> {
    config.stages.iter().filter(|entry| entry.key == RewriteText::KEY)
}

/// Returns true if a rule looks in this table, directly or as a part of another table.
pub(crate) fn is_asked(config: &Config, table: &TableEntry) -> bool {
    let mut rules = entries(config).filter_map(|entry| entry.settings.of::<RewriteRule>());
    rules.any(|rule| rule.table.has(table))
}
