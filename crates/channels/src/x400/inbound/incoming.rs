//! An APDU while it arrives: its acceptance once the envelope is complete, then its content.

use crate::x400::acceptance::{self, Acceptance, AcceptanceContext};
use crate::x400::section::X400;
use auth::digest::{DIGEST_BYTES, Sha256};
use bytes::{Bytes, BytesMut};
use config::Config;
use mail::{ContentFacts, ContentScanner, Refusal, Wall};
use x400::mts::{ApduEvent, ApduReader, EnvelopeKind, Limits};

/// Maximum size of an envelope, enough for some thousand recipients.
const ENVELOPE_BYTES_MAX: usize = 1 << 20;
/// Maximum octets of an unreadable APDU that are held for an operator.
pub(super) const UNREADABLE_BYTES_MAX: u64 = 1 << 20;

const BROKEN_CONTENT: Refusal = Refusal::permanent((5, 4), "Malformed message after its envelope");

/// Destination of the octets of a content.
pub(super) trait OctetSink {
    /// The next octets.
    fn push(&mut self, octets: &[u8]);
    /// Discards the octets pushed so far.
    fn drop_content(&mut self);
}

/// An APDU that arrives.
pub(super) struct Incoming {
    reader: ApduReader,
    digest: ApduDigest,
    scanner: ContentScanner,
    /// Set once the envelope is complete or found unreadable.
    acceptance: Option<Acceptance>,
    /// Octets before that. Contiguous, since a peer may send single octets.
    raw: BytesMut,
    /// Octets of the content pushed so far.
    kept_bytes: u64,
    state: State,
}

/// Handling of further octets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// They are parsed.
    Reads,
    /// They can't be parsed, and are stored unread up to a limit.
    Unreadable,
    /// They are discarded.
    Passes,
}

/// An APDU that has arrived completely.
pub(super) struct Complete {
    pub(super) acceptance: Acceptance,
    pub(super) facts: ContentFacts,
    pub(super) digest: [u8; DIGEST_BYTES],
}

/// Configuration and limits for an APDU that arrives.
#[derive(Clone, Copy)]
pub(super) struct IncomingContext<'a> {
    pub(super) x400: &'a X400,
    pub(super) config: &'a Config,
    /// Name of the sending peer, for people.
    pub(super) peer: &'a str,
    pub(super) recipients_max: usize,
    pub(super) content_bytes_max: u64,
    pub(super) now: Wall,
}

impl IncomingContext<'_> {
    fn terms(&self) -> AcceptanceContext<'_> {
        let IncomingContext { x400, config, recipients_max, now, .. } = *self;
        AcceptanceContext { x400, config, recipients_max, now }
    }
}

impl Incoming {
    /// An APDU without any octets so far.
    pub(super) fn new() -> Incoming {
        let limits = Limits { envelope_bytes_max: ENVELOPE_BYTES_MAX, ..Limits::default() };
        Incoming {
            reader: ApduReader::new(limits),
            digest: ApduDigest::default(),
            scanner: ContentScanner::default(),
            acceptance: None,
            raw: BytesMut::new(),
            kept_bytes: 0,
            state: State::Reads,
        }
    }

    /// Handles the next octets. Returns the number of recipients to reserve queue capacity for, once it is known.
    pub(super) fn push(
        &mut self,
        octets: Bytes,
        rules: &IncomingContext<'_>,
        sink: &mut dyn OctetSink,
    ) -> Option<usize> {
        self.digest.push(&octets);
        match self.state {
            State::Passes => return None,
            State::Unreadable => {
                self.keep_raw(&octets, sink);
                return None;
            }
            State::Reads => {}
        }
        let before = self.acceptance.is_some();
        let read = self.reader.handle_input(&octets);
        if !before {
            self.raw.extend_from_slice(&octets);
        }
        while let Some(event) = self.reader.poll_event() {
            self.take(event, rules, sink);
        }
        if let Err(error) = read {
            self.fail(&error.to_string(), rules, sink);
        }
        let acceptance = self.acceptance.as_ref().filter(|_| !before)?;
        self.raw = BytesMut::new();
        Some(acceptance.envelope.recipients.len())
    }

    fn take(&mut self, event: ApduEvent, rules: &IncomingContext<'_>, sink: &mut dyn OctetSink) {
        match event {
            ApduEvent::Envelope { octets, envelope, .. } => match envelope {
                Ok(envelope) => {
                    let accepted = acceptance::of_transfer(&envelope, &octets, &rules.terms());
                    self.accept(accepted);
                }
                Err(broken) => {
                    // A probe has the tag of its envelope (X.411 §12.2.1.2).
                    let kind = match octets.first() {
                        Some(0x31) => EnvelopeKind::Message,
                        _ => EnvelopeKind::Probe,
                    };
                    match acceptance::of_broken(&broken, kind, &rules.terms()) {
                        Some(accepted) => self.accept(accepted),
                        None => self.fail(&broken.to_string(), rules, sink),
                    }
                }
            },
            ApduEvent::Report { octets, envelope } => match envelope {
                Ok(envelope) => {
                    self.accept(acceptance::of_report(&envelope, &octets, &rules.terms()));
                }
                Err(error) => self.fail(&error.to_string(), rules, sink),
            },
            ApduEvent::Content(octets) => self.content(&octets, rules, sink),
        }
    }

    /// The acceptance, once it is known.
    pub(super) fn acceptance_mut(&mut self) -> Option<&mut Acceptance> {
        self.acceptance.as_mut()
    }

    fn accept(&mut self, acceptance: Acceptance) {
        if acceptance.envelope.recipients.is_empty() {
            self.state = State::Passes;
        }
        self.acceptance = Some(acceptance);
    }

    fn content(&mut self, octets: &[u8], rules: &IncomingContext<'_>, sink: &mut dyn OctetSink) {
        if self.state != State::Reads {
            return;
        }
        self.kept_bytes += octets.len() as u64;
        if self.kept_bytes > rules.content_bytes_max {
            if let Some(acceptance) = &mut self.acceptance {
                acceptance.refuse_all(&acceptance::TOO_LONG);
            }
            return self.pass(sink);
        }
        self.scanner.push(octets);
        sink.push(octets);
    }

    /// Discards the content, including octets already pushed.
    fn pass(&mut self, sink: &mut dyn OctetSink) {
        sink.drop_content();
        (self.scanner, self.kept_bytes) = (ContentScanner::default(), 0);
        self.state = State::Passes;
    }

    /// Handles an APDU that is unreadable or ends too early. A report is held for an operator, because no report is
    /// sent about a report.
    fn fail(&mut self, what: &str, rules: &IncomingContext<'_>, sink: &mut dyn OctetSink) {
        if self.state != State::Reads {
            return;
        }
        match &mut self.acceptance {
            Some(report) if report.is_report() => {
                report.hold(rules.peer, what);
                // The rest of its content is stored unread.
                self.state = if self.reader.is_done() { State::Passes } else { State::Unreadable };
                return;
            }
            Some(acceptance) => {
                acceptance.refuse_all(&BROKEN_CONTENT);
                return self.pass(sink);
            }
            None => {}
        }
        self.acceptance = Some(acceptance::of_unreadable(rules.peer, what, rules.config));
        self.state = State::Unreadable;
        let octets = std::mem::take(&mut self.raw);
        self.keep_raw(&octets, sink);
    }

    fn keep_raw(&mut self, octets: &[u8], sink: &mut dyn OctetSink) {
        let room = usize::try_from(UNREADABLE_BYTES_MAX.saturating_sub(self.kept_bytes))
            .unwrap_or(usize::MAX);
        let kept = octets.get(..room.min(octets.len())).unwrap_or_default();
        self.kept_bytes += kept.len() as u64;
        self.scanner.push(kept);
        sink.push(kept);
    }

    /// The APDU has ended. Returns the number of recipients to reserve queue capacity for, if it is only known now.
    pub(super) fn finish(
        &mut self,
        rules: &IncomingContext<'_>,
        sink: &mut dyn OctetSink,
    ) -> Option<usize> {
        let before = self.acceptance.is_some();
        if let Err(error) = self.reader.finish() {
            self.fail(&error.to_string(), rules, sink);
        }
        let acceptance = self.acceptance.as_ref().filter(|_| !before)?;
        Some(acceptance.envelope.recipients.len())
    }

    /// The complete APDU.
    pub(super) fn complete(self) -> Option<Complete> {
        let (facts, digest) = (self.scanner.finish(), self.digest.finish());
        Some(Complete { acceptance: self.acceptance?, facts, digest })
    }
}

/// Octets at the beginning that are hashed cryptographically. They contain the start of the envelope with the message's
/// identifier.
const FRONT_BYTES: usize = 8 * 1024;

/// Digest of an APDU: SHA-256 of its beginning, CRC-32C of the rest, and its length. Two messages of one MTA have
/// different identifiers, so hashing ten megabytes would add nothing.
#[derive(Debug, Default)]
pub(super) struct ApduDigest {
    front: Sha256,
    rest: u32,
    bytes: u64,
}

impl ApduDigest {
    /// The next piece.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let before = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let at = FRONT_BYTES.saturating_sub(before).min(piece.len());
        let (front, rest) = piece.split_at(at);
        if !front.is_empty() {
            self.front.push(front);
        }
        if !rest.is_empty() {
            self.rest = crc32c::crc32c_append(self.rest, rest);
        }
        self.bytes += piece.len() as u64;
    }

    /// The digest of all pieces.
    pub(super) fn finish(mut self) -> [u8; DIGEST_BYTES] {
        self.front.push(&self.rest.to_be_bytes());
        self.front.push(&self.bytes.to_be_bytes());
        self.front.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(octets: &[u8], step: usize) -> [u8; DIGEST_BYTES] {
        let mut digest = ApduDigest::default();
        octets.chunks(step).for_each(|piece| digest.push(piece));
        digest.finish()
    }

    #[test]
    fn every_octet_and_the_length_count_however_it_comes() {
        let octets: Vec<u8> = (0..FRONT_BYTES + 1_000).map(|n| (n % 251) as u8).collect();
        let whole = digest(&octets, octets.len());
        for step in [1, 1_000, FRONT_BYTES - 1, FRONT_BYTES, FRONT_BYTES + 1] {
            assert_eq!(digest(&octets, step), whole, "{step}");
        }
        for at in [0, FRONT_BYTES - 1, FRONT_BYTES, octets.len() - 1] {
            let mut other = octets.clone();
            other[at] ^= 1;
            assert_ne!(digest(&other, 4_096), whole, "{at}");
        }
        for length in [FRONT_BYTES, FRONT_BYTES + 999] {
            assert_ne!(digest(&octets[..length], 4_096), whole, "{length}");
        }
        // A front alone is not the same as with what is hashed behind it.
        assert_ne!(digest(&[], 1), digest(&[0; 12], 12));
    }
}
