//! Refuses recipients with a full mailbox at RCPT. An accepted message could only wait there, and would then be bounced
//! to a sender that may be forged.

use super::{Maildir, place_of};
use mail::{Mailbox, Refusal};
use mta::seams::{MailStore as _, MailboxError, World};
use std::io::ErrorKind;
use std::time::Duration;

/// RFC 3463 §3.3: X.2.2 is a full mailbox. The client retries where this server would.
const FULL: Refusal = Refusal::transient((2, 2), "Mailbox full; try again later").with_code(452);
/// With `quota_grace = "0"` this server would not retry.
const FULL_FOR_GOOD: Refusal = Refusal::permanent((2, 2), "Mailbox full").with_code(552);
/// The announced size is over the quota (RFC 1870 §6.1).
const TOO_LARGE: Refusal =
    Refusal::permanent((2, 2), "Message exceeds the quota of the mailbox").with_code(552);
/// RFC 3463 §3.4: X.3.1 is a full system.
const NO_ROOM: Refusal =
    Refusal::transient((3, 1), "Insufficient system storage; try again later").with_code(452);

/// Decides about a recipient by the free space of its mailbox. An unknown state is no reason to refuse: the message is
/// accepted and waits, as without this check.
///
/// # Errors
/// The mailbox or its disk is full.
pub(super) async fn check<W: World>(
    world: &W,
    tables: &W::Tables,
    maildir: &Maildir,
    (recipient, size): (&Mailbox, Option<u64>),
) -> Result<(), Refusal> {
    let Ok(place) = place_of(tables, maildir, recipient).await else { return Ok(()) };
    // A message without an announced size has at least one octet.
    let bytes = size.unwrap_or(1).max(1);
    if place.quota_bytes.is_some_and(|quota_bytes| bytes > quota_bytes) {
        return Err(TOO_LARGE);
    }
    match world.store().room(place, bytes).await {
        Err(MailboxError::Full { .. }) if maildir.quota_grace() == Some(Duration::ZERO) => {
            Err(FULL_FOR_GOOD)
        }
        Err(MailboxError::Full { .. }) => Err(FULL),
        Err(MailboxError::Io(error)) if error.kind() == ErrorKind::StorageFull => Err(NO_ROOM),
        Ok(()) | Err(_) => Ok(()),
    }
}
