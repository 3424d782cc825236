//! Configurations for tests: this crate has no channel.

use config::{
    ChannelSection, Destination, ProtocolSection, ProtocolSettings, Reader, Schema, Settings,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// A schema with one protocol, `smtp`, and one channel, `discard`.
pub(crate) fn schema() -> Schema {
    crate::sections().protocol::<Mute>().channel::<Discard>()
}

/// A protocol without function, under SMTP's name.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Mute {}

impl ProtocolSettings for Mute {}

impl ProtocolSection for Mute {
    const KIND: &'static str = "smtp";
    type Text = Mute;

    fn read(text: Mute, _: &mut Reader<'_, '_>) -> Option<Arc<dyn ProtocolSettings>> {
        Some(Arc::new(text))
    }
}

/// Discards mail.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Discard {}

impl ChannelSection for Discard {
    const KEY: &'static str = "discard";
    const SUMMARY: &'static str = "Nowhere.";
    const EXAMPLE: &'static str = "discard = {}";
    type Text = Discard;

    fn read(text: Discard, _: &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>> {
        Some(Arc::new(text))
    }

    fn mailbox_at(_: &str, _: u64) -> Option<Arc<dyn Settings>> {
        Some(Arc::new(Discard {}))
    }
}

impl Settings for Discard {
    fn key(&self) -> &'static str {
        Discard::KEY
    }

    fn destination(&self) -> Destination<'_> {
        Destination::Here("")
    }

    fn is_like(&self, other: &dyn Settings) -> bool {
        other.of::<Discard>().is_some()
    }
}
