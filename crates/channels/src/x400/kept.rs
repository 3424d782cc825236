//! What the spool keeps of an APDU beside its content: of which kind it is, and its envelope as it came.

use bytes::Bytes;

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
