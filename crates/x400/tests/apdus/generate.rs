//! APDUs that a seed makes: every field, in and out of use.

use bytes::Bytes;
use mail::{Random, Wall};
use x400::content::{BodyPart, Content, Heading, Ipm, IpmIdentifier};
use x400::mts::extension::{Extension, NameAndTime, Redirection, RedirectionReason, number};
use x400::mts::recipient::ReportRequest;
use x400::mts::report::{ReportType, ReportedRecipient};
use x400::mts::trace::{Attempted, RoutingAction, Supplied};
use x400::mts::{
    ContentType, Eits, EnvelopeKind, ExtensionKind, Extensions, Flags, GlobalDomain,
    InternalTraceElement, MtsIdentifier, Priority, Recipient, RecipientIndicators, ReportContent,
    ReportEnvelope, TraceElement, TransferEnvelope, UtcTime,
};
use x400::or_name::{DomainDefined, OrAddress, OrName, Value};

/// An APDU and its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Made {
    /// A message and its content.
    Message(Box<TransferEnvelope>, Bytes),
    /// A probe.
    Probe(Box<TransferEnvelope>),
    /// A report.
    Report(Box<ReportEnvelope>, Box<ReportContent>),
}

impl Made {
    /// The whole APDU.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Made::Message(envelope, content) => {
                let mut octets =
                    x400::mts::envelope::message_prefix(&envelope.encode(), content.len() as u64);
                octets.extend_from_slice(content);
                octets
            }
            Made::Probe(envelope) => envelope.encode(),
            Made::Report(envelope, content) => {
                let content = content.encode();
                let mut octets =
                    x400::mts::report::report_prefix(&envelope.encode(), content.len() as u64);
                octets.extend_from_slice(&content);
                octets
            }
        }
    }
}

pub(crate) struct Generator {
    pub(crate) random: Random,
    /// Times are given in zones other than UTC, too.
    pub(crate) has_zones: bool,
}

impl Generator {
    pub(crate) fn apdu(&mut self) -> Made {
        match self.random.below(4) {
            0 => Made::Probe(Box::new(self.envelope(EnvelopeKind::Probe))),
            1 => Made::Report(Box::new(self.report_envelope()), Box::new(self.report_content())),
            _ => {
                let envelope = self.envelope(EnvelopeKind::Message);
                let content = self.content();
                Made::Message(Box::new(envelope), content)
            }
        }
    }

    /// An interpersonal message with a text and some octets.
    fn content(&mut self) -> Bytes {
        let heading = Heading {
            this_ipm: IpmIdentifier { user: self.maybe(Self::name), relative: self.text(64) },
            subject: self.maybe(|g| Bytes::from(g.text(128).into_boxed_bytes())),
            ..Heading::default()
        };
        let text = Bytes::from(self.text(300).into_boxed_bytes());
        let octets = self.list(0, 100, |g| g.random.next_u64() as u8);
        let body = vec![
            BodyPart::Ia5 { repertoire: Some(5), text },
            BodyPart::Bilateral(Bytes::from(octets)),
        ];
        Bytes::from(Content::Message(Box::new(Ipm { heading, body })).encode())
    }

    fn chance(&mut self) -> bool {
        self.random.hits(500)
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance().then(|| make(self))
    }

    fn list<T>(&mut self, from: u64, to: u64, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = from + self.random.below(to - from + 1);
        (0..count).map(|_| make(self)).collect()
    }

    /// Printable characters, at least one of which is no blank.
    fn text(&mut self, max: u64) -> Box<str> {
        const CHARS: &[u8] = b"ABCdefXYZ0189 '()+,-.:?";
        let mut text: String = self
            .list(0, max - 1, |g| char::from(CHARS[g.random.below(CHARS.len() as u64) as usize]))
            .into_iter()
            .collect();
        text.push('q');
        text.into()
    }

    fn digits(&mut self, max: u64) -> Box<str> {
        self.list(1, max, |g| char::from(b'0' + g.random.below(10) as u8))
            .into_iter()
            .collect::<String>()
            .into()
    }

    fn value(&mut self, max: u64) -> Value {
        let printable = Some(self.text(max));
        let teletex = self.maybe(|g| Bytes::from(g.text(max).into_boxed_bytes()));
        Value { printable, teletex }
    }

    fn country(&mut self) -> Box<str> {
        ["GB", "DE", "US", "232"][self.random.below(4) as usize].into()
    }

    fn admd(&mut self) -> Box<str> {
        if self.chance() { " ".into() } else { self.text(16) }
    }

    fn domain(&mut self) -> GlobalDomain {
        let country = self.country();
        let admd = self.admd();
        let prmd = self.maybe(|g| if g.chance() { g.digits(8) } else { g.text(16) });
        GlobalDomain { country, admd, prmd }
    }

    fn identifier(&mut self) -> MtsIdentifier {
        MtsIdentifier { domain: self.domain(), local: self.text(32) }
    }

    fn name(&mut self) -> OrName {
        let mut address = OrAddress {
            country: Some(self.country()),
            admd: Some(self.admd()),
            prmd: self.maybe(|g| g.text(16)),
            network_address: self.maybe(|g| g.digits(15)),
            terminal_id: self.maybe(|g| g.text(24)),
            numeric_user_id: self.maybe(|g| g.digits(32)),
            ..OrAddress::default()
        };
        if self.chance() {
            address.organization = self.value(64);
        }
        if self.chance() {
            address.common_name = self.value(64);
        }
        if self.chance() {
            address.personal_name.surname = self.value(40);
            if self.chance() {
                address.personal_name.given = Value::printable(self.text(16));
            }
            if self.chance() {
                address.personal_name.initials = Value::printable(self.text(5));
            }
        }
        address.units = self.list(0, 4, |g| Value::printable(g.text(32)));
        address.domain_defined = self.list(0, 4, |g| DomainDefined {
            kind: Value::printable(g.text(8)),
            value: Value::printable(g.text(128)),
        });
        address.into()
    }

    fn time(&mut self) -> UtcTime {
        // From 2000 to 2048.
        let wall = Wall((946_684_800 + self.random.below(1_546_300_800)) * 1_000);
        let ahead_minutes = if self.chance() || !self.has_zones {
            0
        } else {
            self.random.below(48) as i16 * 30 - 720
        };
        UtcTime { wall, ahead_minutes }
    }

    fn eits(&mut self) -> Eits {
        let built_in = Flags(self.random.next_u64() as u16 & 0xffc0);
        let extended =
            self.list(0, 3, |_| Bytes::from_static(&[0x28, 0xce, 0x15, 0x07, 0x01, 0x00, 0x06]));
        Eits { built_in, extended, parameters: Vec::new() }
    }

    fn supplied(&mut self, is_internal: bool) -> Supplied {
        Supplied {
            arrival: self.time(),
            action: if self.chance() { RoutingAction::Relayed } else { RoutingAction::Rerouted },
            attempted: self.maybe(|g| {
                if is_internal && g.chance() {
                    Attempted::Mta(g.text(32))
                } else {
                    Attempted::Domain(g.domain())
                }
            }),
            deferred: self.maybe(Self::time),
            converted: self.maybe(Self::eits),
            other_actions: Flags(self.random.next_u64() as u16 & 0xc000),
        }
    }

    fn trace(&mut self) -> Vec<TraceElement> {
        self.list(1, 5, |g| TraceElement { domain: g.domain(), supplied: g.supplied(false) })
    }

    fn internal(&mut self) -> Extension {
        let trace = self.list(1, 4, |g| InternalTraceElement {
            domain: g.domain(),
            mta: g.text(32),
            supplied: g.supplied(true),
        });
        Extension::internal_trace(&trace)
    }

    fn named(&mut self) -> NameAndTime {
        NameAndTime { name: self.name(), time: self.time() }
    }

    fn private(&mut self) -> Extension {
        let mut private = Extension::content_correlator(&self.text(20));
        private.kind =
            ExtensionKind::Private(Bytes::from_static(&[0x2b, 6, 1, 4, 1, 0x86, 0x8d, 0x1f, 1]));
        private
    }

    fn message_extensions(&mut self) -> Extensions {
        let mut all = Vec::new();
        for number in [1, 3, 4] {
            all.extend(self.maybe(|_| Extension::prohibition(number)));
        }
        all.extend(self.maybe(|g| Extension::latest_delivery_time(g.time())));
        all.extend(self.maybe(|g| Extension::content_correlator(&g.text(512))));
        all.extend(self.maybe(|g| {
            let history = g.list(1, 3, Self::named);
            Extension::history(number::DL_EXPANSION_HISTORY, &history)
        }));
        all.extend(self.maybe(Self::internal));
        all.extend(self.maybe(Self::private));
        Extensions(all)
    }

    fn recipient_extensions(&mut self) -> Extensions {
        let mut all = Vec::new();
        all.extend(self.maybe(|g| Extension::alternate_recipient(&g.name())));
        all.extend(self.maybe(|g| {
            let history = g.list(1, 3, |g| Redirection {
                intended: g.named(),
                reason: RedirectionReason::of_number(g.random.below(3) as u32),
            });
            Extension::redirection_history(&history)
        }));
        Extensions(all)
    }

    fn indicators(&mut self) -> RecipientIndicators {
        let request = [
            ReportRequest::None,
            ReportRequest::NonDelivery,
            ReportRequest::Both,
            ReportRequest::Audited,
        ];
        RecipientIndicators::new(self.chance(), request[self.random.below(4) as usize])
    }

    fn envelope(&mut self, kind: EnvelopeKind) -> TransferEnvelope {
        let is_message = kind == EnvelopeKind::Message;
        let recipients = self.list(1, 4, |g| Recipient {
            name: g.name(),
            number: 1 + g.random.below(32_767) as u32,
            indicators: g.indicators(),
            explicit_conversion: g.maybe(|g| g.random.below(8) as u32),
            extensions: g.recipient_extensions(),
        });
        TransferEnvelope {
            kind,
            identifier: self.identifier(),
            originator: self.name(),
            original_eits: self.maybe(Self::eits),
            content_type: if self.chance() { ContentType::P22 } else { ContentType::P2 },
            content_identifier: self.maybe(|g| g.text(16)),
            priority: if is_message {
                Priority::of_number(self.random.below(3) as i64).unwrap_or_default()
            } else {
                Priority::Normal
            },
            indicators: Flags(self.random.next_u64() as u16 & 0xf000),
            deferred_delivery: self.maybe(Self::time).filter(|_| is_message),
            content_length: self.maybe(|g| g.random.below(1 << 30)).filter(|_| !is_message),
            bilateral: Vec::new(),
            trace: self.trace(),
            extensions: self.message_extensions(),
            recipients,
        }
    }

    fn report_envelope(&mut self) -> ReportEnvelope {
        let mut extensions = Vec::new();
        extensions.extend(self.maybe(Self::internal));
        extensions.extend(self.maybe(|g| {
            let history = g.list(2, 4, Self::named);
            Extension::history(number::ORIGINATOR_AND_DL_EXPANSION_HISTORY, &history)
        }));
        ReportEnvelope {
            identifier: self.identifier(),
            destination: self.name(),
            trace: self.trace(),
            extensions: Extensions(extensions),
        }
    }

    fn report_content(&mut self) -> ReportContent {
        let recipients = self.list(1, 4, |g| ReportedRecipient {
            actual: g.name(),
            number: 1 + g.random.below(32_767) as u32,
            indicators: g.indicators(),
            arrival: g.time(),
            converted: g.maybe(Self::eits),
            outcome: if g.chance() {
                ReportType::Delivered { time: g.time(), user: g.random.below(7) as u32 }
            } else {
                ReportType::Failed {
                    reason: g.random.below(9) as u32,
                    diagnostic: g.maybe(|g| g.random.below(79) as u32),
                }
            },
            intended: g.maybe(Self::name),
            supplementary: g.maybe(|g| g.text(256)),
            extensions: Extensions::default(),
        });
        ReportContent {
            subject: self.identifier(),
            subject_trace: if self.chance() { self.trace() } else { Vec::new() },
            original_eits: self.maybe(Self::eits),
            content_type: self.maybe(|_| ContentType::P22),
            content_identifier: self.maybe(|g| g.text(16)),
            returned_content: self.maybe(Self::content),
            additional: None,
            extensions: Extensions(
                self.maybe(|g| Extension::content_correlator(&g.text(512))).into_iter().collect(),
            ),
            recipients,
        }
    }
}
