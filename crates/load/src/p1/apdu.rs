//! MTS-APDUs that came (X.411 §12): whose message it is, whom it is for, and whether its content is whole.

use super::address::ledger_name;
use super::ber::{BerElement, children, find, read};
use super::bind::Mode;
use super::message::{DIGEST_BYTES, ID_BYTES, TEXT_PATH, digest, field};
use crate::ledger::ArrivalState;
use crate::source::{BODY_FIELD, ID_FIELD};

/// Fields of ours are looked for in so much of the content.
const SEARCHED_BYTES_MAX: usize = 64 * 1024;

/// What an APDU is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Apdu {
    Message(Arrived),
    Report,
    Probe,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    /// As its source named it.
    pub(super) id: Option<String>,
    /// Those that the receiver is responsible for, as ledgers name them.
    pub(super) recipients: Vec<String>,
    pub(super) content_bytes: usize,
    pub(super) state: ArrivalState,
}

/// The APDU in what a transfer carried: in normal mode it lies in an EXTERNAL (X.228 §8).
///
/// # Errors
/// When there is none.
pub(super) fn unwrap(stream: &[u8], mode: Mode) -> Result<&[u8], String> {
    let wrapped = match mode {
        Mode::X410 | Mode::X4101984 => return Ok(stream),
        Mode::Normal => match read(stream) {
            Some((BerElement { tag: 0x28, content }, _)) => content,
            Some((BerElement { tag, .. }, _)) => {
                return Err(format!("{tag:#04x} instead of EXTERNAL"));
            }
            None => return Err("an unreadable EXTERNAL".to_owned()),
        },
    };
    find(wrapped, &[0xa0]).ok_or_else(|| "an EXTERNAL without an APDU".to_owned())
}

/// Reads an APDU.
///
/// # Errors
/// What keeps it from being understood.
pub(super) fn apdu(bytes: &[u8]) -> Result<Apdu, String> {
    let (BerElement { tag, content }, _) = read(bytes).ok_or("an unreadable APDU")?;
    match tag {
        0xa0 => message(content).map(Apdu::Message),
        0xa1 => Ok(Apdu::Report),
        0xa2 => Ok(Apdu::Probe),
        _ => Err(format!("an APDU of kind {tag:#04x}")),
    }
}

fn message(parts: &[u8]) -> Result<Arrived, String> {
    let mut parts = children(parts);
    let envelope = parts.next().filter(|envelope| envelope.tag == 0x31);
    let envelope = envelope.ok_or("a message without an envelope")?.content;
    let content = parts.next().filter(|content| content.tag & !0x20 == 0x04);
    let content = content.ok_or("a message without content")?;
    let (mut checksum, mut content_bytes) = (0, 0);
    content.for_each_piece(&mut |piece| {
        checksum = crc32c::crc32c_append(checksum, piece);
        content_bytes += piece.len();
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let local = find(envelope, &[0x64, 0x16]).map(text);
    let told = find(envelope, &[0x4a]).unwrap_or_default();
    // A content-identifier of ours has so many digits; those of others say something else.
    let is_digest = told.len() == DIGEST_BYTES && told.iter().all(u8::is_ascii_hexdigit);
    let is_ours = local.as_ref().is_some_and(|local| local.len() == ID_BYTES);
    let (id, state) = if is_digest && is_ours {
        let is_whole = told == digest(checksum, content_bytes).as_bytes();
        (local, if is_whole { ArrivalState::Whole } else { ArrivalState::Damaged })
    } else {
        by_fields(content, local)
    };
    let id =
        id.filter(|id| !id.is_empty() && id != "-" && id.bytes().all(|b| b.is_ascii_graphic()));
    Ok(Arrived { id, recipients: recipients(envelope), content_bytes, state })
}

/// Mail that a gateway has made a message of: its header fields are in the heading.
fn by_fields(content: BerElement<'_>, local: Option<String>) -> (Option<String>, ArrivalState) {
    let mut joined = Vec::new();
    let flat = match content.tag {
        0x04 => content.content,
        _ => {
            content.for_each_piece(&mut |piece| joined.extend_from_slice(piece));
            &joined
        }
    };
    let searched = flat.get(..SEARCHED_BYTES_MAX.min(flat.len())).unwrap_or_default();
    let Some(id) = field(searched, ID_FIELD) else { return (local, ArrivalState::Whole) };
    let id = Some(String::from_utf8_lossy(id).into_owned());
    let told = field(searched, BODY_FIELD).and_then(|value| std::str::from_utf8(value).ok());
    let body = find(flat, &TEXT_PATH).unwrap_or_default();
    let is = format!("{} {:08x}", body.len(), crc32c::crc32c(body));
    (id, if told == Some(&is) { ArrivalState::Whole } else { ArrivalState::Damaged })
}

/// Recipients whose responsibility bit is set (X.411 §12.2.1.1.1.8), or all if none can be read.
fn recipients(envelope: &[u8]) -> Vec<String> {
    let fields = children(find(envelope, &[0xa2]).unwrap_or_default());
    let ours = fields.filter(|recipient| {
        let indicators = find(recipient.content, &[0x81]).unwrap_or_default();
        // Behind the number of unused bits.
        indicators.get(1).is_some_and(|bits| bits & 0x80 != 0)
    });
    let names = ours.filter_map(|recipient| find(recipient.content, &[0x60]).map(ledger_name));
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::super::bind::Contexts;
    use super::super::message::{MessageTemplate, Priority, Sender};
    use super::*;
    use crate::source::{BodyKind, PreparedBody};

    const ID: &str = "0123456789abc.def-00000000000001";

    fn sender(mode: Mode) -> Sender {
        Sender {
            mode,
            originator: "/S=from/O=Source/PRMD=Lab/ADMD= /C=GB/".parse().unwrap(),
            domain: "/PRMD=Lab/ADMD= /C=GB/".parse().unwrap(),
            priority: Priority::Urgent,
            time: "261125080000Z".to_owned(),
        }
    }

    fn stream(mode: Mode, body: &PreparedBody) -> (Vec<u8>, MessageTemplate) {
        let recipients = ["/S=user{n}/O=Sink/PRMD=Lab/C=GB/", "/DD.RFC-822=u(a)d.grey/O=gw/C=GB/"];
        let recipients = recipients.map(|text| text.parse().unwrap());
        let template = MessageTemplate::new(&sender(mode), &recipients, body);
        let mut out = Vec::new();
        template.fill(ID, 42, &body.raw, &mut out);
        out.extend_from_slice(&body.raw);
        (out, template)
    }

    fn arrived(stream: &[u8], mode: Mode) -> Result<Arrived, String> {
        match apdu(unwrap(stream, mode)?)? {
            Apdu::Message(arrived) => Ok(arrived),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn what_a_template_makes_is_read_again() {
        for mode in [Mode::Normal, Mode::X410, Mode::X4101984] {
            for bytes in [0, 2, 100, 1000, 70_000, 200_000] {
                let body = PreparedBody::generate(BodyKind::Plain, bytes, 1);
                let (stream, template) = stream(mode, &body);
                let arrived = arrived(&stream, mode).unwrap();
                assert_eq!((arrived.id.as_deref(), arrived.state), (Some(ID), ArrivalState::Whole));
                let names = "/S=user0000000042/O=Sink/PRMD=Lab/ADMD=/C=GB/ u@d.grey";
                assert_eq!(arrived.recipients.join(" "), names);
                assert_eq!(template.recipients(42), names);
                assert!(arrived.content_bytes > bytes && arrived.content_bytes < bytes + 1000);
                // The text lies where a gateway looks for it.
                let content = find(unwrap(&stream, mode).unwrap(), &[0xa0, 0x04]).unwrap();
                assert_eq!(find(content, &TEXT_PATH), Some(body.raw.as_slice()));
            }
        }
    }

    #[test]
    fn any_octet_of_the_content_that_changes_is_damage() {
        let body = PreparedBody::generate(BodyKind::Plain, 300, 1);
        let (mut stream, _) = stream(Mode::X410, &body);
        let content = arrived(&stream, Mode::X410).unwrap().content_bytes;
        for at in stream.len() - content..stream.len() {
            stream[at] ^= 1;
            let arrived = arrived(&stream, Mode::X410).unwrap();
            assert_eq!((arrived.state, arrived.id.as_deref()), (ArrivalState::Damaged, Some(ID)));
            stream[at] ^= 1;
        }
    }

    #[test]
    fn mail_from_a_gateway_is_known_by_its_fields() {
        let body = PreparedBody::generate(BodyKind::Plain, 300, 1);
        let (mut stream, _) = stream(Mode::X410, &body);
        // Another MTS identifier and content-identifier, as a gateway makes them.
        for place in marks(&stream, ID.as_bytes()).into_iter().take(1) {
            stream[place..place + 4].copy_from_slice(b"GATE");
        }
        let told = stream.windows(2).position(|two| two == [0x4a, DIGEST_BYTES as u8]).unwrap();
        stream[told + 2..told + 6].copy_from_slice(b"Re: ");
        let from_gateway = arrived(&stream, Mode::X410).unwrap();
        assert_eq!(
            (from_gateway.id.as_deref(), from_gateway.state),
            (Some(ID), ArrivalState::Whole)
        );
        let last = stream.len() - 1;
        stream[last] ^= 1;
        assert_eq!(arrived(&stream, Mode::X410).unwrap().state, ArrivalState::Damaged);
    }

    fn marks(bytes: &[u8], text: &[u8]) -> Vec<usize> {
        memchr::memmem::find_iter(bytes, text).collect()
    }

    #[test]
    fn other_apdus_and_what_is_cut_are_told_apart() {
        assert_eq!(apdu(&[0xa1, 0]), Ok(Apdu::Report));
        assert_eq!(apdu(&[0xa2, 0]), Ok(Apdu::Probe));
        assert!(apdu(&[0xa3, 0]).is_err() && apdu(&[]).is_err());
        let body = PreparedBody::generate(BodyKind::Plain, 300, 1);
        let (stream, _) = stream(Mode::Normal, &body);
        for cut in 0..stream.len() {
            assert!(arrived(&stream[..cut], Mode::Normal).is_err(), "{cut}");
        }
        assert!(
            unwrap(&[0x30, 0], Mode::Normal).is_err() && unwrap(&[0x28, 0], Mode::Normal).is_err()
        );
        assert_eq!(Contexts::OURS.mtse, 5);
    }
}
