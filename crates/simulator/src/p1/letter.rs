//! A message or a probe as an MTA hands it to the node.

use super::P1World;
use crate::names::{OR_BACK, OR_DEAD, OR_NOWHERE};
use crate::plan::X400Plan;
use bytes::Bytes;
use load::random::Random;
use mail::Wall;
use x400::mts::envelope::message_prefix;
use x400::mts::extension::{Extension, ExtensionKind, number};
use x400::mts::recipient::ReportRequest;
use x400::mts::trace::Supplied;
use x400::mts::{
    ContentType, EnvelopeKind, Extensions, Flags, GlobalDomain, MtsIdentifier, Priority, Recipient,
    RecipientIndicators, TraceElement, TransferEnvelope, UtcTime, message_indicator,
};
use x400::or_name::{OrAddress, OrName};

/// Recipients that the node answers for.
const RECIPIENTS_MAX: u64 = 4;

/// A message, or a probe.
pub(super) struct Letter {
    /// Its name in addresses, and the identifier within the domain that gave it.
    pub(super) name: String,
    pub(super) envelope: TransferEnvelope,
    pub(super) content: Vec<u8>,
}

impl Letter {
    /// Any of the next name.
    pub(super) fn draw(world: &P1World, random: &mut Random) -> Letter {
        let number = world.next.get();
        world.next.set(number + 1);
        let name = format!("x{number}");
        let originator = if random.below(8) == 0 { OR_DEAD } else { OR_BACK };
        let recipients = recipients(random, &name, &world.plan);
        let mut envelope = envelope(random, &name, world.wall(), originator, recipients);
        let mut content = content(random);
        if random.below(8) == 0 {
            // It asks whether such a message would be delivered.
            envelope.kind = EnvelopeKind::Probe;
            envelope.priority = Priority::Normal;
            envelope.content_length = Some(content.len() as u64);
            content.clear();
        }
        Letter { name, envelope, content }
    }

    /// All its octets.
    pub(super) fn apdu(&self) -> Bytes {
        let envelope = self.envelope.encode();
        match self.envelope.kind {
            EnvelopeKind::Probe => Bytes::from(envelope),
            EnvelopeKind::Message => {
                let prefix = message_prefix(&envelope, self.content.len() as u64);
                Bytes::from([prefix, self.content.clone()].concat())
            }
        }
    }
}

fn name_of(text: &str) -> OrName {
    match OrAddress::parse(text) {
        Ok(address) => OrName::from(address),
        Err(error) => unreachable!("the simulator's own address {text:?} is wrong: {error}"),
    }
}

/// Some that the node answers for, now and then of no use, and between them some that others do.
fn recipients(random: &mut Random, name: &str, plan: &X400Plan) -> Vec<Recipient> {
    let mut recipients = Vec::new();
    let mut left = 1 + random.below(RECIPIENTS_MAX);
    while left > 0 {
        let is_ours = random.below(6) > 0;
        left -= u64::from(is_ours);
        let alive: Vec<_> = plan.peers.iter().filter(|peer| !peer.dead).collect();
        let organization: &str = match random.below(40) {
            0 => OR_DEAD,
            1 | 2 => OR_NOWHERE,
            _ => &alive[random.below(alive.len() as u64) as usize].organizations[0],
        };
        let request = match random.below(8) {
            0 => ReportRequest::None,
            1 => ReportRequest::Audited,
            2 | 3 => ReportRequest::Both,
            _ => ReportRequest::NonDelivery,
        };
        let number = recipients.len() as u32 + 1;
        recipients.push(Recipient {
            name: name_of(&format!("/S={name}.r{number}{organization}")),
            number,
            indicators: RecipientIndicators::new(is_ours, request),
            ..Recipient::default()
        });
    }
    recipients
}

fn envelope(
    random: &mut Random,
    name: &str,
    now: Wall,
    originator: &str,
    recipients: Vec<Recipient>,
) -> TransferEnvelope {
    let domain =
        GlobalDomain { country: "GB".into(), admd: " ".into(), prmd: Some("Peers".into()) };
    let returns_content = random.below(2) == 0;
    let supplied = Supplied { arrival: UtcTime::from(now), ..Supplied::default() };
    let correlator = Extension::content_correlator(name);
    // One that nobody knows and that is critical for nobody: it goes where the message goes.
    let value = Extension::content_correlator("unknown").value;
    let kind = ExtensionKind::Standard(number::LAST + 1);
    let unknown = Extension { kind, criticality: Flags::default(), value };
    TransferEnvelope {
        kind: EnvelopeKind::Message,
        identifier: MtsIdentifier { domain: domain.clone(), local: name.into() },
        originator: name_of(&format!("/S={name}{originator}")),
        content_type: if random.below(2) == 0 { ContentType::P22 } else { ContentType::P2 },
        content_identifier: (random.below(2) == 0).then(|| name.into()),
        priority: match random.below(4) {
            0 => Priority::NonUrgent,
            1 => Priority::Urgent,
            _ => Priority::Normal,
        },
        indicators: Flags::default()
            .with(message_indicator::CONTENT_RETURN_REQUEST, returns_content),
        trace: vec![TraceElement { domain, supplied }],
        extensions: Extensions(vec![correlator, unknown]),
        recipients,
        ..TransferEnvelope::default()
    }
}

fn content(random: &mut Random) -> Vec<u8> {
    let bytes = match random.below(40) {
        // A file of its own.
        0 => 66_000 + random.below(200_000),
        1..=4 => 5_000 + random.below(60_000),
        5 | 6 => 0,
        _ => 1 + random.below(3_000),
    };
    (0..bytes.div_ceil(8))
        .flat_map(|_| random.next_u64().to_be_bytes())
        .take(bytes as usize)
        .collect()
}
