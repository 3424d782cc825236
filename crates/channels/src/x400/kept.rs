//! What the spool keeps of an APDU beside its content: of which kind it is, and its envelope as it came.

use bytes::Bytes;
use mail::Failure;

/// What is sent from one MTA to another (X.411 §12.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApduKind {
    Message,
    Probe,
    Report,
}

impl ApduKind {
    const ALL: [ApduKind; 3] = [ApduKind::Message, ApduKind::Probe, ApduKind::Report];

    fn octet(self) -> u8 {
        match self {
            ApduKind::Message => b'm',
            ApduKind::Probe => b'p',
            ApduKind::Report => b'r',
        }
    }

    /// As people and events call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            ApduKind::Message => "message",
            ApduKind::Probe => "probe",
            ApduKind::Report => "report",
        }
    }
}

/// As it is kept.
pub(super) fn keep(kind: ApduKind, envelope: &[u8]) -> Bytes {
    let mut kept = Vec::with_capacity(envelope.len() + 1);
    kept.push(kind.octet());
    kept.extend_from_slice(envelope);
    Bytes::from(kept)
}

/// What [`keep`] kept.
pub(super) fn read(kept: &Bytes) -> Option<(ApduKind, Bytes)> {
    let octet = *kept.first()?;
    let kind = ApduKind::ALL.into_iter().find(|kind| kind.octet() == octet)?;
    Some((kind, kept.slice(1..)))
}

/// Recipients that can't be in an APDU, by index.
pub(super) type RefusedRecipients = Vec<(u32, Failure)>;

/// An APDU but for its content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Departure {
    /// The octets before the content.
    pub(super) prefix: Vec<u8>,
    /// What follows.
    pub(super) content: ApduContent,
    /// Recipients of the next MTA that can't be in it, by index. If that is all of them, there is nothing to send.
    pub(super) refused: RefusedRecipients,
}

/// The content of an APDU.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ApduContent {
    /// A probe has none.
    None,
    /// As it is kept.
    Kept,
    /// Made of a message of internet mail.
    Made(Bytes),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read() {
        for kind in ApduKind::ALL {
            let kept = keep(kind, b"envelope");
            assert_eq!(read(&kept), Some((kind, Bytes::from_static(b"envelope"))));
        }
        assert_eq!(read(&Bytes::new()), None);
        assert_eq!(read(&Bytes::from_static(b"xenvelope")), None);
    }
}
