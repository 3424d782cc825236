//! What the core refuses, each in one place.

use crate::console::Console;
use auth::srs::SrsError;
use config::NotYours;
use lookup::LookupError;
use mail::Refusal;
use spool::Completion;

/// Nothing is written any more, or the write failed.
pub(super) const CANNOT_WRITE: Refusal =
    Refusal::transient((3, 0), "The spool cannot write; try again later");
/// The disk.
pub(super) const NEARLY_FULL: Refusal =
    Refusal::transient((3, 1), "The spool's disk is nearly full; try again later");
/// What came of a message can't be had back from the disk.
pub(super) const CANNOT_READ: Refusal =
    Refusal::transient((3, 0), "The spool cannot read the message; try again later");
/// Descriptors or memory.
pub(super) const SCARCE: Refusal =
    Refusal::transient((3, 1), "The server is short of files or memory; try again later");
/// More than a segment holds.
pub(super) const TOO_LARGE: Refusal =
    Refusal::permanent((3, 4), "The message does not fit into the spool");
/// `queue_recipients_max`.
pub(super) const QUEUE_FULL: Refusal =
    Refusal::transient((3, 1), "The queue is full; try again later");
/// A tenth of the queue or the disk, which checks may hold.
pub(super) const HELD_MAIL_FULL: Refusal =
    Refusal::transient((3, 1), "Too much mail is held for review; try again later").with_code(451);
/// A hundredth of it, for one client network or domain.
pub(super) const HELD_OF_CLIENT: Refusal =
    Refusal::transient((7, 1), "Too much mail of yours is held for review; try again later")
        .with_code(451);
/// The postmaster's mailbox in the spool's directory (RFC 5321 §4.5.1 allows limits that protect the server).
pub(super) const OWN_MAILBOX_FULL: Refusal =
    Refusal::transient((2, 2), "The postmaster's mailbox is full; try again later").with_code(452);
/// The same, of a message that is larger than all of it.
pub(super) const OWN_MAILBOX_TOO_SMALL: Refusal =
    Refusal::permanent((2, 2), "The message exceeds the quota of the postmaster's mailbox")
        .with_code(552);
/// `queued_max` of a tenant.
pub(super) const TENANT_FULL: Refusal =
    Refusal::transient((3, 1), "Too many messages of this tenant are queued; try again later");
/// `body_memory_bytes`, as far as recipients draw on it.
pub(super) const NO_MEMORY: Refusal =
    Refusal::transient((3, 1), "No memory for more recipients; try again later");
/// [`spool::RECIPIENTS_MAX`]: the others go in another transaction (RFC 5321 §4.5.3.1.10).
pub(super) const TOO_MANY_RECIPIENTS: Refusal =
    Refusal::transient((5, 3), "Too many recipients in one transaction");
/// `max_hops`.
pub(super) const LOOP: Refusal =
    Refusal::permanent((4, 6), "Too many Received fields: a mail loop");
/// While a message is being made durable.
pub(super) const STOPPING: Refusal = Refusal::transient((3, 0), "The server is stopping");
/// A stage decided nothing in time.
pub(super) const UNDECIDED: Refusal =
    Refusal::transient((3, 0), "A decision takes too long; try again later");
/// A stage had decided nothing when the server stopped.
pub(super) const STOPPED: Refusal = Refusal::transient((3, 2), "The server is stopping");
/// An address stands for one that no route takes: a mistake of the configuration.
pub(super) const NO_ROUTE: Refusal =
    Refusal::transient((3, 5), "No route to what this address stands for; try again later");
/// `recipients` of the route does not have it.
pub(super) const NO_SUCH_RECIPIENT: Refusal = Refusal::permanent((1, 1), "No such recipient here");
/// A table that must be asked gives no answer.
pub const NO_ANSWER: Refusal =
    Refusal::transient((4, 3), "The directory does not answer; try again later");
/// An alias that stands for too many, or for what is no address: a mistake in a table.
pub(super) const BAD_ALIAS: Refusal =
    Refusal::transient((3, 5), "What this address stands for is not usable; try again later");
/// To new connections.
pub(super) const SHUTTING_DOWN: Refusal = Refusal::transient((3, 2), "The server is shutting down");
/// `max_sessions`, or descriptors.
pub(super) const SESSIONS: Refusal =
    Refusal::transient((3, 2), "Too many sessions; try again later");
/// `max_sessions_per_address`.
pub(super) const SESSIONS_OF_CLIENT: Refusal =
    Refusal::transient((7, 0), "Too many sessions from your address");
/// `connections_per_minute`.
pub(super) const CONNECTIONS: Refusal =
    Refusal::transient((7, 0), "Too many connections from your address in a minute");
/// `messages_per_minute`.
pub(super) const MESSAGES: Refusal =
    Refusal::transient((7, 1), "Too many messages from your address in a minute");
/// `recipients_per_minute`.
pub(super) const RECIPIENTS: Refusal =
    Refusal::transient((7, 1), "Too many recipients from your address in a minute");

/// RFC 4954 §4.7.3: whoever asks does not learn which of the two.
pub(super) const WRONG_PASSWORD: Refusal =
    Refusal::permanent((7, 8), "No such user, or another password").with_code(535);
/// A table or a thread that is needed for a login.
pub(super) const LOGIN_LATER: Refusal =
    Refusal::transient((7, 0), "Nobody can log in now; try again later").with_code(454);
/// More than the server takes that knows users (RFC 4954 §4).
pub(super) const LOGIN_TOO_LONG: Refusal =
    Refusal::permanent((5, 6), "Authentication exchange line is too long").with_code(500);
/// The configuration names the listener no more.
pub(super) const WITHDRAWN: Refusal = Refusal::transient((3, 2), "No service here any more");
/// What the client was let in by holds no more.
pub(super) const RIGHTS_CHANGED: Refusal =
    Refusal::transient((7, 0), "Your rights have changed; connect again");
/// `login_failures_per_hour_of_user`.
pub(super) const LOGINS_OF_USER: Refusal =
    Refusal::transient((7, 0), "Too many failed logins of this user; try again later")
        .with_code(454);
/// `login_failures_per_hour`.
pub(super) const LOGINS_OF_CLIENT: Refusal =
    Refusal::transient((7, 0), "Too many failed logins from your address; try again later")
        .with_code(454);

const TOO_MUCH_REFUSED: &str = "Too much of yours was refused within a minute";
/// `refusals_per_minute`, to a new connection.
pub(super) const REFUSED_BEFORE: Refusal = Refusal::transient((7, 0), TOO_MUCH_REFUSED);
/// `refusals_per_minute`, within a session.
pub(super) const REFUSALS: Refusal = Refusal::transient((7, 1), TOO_MUCH_REFUSED);

/// A table that must be asked gives no answer: says why, and refuses for now what depends on it.
pub fn no_answer(console: &dyn Console, trouble: &LookupError) -> Refusal {
    console.debug("tables", format_args!("{trouble}"));
    NO_ANSWER
}

/// A sender that was rewritten here, or looks so, and stands for nobody.
pub(super) fn no_way_back(mistake: SrsError) -> Refusal {
    Refusal::permanent((1, 1), mistake.text())
}

/// What is kept of content to be checked finds no memory for longer than it may wait.
pub(super) const NO_MEMORY_TO_CHECK: Refusal =
    Refusal::transient((3, 1), "Too many messages are on their way in; try again later");

/// Content that can't go to disk now; `is_poisoned`: nor ever again.
pub(super) fn no_place(is_poisoned: bool) -> Refusal {
    let detail = if is_poisoned { 0 } else { 1 };
    Refusal::transient((3, detail), "The spool cannot take the content now; try again later")
}

/// What a log said instead of taking a message.
pub(super) fn of_log(completion: &Completion) -> Refusal {
    match completion {
        Completion::Refused(spool::Refusal::Full) => NEARLY_FULL,
        Completion::Refused(spool::Refusal::Scarce) => SCARCE,
        Completion::Refused(spool::Refusal::TooLarge) => TOO_LARGE,
        _ => CANNOT_WRITE,
    }
}

/// A client may not send as the tenant that it asked for.
pub(super) fn not_yours(why: NotYours) -> Refusal {
    match why {
        NotYours::Unknown => Refusal::permanent((7, 1), "There is no such tenant"),
        NotYours::Another => Refusal::permanent((7, 1), "You may not send as this tenant"),
    }
}
