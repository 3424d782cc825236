//! Access rules (`[[access]]`) for X.400.

use crate::stages::{AccessQuestion, Beside, consult_access};
use crate::x400::acceptance::Acceptance;
use config::Config;
use mail::{Refusal, RefusalClass};
use mta::seams::Tables;
use std::net::IpAddr;

/// The sending peer.
#[derive(Clone, Copy)]
pub(super) struct Sending<'a> {
    pub(super) listener: &'a str,
    pub(super) client: IpAddr,
    /// The peer's name in the configuration. Rules look it up as the HELO name.
    pub(super) peer: &'a str,
}

/// Result of the rules.
#[derive(Debug, Default)]
pub(super) struct Ruling {
    /// Refused recipients, by index.
    pub(super) refused: Vec<(u32, Refusal)>,
    /// Reason for a hold of the message.
    pub(super) hold: Option<String>,
    /// Log lines for the operator.
    pub(super) told: Vec<String>,
}

/// An action that can't be performed is an error, because the operator would not notice it otherwise.
const OF_MAIL: Refusal = Refusal::transient(
    (3, 5),
    "access rule with an action for internet mail only: DISCARD, REDIRECT, BCC or PREPEND",
);

/// Applies the rules to the recipients not refused so far. Reports are exempt: they have no originator to authorize.
///
/// # Errors
/// A table gives no answer, a rule defers a recipient, or an action is impossible. Nothing is accepted for now.
pub(super) async fn ruling<T: Tables + Clone>(
    tables: &T,
    config: &Config,
    sending: Sending<'_>,
    acceptance: &Acceptance,
) -> Result<Ruling, Refusal> {
    let mut ruling = Ruling::default();
    let Some(sender) = &acceptance.envelope.reverse_path else { return Ok(ruling) };
    let Sending { listener, client, peer } = sending;
    for (index, recipient) in (0..).zip(&acceptance.envelope.recipients) {
        if acceptance.foreign.refused.binary_search_by_key(&index, |(known, _)| *known).is_ok() {
            continue;
        }
        let route = config.route_of(&recipient.mailbox, None);
        let question = AccessQuestion {
            listener,
            client: Some(client),
            // A peer is another organization's MTA.
            is_stranger: true,
            helo: Some(peer),
            sender: Some(sender),
            recipient: &recipient.mailbox,
            route: route.map(|(_, route)| &**route),
        };
        let consulted = consult_access(tables, config, &question).await;
        match consulted.refusal {
            Some(refusal) if refusal.class == RefusalClass::Permanent => {
                ruling.refused.push((index, refusal));
                continue;
            }
            Some(refusal) => return Err(refusal),
            None => {}
        }
        for beside in consulted.beside {
            match beside {
                Beside::Hold(reason) => ruling.hold = ruling.hold.or(Some(reason)),
                Beside::Log(text) => ruling.told.push(text),
                Beside::OfMail(_) => return Err(OF_MAIL),
            }
        }
    }
    Ok(ruling)
}
