//! X.400: messages, probes and reports of other MTAs over P1, both ways, and what an MTA does with them (X.411 §14).

mod acceptance;
mod apdu;
mod departure;
mod ends;
mod gateway;
mod inbound;
mod kept;
mod loops;
mod names;
mod outbound;
mod peer;
mod redirection;
mod report;
mod settings;
#[cfg(test)]
mod tests;
mod unwritten;

pub(crate) use inbound::P1;
pub(crate) use outbound::Outbound;
pub use peer::{association_failure, initiator_settings, is_peer};
pub(crate) use settings::{P1Text, X400RouteText};

use config::Config;

/// The routes that lead to a peer of X.400, by their names.
pub fn routes_to<'c>(config: &'c Config, peer: &str) -> Vec<&'c str> {
    let leads_there = |settings: &settings::Route| *settings.peer.name == *peer;
    let routes = config.routes.iter();
    let found = routes.filter(|route| route.channel.of().is_some_and(leads_there));
    found.map(|route| &*route.name).collect()
}
