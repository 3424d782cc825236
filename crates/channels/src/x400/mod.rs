//! X.400: messages, probes and reports over P1, in both directions, and the procedures of an MTA (X.411 §14).

mod acceptance;
mod departure;
mod gateway;
mod inbound;
mod kept;
mod loops;
mod names;
mod outbound;
mod peer;
mod redirection;
mod report;
mod section;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use inbound::P1;
pub(crate) use outbound::Outbound;
pub use peer::{association_failure, initiator_settings, is_peer};
pub use section::{GatewayTables, PASSWORD_BYTES_MAX, X400, X400Gateway, X400Mode, X400Peer};
pub(crate) use settings::{P1Text, X400RouteText};

use config::Config;
use mail::Mailbox;
use x400::mixer::Gateway;
use x400::or_name::{OrAddress, OrName};

/// The configured gateway, with its tables.
#[must_use]
pub fn x400_gateway(config: &Config) -> Option<&Gateway> {
    gateway::gateway_of(config.of::<X400>()?)
}

/// The internet mailbox of an X.400 recipient behind the gateway. `None` if a route accepts the O/R address, the
/// gateway has no mapping, or the recipient is not an O/R address.
#[must_use]
pub fn x400_as_mail(config: &Config, recipient: &Mailbox) -> Option<Mailbox> {
    let x400 = config.of::<X400>().filter(|_| recipient.is_or_address())?;
    let name = OrName::from(OrAddress::parse(recipient.as_str()).ok()?);
    Some(gateway::recipient(&name, config, x400)).filter(|mailbox| !mailbox.is_or_address())
}

/// Names of the routes to an X.400 peer.
pub fn routes_to<'c>(config: &'c Config, peer: &str) -> Vec<&'c str> {
    let leads_there = |settings: &settings::Route| *settings.peer.name == *peer;
    let routes = config.routes.iter();
    let found = routes.filter(|route| route.channel.of().is_some_and(leads_there));
    found.map(|route| &*route.name).collect()
}
