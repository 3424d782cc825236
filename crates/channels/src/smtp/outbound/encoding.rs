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
    /// Plan for [`Encoder`].
    pub(super) plan: Plan,
    /// Properties of the encoded body.
    pub(super) facts: ContentFacts,
}

/// Form in which a body can be sent to the peer.
#[derive(Debug)]
pub(super) enum Fit {
    AsItIs,
    Encoded(Encoding),
    /// 8-bit, and can't be encoded.
    Unfit,
}

/// Determines the encoding of a body. An ordinary body is not read.
///
/// # Errors
/// The body can't be read.
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
        // Long lines in parts that can't be encoded are sent unchanged.
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
