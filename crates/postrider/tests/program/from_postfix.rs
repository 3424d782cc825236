//! `docs/from-postfix.md` names each parameter of the main.cf that Debian installs, and those that guides copy.

use crate::support::Files;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../../docs/from-postfix.md");

/// Templates of the package: its configuration for Debian, that for TLS, and the commented one.
const TEMPLATES: &str = "/usr/share/postfix";

/// Parameters that the package's script adds to the templates, whatever its questions are answered.
const BY_SCRIPT: &str = "myhostname = mail.example.org\nalias_maps = hash:/etc/aliases\n\
    alias_database = hash:/etc/aliases\nmyorigin = /etc/mailname\nmydestination = localhost\nrelayhost =\n\
    mynetworks = 127.0.0.0/8\nmailbox_size_limit = 0\nrecipient_delimiter = +\ninet_interfaces = all\n\
    inet_protocols = all\nhtml_directory = no\n\
    smtpd_relay_restrictions = permit_mynetworks defer_unauth_destination\n";

/// Parameters that guides to mail servers with Postfix set most, beyond those of main.cf above.
const IN_GUIDES: &str = "smtpd_sasl_auth_enable smtpd_sasl_type smtpd_sasl_path smtpd_sasl_security_options \
    smtpd_sasl_tls_security_options smtpd_sasl_local_domain broken_sasl_auth_clients smtp_sasl_auth_enable \
    smtp_sasl_password_maps smtp_sasl_security_options smtp_sasl_tls_security_options smtp_tls_CAfile \
    smtp_tls_note_starttls_offer smtp_tls_loglevel smtpd_tls_loglevel smtpd_tls_received_header smtpd_use_tls \
    smtp_use_tls smtpd_tls_auth_only smtpd_tls_protocols smtpd_tls_mandatory_protocols smtp_tls_protocols \
    smtp_tls_mandatory_protocols smtpd_tls_mandatory_ciphers smtpd_tls_exclude_ciphers tls_preempt_cipherlist \
    smtpd_tls_session_cache_timeout smtp_tls_policy_maps tls_random_source smtpd_helo_required \
    disable_vrfy_command smtpd_delay_reject strict_rfc821_envelopes smtpd_client_restrictions \
    smtpd_helo_restrictions smtpd_sender_restrictions smtpd_recipient_restrictions smtpd_data_restrictions \
    smtpd_sender_login_maps virtual_transport virtual_mailbox_domains virtual_mailbox_maps virtual_alias_maps \
    virtual_alias_domains virtual_mailbox_base virtual_uid_maps virtual_gid_maps virtual_minimum_uid \
    local_recipient_maps local_transport mailbox_transport transport_maps relay_recipient_maps \
    sender_canonical_maps smtp_generic_maps header_checks body_checks mime_header_checks smtp_header_checks \
    smtpd_milters non_smtpd_milters milter_protocol milter_default_action milter_mail_macros \
    message_size_limit maximal_queue_lifetime bounce_queue_lifetime delay_warning_time \
    smtpd_client_connection_rate_limit smtpd_client_connection_count_limit smtpd_error_sleep_time \
    smtpd_soft_error_limit smtpd_hard_error_limit smtpd_recipient_limit proxy_read_maps content_filter \
    default_destination_concurrency_limit smtp_destination_concurrency_limit smtp_destination_rate_delay \
    dovecot_destination_recipient_limit sender_dependent_relayhost_maps always_bcc smtputf8_enable";

fn is_name(byte: char) -> bool {
    byte.is_ascii_alphanumeric() || byte == '_'
}

/// The rows of the page's tables by each word of their first cell; each row as its other cells.
type Rows = BTreeMap<&'static str, Vec<Vec<&'static str>>>;

fn rows() -> Rows {
    let mut rows = Rows::new();
    for line in PAGE.lines().filter(|line| line.starts_with("| ")) {
        let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
        let names = cells.next().unwrap_or_default();
        let rest: Vec<&str> = cells.collect();
        for name in names.split(|c| !is_name(c)).filter(|name| !name.is_empty()) {
            rows.entry(name).or_default().push(rest.clone());
        }
    }
    rows
}

/// Returns true if a row has a counterpart, or the reason why there is none.
fn is_answered(rows: &Rows, name: &str) -> bool {
    let mut cells = rows.get(name).into_iter().flatten().flatten();
    cells.any(|cell| !cell.is_empty())
}

/// Returns true if a row also has a verdict.
fn has_verdict(rows: &Rows, name: &str) -> bool {
    rows.get(name).into_iter().flatten().any(
        |cells| matches!(cells[..], ["same" | "different" | "missing", text] if !text.is_empty()),
    )
}

/// The parameter that a line of main.cf sets, also in a comment.
fn parameter(line: &str) -> Option<&str> {
    let (name, _) = line.trim_start_matches('#').split_once('=')?;
    let name = name.trim_end();
    (name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_name))
        .then_some(name)
}

/// The parameters that Postfix itself finds in Debian's main.cf.
fn set_by_debian() -> Vec<String> {
    let files = Files::new();
    let read =
        |name: &str| fs::read_to_string(Path::new(TEMPLATES).join(name)).expect("a template");
    files.write("main.cf", &(read("main.cf.debian") + &read("main.cf.tls") + BY_SCRIPT));
    files.write("master.cf", "");
    let output = Command::new("/usr/sbin/postconf").arg("-c").arg(files.dir()).arg("-n").output();
    let output = output.expect("postconf runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // `-c` sets it.
    let names = text.lines().filter_map(parameter).filter(|name| *name != "config_directory");
    names.map(str::to_owned).collect()
}

#[test]
fn page_names_each_parameter_of_main_cf() {
    if !Path::new(TEMPLATES).join("main.cf.debian").exists() {
        skips::missing("postfix");
        return;
    }
    let rows = rows();
    let set = set_by_debian();
    assert!(set.len() >= 20, "{set:?}");
    let mut lacking: Vec<String> =
        set.into_iter().filter(|name| !has_verdict(&rows, name)).collect();
    let all = fs::read_to_string(Path::new(TEMPLATES).join("main.cf.dist")).expect("a template");
    let all: Vec<&str> = all.lines().filter_map(parameter).collect();
    assert!(all.len() > 50, "{all:?}");
    lacking.extend(all.into_iter().filter(|name| !is_answered(&rows, name)).map(str::to_owned));
    assert!(lacking.is_empty(), "docs/from-postfix.md has no row for {lacking:?}");
}

#[test]
fn page_names_settings_of_guides() {
    let rows = rows();
    let names = IN_GUIDES.split_whitespace();
    let lacking: Vec<&str> = names.filter(|name| !is_answered(&rows, name)).collect();
    assert!(lacking.is_empty(), "docs/from-postfix.md has no row for {lacking:?}");
}
