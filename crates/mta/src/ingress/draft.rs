//! A message that is not durable yet, as stages see and change it.

use super::content::{self, BufferedContent, ContentBuffer, Contents, Gathers, Nothing};
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

/// A message with complete content that passes the stages.
#[derive(Debug)]
pub struct Draft {
    pub(super) content: Content,
    pub(super) envelope: Envelope,
    pub(super) facts: ContentFacts,
    pub(super) client: Arc<Client>,
    /// Not internet mail (X.400).
    pub(super) is_foreign: bool,
    /// The client may not relay.
    pub(super) is_from_stranger: bool,
    /// The TLS requirement of the message (REQUIRETLS or `TLS-Required: No`).
    pub(super) require_tls: RequireTls,
    /// Delivery options set by the protocol or by stages.
    pub(super) steering: Steering,
    /// All configured tenants.
    pub(super) tenants: Arc<Tenants>,
    /// The tenant of the message. `None` if it belongs to no tenant.
    pub(super) tenancy: Option<Tenancy>,
    /// Facts about the recipients beyond the envelope.
    pub(super) records: RecipientRecords,
    /// Native octets of a foreign message for its channel.
    pub(super) x400: Option<Bytes>,
    /// A TLS report (RFC 8460) from this server.
    pub(super) is_tls_report: bool,
    /// An alert from this server.
    pub(super) is_alert: bool,
    pub(super) additions: Additions,
    /// Received omits the client's name and address.
    pub(super) hides_client: bool,
    /// Set if the message is accepted and discarded, with the reason.
    pub(super) discarded: Option<Arc<str>>,
    /// Byte ranges of the content that are stored but not sent.
    pub(super) omitted: Omitted,
    pub(super) contents: Rc<dyn Contents>,
    /// Body memory reserved for replaced content. `None` if the content is the original.
    pub(super) memory: Option<Box<dyn Gathers>>,
    /// The recipients' share of the tenant's `queued_max`.
    pub(super) tenant_room: Option<Share>,
    /// Messages split off for recipients with other content.
    pub(super) twins: Vec<Draft>,
}

impl Draft {
    /// Internet mail from a client that may relay, with defaults for everything else. The caller sets the fields that
    /// differ.
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
            is_alert: false,
            additions: Additions::default(),
            hides_client: false,
            discarded: None,
            omitted: Omitted::default(),
            contents,
            memory: None,
            tenant_room: None,
            twins: Vec::new(),
        }
    }

    /// A further message with the same facts and options.
    pub(super) fn like(&self, content: Content, envelope: Envelope) -> Draft {
        let (client, contents) = (Arc::clone(&self.client), Rc::clone(&self.contents));
        Draft {
            is_from_stranger: self.is_from_stranger,
            require_tls: self.require_tls,
            steering: self.steering.clone(),
            tenants: Arc::clone(&self.tenants),
            tenancy: self.tenancy.clone(),
            additions: self.additions.twin(),
            hides_client: self.hides_client,
            omitted: self.omitted.clone(),
            // Signatures cover its own content.
            memory: Some(Box::new(Nothing)),
            ..Draft::new(content, envelope, self.facts, client, contents)
        }
    }

    /// The id that the message will have.
    #[must_use]
    pub fn id(&self) -> MessageId {
        self.content.id
    }

    #[must_use]
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// The tenant of the message. `None` if it belongs to no tenant.
    #[must_use]
    pub fn tenancy(&self) -> Option<&Tenancy> {
        self.tenancy.as_ref()
    }

    /// The client names a tenant. A login that belongs to one tenant needs no name.
    ///
    /// # Errors
    /// The client may not send as that tenant.
    pub fn choose_tenant(&mut self, asked: Option<&str>) -> Result<(), Refusal> {
        if self.tenants.is_empty() {
            // Without configured tenants the name is only a label.
            return Ok(());
        }
        let chosen = self.tenants.choose(self.client.login.as_deref(), asked);
        self.tenancy = chosen.map_err(refusals::not_yours)?;
        if let Some(tenancy) = &self.tenancy {
            self.steering.tenant = Some(Arc::clone(&tenancy.name));
        }
        Ok(())
    }

    /// Facts that intake found in the content.
    #[must_use]
    pub fn facts(&self) -> &ContentFacts {
        &self.facts
    }

    /// Adds a recipient, unless the envelope has it already. Routes decide its destination. The client's relay rights
    /// are not checked.
    pub fn add_recipient(&mut self, recipient: Recipient) {
        let is_known =
            self.envelope.recipients.iter().any(|known| known.mailbox.is_same(&recipient.mailbox));
        if !is_known {
            self.envelope.recipients.push(recipient);
        }
    }

    /// Replaces all recipients by this one. Routes decide its destination.
    pub fn redirect(&mut self, recipient: Recipient) {
        self.envelope.recipients = vec![recipient];
        self.records = RecipientRecords::default();
    }

    /// Adds a header field, without its line end, above the content and the fields added before. Control characters
    /// become spaces.
    pub fn prepend(&mut self, field: &str) {
        self.additions.prepend(field);
    }

    /// Omits the client's name and address from the message. Events still have them.
    pub fn hide_client(&mut self) {
        self.hides_client = true;
    }

    /// The header fields added so far, as whole lines.
    #[must_use]
    pub fn added_fields(&self) -> &[u8] {
        self.additions.fields()
    }

    /// Replaces all added header fields by these lines.
    pub fn replace_added_fields(&mut self, fields: Vec<u8>) {
        self.additions.fields = fields;
    }

    /// Returns true if the address is a recipient, as given in RCPT or after expansion.
    #[must_use]
    pub fn is_named(&self, mailbox: &Mailbox) -> bool {
        let own = self.envelope.recipients.iter().map(|recipient| &recipient.mailbox);
        own.chain(self.records.given()).any(|known| known.is_same(mailbox))
    }

    /// Sets the reverse-path. `None` is `<>`.
    pub fn set_sender(&mut self, sender: Option<Mailbox>) {
        self.envelope.reverse_path = sender;
    }

    /// Removes a recipient as given in RCPT, with those of its expanded recipients that no other one expands to.
    /// Returns false, without a change, if no recipient would be left.
    #[must_use]
    pub fn remove_recipient(&mut self, recipient: &Mailbox) -> bool {
        self.records.remove(&mut self.envelope.recipients, recipient)
    }

    /// Accepts the message and discards it.
    pub fn discard(&mut self, reason: &str) {
        self.discarded.get_or_insert_with(|| Arc::from(reason));
    }

    /// Reads the content as it will be sent from `offset`, as much as is available in one piece. Empty at the end.
    ///
    /// # Errors
    /// The content can't be read.
    pub async fn read(&self, offset: u64) -> Result<Bytes, Refusal> {
        let stored = self.omitted.stored(offset);
        let body_bytes = self.facts.body_bytes;
        let mut piece =
            content::read(&*self.contents, &self.content, body_bytes, stored.start).await?;
        let sent = usize::try_from(stored.end - stored.start).unwrap_or(usize::MAX);
        piece.truncate(sent);
        Ok(piece)
    }

    /// Omits a part of the stored content when the message is sent. The part must be whole header lines.
    pub fn omit(&mut self, part: Range<u64>) {
        self.omitted.add(part);
    }

    /// The delivery options, to be changed.
    pub fn steering_mut(&mut self) -> &mut Steering {
        &mut self.steering
    }

    /// Length of the content as it will be sent.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.facts.body_bytes.saturating_sub(self.omitted.bytes())
    }

    /// Starts replacement content.
    #[must_use]
    pub fn gather(&self) -> ContentBuffer {
        ContentBuffer::new(&self.contents, self.content.id)
    }

    /// Replaces the content and drops the original.
    pub fn replace_content(&mut self, other: BufferedContent) {
        // The ranges refer to the original content.
        self.omitted = Omitted::default();
        self.forget_blob();
        self.memory = Some(other.replace(&mut self.content, &mut self.facts));
    }

    /// Returns true if the content has been replaced.
    #[must_use]
    pub fn is_rewritten(&self) -> bool {
        self.memory.is_some()
    }

    /// Drops the body file, if the content has one.
    pub(super) fn forget_blob(&mut self) {
        if let Some((blob, _)) = self.content.blob.take() {
            self.contents.forget(self.content.id, blob);
        }
    }

    /// Adds a header field in several lines. Each line except the first gets a leading tab.
    pub fn prepend_folded(&mut self, lines: &[String]) {
        self.additions.prepend_folded(lines);
    }

    /// Notes the results of the sender authentication checks. Keeps a DNSBL result noted before.
    pub fn note_checked(&mut self, checked: AuthSummary) {
        let dnsbl = self.additions.checked.dnsbl;
        self.additions.checked = AuthSummary { dnsbl, ..checked };
    }

    /// Notes the author's domain, and if SPF or DKIM passed for the sender's domain.
    pub fn note_author(&mut self, domain: Option<&str>, is_sender_proven: bool) {
        self.additions.author = domain.map(Box::from);
        self.additions.is_sender_proven = is_sender_proven;
    }

    /// Notes the DNSBL result for the client.
    pub fn note_listed(&mut self, verdict: auth::dnsbl::DnsblResult) {
        self.additions.checked.dnsbl = Some(verdict);
    }

    /// Notes that the message got an ARC seal, with the chain status in the seal.
    pub fn note_sealed(&mut self, says: auth::arc::ArcResult) {
        self.additions.checked.sealed = Some(says);
    }

    /// Notes the DKIM signers, each as `SELECTOR._domainkey.DOMAIN`.
    pub fn note_signed(&mut self, signers: Vec<Box<str>>) {
        self.additions.signed = (!signers.is_empty()).then(|| Arc::new(signers));
    }

    /// Notes header fields and values for the event.
    pub fn note_headers(&mut self, headers: Vec<(Arc<str>, Box<str>)>) {
        self.additions.headers = (!headers.is_empty()).then(|| Arc::new(headers));
    }

    /// Byte ranges of the content that are stored but not sent.
    #[must_use]
    pub fn omitted(&self) -> &Omitted {
        &self.omitted
    }

    /// Stores a value for a later stage that knows its type. Replaces an earlier value.
    pub fn leave(&mut self, what: Box<dyn Any>) {
        self.additions.left = Some(what);
    }

    /// Takes the value of an earlier stage, if it has this type. It may refer to content that was replaced since
    /// ([`Draft::is_rewritten`]).
    pub fn take_left<T: Any>(&mut self) -> Option<Box<T>> {
        self.additions.left.take()?.downcast().ok()
    }

    /// Holds the message for an operator. The first reason is kept.
    pub fn hold(&mut self, reason: &str) {
        self.additions.hold(reason);
    }
}

/// Results of the stages for a message.
#[derive(Debug, Default)]
pub(super) struct Additions {
    /// Header fields, the last added first.
    fields: Vec<u8>,
    pub(super) hold: Option<Arc<str>>,
    /// Capacity for the message if a check holds it.
    pub(super) hold_room: Option<HoldRoom>,
    /// The author's domain, if a check found it.
    pub(super) author: Option<Box<str>>,
    /// SPF or DKIM passed for the sender's domain.
    pub(super) is_sender_proven: bool,
    /// Recipients to be added once the content is complete.
    pub(super) recipients: Vec<Recipient>,
    /// Results of the sender authentication checks.
    pub(super) checked: AuthSummary,
    /// The DKIM signers.
    pub(super) signed: Signed,
    /// Header fields for the event.
    pub(super) headers: Headers,
    /// A value left for a later stage.
    left: Option<Box<dyn Any>>,
}

impl Additions {
    /// For a message of this server, which has these fields already.
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

    /// The same for a message split off.
    pub(super) fn twin(&self) -> Additions {
        Additions {
            fields: self.fields.clone(),
            hold: self.hold.clone(),
            author: self.author.clone(),
            is_sender_proven: self.is_sender_proven,
            checked: self.checked,
            signed: self.signed.clone(),
            headers: self.headers.clone(),
            // For the first message only.
            hold_room: None,
            recipients: Vec::new(),
            left: None,
        }
    }

    pub(super) fn fields(&self) -> &[u8] {
        &self.fields
    }

    /// The results for the message's events once it is durable.
    pub(super) fn told(self) -> StageResults {
        let Additions {
            hold,
            hold_room,
            checked,
            signed,
            headers,
            // In the metadata already, or not needed any more.
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

/// A held message's share of the capacity for messages that checks hold.
#[derive(Debug)]
pub(super) struct HoldRoom {
    pub(super) share: HeldShare,
    /// The operator may return the message to its sender.
    pub(super) is_returnable: bool,
}

/// Stage results for the message's events.
#[derive(Debug)]
pub(super) struct StageResults {
    pub(super) checked: AuthSummary,
    pub(super) signed: Signed,
    pub(super) headers: Headers,
    pub(super) hold: Option<Arc<str>>,
    pub(super) hold_share: Option<HeldShare>,
}

/// The text as a line of a header: cut, and with control characters replaced.
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
