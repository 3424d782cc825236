//! Sending over P1: associations to a peer, message after message.

mod association;
mod cargo;
mod opening;
mod trouble;
mod wire;

pub(super) use trouble::ended;

use super::settings::{Route, X400RouteText};
use super::{departure, gateway, report};
use config::ChannelSection;
use mta::delivery::{Channel, Field, MakesMail, NativeReport, ReportQuestion, Slot, Task};
use mta::message::Message;
use mta::routing::hop::NextHop;
use mta::seams::World;

/// Sends over P1.
pub(crate) struct Outbound;

impl<W: World> Channel<W> for Outbound {
    fn key(&self) -> &'static str {
        X400RouteText::KEY
    }

    fn makes_mail(&self) -> Option<MakesMail> {
        Some(gateway::as_mail)
    }

    fn describe(&self, message: &Message) -> Vec<Field> {
        departure::describe(message)
    }

    fn report(&self, question: &ReportQuestion<'_>) -> Option<NativeReport> {
        report::report(question)
    }

    fn run(&self, slot: Slot<W>) -> Task {
        Box::pin(association::run(slot))
    }
}

/// Settings of this hop's route.
fn route_of(hop: &NextHop) -> &Route {
    match hop.channel.of() {
        Some(route) => route,
        // The channel of a hop is selected by the key of its settings.
        None => unreachable!("the settings of {} are another channel's", hop.channel.key()),
    }
}
