//! The refusals of the core, each defined once.

use crate::console::Console;
use auth::srs::SrsError;
use config::NotYours;
use lookup::LookupError;
use mail::Refusal;
use spool::Completion;

/// The write failed, or the log accepts no more writes.
pub(super) const CANNOT_WRITE: Refusal =
    Refusal::transient((3, 0), "Cannot write to the spool; try again later");
/// Disk space is below the limit.
pub(super) const NEARLY_FULL: Refusal =
    Refusal::transient((3, 1), "Insufficient system storage; try again later");
/// Content written to disk can't be read again.
pub(super) const CANNOT_READ: Refusal =
    Refusal::transient((3, 0), "Cannot read the message from the spool; try again later");
/// Out of descriptors or memory.
pub(super) const SCARCE: Refusal =
    Refusal::transient((3, 1), "Insufficient system resources; try again later");
/// Larger than a segment.
pub(super) const TOO_LARGE: Refusal =
    Refusal::permanent((3, 4), "Message exceeds the spool's maximum size");
/// Limit `queue_recipients_max`.
pub(super) const QUEUE_FULL: Refusal = Refusal::transient((3, 1), "Queue full; try again later");
/// Limit for mail held by checks: a tenth of the queue or the disk.
pub(super) const HELD_MAIL_FULL: Refusal =
    Refusal::transient((3, 1), "Review quarantine full; try again later").with_code(451);
/// A hundredth of the queue or the disk, for one client network or domain.
pub(super) const HELD_OF_CLIENT: Refusal =
    Refusal::transient((7, 1), "Too much mail from you is held for review; try again later")
        .with_code(451);
/// The quota of the postmaster's mailbox in the spool directory (RFC 5321 §4.5.1 allows limits that protect the
/// server).
pub(super) const OWN_MAILBOX_FULL: Refusal =
    Refusal::transient((2, 2), "Postmaster mailbox full; try again later").with_code(452);
/// The message alone exceeds that quota.
pub(super) const OWN_MAILBOX_TOO_SMALL: Refusal =
    Refusal::permanent((2, 2), "Message exceeds the quota of the postmaster mailbox")
        .with_code(552);
/// A tenant's `queued_max`.
pub(super) const TENANT_FULL: Refusal =
    Refusal::transient((3, 1), "Tenant queue limit reached; try again later");
/// Limit `body_memory_bytes`, reached by recipients.
pub(super) const NO_MEMORY: Refusal =
    Refusal::transient((3, 1), "Insufficient memory for more recipients; try again later");
/// Limit [`spool::RECIPIENTS_MAX`]. The client sends the remaining recipients in another transaction (RFC 5321
/// §4.5.3.1.10).
pub(super) const TOO_MANY_RECIPIENTS: Refusal = Refusal::transient((5, 3), "Too many recipients");
/// Limit `max_hops`.
pub(super) const LOOP: Refusal =
    Refusal::permanent((4, 6), "Mail loop detected: too many Received fields");
/// The shard ended while the message was being made durable.
pub(super) const STOPPING: Refusal = Refusal::transient((3, 0), "Server shutting down");
/// Timeout of a stage.
pub(super) const UNDECIDED: Refusal =
    Refusal::transient((3, 0), "Policy check timed out; try again later");
/// Shutdown before a stage decided.
pub(super) const STOPPED: Refusal = Refusal::transient((3, 2), "Server shutting down");
/// The expansion of an address has no route: a configuration error.
pub(super) const NO_ROUTE: Refusal =
    Refusal::transient((3, 5), "No route to the alias target; try again later");
/// Not in the route's `recipients` table.
pub(super) const NO_SUCH_RECIPIENT: Refusal = Refusal::permanent((1, 1), "Recipient unknown");
/// The `disabled` field of the recipient's entry is set (RFC 3463 §3.3).
pub(super) const MAILBOX_DISABLED: Refusal =
    Refusal::permanent((2, 1), "Mailbox disabled, not accepting messages").with_code(550);
/// A required table lookup failed.
pub const NO_ANSWER: Refusal =
    Refusal::transient((4, 3), "Temporary lookup failure; try again later");
/// An alias with too many members or an invalid one: an error in a table.
pub(super) const BAD_ALIAS: Refusal =
    Refusal::transient((3, 5), "Alias configuration error; try again later");
/// For new connections.
pub(super) const SHUTTING_DOWN: Refusal = Refusal::transient((3, 2), "Server shutting down");
/// Limit `max_sessions`, or out of descriptors.
pub(super) const SESSIONS: Refusal =
    Refusal::transient((3, 2), "Too many sessions; try again later");
/// Limit `max_sessions_per_address`.
pub(super) const SESSIONS_OF_CLIENT: Refusal =
    Refusal::transient((7, 0), "Too many sessions from your address");
/// Limit `connections_per_minute`.
pub(super) const CONNECTIONS: Refusal =
    Refusal::transient((7, 0), "Connection rate limit exceeded");
/// Limit `messages_per_minute`.
pub(super) const MESSAGES: Refusal = Refusal::transient((7, 1), "Message rate limit exceeded");
/// Limit `recipients_per_minute`.
pub(super) const RECIPIENTS: Refusal = Refusal::transient((7, 1), "Recipient rate limit exceeded");

/// A `[[limit]]` of messages.
pub(super) const LIMIT_OF_MESSAGES: Refusal =
    Refusal::transient((7, 1), "Message limit reached; try again later");
/// A `[[limit]]` of recipients.
pub(super) const LIMIT_OF_RECIPIENTS: Refusal =
    Refusal::transient((7, 1), "Recipient limit reached; try again later");

/// One reply for both cases, so that a client cannot find out user names (RFC 4954 §4.7.3).
pub const WRONG_PASSWORD: Refusal =
    Refusal::permanent((7, 8), "Authentication credentials invalid").with_code(535);
/// A table lookup or the hashing of a password failed.
pub(super) const LOGIN_LATER: Refusal =
    Refusal::transient((7, 0), "Temporary authentication failure").with_code(454);
/// A connection of another machine, or of none, at a listener for local users.
pub(super) const NO_LOCAL_USER: Refusal =
    Refusal::permanent((7, 0), "Access denied: client is not a local user");
/// More than the login server accepts (RFC 4954 §4).
pub(super) const LOGIN_TOO_LONG: Refusal =
    Refusal::permanent((5, 6), "Authentication exchange line is too long").with_code(500);
/// The configuration no longer contains the listener.
pub(super) const WITHDRAWN: Refusal =
    Refusal::transient((3, 2), "Listener closed; server configuration changed");
/// The basis of the session's rights is gone.
pub(super) const RIGHTS_CHANGED: Refusal =
    Refusal::transient((7, 0), "Access rights changed; reconnect");
/// Limit `login_failures_per_hour_of_user`.
pub(super) const LOGINS_OF_USER: Refusal =
    Refusal::transient((7, 0), "Too many authentication failures of this user; try again later")
        .with_code(454);
/// Limit `login_failures_per_hour`.
pub(super) const LOGINS_OF_CLIENT: Refusal = Refusal::transient(
    (7, 0),
    "Too many authentication failures from your address; try again later",
)
.with_code(454);

const TOO_MUCH_REFUSED: &str = "Too many rejected commands from your address";
/// Limit `refusals_per_minute`, for a new connection.
pub(super) const REFUSED_BEFORE: Refusal = Refusal::transient((7, 0), TOO_MUCH_REFUSED);
/// Limit `refusals_per_minute`, within a session.
pub(super) const REFUSALS: Refusal = Refusal::transient((7, 1), TOO_MUCH_REFUSED);

/// Logs a failed table lookup and returns the temporary refusal.
pub fn no_answer(console: &dyn Console, trouble: &LookupError) -> Refusal {
    console.debug("tables", format_args!("{trouble}"));
    NO_ANSWER
}

/// An address that looks like our rewritten sender (SRS) but can't be reversed.
pub(super) fn no_way_back(mistake: SrsError) -> Refusal {
    Refusal::permanent((1, 1), mistake.text())
}

/// Observers of the content got no body memory within the timeout.
pub(super) const NO_MEMORY_TO_CHECK: Refusal =
    Refusal::transient((3, 1), "Too many concurrent messages; try again later");

/// Content can't be written to disk now, or never again (`is_poisoned`).
pub(super) fn no_place(is_poisoned: bool) -> Refusal {
    let detail = if is_poisoned { 0 } else { 1 };
    Refusal::transient((3, detail), "Cannot write the content to the spool; try again later")
}

/// The refusal for a log's answer that is not success.
pub(super) fn of_log(completion: &Completion) -> Refusal {
    match completion {
        Completion::Refused(spool::Refusal::Full) => NEARLY_FULL,
        Completion::Refused(spool::Refusal::Scarce) => SCARCE,
        Completion::Refused(spool::Refusal::TooLarge) => TOO_LARGE,
        _ => CANNOT_WRITE,
    }
}

/// The client may not send as the tenant that it named.
pub(super) fn not_yours(why: NotYours) -> Refusal {
    match why {
        NotYours::Unknown => Refusal::permanent((7, 1), "Unknown tenant"),
        NotYours::Another => Refusal::permanent((7, 1), "Not authorized to send as this tenant"),
    }
}
