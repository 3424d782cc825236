//! Sender addresses that a user may send from.

use super::fields::{OriginateWatch, TOO_MANY_FIELDS, completed};
use config::{TableEntry, TagDelimiters};
use mail::field_watch::WatchedField;
use mail::{Mailbox, Refusal, address_list, is_dot_string};
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{
    Draft, Observer, Session, Stage, TransactionView, granted_by, is_one_member, no_answer,
    observed,
};
use mta::seams::World;
use mta::tables::{self, KeyRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// The sender is not in the user's entry of `senders`.
const NOT_YOURS: Refusal =
    Refusal::permanent((7, 1), "Sender address rejected: not owned by user").with_code(553);

/// An author is not in the user's entry of `senders`.
const NOT_YOUR_NAME: Refusal =
    Refusal::permanent((7, 1), "From address rejected: not owned by user");

/// Permitted authors of users' messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuthorsText {
    /// Those in `senders` only.
    Senders,
    /// All.
    Any,
}

/// Sender addresses that users may use, and information about users that is removed.
#[derive(Debug)]
pub(crate) struct SenderRules {
    /// Table of addresses and domains that users may send from. `None`: any.
    pub(crate) senders: Option<Arc<TableEntry>>,
    pub(crate) authors: Option<AuthorsText>,
    pub(crate) hide_client: bool,
    /// Domain added to authors without one, in ASCII.
    pub(crate) origin: Option<String>,
}

/// Checks the sender and the authors, and hides the client's address.
pub(super) struct SenderStage<W: World> {
    rules: Arc<SenderRules>,
    /// Table of permitted authors.
    authors: Option<Arc<TableEntry>>,
    world: W,
    console: Rc<dyn Console>,
}

impl<W: World> SenderStage<W> {
    pub(super) fn new(
        rules: &Arc<SenderRules>,
        world: &W,
        console: &Rc<dyn Console>,
    ) -> SenderStage<W> {
        let is_checked = rules.authors.unwrap_or(AuthorsText::Senders) == AuthorsText::Senders;
        SenderStage {
            rules: Arc::clone(rules),
            authors: rules.senders.clone().filter(|_| is_checked),
            world: world.clone(),
            console: Rc::clone(console),
        }
    }
}

impl<W: World> Stage for SenderStage<W> {
    fn name(&self) -> &'static str {
        "submission"
    }

    fn sender<'a>(&'a self, transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        // Reports and receipts have a null sender, which no user owns (RFC 8098 §3).
        let (Some(senders), Some(sender)) = (&self.rules.senders, &transaction.sender) else {
            return Decision::pass();
        };
        let Some(user) = &transaction.session.client().login else {
            return Answer::Now(Err(NOT_YOURS));
        };
        let is_built = senders.builds_answers() && !is_one_member(user);
        let tags = senders.tag_delimiters.clone();
        tables::find(&self.tables(&transaction.session), senders, user).then(move |found| {
            Answer::Now(match found {
                Ok(Some(entry)) if is_among(&granted_by(&entry, is_built), sender, &tags) => Ok(()),
                Ok(_) => Err(NOT_YOURS),
                Err(trouble) => Err(no_answer(&*self.console, &trouble)),
            })
        })
    }

    fn observe(&self, _: &Rc<TransactionView>) -> Option<Box<dyn Observer>> {
        self.authors.is_some().then(|| Box::new(OriginateWatch::new(&WATCHED[..])) as _)
    }

    fn content<'a>(
        &'a self,
        transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        if self.rules.hide_client {
            draft.hide_client();
        }
        let Some(watch) = observed::<OriginateWatch>(observer) else { return Decision::pass() };
        match watch.all_or(TOO_MANY_FIELDS) {
            Ok(fields) => self.check_authors(transaction, &fields),
            Err(too_many) => Answer::Now(Err(too_many)),
        }
    }
}

impl<W: World> SenderStage<W> {
    fn tables(&self, session: &Session) -> W::Tables {
        self.world.tables(session.client().requester())
    }

    /// Refuses authors that the user may not write as.
    fn check_authors(
        &self,
        transaction: &TransactionView,
        fields: &[WatchedField],
    ) -> Decision<'_, ()> {
        let Some(senders) = &self.authors else { return Decision::pass() };
        let Some(user) = &transaction.session.client().login else {
            return Answer::Now(Err(NOT_YOUR_NAME));
        };
        let Some(authors) = self.authors_of(fields) else { return Answer::Now(Err(NOT_YOUR_NAME)) };
        if authors.is_empty() {
            return Decision::pass();
        }
        let is_built = senders.builds_answers() && !is_one_member(user);
        let tags = senders.tag_delimiters.clone();
        tables::find(&self.tables(&transaction.session), senders, user).then(move |found| {
            Answer::Now(match found {
                Ok(Some(entry)) => {
                    let granted = granted_by(&entry, is_built);
                    let is_his = |author| is_among(&granted, author, &tags);
                    authors.iter().all(is_his).then_some(()).ok_or(NOT_YOUR_NAME)
                }
                Ok(None) => Err(NOT_YOUR_NAME),
                Err(trouble) => Err(no_answer(&*self.console, &trouble)),
            })
        })
    }

    /// All authors and senders named by a header. `None` if it can't be parsed, or receivers could read it differently.
    fn authors_of(&self, fields: &[WatchedField]) -> Option<Vec<Mailbox>> {
        let mut authors = Vec::new();
        for field in fields {
            let value = field.value();
            let completed = match (&self.rules.origin, field.name) {
                (Some(domain), FROM) => completed(field, domain),
                _ => None,
            };
            let value = completed.as_deref().map_or(&*value, str::as_bytes);
            let addresses = address_list::read(value).filter(|_| !field.is_cut)?;
            for address in addresses {
                authors.push(mailbox_of(&address)?);
            }
        }
        Some(authors)
    }
}

/// An author as a mailbox. `None` if it has no domain or is invalid.
fn mailbox_of(author: &address_list::Address) -> Option<Mailbox> {
    let address_list::Address { local, domain } = author;
    let quoted = local.replace('\\', "\\\\").replace('"', "\\\"");
    let text = match is_dot_string(local) {
        true => format!("{local}@{domain}"),
        false => format!("\"{quoted}\"@{domain}"),
    };
    Mailbox::parse(&text, true).ok()
}

/// From, Sender, and the fields for resent messages (RFC 5322 §3.6.2, §3.6.6).
const WATCHED: [&str; 4] = ["From", "Sender", "Resent-From", "Resent-Sender"];
const FROM: usize = 0;

/// Returns true if the sender matches one of these addresses and domains. An address with a tag (`user+tag@`) belongs
/// to the user.
fn is_among(granted: &[Cow<'_, str>], sender: &Mailbox, tags: &TagDelimiters) -> bool {
    let keys = tables::keys_of(sender, KeyRules { is_whole: false, tags });
    granted.iter().any(|word| {
        let word = word.to_lowercase();
        let word = if word.contains('@') { word } else { format!("@{word}") };
        keys.iter().any(|(_, key)| key.text == word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_among_addresses_and_domains() {
        let is = |allowed: &str, sender: &str| {
            let entry = lookup::Entry::text(allowed);
            is_among(
                &granted_by(&entry, false),
                &Mailbox::parse(sender, true).unwrap(),
                &TagDelimiters::default(),
            )
        };
        assert!(is("jo@x.test", "Jo@X.test") && is("al@x.test, JO@x.test", "jo+list@x.test"));
        assert!(is("@x.test", "anybody@x.test") && is("y.test x.test", "anybody@x.test"));
        assert!(is("@xn--bcher-kva.example", "a@b\u{fc}cher.example"));
        for not in ["", "al@x.test", "jo@y.test", "@sub.x.test", "test", "jo+other@x.test", "jo"] {
            assert!(!is(not, "jo@x.test"), "{not}");
        }
    }
}
