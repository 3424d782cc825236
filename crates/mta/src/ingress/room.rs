//! Room for messages that anybody may have kept here: those that a check holds, and the postmaster's.

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

/// How the hold of a message ends, and by whose wish it began; `None`: nothing holds it.
pub(super) fn hold_of(draft: &Draft, is_returnable: bool) -> Option<Hold<'_>> {
    let reason = draft.additions.hold.as_deref()?;
    // One that is no internet mail is held since its octets can't be read: that is its peer's doing.
    let peer = draft.client.login.as_deref().filter(|_| draft.is_foreign).unwrap_or_default();
    let sender = draft.envelope.reverse_path.as_ref().map_or("", Mailbox::domain_str);
    let author = draft.additions.author.as_deref().unwrap_or_default();
    Some(Hold { is_returnable, peer, sender, author, reason })
}

/// Takes room for the message if anything holds it.
///
/// # Errors
/// As much is held as may be, of all clients or of this one.
pub(super) fn reserve_held<W: World>(
    services: &Services<W>,
    draft: &Draft,
) -> Result<Option<HoldRoom>, Refusal> {
    // RFC 5321 §6.2: reports to forged senders do more harm than mail that is lost. A peer's octets have no sender.
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

/// Takes room for the message in the postmaster's mailbox, if it is kept there.
///
/// # Errors
/// There is none, now or ever.
pub(super) fn reserve_own_mailbox<W: World>(
    services: &Services<W>,
    config: &Config,
    draft: &Draft,
) -> Result<(), Refusal> {
    // A peer could not be refused for good what never fits: that fails where it is delivered.
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
