//! A message as sent to filters, with their changes.

use super::link::{Link, MilterError, MilterReply};
use crate::stages::{HEADER_TOO_LARGE, header_text};
use bytes::Bytes;
use mail::{Mailbox, Mono, Notify, Recipient, Refusal};
use milter::{BODY_BYTES_MAX, Change, FilterDecision, Header, MilterCommand, MilterEvent};
use mta::ingress::{BufferedContent, ContentBuffer, Draft, Session, TransactionView};
use mta::seams::World;
use std::net::SocketAddr;
use std::time::Duration;

/// Memory limit for a filter's changes, without the body.
const CHANGES_BYTES_MAX: usize = 1024 * 1024;

/// Reason for which a filter gave no verdict.
pub(super) enum Halt {
    /// A failure of the filter.
    Trouble(MilterError),
    /// A failure of this server.
    Ours(Refusal),
}

impl From<MilterError> for Halt {
    fn from(trouble: MilterError) -> Halt {
        Halt::Trouble(trouble)
    }
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Halt {
        Halt::Ours(refusal)
    }
}

/// Result of one filter for a message.
pub(super) enum Fate {
    Kept,
    Discarded,
}

/// Changes that a filter requests, in its order.
#[derive(Default)]
pub(super) struct MilterChanges {
    changes: Vec<Change>,
    bytes: usize,
    body: Option<BufferedContent>,
}

/// The header, and the location of the body.
pub(super) struct MilterMessage {
    header: Header,
    /// Separator between header and body: an empty line, unless the header ends otherwise.
    separator: Bytes,
    body: MilterBody,
}

enum MilterBody {
    /// In the draft's content, from this offset on.
    Content(u64),
    Other(BufferedContent),
}

impl MilterMessage {
    /// Reads the header of a draft.
    pub(super) async fn read(draft: &Draft) -> Result<MilterMessage, Refusal> {
        let (text, end) = header_text(draft).await?;
        let fields = text.get(..end.fields_end).unwrap_or_default();
        let separator = text.get(end.fields_end..end.body_start).unwrap_or_default();
        let header = Header::read(draft.added_fields(), fields).ok_or(HEADER_TOO_LARGE)?;
        let separator = Bytes::copy_from_slice(separator);
        Ok(MilterMessage { header, separator, body: MilterBody::Content(end.body_start as u64) })
    }

    /// The octets of the body from `offset` on; empty at its end.
    async fn body(&self, draft: &Draft, offset: u64) -> Result<Bytes, Refusal> {
        match &self.body {
            MilterBody::Content(from) => draft.read(from + offset).await,
            MilterBody::Other(body) => body.read(offset).await,
        }
    }

    /// Sends the whole message to a filter. Returns its decision and, if the end was sent, its changes. `times` are the
    /// timeout for one reply and the deadline for all.
    pub(super) async fn tell<W: World>(
        &self,
        link: &mut Link<W>,
        draft: &Draft,
        known: &MacroContext<'_>,
        times: (Duration, Mono),
    ) -> Result<(FilterDecision, Option<MilterChanges>), Halt> {
        let mut telling = Telling { link, known, times };
        for (name, value) in self.header.fields() {
            match telling.step(&MilterCommand::Header { name, value }).await? {
                FilterDecision::GoOn => {}
                FilterDecision::Skip => break,
                verdict => return Ok((verdict, None)),
            }
        }
        match telling.step(&MilterCommand::EndOfHeader).await? {
            FilterDecision::GoOn | FilterDecision::Skip => {}
            verdict => return Ok((verdict, None)),
        }
        if let Some(verdict) = self.tell_body(&mut telling, draft).await? {
            return Ok((verdict, None));
        }
        let (verdict, wanted) = telling.end(draft).await?;
        Ok((verdict, Some(wanted)))
    }

    /// Sends the body. Returns a decision if the filter gives one before the end.
    async fn tell_body<W: World>(
        &self,
        telling: &mut Telling<'_, '_, W>,
        draft: &Draft,
    ) -> Result<Option<FilterDecision>, Halt> {
        if !telling.link.is_told(MilterEvent::Body) {
            return Ok(None);
        }
        let mut offset = 0;
        loop {
            let piece = self.body(draft, offset).await?;
            if piece.is_empty() {
                return Ok(None);
            }
            for piece in piece.chunks(BODY_BYTES_MAX) {
                match telling.step(&MilterCommand::Body(piece)).await? {
                    FilterDecision::GoOn => {}
                    FilterDecision::Skip => return Ok(None),
                    verdict => return Ok(Some(verdict)),
                }
            }
            offset += piece.len() as u64;
        }
    }

    /// Applies a filter's changes, and returns the result for the message.
    ///
    /// # Errors
    /// A change is invalid; nothing is changed.
    pub(super) fn make(
        &mut self,
        wanted: MilterChanges,
        draft: &mut Draft,
        leading_space: bool,
        who: &str,
    ) -> Result<Fate, MilterError> {
        let MilterChanges { changes, body, .. } = wanted;
        let mut envelope = EnvelopeChanges::default();
        for change in &changes {
            envelope.read(change)?;
        }
        for change in &changes {
            self.header.apply(change, leading_space);
        }
        if let Some(body) = body {
            self.body = MilterBody::Other(body);
        }
        if let Some(sender) = envelope.sender {
            draft.set_sender(sender);
        }
        if let Some(reason) = envelope.hold {
            draft.hold(&format!("{who}: {reason}"));
        }
        let restored = envelope.restored.into_iter().filter(|mailbox| !draft.is_named(mailbox));
        let restored: Vec<Mailbox> = restored.collect();
        // A filter that replaces all recipients removes them first. The new ones are added before the last old one is
        // removed.
        for mailbox in envelope.added.into_iter().chain(restored) {
            // The sender did not name this recipient, and gets no DSN about it.
            draft.add_recipient(Recipient { mailbox, notify: Notify::NEVER, orcpt: None });
        }
        for mailbox in envelope.removed {
            if !draft.remove_recipient(&mailbox) {
                return Ok(Fate::Discarded);
            }
        }
        Ok(Fate::Kept)
    }

    /// Puts the changes into the draft. Returns true if its content was replaced.
    pub(super) async fn put(self, draft: &mut Draft) -> Result<bool, Refusal> {
        if let Some(fields) = self.header.added() {
            draft.replace_added_fields(fields);
        }
        if !self.header.is_content_changed() && matches!(self.body, MilterBody::Content(_)) {
            return Ok(false);
        }
        let mut content = draft.gather();
        content.push(&self.header.content()).await?;
        let separator = match self.body {
            MilterBody::Other(_) if self.separator.is_empty() => &b"\r\n"[..],
            _ => &self.separator,
        };
        content.push(separator).await?;
        let mut offset = 0;
        loop {
            let piece = self.body(draft, offset).await?;
            if piece.is_empty() {
                break;
            }
            content.push(&piece).await?;
            offset += piece.len() as u64;
        }
        draft.replace_content(content.finish().await?);
        Ok(true)
    }
}

/// A filter that receives a message.
struct Telling<'a, 'k, W: World> {
    link: &'a mut Link<W>,
    known: &'a MacroContext<'k>,
    /// Timeout for one reply, and deadline for all.
    times: (Duration, Mono),
}

impl<W: World> Telling<'_, '_, W> {
    async fn step(&mut self, step: &MilterCommand<'_>) -> Result<FilterDecision, Halt> {
        let (timeout, until) = self.times;
        let symbols = |name: &str| self.known.symbol(name);
        if !self.link.tell(step, &symbols, timeout, until).await? {
            return Ok(FilterDecision::GoOn);
        }
        match self.link.hear(timeout, until).await? {
            MilterReply::Verdict(verdict) => Ok(verdict),
            MilterReply::Change(_) => {
                Err(Halt::Trouble("modification before the end of the message".to_owned()))
            }
        }
    }

    /// Ends the message: returns the changes and the verdict.
    async fn end(self, draft: &Draft) -> Result<(FilterDecision, MilterChanges), Halt> {
        let (timeout, until) = self.times;
        let symbols = |name: &str| self.known.symbol(name);
        let mut wanted = MilterChanges::default();
        let mut body: Option<OtherBody> = None;
        self.link.tell(&MilterCommand::EndOfBody, &symbols, timeout, until).await?;
        let listener = self.known.session.listener();
        let body_bytes_max = listener.max_message_bytes;
        let verdict = loop {
            match self.link.hear(timeout, until).await? {
                MilterReply::Verdict(verdict) => break verdict,
                MilterReply::Change(Change::Body(piece)) => {
                    let body = body.get_or_insert_with(|| OtherBody::new(draft));
                    body.push(&piece, body_bytes_max).await?;
                }
                MilterReply::Change(change) => {
                    wanted.bytes += change.bytes();
                    if wanted.bytes > CHANGES_BYTES_MAX {
                        return Err(Halt::Trouble(
                            "too many modifications of one message".to_owned(),
                        ));
                    }
                    wanted.changes.push(change);
                }
            }
        };
        let recipients = wanted.changes.iter().filter(|c| matches!(c, Change::AddRecipient(_)));
        if recipients.count() > listener.max_recipients as usize {
            return Err(Halt::Trouble("too many recipients".to_owned()));
        }
        if let Some(body) = body {
            wanted.body = Some(body.finish().await?);
        }
        Ok((verdict, wanted))
    }
}

/// A replacement body. Lines end with CRLF and NULs are removed, whatever the filter sends, because later servers could
/// interpret them differently.
struct OtherBody {
    gathering: ContentBuffer,
    bytes: u64,
    ends_with_cr: bool,
}

impl OtherBody {
    fn new(draft: &Draft) -> OtherBody {
        OtherBody { gathering: draft.gather(), bytes: 0, ends_with_cr: false }
    }

    async fn push(&mut self, piece: &[u8], bytes_max: u64) -> Result<(), Halt> {
        let clean = self.clean(piece);
        self.bytes += clean.len() as u64;
        if bytes_max > 0 && self.bytes > bytes_max {
            return Err(Halt::Trouble("body larger than max_message_bytes".to_owned()));
        }
        Ok(self.gathering.push(&clean).await?)
    }

    fn clean(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut clean = Vec::with_capacity(piece.len() + piece.len() / 32);
        for &byte in piece.iter().filter(|byte| **byte != 0) {
            // The CR of a CRLF is written together with its LF.
            let is_after_cr = std::mem::replace(&mut self.ends_with_cr, byte == b'\r');
            match byte {
                b'\n' => clean.extend_from_slice(b"\r\n"),
                b'\r' if is_after_cr => clean.extend_from_slice(b"\r\n"),
                b'\r' => {}
                other if is_after_cr => clean.extend_from_slice(&[b'\r', b'\n', other]),
                other => clean.push(other),
            }
        }
        clean
    }

    async fn finish(mut self) -> Result<BufferedContent, Halt> {
        if self.ends_with_cr {
            self.gathering.push(b"\r\n").await?;
        }
        Ok(self.gathering.finish().await?)
    }
}

/// Changes of the envelope. The last change of a recipient counts.
#[derive(Default)]
struct EnvelopeChanges {
    sender: Option<Option<Mailbox>>,
    hold: Option<String>,
    added: Vec<Mailbox>,
    /// Removed and added again. These recipients stay unchanged, and an alias keeps its expansion.
    restored: Vec<Mailbox>,
    removed: Vec<Mailbox>,
}

impl EnvelopeChanges {
    fn read(&mut self, change: &Change) -> Result<(), MilterError> {
        match change {
            Change::Sender(path) if bare(path).is_empty() => self.sender = Some(None),
            Change::Sender(path) => self.sender = Some(Some(mailbox(path)?)),
            Change::AddRecipient(path) => self.add(mailbox(path)?),
            Change::RemoveRecipient(path) => self.remove(mailbox(path)?),
            Change::Hold(reason) => {
                let reason = String::from_utf8_lossy(reason);
                let clean = reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX);
                self.hold = Some(clean.collect());
            }
            _ => {}
        }
        Ok(())
    }

    fn add(&mut self, mailbox: Mailbox) {
        let removals = self.removed.len();
        self.removed.retain(|removed| !removed.is_same(&mailbox));
        let was_removed = self.removed.len() < removals;
        let list = if was_removed { &mut self.restored } else { &mut self.added };
        list.push(mailbox);
    }

    fn remove(&mut self, mailbox: Mailbox) {
        self.added.retain(|added| !added.is_same(&mailbox));
        self.restored.retain(|restored| !restored.is_same(&mailbox));
        self.removed.push(mailbox);
    }
}

/// Maximum length of a hold reason.
const REASON_CHARS_MAX: usize = 400;

/// An address without its angle brackets.
fn bare(path: &[u8]) -> &[u8] {
    let path = path.trim_ascii();
    path.strip_prefix(b"<").and_then(|path| path.strip_suffix(b">")).unwrap_or(path)
}

fn mailbox(path: &[u8]) -> Result<Mailbox, MilterError> {
    let text = String::from_utf8_lossy(bare(path));
    let mailbox = Mailbox::parse(&text, true).ok();
    let whole = mailbox.filter(|mailbox| mailbox.has_domain());
    whole.ok_or_else(|| format!("{text:?} is not an address"))
}

/// Filters know this name for a client without a name. Names are not looked up.
pub(super) const NO_NAME: &str = "unknown";

/// Data for macros when a command is sent.
pub(super) struct MacroContext<'a> {
    pub(super) host: &'a str,
    pub(super) session: &'a Session,
    pub(super) transaction: Option<&'a TransactionView>,
    pub(super) recipient: Option<&'a Mailbox>,
    /// The message's id, once its content is complete.
    pub(super) id: Option<String>,
}

/// The client's address; IPv4-mapped addresses are converted to IPv4.
pub(super) fn address_of(session: &Session) -> SocketAddr {
    let address = session.client().address;
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl MacroContext<'_> {
    /// The value of a macro: those of Sendmail that Postfix has, as far as this server knows them.
    pub(super) fn symbol(&self, name: &str) -> Option<String> {
        let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
        let (client, listener) = (self.session.client(), self.session.listener());
        let address = address_of(self.session);
        let sender = self.transaction.map(|transaction| transaction.sender.as_ref());
        Some(match name {
            "j" => self.host.to_owned(),
            "v" => concat!("Postrider ", env!("CARGO_PKG_VERSION")).to_owned(),
            "_" => format!("{NO_NAME} [{}]", address.ip()),
            "i" => self.id.clone()?,
            "daemon_name" => listener.name.to_string(),
            "daemon_addr" => listener.address.ip().to_canonical().to_string(),
            "daemon_port" => listener.address.port().to_string(),
            "client_addr" => address.ip().to_string(),
            "client_port" => address.port().to_string(),
            "client_name" | "client_ptr" => NO_NAME.to_owned(),
            "tls_version" => client.tls?.version.to_owned(),
            "cipher" => client.tls?.cipher.to_owned(),
            "cipher_bits" => bits_of(client.tls?.cipher)?.to_owned(),
            "auth_type" => self.session.mechanism()?.to_owned(),
            "auth_authen" => client.login.as_ref()?.to_string(),
            "mail_addr" => sender?.map_or("", Mailbox::as_str).to_owned(),
            "mail_host" => sender??.domain_str().to_owned(),
            "rcpt_addr" => self.recipient?.as_str().to_owned(),
            "rcpt_host" => self.recipient?.domain_str().to_owned(),
            "mail_mailer" | "rcpt_mailer" => "smtp".to_owned(),
            _ => return None,
        })
    }
}

/// Key length of a cipher suite.
fn bits_of(cipher: &str) -> Option<&'static str> {
    let is = |part: &str| cipher.contains(part);
    match () {
        () if is("AES_256") || is("CHACHA20") => Some("256"),
        () if is("AES_128") => Some("128"),
        () => None,
    }
}
