//! Encoding of content that the peer does not accept unchanged, and the properties of the result.

use mail::transfer_encoding::{Encoder, LINE_BYTES_MAX, Plan, Survey};
use mail::{ContentFacts, ContentScanner};
use mta::delivery::Slot;
use mta::message::Message;
use mta::seams::World;
use spool::LoadError;

/// Encoding of a message's body for one transaction.
#[derive(Debug)]
pub(super) struct Encoding {
    /// For [`Encoder`].
    pub(super) plan: Plan,
    /// Of the body as it is written.
    pub(super) facts: ContentFacts,
}

/// Form in which a body can be sent to the peer.
#[derive(Debug)]
pub(super) enum Fit {
    AsItIs,
    Encoded(Encoding),
    /// 8-bit, and it can't be encoded.
    Unfit,
}

/// Finds out whether and how a body must be encoded. The usual one isn't looked at.
///
/// # Errors
/// When the body cannot be read.
pub(super) async fn fit<W: World>(
    slot: &Slot<W>,
    message: &Message,
    takes_eight_bit: bool,
) -> Result<Fit, LoadError> {
    let is_too_much = message.facts.has_8bit && !takes_eight_bit;
    if !is_too_much && message.facts.longest_line <= LINE_BYTES_MAX {
        return Ok(Fit::AsItIs);
    }
    let mut survey = Survey::new(takes_eight_bit);
    let look = |piece: &[u8]| {
        survey.push(piece);
        None::<()>
    };
    slot.for_each_piece(message, look).await?;
    let plan = match survey.finish() {
        Ok(plan) if plan.is_empty() && !is_too_much => return Ok(Fit::AsItIs),
        Ok(plan) => plan,
        // Lines that are too long for some are sent as they came.
        Err(_) if !is_too_much => return Ok(Fit::AsItIs),
        Err(_) => return Ok(Fit::Unfit),
    };
    let mut encoder = Encoder::new(&plan);
    let mut scanner = ContentScanner::default();
    let encode = |piece: &[u8]| {
        scanner.push(&encoder.push(piece));
        None::<()>
    };
    slot.for_each_piece(message, encode).await?;
    scanner.push(&encoder.finish());
    let facts = scanner.finish();
    Ok(Fit::Encoded(Encoding { plan, facts }))
}
