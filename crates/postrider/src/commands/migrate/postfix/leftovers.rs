//! Parameters that no other area has read: parameters with a fixed meaning here, without a counterpart, and unknown
//! ones.

use super::moving::Moving;
use crate::commands::migrate::report::Verdict;
use Verdict::{Carried, Different, Missing};

/// A parameter, or several by the beginning of their names (`*`); the result, the reason, the remedy.
type Fixed = (&'static str, Verdict, &'static str, &'static str);

const FIXED: &[Fixed] = &[
    (
        "compatibility_level",
        Different,
        "`postrider check` names each setting with a changed meaning",
        "",
    ),
    ("queue_directory", Different, "`path` of [spool]", ""),
    ("data_directory", Different, "`path` of [spool]", ""),
    ("config_directory", Different, "one file, named by --config", ""),
    ("*_directory", Different, "one program, nothing to set", ""),
    (
        "sendmail_path",
        Different,
        "a link to `postrider`, and a listener of kind `local`",
        "docs/sendmail.md",
    ),
    ("newaliases_path", Different, "aliases are read as they are", ""),
    ("mailq_path", Different, "postrider queue list", ""),
    ("mail_owner", Different, "the user that starts the server", ""),
    ("setgid_group", Different, "the user that starts the server", ""),
    ("biff", Missing, "no notices to terminals", ""),
    ("debug_peer_*", Different, "`level` of [log]", ""),
    ("debugger_command", Different, "`level` of [log]", ""),
    ("maillog_file*", Different, "[log], and the event log: docs/logs.md", ""),
    ("syslog_*", Different, "[log], and the event log: docs/logs.md", ""),
    ("alias_database", Different, "aliases are read as they are; no newaliases", ""),
    ("smtpd_helo_required", Carried, "always", ""),
    ("smtpd_delay_reject", Different, "rules reject at RCPT, as with `yes`", ""),
    ("disable_vrfy_command", Carried, "VRFY discloses nothing", ""),
    ("strict_rfc821_envelopes", Different, "always, with few exceptions: docs/from-postfix.md", ""),
    ("append_dot_mydomain", Different, "a host name without dots stays as it is", ""),
    ("swap_bangpath", Different, "`allow_routed_recipients`", ""),
    ("allow_percent_hack", Different, "`allow_routed_recipients`", ""),
    ("smtpd_tls_auth_only", Carried, "always", ""),
    ("smtpd_tls_loglevel", Different, "protocol and suite are in events", ""),
    ("smtp_tls_loglevel", Different, "protocol and suite are in events", ""),
    ("smtpd_tls_received_header", Carried, "always", ""),
    ("smtpd_tls_protocols", Different, "TLS 1.2 and 1.3", ""),
    ("smtpd_tls_mandatory_protocols", Different, "TLS 1.2 and 1.3", ""),
    ("smtp_tls_protocols", Different, "TLS 1.2 and 1.3", ""),
    ("smtp_tls_mandatory_protocols", Different, "TLS 1.2 and 1.3", ""),
    ("lmtp_tls_*", Different, "TLS 1.2 and 1.3, AEAD suites with forward secrecy", ""),
    ("smtpd_tls_ciphers", Different, "AEAD suites with forward secrecy", ""),
    ("smtpd_tls_mandatory_ciphers", Different, "AEAD suites with forward secrecy", ""),
    ("smtpd_tls_exclude_ciphers", Different, "AEAD suites with forward secrecy", ""),
    ("smtpd_tls_mandatory_exclude_ciphers", Different, "AEAD suites with forward secrecy", ""),
    ("smtp_tls_ciphers", Different, "AEAD suites with forward secrecy", ""),
    ("smtp_tls_mandatory_ciphers", Different, "AEAD suites with forward secrecy", ""),
    ("smtp_tls_exclude_ciphers", Different, "AEAD suites with forward secrecy", ""),
    ("tls_*", Different, "AEAD suites with forward secrecy", ""),
    ("smtpd_tls_dh*", Different, "AEAD suites with forward secrecy", ""),
    ("smtpd_tls_eecdh_grade", Different, "AEAD suites with forward secrecy", ""),
    ("smtp_tls_CA*", Different, "the machine's authorities", ""),
    ("smtpd_tls_CA*", Different, "`authorities` of `client_certificates`", ""),
    ("smtpd_tls_session_*", Different, "always on, in memory", ""),
    ("smtp_tls_session_*", Different, "always on, in memory", ""),
    ("smtp_tls_note_starttls_offer", Different, "events have the protocol", ""),
    ("smtp_tls_block_early_mail_reply", Carried, "input before a handshake is never used", ""),
    ("broken_sasl_auth_clients", Different, "no `AUTH=` line for old clients", ""),
    ("smtpd_sasl_authenticated_header", Missing, "the login is in events, not in Received", ""),
    (
        "smtpd_sasl_local_domain",
        Different,
        "logins are looked up as sent",
        "`rewrite` of the table",
    ),
    ("smtpd_sasl_security_options", Different, "`mechanisms`, over TLS only", ""),
    ("smtpd_sasl_tls_security_options", Different, "`mechanisms`, over TLS only", ""),
    (
        "smtpd_sasl_exceptions_networks",
        Different,
        "AUTH is offered at submission listeners only",
        "",
    ),
    (
        "smtpd_sasl_*",
        Different,
        "a listener with `kind = \"submission\"` has logins",
        "docs/submission.md",
    ),
    (
        "smtpd_sender_login_maps",
        Different,
        "`senders` of submission listeners, if a restriction uses it",
        "",
    ),
    ("smtp_sasl_*", Different, "the strongest mechanism that the host offers, over TLS", ""),
    ("smtpd_soft_error_limit", Different, "`max_errors`, `refusals_per_minute`", ""),
    ("smtpd_error_sleep_time", Different, "`max_errors`, `refusals_per_minute`", ""),
    ("smtpd_client_auth_rate_limit", Different, "`login_failures_per_hour`", ""),
    ("smtpd_peername_lookup", Different, "`client_name` of `checks`", ""),
    ("smtpd_reject_unlisted_recipient", Different, "unknown recipients are always rejected", ""),
    ("unknown_*", Different, "fixed codes: docs/from-postfix.md", ""),
    ("*_code", Different, "fixed codes: docs/from-postfix.md", ""),
    ("unverified_*", Different, "fixed codes: docs/from-postfix.md", ""),
    ("line_length_limit", Different, "`max_line_bytes`", ""),
    ("header_size_limit", Different, "part of `max_message_bytes`", ""),
    ("body_checks_size_limit", Different, "the first 51,200 octets", ""),
    ("mailbox_size_limit", Different, "`quota` of `maildir`", ""),
    ("in_flow_delay", Different, "intake yields by itself", ""),
    ("queue_run_delay", Different, "each message has its time: [retry]", ""),
    ("default_process_limit", Different, "`max_sessions`", ""),
    ("qmgr_*", Different, "the whole queue is active", ""),
    ("default_destination_*", Different, "limits of the routes: docs/config/routes.md", ""),
    ("*_destination_recipient_limit", Different, "`recipients_per_message` of the route", ""),
    ("*_destination_concurrency_limit", Different, "`max_connections` of the route", ""),
    ("smtp_host_lookup", Different, "/etc/hosts, then the DNS", ""),
    ("smtp_dns_support_level", Different, "`validating` of [dns]", ""),
    ("smtp_address_preference", Different, "IPv6 first, hosts that failed last", ""),
    ("smtp_always_send_ehlo", Carried, "always", ""),
    ("smtp_connection_*", Different, "connections are reused: `idle_timeout`", ""),
    ("smtp_mx_*", Different, "all hosts are tried in turn", ""),
    ("enable_long_queue_ids", Carried, "ids are never used twice", ""),
    ("smtputf8_*", Different, "`smtputf8` of the listener", ""),
    ("owner_request_special", Carried, "`owner-` aliases: docs/aliases.md", ""),
    ("expand_owner_alias", Carried, "`owner-` aliases: docs/aliases.md", ""),
    ("propagate_unmatched_extensions", Different, "tags are passed on", ""),
    ("virtual_alias_*_limit", Different, "fixed limits: docs/aliases.md", ""),
    ("virtual_minimum_uid", Different, "root never owns a mailbox", ""),
    ("parent_domain_matches_subdomains", Carried, "`parent_domains`, `*.example.org`", ""),
    ("milter_*", Different, "fixed macros and versions: docs/milters.md", ""),
    ("postscreen_*", Different, "`checks` and `early_talkers` of the listener", "docs/checks.md"),
    ("address_verify_*", Different, "`cache` of a `call_ahead` table", "docs/tables.md"),
    ("bounce_template_file", Missing, "the text of reports is fixed", ""),
    ("bounce_*", Different, "[reports]", ""),
    ("fast_flush_domains", Missing, "ETRN is not available", "postrider queue retry"),
    ("message_drop_headers", Different, "`remove_bcc`", ""),
    ("always_add_missing_headers", Different, "`add_missing_fields` of the listener", ""),
    ("smtpd_forbid_unauth_pipelining", Different, "`early_talkers` of the listener", ""),
    ("smtp_tlsrpt_*", Different, "[tls_reports]", ""),
    ("luser_relay", Missing, "no mail for unknown users", "a catch-all alias: docs/aliases.md"),
    (
        "authorized_*",
        Missing,
        "all users may send at a listener of kind `local`",
        "mode of its directory",
    ),
    ("multi_instance_*", Different, "a server for each configuration file", ""),
    ("virtual_mailbox_*", Different, "`maildir`, where the transport is virtual", ""),
    ("virtual_uid_maps", Different, "`maildir`, where the transport is virtual", ""),
    ("virtual_gid_maps", Different, "`maildir`, where the transport is virtual", ""),
    ("mailbox_*", Different, "the channel of the local route", ""),
    ("home_mailbox", Different, "the channel of the local route", ""),
    ("allow_mail_to_*", Missing, "aliases lead to addresses only", "`pipe`: docs/aliases.md"),
];

/// Rows of parameters without one, so that each changed parameter is in the report.
pub(super) fn write(m: &mut Moving) {
    let unlisted = m.get("smtpd_reject_unlisted_sender");
    if unlisted.is_yes() {
        let why = "senders of domains here that do not exist are accepted";
        m.open(&unlisted, why, "`own_domains` of `checks`");
    }
    for (name, origin) in m.site.replaced.clone() {
        m.note(
            Verdict::Different,
            &origin,
            &name,
            "a later line sets it again, as in Postfix",
            "",
            false,
        );
    }
    for (of, is_read) in m.site.changed() {
        if m.report.has(&of.name) {
            continue;
        }
        match FIXED.iter().find(|(name, ..)| is_named(&of.name, name)) {
            Some((_, Carried, why, _)) => m.carried(&of, why),
            Some((_, Different, why, remedy)) => m.different(&of, why, remedy),
            Some((_, Missing, why, remedy)) => m.missing(&of, why, remedy),
            None if is_read => {
                let why = "read together with other settings; no effect here besides theirs";
                m.different(&of, why, "");
            }
            None if m.site.is_known(&of.name) => {
                m.missing(
                    &of,
                    "it has no counterpart, or none that is written",
                    "docs/from-postfix.md",
                );
            }
            None => {
                let why = "unknown to Postfix, and used by nothing";
                m.missing(&of, why, "correct its name, or remove it");
            }
        }
    }
    for service in m.site.services.clone() {
        let subject = format!("service {}", service.name);
        if service.command == "spawn" {
            let why = "this server starts no helper programs";
            let remedy = "run it under another supervisor";
            m.note(Missing, &service.origin, &subject, why, remedy, false);
        }
    }
}

/// `*` stands at one end.
fn is_named(name: &str, pattern: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_a_star_at_one_end() {
        assert!(
            is_named("tls_high_cipherlist", "tls_*")
                && is_named("access_map_reject_code", "*_code")
        );
        assert!(
            !is_named("smtp_tls_x", "tls_*")
                && is_named("biff", "biff")
                && !is_named("biff2", "biff")
        );
    }
}
