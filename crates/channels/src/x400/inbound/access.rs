//! Who may send to whom: `[[access]]` holds for X.400, too.

use crate::stages::{AccessQuestion, consult_access};
use crate::x400::acceptance::Acceptance;
use config::Config;
use mail::{Refusal, RefusalClass};
use mta::seams::Tables;
use std::net::IpAddr;

/// Who sends.
#[derive(Clone, Copy)]
pub(super) struct Sending<'a> {
    pub(super) listener: &'a str,
    pub(super) client: IpAddr,
    /// The peer's name in the configuration: rules look it up as the name that a client gives itself.
    pub(super) peer: &'a str,
}

/// Recipients, by their indexes, whom the rules refuse, of those that nothing spoke against so far. Nobody is asked
/// about a report: its originator is none that may send or not.
///
/// # Errors
/// A table gives no answer, or says that it is too early: nothing is taken for now.
pub(super) async fn refused<T: Tables + Clone>(
    tables: &T,
    config: &Config,
    sending: Sending<'_>,
    acceptance: &Acceptance,
) -> Result<Vec<(u32, Refusal)>, Refusal> {
    let mut refused = Vec::new();
    let Some(sender) = &acceptance.envelope.reverse_path else { return Ok(refused) };
    let Sending { listener, client, peer } = sending;
    for (index, recipient) in (0..).zip(&acceptance.envelope.recipients) {
        if acceptance.foreign.refused.binary_search_by_key(&index, |(known, _)| *known).is_ok() {
            continue;
        }
        let question = AccessQuestion {
            listener,
            client: Some(client),
            helo: Some(peer),
            sender: Some(sender),
            recipient: &recipient.mailbox,
        };
        let Some(refusal) = consult_access(tables, config, &question).await.refusal else {
            continue;
        };
        match refusal.class {
            RefusalClass::Permanent => refused.push((index, refusal)),
            RefusalClass::Transient | RefusalClass::Closing => return Err(refusal),
        }
    }
    Ok(refused)
}
