//! All kinds of problems, for documents and metrics.

use super::Severity;
use std::fmt::Write as _;

/// A kind of problem, as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindEntry {
    pub name: &'static str,
    /// Possible severities, the highest first.
    pub severities: &'static [Severity],
    /// The condition, with its threshold.
    pub begins: &'static str,
    /// The condition under which it is gone.
    pub cleared: &'static str,
}

const ERROR: &[Severity] = &[Severity::Error];
const WARNING: &[Severity] = &[Severity::Warning];
const EITHER: &[Severity] = &[Severity::Error, Severity::Warning];

/// All kinds, by name.
pub const PROBLEM_KINDS: &[KindEntry] = &[
    KindEntry {
        name: "alert",
        severities: WARNING,
        begins: "an alert was not delivered: its message failed or expired, or the web server took none of 5 requests \
         ([alerts](alerts.md))",
        cleared: "an alert to the same receiver is delivered",
    },
    KindEntry {
        name: "certificate",
        severities: EITHER,
        begins: "a certificate of this server, or an authority for client certificates, ends within `expiry_warning` \
         (14 days) or the last third of its lifetime (an ordered one: quarter). Error once it has ended. Also an \
         ordered one that is absent, or an unreadable new file",
        cleared: "the file has a certificate that lasts longer",
    },
    KindEntry {
        name: "clock",
        severities: ERROR,
        begins: "the clock at the start is more than a day away from the last record of the spool",
        cleared: "the clock is set, or `postrider queue trust-clock`",
    },
    KindEntry {
        name: "disk",
        severities: EITHER,
        begins: "a spool directory, the event log, `/etc/resolv.conf` or `/etc/hosts` is not accessible, or its disk \
         has not answered for 2 seconds; a spool directory has no inode left",
        cleared: "the next check, after 3 seconds, succeeds",
    },
    KindEntry {
        name: "disk_space",
        severities: WARNING,
        begins: "a spool's disk has less than twice `min_free_bytes` left",
        cleared: "more is free",
    },
    KindEntry {
        name: "event_log",
        severities: WARNING,
        begins: "the event log is not writable, or its disk does not answer",
        cleared: "the next write succeeds",
    },
    KindEntry {
        name: "hanging_file",
        severities: WARNING,
        begins: "a file of a table, of certificates, authorities, keys, passwords or other secrets, or a state file \
         for commands has not answered for 5 seconds",
        cleared: "it answers",
    },
    KindEntry {
        name: "limit",
        severities: WARNING,
        begins: "a login, sender, sender's domain or listener has reached a `[[limit]]`",
        cleared: "its count in the period is below the limit, or a reload",
    },
    KindEntry {
        name: "list",
        severities: WARNING,
        begins: "a file named by an alias (`:include:`) exists but is unreadable",
        cleared: "it can be read",
    },
    KindEntry {
        name: "listener",
        severities: ERROR,
        begins: "accepting a connection failed 10 times in a row (about a second): no file descriptor is left",
        cleared: "a connection is accepted",
    },
    KindEntry {
        name: "log",
        severities: ERROR,
        begins: "a spool directory accepts no mail, has less than `min_free_bytes` left or has damaged messages, or \
         its disk has not answered for 5 seconds",
        cleared: "it accepts mail; damaged messages are delivered, returned or removed",
    },
    KindEntry {
        name: "login_failures",
        severities: WARNING,
        begins: "at least 100 failed logins within an hour, and ten times as many as in the hour before",
        cleared: "the last hour no longer has as many",
    },
    KindEntry {
        name: "mailbox_directory",
        severities: WARNING,
        begins: "the directory before the first placeholder of a Maildir path is missing. Or its file system is full or \
         has no inode left, or its disk has not answered for 2 seconds",
        cleared: "the next check, after 3 seconds, succeeds",
    },
    KindEntry {
        name: "mailboxes",
        severities: WARNING,
        begins: "a mailbox delivery has not ended for 5 seconds: its disk does not answer",
        cleared: "it ends",
    },
    KindEntry {
        name: "milter",
        severities: EITHER,
        begins: "the last request to a milter failed; error unless `on_failure` is `\"accept\"`",
        cleared: "it answers a request, or a reload removes it",
    },
    KindEntry {
        name: "name_servers",
        severities: WARNING,
        begins: "eight successive lookups, in three zones or more, had no answer",
        cleared: "a lookup is answered",
    },
    KindEntry {
        name: "next_hop",
        severities: &[Severity::Warning, Severity::Notice],
        begins: "a next hop, from one source, is suspended after failures, or the lookups of a domain fail, and \
         recipients wait. Warning if the configuration names the next hop, or if it has at least 10 recipients and a \
         tenth of the queue; otherwise notice. The 20 with the most recipients are listed, the rest is counted",
        cleared: "it accepts mail again, or none waits",
    },
    KindEntry {
        name: "policy_service",
        severities: EITHER,
        begins: "the last request to a policy service failed; error unless `on_failure` is `\"accept\"`",
        cleared: "it answers a request, or a reload removes it",
    },
    KindEntry {
        name: "pool",
        severities: WARNING,
        begins: "clients or other parties wait for a scarce resource, or were refused it within ten seconds, with \
         their number and the largest holder ([limits](limits.md))",
        cleared: "ten seconds without waiting or refusals",
    },
    KindEntry {
        name: "postmaster_mail",
        severities: WARNING,
        begins: "mail for the postmaster waits in the spool's directory",
        cleared: "it is read and removed",
    },
    KindEntry {
        name: "reload",
        severities: WARNING,
        begins: "the last reload was refused, and the configuration before it is in force; or a reload has not read \
         all files within 5 seconds",
        cleared: "the next reload succeeds",
    },
    KindEntry {
        name: "secret",
        severities: WARNING,
        begins: "the new file of a login at next hops is unreadable",
        cleared: "it can be read",
    },
    KindEntry {
        name: "signing_key",
        severities: WARNING,
        begins: "the new file of a signing key is unreadable",
        cleared: "it can be read",
    },
    KindEntry {
        name: "silent_zone",
        severities: WARNING,
        begins: "eight successive lookups, in one or two zones and no other, had no answer",
        cleared: "a lookup is answered",
    },
    KindEntry {
        name: "source",
        severities: WARNING,
        begins: "the address or proxy of a source failed, or a shaping rule has suspended it for a provider or next \
         hop",
        cleared: "75 seconds without a failure; the end of the rule's effect, or `postrider shaping lift`",
    },
    KindEntry {
        name: "state_file",
        severities: WARNING,
        begins: "data of a state file was lost, the file is not writable, or the start found damage in the spool \
         ([spool](spool.md))",
        cleared: "the file is written; damage, when the next start finds none",
    },
    KindEntry {
        name: "table",
        severities: WARNING,
        begins: "a table's file is unreadable or has lost most of its keys, a server has not answered for 5 seconds, \
         a directory copy is old or damaged",
        cleared: "the file is read, or the server answers",
    },
    KindEntry {
        name: "unreadable_messages",
        severities: WARNING,
        begins: "messages of an X.400 peer are unreadable and held",
        cleared: "they are released, removed, or `hold_for` is over",
    },
];

/// Renders `docs/problems.md`.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(
        "# Problems\n\n\
         All current problems form one list, made at each request. `postrider status` prints it, and \"All is well.\" \
         only if it is empty. `/healthz` derives from it, `/metrics` has it as `postrider_problem`, the console logs \
         the start and end of each problem, and so do the events `problem` and `problem_cleared`.\n\n\
         A problem has a `kind`, a `severity`, its subject in `about`, a `text`, the `next_step`, and `since`.\n\n\
         | severity | | `/healthz` |\n|---|---|---|\n\
         | `error` | mail is refused or stands still | 503, `failing` |\n\
         | `warning` | mail continues, or some mail waits; an operator should look | 200, `degraded` |\n\
         | `notice` | usual on the internet: the next hop of a few recipients is down. | 200, `ok` |\n\n\
         This page is rendered from `crates/mta/src/problems/kinds.rs` (`PROBLEMS=write cargo test -p postrider \
         the_page_of_problems_is_fresh`).\n\n\
         | kind | severity | begins | cleared when |\n|---|---|---|---|\n",
    );
    for KindEntry { name, severities, begins, cleared } in PROBLEM_KINDS {
        let severities: Vec<&str> = severities.iter().map(|one| one.as_str()).collect();
        let severities = severities.join(", ");
        let _ = writeln!(page, "| `{name}` | {severities} | {begins} | {cleared} |");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_order_and_have_severities() {
        assert!(PROBLEM_KINDS.is_sorted_by(|a, b| a.name < b.name));
        for entry in PROBLEM_KINDS {
            assert!(!entry.severities.is_empty() && entry.severities.is_sorted());
        }
    }
}
