//! Messages (X.411 §12.2.1.1, X.420) from a template: made once for each recipient and size, and then only patched.

use super::address::{NUMBER_DIGITS, NUMBER_MARK, OrAddress, ledger_name};
use super::ber::{element, integer, push_header};
use super::bind::{Mode, transfer_head};
use crate::source::{BODY_FIELD, ID_FIELD, PreparedBody};
use std::ops::Range;

/// Octets of a message's identifier, for its place is fixed; a local identifier has at most 32 (X.411 Annex B).
pub(super) const ID_BYTES: usize = 32;
/// Stands for them until there is one.
const ID_MARK: u8 = 1;
/// Octets of the content-identifier (X.411 Annex B: at most 16): CRC-32C and length of the content, in hexadecimal.
pub(super) const DIGEST_BYTES: usize = 16;
const DIGEST_MARK: u8 = 3;
/// A body that is longer is not read again for each message.
const COMBINE_BYTES_MIN: usize = 64 * 1024;
/// id-rfc-822-field-list, 1.3.6.1.7.1.3.2 (RFC 2156): header fields that X.400 has no place for.
const FIELD_LIST: &[u8] = &[0x2b, 6, 1, 7, 1, 3, 2];

/// How soon a message is to go (X.411 §8.2.1.1.1.8); the numbers are not in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Priority {
    /// The default
    #[default]
    Normal,
    /// Lower
    NonUrgent,
    /// Higher
    Urgent,
}

/// What is the same in all messages of a run.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) mode: Mode,
    pub(super) originator: OrAddress,
    /// Where it enters the MTS: domain of identifier and trace.
    pub(super) domain: OrAddress,
    pub(super) priority: Priority,
    /// UTCTime.
    pub(super) time: String,
}

/// A message without the octets in which it differs from others, and without the text of its body, which comes
/// behind it.
#[derive(Clone, Debug)]
pub(super) struct MessageTemplate {
    head: Vec<u8>,
    ids: Vec<usize>,
    numbers: Vec<usize>,
    digest: usize,
    /// Where the content begins.
    content: usize,
    body_checksum: u32,
    /// Their names, with marks for the number.
    recipients: Vec<String>,
}

impl MessageTemplate {
    /// To these recipients, with a body of this text.
    pub(super) fn new(
        sender: &Sender,
        recipients: &[OrAddress],
        body: &PreparedBody,
    ) -> MessageTemplate {
        let checksum = crc32c::crc32c(&body.raw);
        let content = content_head(sender, recipients, body.raw.len(), checksum);
        let content_bytes = content.len() + body.raw.len();
        let envelope = envelope(sender, recipients);
        let mut string = Vec::new();
        push_header(&mut string, 0x04, content_bytes);
        let bytes = envelope.len() + string.len() + content_bytes;
        let mut message = Vec::new();
        push_header(&mut message, 0xa0, bytes);
        let head = transfer_head(sender.mode, message.len() + bytes);
        let mut head = [head, message, envelope, string].concat();
        let content_at = head.len();
        head.extend(content);
        let names = recipients.iter().map(|recipient| ledger_name(&recipient.or_name()));
        let mark = String::from("_").repeat(NUMBER_DIGITS);
        MessageTemplate {
            ids: marks(&head, ID_MARK, ID_BYTES),
            numbers: marks(&head, NUMBER_MARK, NUMBER_DIGITS),
            digest: marks(&head, DIGEST_MARK, DIGEST_BYTES).first().copied().unwrap_or(0),
            head,
            content: content_at,
            body_checksum: checksum,
            recipients: names.map(|name| name.replace(&mark, "{n}")).collect(),
        }
    }

    /// The message up to its body's text, which is to be the one that the template was made for.
    pub(super) fn fill(&self, id: &str, number: u64, body: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.head);
        let mut put = |at: usize, text: &[u8]| {
            if let Some(place) = out.get_mut(at..at + text.len()) {
                place.copy_from_slice(text);
            }
        };
        self.ids.iter().for_each(|&at| put(at, id.as_bytes()));
        let number = digits(number);
        self.numbers.iter().for_each(|&at| put(at, number.as_bytes()));
        let own = crc32c::crc32c(out.get(self.content..).unwrap_or_default());
        let checksum = match body.len() {
            COMBINE_BYTES_MIN.. => crc32c::crc32c_combine(own, self.body_checksum, body.len()),
            _ => crc32c::crc32c_append(own, body),
        };
        let digest = digest(checksum, self.head.len() - self.content + body.len());
        if let Some(place) = out.get_mut(self.digest..self.digest + DIGEST_BYTES) {
            place.copy_from_slice(digest.as_bytes());
        }
    }

    /// Its recipients as ledgers name them, one space between two.
    pub(super) fn recipients(&self, number: u64) -> String {
        self.recipients.join(" ").replace("{n}", &digits(number))
    }

    pub(super) fn recipient_count(&self) -> u64 {
        self.recipients.len() as u64
    }
}

fn digits(number: u64) -> String {
    format!("{number:0NUMBER_DIGITS$}")
}

/// The content-identifier by which a sink sees whether the content came whole.
pub(super) fn digest(checksum: u32, content_bytes: usize) -> String {
    format!("{checksum:08X}{content_bytes:08X}")
}

/// Where so many marks stand in a row.
fn marks(bytes: &[u8], mark: u8, count: usize) -> Vec<usize> {
    let pattern = vec![mark; count];
    memchr::memmem::find_iter(bytes, &pattern).collect()
}

fn or_name(tag: u8, address: &OrAddress) -> Vec<u8> {
    element(tag, &[&address.or_name()])
}

/// MessageTransferEnvelope.
fn envelope(sender: &Sender, recipients: &[OrAddress]) -> Vec<u8> {
    let domain = sender.domain.domain_identifier();
    let identifier = element(0x64, &[&domain, &element(0x16, &[&[ID_MARK; ID_BYTES]])]);
    let content_type = match sender.mode {
        Mode::X4101984 => 2,
        Mode::Normal | Mode::X410 => 22,
    };
    let priority = match sender.priority {
        Priority::Normal => Vec::new(),
        Priority::NonUrgent => integer(0x47, 1),
        Priority::Urgent => integer(0x47, 2),
    };
    let arrival = element(0x80, &[sender.time.as_bytes()]);
    let supplied = element(0x31, &[&arrival, &integer(0x82, 0)]);
    let trace = element(0x69, &[&element(0x30, &[&domain, &supplied])]);
    // Ours to deliver; non-delivery is reported to the originator and to its MTA.
    let indicators = element(0x81, &[&[0, 0xa8]]);
    let recipients = (1..).zip(recipients).flat_map(|(number, recipient)| {
        element(0x31, &[&or_name(0x60, recipient), &integer(0x80, number), &indicators])
    });
    let recipients: Vec<u8> = recipients.collect();
    let fields = [
        identifier,
        or_name(0x60, &sender.originator),
        // IA5 text.
        element(0x65, &[&element(0x80, &[&[5, 0x20]])]),
        integer(0x46, content_type),
        element(0x4a, &[&[DIGEST_MARK; DIGEST_BYTES]]),
        priority,
        // An alternate recipient is allowed.
        element(0x48, &[&[5, 0x20]]),
        trace,
        element(0xa2, &[&recipients]),
    ];
    element(0x31, &fields.each_ref().map(Vec::as_slice))
}

/// An interpersonal message with one part, IA5 text, up to that text.
fn content_head(
    sender: &Sender,
    recipients: &[OrAddress],
    body_bytes: usize,
    body_checksum: u32,
) -> Vec<u8> {
    let id = [ID_MARK; ID_BYTES];
    let originator = or_name(0x60, &sender.originator);
    let to = recipients
        .iter()
        .flat_map(|recipient| element(0x31, &[&element(0xa0, &[&or_name(0x60, recipient)])]));
    let to: Vec<u8> = to.collect();
    // The header fields by which a sink knows the message when a gateway has made mail of it.
    let mut own_id = format!("{ID_FIELD}: ").into_bytes();
    own_id.extend_from_slice(&id);
    let own_body = format!("{BODY_FIELD}: {body_bytes} {body_checksum:08x}");
    let fields = [element(0x16, &[&own_id]), element(0x16, &[own_body.as_bytes()])].concat();
    let field_list = element(0x30, &[&element(0x06, &[FIELD_LIST]), &element(0x30, &[&fields])]);
    let heading = [
        element(0x6b, &[&originator, &element(0x13, &[&id])]),
        element(0xa0, &[&originator]),
        element(0xa2, &[&to]),
        element(0xa8, &[&element(0x14, &[&id])]),
        // P2 of 1984 has no extensions.
        match sender.mode {
            Mode::Normal | Mode::X410 => element(0xaf, &[&field_list]),
            Mode::X4101984 => Vec::new(),
        },
    ];
    let heading = element(0x31, &heading.each_ref().map(Vec::as_slice));
    let mut text = Vec::new();
    push_header(&mut text, 0x16, body_bytes);
    let parameters = element(0x31, &[&integer(0x80, 5)]);
    let lengths = |inner: &[&[u8]]| inner.iter().map(|part| part.len()).sum::<usize>() + body_bytes;
    let mut part = Vec::new();
    push_header(&mut part, 0xa0, lengths(&[&parameters, &text]));
    let mut body = Vec::new();
    push_header(&mut body, 0x30, lengths(&[&part, &parameters, &text]));
    let mut message = Vec::new();
    push_header(&mut message, 0xa0, lengths(&[&heading, &body, &part, &parameters, &text]));
    [message, heading, body, part, parameters, text].concat()
}

/// Where the text of the only part of an interpersonal message lies, for one that came.
pub(super) const TEXT_PATH: [u8; 4] = [0xa0, 0x30, 0xa0, 0x16];

/// The value of a field of ours in a list of such: what is behind `NAME: ` in its own string.
pub(super) fn field<'a>(content: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut searched = 0;
    while let Some(found) = memchr::memmem::find(content.get(searched..)?, name.as_bytes()) {
        let start = searched + found;
        searched = start + name.len();
        if let Some(range) = string_at(content, start) {
            let value = content.get(range)?.get(name.len()..)?;
            return Some(value.strip_prefix(b":")?.trim_ascii());
        }
    }
    None
}

/// The string, of at most 127 octets, that begins there.
fn string_at(content: &[u8], start: usize) -> Option<Range<usize>> {
    let header = content.get(start.checked_sub(2)?..start)?;
    match *header {
        [0x16, length @ 0..=0x7f] => Some(start..start + usize::from(length)),
        _ => None,
    }
}
