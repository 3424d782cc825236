//! TLS and logins of clients: smtpd_tls_…, smtpd_sasl_….

use super::intake::Intake;
use super::moving::Moving;
use super::values::Parameter;
use crate::commands::migrate::new_config::{Keys, list, quoted, table};
use std::path::Path;

/// Certificates, for all listeners.
pub(super) fn certificates(m: &mut Moving) {
    let host = m.get("myhostname").text;
    for pair in pairs(m) {
        certificate(m, &host, &pair);
    }
    let sni = m.get("tls_server_sni_maps");
    for map in m.maps(&sni) {
        let Some(entries) = m.map_entries(&sni, &map) else {
            let why = format!("{}:{} is not read here", map.kind, map.name);
            m.missing(&sni, &why, "a `[[certificate]]` for each name");
            continue;
        };
        for entry in entries {
            let files: Vec<String> = entry.value.split([',', ' ']).map(str::to_owned).collect();
            if let Some(pair) =
                pair_of(&files.into_iter().filter(|f| !f.is_empty()).collect::<Vec<_>>())
            {
                certificate(m, entry.key.trim_start_matches('.'), &pair);
            }
        }
        m.different(&sni, "a `[[certificate]]` for each name; the file is not read later", "");
    }
}

/// Key and chain, as files.
type Pair = (String, String);

/// Files of the server's own certificates.
fn pairs(m: &mut Moving) -> Vec<Pair> {
    let chains = m.get("smtpd_tls_chain_files");
    if !chains.is_empty() {
        m.carried(&chains, "`[[certificate]]`");
        let files = chains.words();
        return files.chunks(2).filter_map(pair_of).collect();
    }
    let mut all = Vec::new();
    for (cert, key) in [
        ("smtpd_tls_cert_file", "smtpd_tls_key_file"),
        ("smtpd_tls_eccert_file", "smtpd_tls_eckey_file"),
        ("smtpd_tls_dcert_file", "smtpd_tls_dkey_file"),
    ] {
        let (cert, key) = (m.get(cert), m.get(key));
        if cert.is_empty() || cert.text == "none" {
            continue;
        }
        m.carried(&cert, "`[[certificate]]`");
        m.carried(&key, "`[[certificate]]`");
        let key = if key.is_empty() { cert.text.clone() } else { key.text.clone() };
        all.push((key, cert.text.clone()));
    }
    all
}

/// A key with its chain: a file of each, or one for both. The key comes first, unless only the second file has one.
fn pair_of(files: &[String]) -> Option<Pair> {
    match files {
        [] => None,
        [both] => Some((both.clone(), both.clone())),
        [key, chain, ..] => {
            let has_key = |path: &str| {
                std::fs::read_to_string(Path::new(path))
                    .is_ok_and(|text| text.contains("PRIVATE KEY"))
            };
            match !has_key(key) && has_key(chain) {
                true => Some((chain.clone(), key.clone())),
                false => Some((key.clone(), chain.clone())),
            }
        }
    }
}

fn certificate(m: &mut Moving, name: &str, (key, chain): &Pair) {
    let mut keys = Keys::new();
    keys.set("names", list(&[name])).text("chain", chain).text("key", key);
    m.config.section("[[certificate]]", keys);
    m.has_certificate = true;
}

/// TLS of a listener.
pub(super) fn write(m: &mut Moving, intake: &mut Intake) {
    let wrapped = intake.get(m, "smtpd_tls_wrappermode");
    let level = intake.get(m, "smtpd_tls_security_level");
    let usual = intake.get(m, "smtpd_use_tls");
    let enforced = intake.get(m, "smtpd_enforce_tls");
    let word = match level.text.as_str() {
        "" if enforced.is_yes() => "encrypt",
        "" if usual.is_yes() => "may",
        word => word,
    };
    if !m.has_certificate {
        if wrapped.is_yes() || !matches!(word, "" | "none") {
            let why = "no TLS: there is no certificate";
            m.missing(&level, why, "a `[[certificate]]`; `acme = true` orders one");
        }
        return;
    }
    let tls = match word {
        _ if wrapped.is_yes() => "implicit",
        "" | "none" if !intake.is_submission => "off",
        _ => "starttls",
    };
    intake.set("tls", quoted(tls));
    m.carried(&wrapped, "`tls` of the listener");
    if word == "encrypt" && tls == "starttls" && !intake.is_submission {
        let why = "TLS is offered, but mail in clear is accepted too";
        m.open(&level, why, "`tls = \"implicit\"`, or `kind = \"submission\"` for users");
    } else {
        m.carried(&level, "`tls` of the listener");
    }
    client_certificates(m, intake);
}

fn client_certificates(m: &mut Moving, intake: &mut Intake) {
    let ask = intake.get(m, "smtpd_tls_ask_ccert");
    let require = intake.get(m, "smtpd_tls_req_ccert");
    if !ask.is_yes() && !require.is_yes() {
        return;
    }
    let authorities = intake.get(m, "smtpd_tls_CAfile");
    if authorities.is_empty() {
        let why = "client certificates need a file of authorities, or a table of fingerprints";
        m.missing(&ask, why, "`client_certificates` of the listener");
        return;
    }
    let mut keys = Keys::new();
    keys.text("authorities", &authorities.text);
    if require.is_yes() {
        keys.set("required", "true");
    }
    if intake.checks.relays_certificates {
        keys.set("relay", "true");
    }
    intake.set("client_certificates", keys.inline());
    for of in [&ask, &require, &authorities] {
        m.carried(of, "`client_certificates` of the listener");
    }
}

/// Sets the keys of logins; returns false if no login is possible, so that the listener is left out.
pub(super) fn logins(m: &mut Moving, intake: &mut Intake) -> bool {
    let is_on = intake.get(m, "smtpd_sasl_auth_enable");
    let kind = intake.get(m, "smtpd_sasl_type");
    let path = intake.get(m, "smtpd_sasl_path");
    if kind.text != "dovecot" {
        let why = "no listener: only Dovecot's logins are carried";
        m.missing(&kind, why, "`logins` with a table of passwords or LDAP: docs/submission.md");
        return false;
    }
    if !m.has_certificate {
        let why = "no listener for users: there is no certificate";
        m.missing(&is_on, why, "a `[[certificate]]`, then `kind = \"submission\"`");
        return false;
    }
    let socket = match path.text.strip_prefix("inet:") {
        Some(_) => path.text.clone(),
        None => m.socket_path(path.text.strip_prefix("unix:").unwrap_or(&path.text)),
    };
    intake.set("kind", "\"submission\"");
    let mut keys = Keys::new();
    keys.text("dovecot", &socket);
    intake.set("logins", keys.inline());
    // Postfix does not compare header fields with logins.
    intake.set("authors", "\"any\"");
    for of in [&is_on, &kind, &path] {
        m.carried(of, "`logins` of the listener");
    }
    if intake.checks.has_owners {
        owners(m, intake);
    }
    true
}

/// smtpd_sender_login_maps has users by address; here a table has addresses by user.
fn owners(m: &mut Moving, intake: &mut Intake) {
    let of = intake.get(m, "smtpd_sender_login_maps");
    let mut by_user: Vec<(String, Vec<String>)> = Vec::new();
    for map in m.maps(&of) {
        let Some(entries) = m.map_entries(&of, &map) else {
            not_read(m, &of, &map.kind);
            continue;
        };
        for entry in entries {
            for user in super::values::words(&entry.value) {
                match by_user.iter_mut().find(|(name, _)| *name == user) {
                    Some((_, addresses)) => addresses.push(entry.key.clone()),
                    None => by_user.push((user, vec![entry.key.clone()])),
                }
            }
        }
    }
    let lines = by_user.iter().map(|(user, all)| format!("{user} {}\n", all.join(", ")));
    let text =
        format!("# Made from smtpd_sender_login_maps of Postfix.\n{}", lines.collect::<String>());
    let path = m.made_file("senders", text, false);
    let name = m.config.table("senders", "file", &super::maps::path_key(&path));
    intake.set("senders", table(&name));
    let why = "`senders` of the listener: a file with the addresses of each user";
    m.different(&of, why, "change that file; it is not made again");
}

fn not_read(m: &mut Moving, of: &Parameter, kind: &str) {
    let why = format!("{kind} tables have users by address; `senders` needs addresses by user");
    m.missing(of, &why, "a query for the addresses of a user; until then these users may not send");
}
