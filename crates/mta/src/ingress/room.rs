//! Reserves capacity for messages that unauthenticated clients can cause to be stored: messages held by checks, and
//! mail for the postmaster.

use super::draft::{Draft, HoldRoom};
use super::refusals;
use crate::custody::accounts_of;
use crate::facts::Hold;
use crate::holding::{Amount, Full};
use crate::own_mailbox;
use crate::pools::PoolId;
use crate::seams::World;
use crate::services::Services;
use config::Config;
use mail::{Mailbox, Refusal};

/// The hold of a message and the parties it is charged to. `None` if the message is not held.
pub(super) fn hold_of(draft: &Draft, is_returnable: bool) -> Option<Hold<'_>> {
    let reason = draft.additions.hold.as_deref()?;
    // A foreign message is held because its octets can't be read, so it is charged to the peer.
    let peer = draft.client.login.as_deref().filter(|_| draft.is_foreign).unwrap_or_default();
    let sender = draft.envelope.reverse_path.as_ref().map_or("", Mailbox::domain_str);
    let author = draft.additions.author.as_deref().unwrap_or_default();
    Some(Hold { is_returnable, peer, sender, author, reason })
}

/// Reserves capacity if the message is held.
///
/// # Errors
/// The limit for held messages is reached, in total or for this client.
pub(super) fn reserve_held<W: World>(
    services: &Services<W>,
    draft: &Draft,
) -> Result<Option<HoldRoom>, Refusal> {
    // Reports to forged senders are more harmful than lost mail (RFC 5321 §6.2). Octets that can't be read have no
    // sender.
    let is_returnable =
        !draft.is_foreign && (!draft.is_from_stranger || draft.additions.is_sender_proven);
    let Some(held) = hold_of(draft, is_returnable) else { return Ok(None) };
    let accounts = accounts_of(&held, Some(draft.client.address.ip()));
    let amount = Amount {
        recipients: draft.envelope.recipients.len() as u64,
        bytes: draft.facts.body_bytes,
    };
    let share = services.shared.holdings.try_take(accounts, amount).map_err(|full| {
        services.metrics.held_refused.inc();
        services.note_turned_away(PoolId::HeldMail);
        match full {
            Full::All => refusals::HELD_MAIL_FULL,
            Full::One => refusals::HELD_OF_CLIENT,
        }
    })?;
    Ok(Some(HoldRoom { share, is_returnable }))
}

/// Reserves capacity in the postmaster's mailbox, if it stores the message.
///
/// # Errors
/// The quota is reached, or the message alone exceeds it.
pub(super) fn reserve_own_mailbox<W: World>(
    services: &Services<W>,
    config: &Config,
    draft: &Draft,
) -> Result<(), Refusal> {
    // A peer cannot be sent a permanent refusal for size here, so its delivery fails instead.
    let is_kept_here = !draft.is_foreign
        && config.routes.get(config.postmaster.route).is_some_and(|r| r.is_built_in());
    let mut recipients = draft.envelope.recipients.iter().map(|recipient| &recipient.mailbox);
    if !is_kept_here || !recipients.any(|mailbox| config.is_postmaster(mailbox)) {
        return Ok(());
    }
    let taken = services.shared.own_mailbox.take(draft.facts.body_bytes);
    taken.map_err(|full| match full {
        own_mailbox::Full::Now => {
            services.note_turned_away(PoolId::OwnMailbox);
            refusals::OWN_MAILBOX_FULL
        }
        own_mailbox::Full::Always => refusals::OWN_MAILBOX_TOO_SMALL,
    })
}
