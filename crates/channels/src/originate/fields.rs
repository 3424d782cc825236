//! Completes the header of messages from clients that may relay: adds missing fields, removes Bcc.

use mail::field_watch::{FieldWatch, WatchedField};
use mail::transfer_encoding::LINE_BYTES_MAX;
use mail::{Refusal, origin};
use mta::answer::{Answer, Decision};
use mta::ingress::{Draft, Observer, Stage, TransactionView, observed};
use mta::seams::{Time as _, World};
use std::rc::Rc;

/// A header with more fields of one name than are noted is refused.
pub(super) const TOO_MANY_FIELDS: Refusal =
    Refusal::permanent((6, 0), "Too many header fields of one name");

/// Changes made to headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldRules {
    pub(crate) add_missing: bool,
    pub(crate) remove_bcc: bool,
    /// Domain added to authors without one, in ASCII.
    pub(crate) origin: Option<String>,
}

impl FieldRules {
    pub(super) fn is_any(&self) -> bool {
        *self != FieldRules::default()
    }
}

/// Completes headers.
pub(super) struct FieldStage<W: World> {
    pub(super) rules: FieldRules,
    pub(super) hostname: String,
    pub(super) world: W,
}

impl<W: World> Stage for FieldStage<W> {
    fn name(&self) -> &'static str {
        "fields"
    }

    fn observe(&self, transaction: &Rc<TransactionView>) -> Option<Box<dyn Observer>> {
        // Mail of clients that may not relay stays as it was sent.
        let is_wanted = transaction.session.may_relay();
        is_wanted.then(|| Box::new(OriginateWatch::new(&WATCHED[..])) as _)
    }

    fn content<'a>(
        &'a self,
        _: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        let Some(watch) = observed::<OriginateWatch>(observer) else { return Decision::pass() };
        match watch.all_or(TOO_MANY_FIELDS) {
            Ok(fields) => {
                self.mend(draft, &fields);
                Decision::pass()
            }
            Err(too_many) => Answer::Now(Err(too_many)),
        }
    }
}

impl<W: World> FieldStage<W> {
    /// Adds missing fields, and removes Bcc fields.
    fn mend(&self, draft: &mut Draft, fields: &[WatchedField]) {
        let FieldRules { add_missing, origin, remove_bcc } = &self.rules;
        let named = |name: usize| fields.iter().filter(move |field| field.name == name);
        if *remove_bcc {
            for field in named(BCC).chain(named(RESENT_BCC)) {
                draft.omit(field.range.clone());
            }
        }
        if let (Some(domain), Some(field)) = (origin, named(FROM).next())
            && let Some(complete) = completed(field, domain)
        {
            draft.omit(field.range.clone());
            draft.prepend(&format!("From: {complete}"));
        }
        if !add_missing {
            return;
        }
        let now = self.world.time().wall();
        if !named(MESSAGE_ID).any(is_message_id) {
            // RFC 6409 §8.3: an invalid Message-ID is replaced. Some providers refuse mail with an invalid one.
            for field in named(MESSAGE_ID) {
                draft.omit(field.range.clone());
            }
            let (at, id) = (now.0, draft.id());
            draft.prepend(&format!("Message-ID: <{at:x}.{id}@{}>", self.hostname));
        }
        if named(DATE).next().is_none() {
            let mut field = b"Date: ".to_vec();
            now.write_rfc5322(&mut field);
            draft.prepend(&String::from_utf8_lossy(&field));
        }
    }
}

/// Returns true if the value has an id in brackets, with an `@` within (RFC 5322 §3.6.4).
fn is_message_id(field: &WatchedField) -> bool {
    let value = field.value();
    let inner = value.iter().position(|byte| *byte == b'<').and_then(|start| {
        let inner = value.get(start + 1..)?;
        inner.get(..inner.iter().position(|byte| *byte == b'>')?)
    });
    let Some(inner) = inner.filter(|_| !field.is_cut) else { return false };
    let is_fit = |byte: &u8| byte.is_ascii_graphic() && *byte != b'<' || *byte >= 0x80;
    let at = inner.iter().rposition(|byte| *byte == b'@');
    at.is_some_and(|at| at > 0 && at + 1 < inner.len()) && inner.iter().all(is_fit)
}

/// The value of a From field with the domain added to authors without one. It goes into one line.
pub(super) fn completed(field: &WatchedField, domain: &str) -> Option<String> {
    let value = field.value();
    let text = std::str::from_utf8(&value).ok().filter(|text| text.is_ascii() && !field.is_cut)?;
    let complete = origin::complete(text, domain)?;
    ("From: ".len() + complete.len() <= LINE_BYTES_MAX as usize).then_some(complete)
}

/// Notes these fields as the header arrives.
pub(super) type OriginateWatch = FieldWatch<&'static [&'static str]>;

const WATCHED: [&str; 5] = ["Date", "Message-ID", "From", "Bcc", "Resent-Bcc"];
const DATE: usize = 0;
const MESSAGE_ID: usize = 1;
const FROM: usize = 2;
const BCC: usize = 3;
const RESENT_BCC: usize = 4;
