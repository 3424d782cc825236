//! The channel `discard`: mail is accepted and discarded.

use crate::local::{self, Delivered};
use config::{ChannelSection, Destination, Explainer, KindsOfMail, Reader, Settings};
use mail::Reply;
use mta::delivery::{Channel, Slot, Task};
use mta::seams::World;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Accept and discard mail.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct DiscardText {
    /// Discard a message on arrival: recipients of this route are never written to the spool. Otherwise they are queued
    /// and then discarded, with everything that a delivery has: events, success reports, holds by an operator.
    before_queue: bool,
}

impl ChannelSection for DiscardText {
    const KEY: &'static str = "discard";
    const SUMMARY: &'static str = "Accept and discard.";
    const EXAMPLE: &'static str = "discard = {}";
    type Text = DiscardText;

    fn read(text: DiscardText, _: &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>> {
        Some(Arc::new(Nowhere { before_queue: text.before_queue }))
    }
}

/// Settings of a route that discards mail.
#[derive(Debug, PartialEq, Eq)]
struct Nowhere {
    before_queue: bool,
}

impl Settings for Nowhere {
    fn key(&self) -> &'static str {
        DiscardText::KEY
    }

    fn destination(&self) -> Destination<'_> {
        Destination::Here("")
    }

    fn kinds_of_mail(&self) -> KindsOfMail {
        KindsOfMail { internet: true, x400: true }
    }

    fn keeps_mail(&self) -> bool {
        !self.before_queue
    }

    fn explain_limits(&self, explainer: &mut Explainer<'_>) {
        explainer.own_key("before_queue", self.before_queue.to_string());
    }

    fn is_like(&self, other: &dyn Settings) -> bool {
        other.of::<Nowhere>() == Some(self)
    }
}

pub(crate) struct Discard;

impl<W: World> Channel<W> for Discard {
    fn key(&self) -> &'static str {
        DiscardText::KEY
    }

    fn run(&self, slot: Slot<W>) -> Task {
        Box::pin(local::run::<W, Nowhere>(slot, async |_, _, _, _| {
            let reply = Reply::new(250, (2, 0, 0), "discarded");
            Ok(Delivered { reply, place: "discard".to_owned() })
        }))
    }
}
