//! Storage form of an APDU's envelope in the spool, with its kind.

use bytes::Bytes;
use mail::Failure;

/// Kinds of APDUs between MTAs (X.411 §12.1.2).
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

    /// Name for people and events.
    pub(super) fn name(self) -> &'static str {
        match self {
            ApduKind::Message => "message",
            ApduKind::Probe => "probe",
            ApduKind::Report => "report",
        }
    }
}

/// The stored form.
pub(super) fn keep(kind: ApduKind, envelope: &[u8]) -> Bytes {
    let mut kept = Vec::with_capacity(envelope.len() + 1);
    kept.push(kind.octet());
    kept.extend_from_slice(envelope);
    Bytes::from(kept)
}

/// Reads the form written by [`keep`].
pub(super) fn read(kept: &Bytes) -> Option<(ApduKind, Bytes)> {
    let octet = *kept.first()?;
    let kind = ApduKind::ALL.into_iter().find(|kind| kind.octet() == octet)?;
    Some((kind, kept.slice(1..)))
}

/// Refused recipients, by index.
pub(super) type RefusedRecipients = Vec<(u32, Failure)>;

/// An APDU to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Departure {
    /// The octets before the content.
    pub(super) prefix: Vec<u8>,
    /// The content.
    pub(super) content: ApduContent,
    /// Recipients that can't be in the APDU, by index. If all are refused, nothing is sent.
    pub(super) refused: RefusedRecipients,
}

/// Content of an APDU.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ApduContent {
    /// No content, for a probe.
    None,
    /// As stored.
    Kept,
    /// Converted from internet mail.
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
