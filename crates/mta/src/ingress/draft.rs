//! A message that isn't durable yet.

use super::content::{self, BufferedContent, ContentBuffer, Contents, Gathers};
use super::intake::Content;
use super::refusals;
use crate::budget::Share;
use crate::event::{Client, Headers, Signed};
use crate::facts::RecipientRecords;
use crate::holding::HeldShare;
use crate::own_fields::SignatureFields;
use crate::steering::Steering;
use auth::checks::AuthSummary;
use bytes::Bytes;
use config::{Tenancy, Tenants};
use mail::{ContentFacts, Envelope, Mailbox, MessageId, Omitted, Recipient, Refusal, RequireTls};
use std::any::Any;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Header fields longer than this are cut (RFC 5322 §2.1.1).
const FIELD_BYTES_MAX: usize = 998;

/// A message whose content is complete, on its way through the stages.
#[derive(Debug)]
pub struct Draft {
    pub(super) content: Content,
    pub(super) envelope: Envelope,
    pub(super) facts: ContentFacts,
    pub(super) client: Arc<Client>,
    /// It is no internet mail.
    pub(super) is_foreign: bool,
    /// The client may not send to any domain.
    pub(super) is_from_stranger: bool,
    /// What it asks of TLS on its way.
    pub(super) require_tls: RequireTls,
    /// How it is to be sent.
    pub(super) steering: Steering,
    /// Tenants that there are.
    pub(super) tenants: Arc<Tenants>,
    /// Whose mail it is; `None`: no tenant's.
    pub(super) tenancy: Option<Tenancy>,
    /// What is known of its recipients beside the envelope.
    pub(super) records: RecipientRecords,
    /// What its channel needs, where it is no internet mail.
    pub(super) x400: Option<Bytes>,
    /// It is a report of this server's own about TLS.
    pub(super) is_tls_report: bool,
    pub(super) additions: Additions,
    /// Received does not say where it came from.
    pub(super) hides_client: bool,
    /// Nothing is kept, and why.
    pub(super) discarded: Option<Arc<str>>,
    /// What of the content goes nowhere.
    pub(super) omitted: Omitted,
    pub(super) contents: Rc<dyn Contents>,
    /// What covers content that is not what came.
    pub(super) memory: Option<Box<dyn Gathers>>,
    /// Room for its recipients among what its tenant may have queued.
    pub(super) tenant_room: Option<Share>,
}

impl Draft {
    /// Internet mail of a client that may send to any domain, of which no more is known: what holds for another is
    /// set by its maker.
    pub(super) fn new(
        content: Content,
        envelope: Envelope,
        facts: ContentFacts,
        client: Arc<Client>,
        contents: Rc<dyn Contents>,
    ) -> Draft {
        Draft {
            content,
            envelope,
            facts,
            client,
            is_foreign: false,
            is_from_stranger: false,
            require_tls: RequireTls::Unsaid,
            steering: Steering::default(),
            tenants: Arc::default(),
            tenancy: None,
            records: RecipientRecords::default(),
            x400: None,
            is_tls_report: false,
            additions: Additions::default(),
            hides_client: false,
            discarded: None,
            omitted: Omitted::default(),
            contents,
            memory: None,
            tenant_room: None,
        }
    }

    /// The id that it will have.
    #[must_use]
    pub fn id(&self) -> MessageId {
        self.content.id
    }

    #[must_use]
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Whose mail it is; `None`: no tenant's.
    #[must_use]
    pub fn tenancy(&self) -> Option<&Tenancy> {
        self.tenancy.as_ref()
    }

    /// The client asks to send as this tenant; what it has logged in as may do without asking.
    ///
    /// # Errors
    /// It may not.
    pub fn choose_tenant(&mut self, asked: Option<&str>) -> Result<(), Refusal> {
        if self.tenants.is_empty() {
            // A name to find it by, and no more.
            return Ok(());
        }
        let chosen = self.tenants.choose(self.client.login.as_deref(), asked);
        self.tenancy = chosen.map_err(refusals::not_yours)?;
        if let Some(tenancy) = &self.tenancy {
            self.steering.tenant = Some(Arc::clone(&tenancy.name));
        }
        Ok(())
    }

    /// What intake found in the content.
    #[must_use]
    pub fn facts(&self) -> &ContentFacts {
        &self.facts
    }

    /// One recipient more, unless the message goes there already. The routes decide where it goes;
    /// whether the client could have named it is not asked.
    pub fn add_recipient(&mut self, recipient: Recipient) {
        let is_known =
            self.envelope.recipients.iter().any(|known| known.mailbox.is_same(&recipient.mailbox));
        if !is_known {
            self.envelope.recipients.push(recipient);
        }
    }

    /// A header field, without its line end, above those that the content has and those that were
    /// added before; whatever is no text in it becomes a blank.
    pub fn prepend(&mut self, field: &str) {
        self.additions.prepend(field);
    }

    /// Nobody who gets the message is to learn of the client's name and address. Events have them.
    pub fn hide_client(&mut self) {
        self.hides_client = true;
    }

    /// The header fields that were added so far, in whole lines.
    #[must_use]
    pub fn added_fields(&self) -> &[u8] {
        self.additions.fields()
    }

    /// Other fields in the place of all that were added: whole lines, that make fields.
    pub fn replace_added_fields(&mut self, fields: Vec<u8>) {
        self.additions.fields = fields;
    }

    /// Whether the message goes to that address, as it was given or as it stands for another.
    #[must_use]
    pub fn is_named(&self, mailbox: &Mailbox) -> bool {
        let own = self.envelope.recipients.iter().map(|recipient| &recipient.mailbox);
        own.chain(self.records.given()).any(|known| known.is_same(mailbox))
    }

    /// Another reverse-path; `None` is `<>`.
    pub fn set_sender(&mut self, sender: Option<Mailbox>) {
        self.envelope.reverse_path = sender;
    }

    /// One recipient less, as it was given: with all that stand for it and for no other. Whether one is
    /// left; if not, nothing is changed.
    #[must_use]
    pub fn remove_recipient(&mut self, recipient: &Mailbox) -> bool {
        self.records.remove(&mut self.envelope.recipients, recipient)
    }

    /// The client is told that the message was taken, and nothing is kept.
    pub fn discard(&mut self, reason: &str) {
        self.discarded.get_or_insert_with(|| Arc::from(reason));
    }

    /// What stands from `offset` on in the content as it will be sent, as much as is at hand at once; empty at
    /// the end.
    ///
    /// # Errors
    /// It can't be read.
    pub async fn read(&self, offset: u64) -> Result<Bytes, Refusal> {
        let stored = self.omitted.stored(offset);
        let body_bytes = self.facts.body_bytes;
        let mut piece =
            content::read(&*self.contents, &self.content, body_bytes, stored.start).await?;
        let sent = usize::try_from(stored.end - stored.start).unwrap_or(usize::MAX);
        piece.truncate(sent);
        Ok(piece)
    }

    /// A part of the content as it came is kept and goes nowhere: whole lines of its header.
    pub fn omit(&mut self, part: Range<u64>) {
        self.omitted.add(part);
    }

    /// How it is to be sent, to say so.
    pub fn steering_mut(&mut self) -> &mut Steering {
        &mut self.steering
    }

    /// How long the content is as it will be sent.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.facts.body_bytes.saturating_sub(self.omitted.bytes())
    }

    /// Other content for it begins.
    #[must_use]
    pub fn gather(&self) -> ContentBuffer {
        ContentBuffer::new(&self.contents, self.content.id)
    }

    /// Other content takes the place of what it has. That is not changed, but forgotten.
    pub fn replace_content(&mut self, other: BufferedContent) {
        // It was about the content that goes.
        self.omitted = Omitted::default();
        self.forget_blob();
        self.memory = Some(other.replace(&mut self.content, &mut self.facts));
    }

    /// Whether its content is not what came.
    #[must_use]
    pub fn is_rewritten(&self) -> bool {
        self.memory.is_some()
    }

    /// The file of the content is not needed, if it has one.
    pub(super) fn forget_blob(&mut self) {
        if let Some((blob, _)) = self.content.blob.take() {
            self.contents.forget(self.content.id, blob);
        }
    }

    /// The same, a field in several lines: they are folded, each with a tab before it but the first.
    pub fn prepend_folded(&mut self, lines: &[String]) {
        self.additions.prepend_folded(lines);
    }

    /// What came of the checks of who sends.
    pub fn note_checked(&mut self, checked: AuthSummary) {
        let dnsbl = self.additions.checked.dnsbl;
        self.additions.checked = AuthSummary { dnsbl, ..checked };
    }

    /// The domain of its author, and whether SPF or DKIM passed for the domain of its sender.
    pub fn note_author(&mut self, domain: Option<&str>, is_sender_proven: bool) {
        self.additions.author = domain.map(Box::from);
        self.additions.is_sender_proven = is_sender_proven;
    }

    /// What lists in the DNS say of the client.
    pub fn note_listed(&mut self, verdict: auth::dnsbl::DnsblResult) {
        self.additions.checked.dnsbl = Some(verdict);
    }

    /// It has got a seal, which says this of the chain before it.
    pub fn note_sealed(&mut self, says: auth::arc::ArcResult) {
        self.additions.checked.sealed = Some(says);
    }

    /// These have signed it, each as `SELECTOR._domainkey.DOMAIN`.
    pub fn note_signed(&mut self, signers: Vec<Box<str>>) {
        self.additions.signed = (!signers.is_empty()).then(|| Arc::new(signers));
    }

    /// Fields of its header that its event has, with their values.
    pub fn note_headers(&mut self, headers: Vec<(Arc<str>, Box<str>)>) {
        self.additions.headers = (!headers.is_empty()).then(|| Arc::new(headers));
    }

    /// What of the content goes nowhere.
    #[must_use]
    pub fn omitted(&self) -> &Omitted {
        &self.omitted
    }

    /// Leaves something for a later stage, which knows its type; what was left before is gone.
    pub fn leave(&mut self, what: Box<dyn Any>) {
        self.additions.left = Some(what);
    }

    /// What an earlier stage has left, if it is of this type. It may be about content that is no more
    /// ([`Draft::is_rewritten`]).
    pub fn take_left<T: Any>(&mut self) -> Option<Box<T>> {
        self.additions.left.take()?.downcast().ok()
    }

    /// The message is kept, and waits for an operator. What was said first counts.
    pub fn hold(&mut self, reason: &str) {
        self.additions.hold(reason);
    }
}

/// What stages want of a message.
#[derive(Debug, Default)]
pub(super) struct Additions {
    /// Header fields, the last one that was added first.
    fields: Vec<u8>,
    pub(super) hold: Option<Arc<str>>,
    /// Room for it, if a check holds it.
    pub(super) hold_room: Option<HoldRoom>,
    /// The author's domain, where a check has found it.
    pub(super) author: Option<Box<str>>,
    /// SPF or DKIM passed for the domain of its sender.
    pub(super) is_sender_proven: bool,
    /// Those that are no recipients yet.
    pub(super) recipients: Vec<Recipient>,
    /// What came of the checks of who sends.
    pub(super) checked: AuthSummary,
    /// Who signed it.
    pub(super) signed: Signed,
    /// What its event says of its header.
    pub(super) headers: Headers,
    /// For a later stage.
    left: Option<Box<dyn Any>>,
}

impl Additions {
    /// Of a message of this server's own, which has these already.
    pub(super) fn above(own: SignatureFields) -> Additions {
        let SignatureFields { prefix, signed } = own;
        Additions { fields: prefix.to_vec(), signed, ..Additions::default() }
    }

    pub(super) fn prepend(&mut self, field: &str) {
        let line: Vec<u8> = line_of(field).collect();
        self.fields.splice(0..0, line);
    }

    pub(super) fn prepend_folded(&mut self, lines: &[String]) {
        let mut field = Vec::new();
        for (n, line) in lines.iter().enumerate() {
            field.extend((n > 0).then_some(b'\t'));
            field.extend(line_of(line));
        }
        self.fields.splice(0..0, field);
    }

    pub(super) fn hold(&mut self, reason: &str) {
        self.hold.get_or_insert_with(|| Arc::from(reason));
    }

    pub(super) fn fields(&self) -> &[u8] {
        &self.fields
    }

    /// What its events say once it is durable.
    pub(super) fn told(self) -> StageResults {
        let Additions {
            hold,
            hold_room,
            checked,
            signed,
            headers,
            // Kept, or of no more use.
            fields: _,
            author: _,
            is_sender_proven: _,
            recipients: _,
            left: _,
        } = self;
        let hold_share = hold_room.map(|room| room.share);
        StageResults { checked, signed, headers, hold, hold_share }
    }
}

/// A held message's part of what checks may hold.
#[derive(Debug)]
pub(super) struct HoldRoom {
    pub(super) share: HeldShare,
    /// It may be returned to its sender.
    pub(super) is_returnable: bool,
}

/// What the events of a message say of it.
#[derive(Debug)]
pub(super) struct StageResults {
    pub(super) checked: AuthSummary,
    pub(super) signed: Signed,
    pub(super) headers: Headers,
    pub(super) hold: Option<Arc<str>>,
    pub(super) hold_share: Option<HeldShare>,
}

/// A line as it may stand in a header.
fn line_of(text: &str) -> impl Iterator<Item = u8> {
    let text = &text[..text.floor_char_boundary(FIELD_BYTES_MAX)];
    let text = text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte });
    text.chain(*b"\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_whole_lines_and_the_last_comes_first() {
        let mut additions = Additions::default();
        additions.prepend("X-One: a\r\nBcc: b");
        additions.prepend(&format!("X-Two: {}", "\u{e9}".repeat(600)));
        let fields = String::from_utf8(additions.fields().to_vec()).unwrap();
        let lines: Vec<&str> = fields.split("\r\n").collect();
        assert!(lines[0].starts_with("X-Two: \u{e9}") && lines[0].len() <= FIELD_BYTES_MAX);
        assert_eq!(lines[1..], ["X-One: a  Bcc: b", ""]);
        let mut additions = Additions::default();
        additions.prepend_folded(&["A: b;".to_owned(), "c\r\nd".to_owned()]);
        assert_eq!(additions.fields(), b"A: b;\r\n\tc  d\r\n");
    }
}
