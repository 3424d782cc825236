//! Differences in behaviour that no parameter sets, or that a carried parameter does not cover. Each has a row in the
//! report, with the subject of its row in `docs/from-postfix.md`.

use super::moving::Moving;
use super::values::Parameter;
use crate::commands::migrate::report::{SourceLine, Verdict};

/// A difference, where it can occur.
struct Behaviour {
    /// The first cell of its row in `docs/from-postfix.md`.
    subject: &'static str,
    when: When,
    /// Postfix's behaviour.
    there: &'static str,
    here: &'static str,
    remedy: &'static str,
}

/// The configurations with a difference.
enum When {
    Always,
    /// One of these parameters is not empty, in main.cf or for a service.
    Set(&'static [&'static str]),
    /// All of these parameters are not empty.
    All(&'static [&'static str]),
    /// A restriction has this name, or begins with it.
    Restricted(&'static str),
    /// Users log in at a listener.
    Logins,
}

const RESTRICTIONS: [&str; 9] = [
    "smtpd_client_restrictions",
    "smtpd_helo_restrictions",
    "smtpd_sender_restrictions",
    "smtpd_relay_restrictions",
    "smtpd_recipient_restrictions",
    "smtpd_data_restrictions",
    "smtpd_end_of_data_restrictions",
    "smtpd_etrn_restrictions",
    "smtpd_restriction_classes",
];

const ALIASES: &[&str] = &["virtual_alias_maps", "alias_maps"];

const fn always(
    subject: &'static str,
    there: &'static str,
    here: &'static str,
    remedy: &'static str,
) -> Behaviour {
    Behaviour { subject, when: When::Always, there, here, remedy }
}

const fn with(
    when: When,
    subject: &'static str,
    there: &'static str,
    here: &'static str,
    remedy: &'static str,
) -> Behaviour {
    Behaviour { subject, when, there, here, remedy }
}

const BEHAVIOURS: &[Behaviour] = &[
    always(
        "malformed addresses",
        "completed or repaired (<root>, <al@>, <al@example.org.>)",
        "501 5.1.7 to MAIL, 501 5.1.3 to RCPT",
        "for programs of this machine set `origin` of the listener, which completes names",
    ),
    always("no EHLO or HELO", "MAIL is accepted", "503 5.5.1", ""),
    always("`AUTH=` in MAIL without a login", "ignored", "555 5.5.4", ""),
    always("MAIL parameters after HELO", "accepted", "555 5.5.4", ""),
    always("invalid values of MAIL parameters", "555 5.5.4", "501 5.5.4", ""),
    always(
        "recipients that may not be relayed",
        "refused after the lists for client, HELO and sender",
        "refused first, 550 5.7.1",
        "",
    ),
    always(
        "order of the lists",
        "client, HELO, sender, recipient",
        "the order of the file; the reply of another list may come",
        "",
    ),
    always(
        "quotes that an address does not need",
        "removed: <\"al\"@example.org>",
        "passed on",
        "",
    ),
    always("recipients that differ in case only", "one delivery", "a delivery for each", ""),
    always(
        "routes in local parts",
        "al%far@example.org is relayed to far for trusted clients",
        "550 5.7.1",
        "`allow_routed_recipients` of the listener",
    ),
    always(
        "address literals of this server",
        "al@[192.0.2.1] is the local user al",
        "550 5.1.2",
        "",
    ),
    always(
        "`local_header_rewrite_clients`, `always_add_missing_headers`",
        "missing header fields are added, From included",
        "`add_missing_fields` adds Date and Message-ID",
        "",
    ),
    with(
        When::Logins,
        "MAIL without a login, to a submission listener",
        "accepted, then RCPT is refused",
        "530 5.7.0",
        "",
    ),
    with(When::Restricted("check_"), "code of `REJECT`", "554", "550", ""),
    with(
        When::Restricted("reject_unknown_sender_domain"),
        "unknown domain of the sender",
        "450 4.1.8",
        "550 5.1.8",
        "",
    ),
    with(
        When::Set(ALIASES),
        "an alias of an unknown address",
        "accepted, then bounced",
        "550 5.1.1",
        "correct the alias",
    ),
    with(
        When::Set(ALIASES),
        "one address by several aliases",
        "a delivery for each",
        "one delivery",
        "",
    ),
    with(When::Set(&["alias_maps"]), "tags of local aliases", "dropped", "passed on", ""),
    with(
        When::Set(&["smtp_generic_maps"]),
        "tags in `smtp_generic_maps`",
        "dropped from a rewritten address",
        "kept",
        "",
    ),
    with(
        When::Set(&["smtp_fallback_relay"]),
        "a fallback relay, and a domain without a mail host",
        "the fallback relay gets the mail",
        "the mail is bounced",
        "",
    ),
    with(
        When::All(&["virtual_alias_maps", "virtual_mailbox_maps"]),
        "`@example.org` in `virtual_alias_maps` beside `virtual_mailbox_maps`",
        "the alias takes mail for mailboxes, too",
        "a mailbox takes precedence over a catch-all alias",
        "",
    ),
];

/// Adds a row for each difference that this configuration can show.
pub(super) fn write(m: &mut Moving) {
    for Behaviour { subject, when, there, here, remedy } in BEHAVIOURS {
        let Some(origin) = origin_of(m, when) else { continue };
        let why = format!("Postfix: {there}; here: {here}");
        m.note(Verdict::Different, &origin, subject, &why, remedy, false);
    }
}

/// The line that causes a difference; a default for one that all configurations have.
fn origin_of(m: &Moving, when: &When) -> Option<SourceLine> {
    let set = |name: &&str| values(m, name).find(|of| !of.text.trim().is_empty());
    match when {
        When::Always => Some(SourceLine::default()),
        When::Set(names) => names.iter().find_map(set).map(|of| of.origin),
        When::All(names) => {
            let all: Option<Vec<Parameter>> = names.iter().map(set).collect();
            all?.into_iter().next().map(|of| of.origin)
        }
        When::Restricted(word) => {
            let all = RESTRICTIONS.iter().flat_map(|name| values(m, name));
            // Classes are parameters with names of their own.
            let classes = m.get("smtpd_restriction_classes").words();
            let of_classes = classes.iter().flat_map(|name| values(m, name)).collect::<Vec<_>>();
            let mut all = all.chain(of_classes);
            all.find(|of| of.text.contains(word)).map(|of| of.origin)
        }
        When::Logins => {
            values(m, "smtpd_sasl_auth_enable").find(|of| of.text == "yes").map(|of| of.origin)
        }
    }
}

/// A parameter of main.cf, and of each service that sets it.
fn values<'a>(m: &'a Moving, name: &'a str) -> impl Iterator<Item = Parameter> {
    let services = m.site.services.iter().filter(|service| service.options.contains_key(name));
    let of_services = services.map(|service| m.site.get_at(Some(service), name));
    std::iter::once(m.get(name)).chain(of_services)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../../../docs/from-postfix.md");

    #[test]
    fn each_subject_is_a_row_of_the_page() {
        for behaviour in BEHAVIOURS {
            let subject = behaviour.subject;
            assert!(PAGE.contains(&format!("\n| {subject} |")), "{subject}");
        }
    }
}
