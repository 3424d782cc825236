//! Changes of messages: canonical and generic addresses, masquerading, header checks, copies.

use super::domains::DomainClass;
use super::maps::path_key;
use super::moving::Moving;
use super::networks::networks;
use super::values::Parameter;
use crate::commands::migrate::new_config::{Keys, list, quoted};
use crate::commands::migrate::report::Verdict;

/// canonical_maps and the like, for envelopes and headers.
pub(super) fn addresses(m: &mut Moving, classes: &[DomainClass]) {
    for (maps, wanted) in [
        ("sender_canonical_maps", "sender_canonical_classes"),
        ("recipient_canonical_maps", "recipient_canonical_classes"),
        ("canonical_maps", "canonical_classes"),
    ] {
        let of = m.get(maps);
        let parts = m.get(wanted);
        m.carried(&parts, "`addresses` of `[[rewrite]]`");
        if of.is_empty() {
            continue;
        }
        let (table, _) = m.table_of(&of);
        if let Some(table) = table {
            rewrite(m, &table, &parts.words());
            m.carried(&of, "`[[rewrite]]`, with the tables as they are");
        }
        let renames = parts.words().iter().any(|word| word == "envelope_recipient");
        if renames && classes.iter().any(|class| class.recipients.is_some()) {
            let why =
                "a recipient that only this map has is rejected: RCPT asks `recipients` first";
            m.different(&of, why, "an alias for each of these recipients");
        }
    }
    masquerade(m);
    generic(m);
}

/// Rules for these classes of addresses; header fields of local clients only.
fn rewrite(m: &mut Moving, table: &str, wanted: &[String]) {
    let has = |name: &str| wanted.iter().any(|word| word == name);
    let envelope: Vec<&str> =
        ["envelope_sender", "envelope_recipient"].into_iter().filter(|part| has(part)).collect();
    if !envelope.is_empty() {
        let mut keys = Keys::new();
        keys.text("table", table).set("addresses", list(&envelope));
        m.config.section("[[rewrite]]", keys);
    }
    let mut fields = Vec::new();
    if has("header_sender") {
        fields.extend(["from", "sender", "reply_to"]);
    }
    if has("header_recipient") {
        fields.extend(["to", "cc"]);
    }
    let clients = header_clients(m);
    if fields.is_empty() || clients.as_ref().is_some_and(Vec::is_empty) {
        return;
    }
    let mut keys = Keys::new();
    keys.text("table", table).set("addresses", list(&fields));
    if let Some(clients) = clients {
        let mut when = Keys::new();
        when.set("clients", list(&clients));
        keys.set("when", when.inline());
    }
    m.config.section("[[rewrite]]", keys);
}

/// Networks of clients with rewritten header fields; none for all.
fn header_clients(m: &mut Moving) -> Option<Vec<String>> {
    let remote = m.get("remote_header_rewrite_domain");
    if !remote.is_empty() {
        m.carried(&remote, "`[[rewrite]]` for all clients");
        return None;
    }
    let of = m.get("local_header_rewrite_clients");
    let mut all = Vec::new();
    for word in of.words() {
        match word.as_str() {
            "permit_mynetworks" => all.extend(networks(m)),
            "permit_inet_interfaces" => {
                all.extend(["127.0.0.0/8".to_owned(), "::1/128".to_owned()]);
            }
            other => {
                let why = format!("header fields of clients by {other} are not rewritten");
                m.missing(&of, &why, "`when` of `[[rewrite]]`");
            }
        }
    }
    all.dedup();
    m.carried(&of, "`when.clients` of `[[rewrite]]`");
    Some(all)
}

/// masquerade_domains as a table of patterns.
fn masquerade(m: &mut Moving) {
    let of = m.get("masquerade_domains");
    if of.is_empty() {
        return;
    }
    let exceptions = m.get("masquerade_exceptions");
    let wanted = m.get("masquerade_classes");
    let mut text = String::new();
    for name in exceptions.words() {
        text.push_str(&format!("/^({}@.*)$/ $1\n", escaped(&name)));
    }
    for domain in of.words() {
        match domain.strip_prefix('!') {
            Some(kept) => {
                text.push_str(&format!("/^(.*@(.*\\.)?{})$/ $1\n", escaped(kept)));
            }
            None => text.push_str(&format!("/^(.*)@.*\\.{}$/ $1@{domain}\n", escaped(&domain))),
        }
    }
    let path = m.made_file("masquerade", text, false);
    let table = m.config.table("masquerade", "regexp", &path_key(&path));
    rewrite(m, &table, &wanted.words());
    m.carried(&of, "`[[rewrite]]` with patterns");
    m.carried(&exceptions, "`[[rewrite]]` with patterns");
    m.carried(&wanted, "`addresses` of `[[rewrite]]`");
}

fn escaped(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    text.chars().fold(String::new(), |mut out, letter| {
        if !is_plain(letter) {
            out.push('\\');
        }
        out.push(letter);
        out
    })
}

/// smtp_generic_maps, for the routes of transports that have them.
fn generic(m: &mut Moving) {
    let of = m.get("smtp_generic_maps");
    let routes = m.generic_routes.clone();
    if of.is_empty() || routes.is_empty() {
        return;
    }
    if let (Some(table), _) = m.table_of(&of) {
        let mut keys = Keys::new();
        keys.text("table", &table).set("routes", list(&routes));
        m.config.section("[[rewrite]]", keys);
        let why = "`[[rewrite]]` at intake, before signing; tags are kept";
        m.different(&of, why, "");
    }
}

/// header_checks and body_checks.
pub(super) fn checks(m: &mut Moving) {
    let mime = m.get("mime_header_checks");
    let nested = m.get("nested_header_checks");
    for (name, part) in [
        ("header_checks", "header"),
        ("mime_header_checks", "mime"),
        ("nested_header_checks", "nested"),
        ("body_checks", "body"),
    ] {
        let of = m.get(name);
        // By default they are those of the header.
        if !of.is_set || of.is_empty() {
            continue;
        }
        let mut parts = vec![part];
        if name == "header_checks" {
            parts.extend((!mime.is_set).then_some("mime"));
            parts.extend((!nested.is_set).then_some("nested"));
        }
        for map in m.maps(&of) {
            if !map.is_pattern() {
                let why =
                    format!("{}:{}: only patterns are compared with lines", map.kind, map.name);
                m.open(&of, &why, "a table of kind `regexp` or `pcre`");
                continue;
            }
            let Some(table) = m.table(&of, &map) else { continue };
            let mut keys = Keys::new();
            keys.text("table", &table);
            match parts.as_slice() {
                [one] => keys.text("in", one),
                all => keys.set("in", list(all)),
            };
            m.config.section("[[header_check]]", keys);
        }
        m.carried(
            &of,
            "`[[header_check]]` with the files as they are; FILTER and DELAY are errors there",
        );
    }
    filters(m);
}

/// Filters of content, and checks at delivery.
fn filters(m: &mut Moving) {
    for name in ["smtp_header_checks", "smtp_mime_header_checks", "smtp_body_checks"] {
        let of = m.get(name);
        if !of.is_empty() {
            m.missing(&of, "messages are not changed at delivery", "`[[header_check]]` at intake");
        }
    }
    for name in ["content_filter", "smtpd_proxy_filter"] {
        let of = m.get(name);
        if !of.is_empty() {
            m.open(&of, "mail does not pass the filter", "run it as a milter: docs/milters.md");
        }
    }
    for service in m.site.services.clone() {
        if let Some(setting) = service.options.get("content_filter").filter(|s| !s.text.is_empty())
        {
            let subject = format!("service {}: content_filter", service.name);
            let remedy = "run it as a milter: docs/milters.md";
            m.note(
                Verdict::Missing,
                &setting.origin,
                &subject,
                "mail does not pass the filter",
                remedy,
                true,
            );
        }
    }
}

/// always_bcc, sender_bcc_maps, recipient_bcc_maps.
pub(super) fn copies(m: &mut Moving) {
    let of = m.get("always_bcc");
    if !of.is_empty() {
        copy(m, &of.text.clone(), None);
        m.carried(&of, "`[[copy]]`");
    }
    for (name, key) in [("sender_bcc_maps", "senders"), ("recipient_bcc_maps", "recipients")] {
        let of = m.get(name);
        let mut by_target: Vec<(String, Vec<String>)> = Vec::new();
        for map in m.maps(&of) {
            let Some(entries) = m.map_entries(&of, &map) else {
                let why = format!("{}:{} is not read here", map.kind, map.name);
                m.missing(&of, &why, "an access table with BCC: docs/access.md");
                continue;
            };
            for entry in entries {
                let address = entry.key.strip_prefix('@').unwrap_or(&entry.key).to_owned();
                match by_target.iter_mut().find(|(target, _)| *target == entry.value) {
                    Some((_, all)) => all.push(address),
                    None => by_target.push((entry.value, vec![address])),
                }
            }
        }
        for (target, addresses) in &by_target {
            copy(m, target, Some((key, addresses)));
        }
        if !by_target.is_empty() {
            report_copies(m, &of);
        }
    }
}

fn report_copies(m: &mut Moving, of: &Parameter) {
    let why = "`[[copy]]` for each address; the file is not read later, and tags are not dropped";
    m.different(of, why, "change the sections instead of the file");
}

fn copy(m: &mut Moving, to: &str, from: Option<(&str, &[String])>) {
    let to = match to.contains('@') {
        true => to.to_owned(),
        false => format!("{to}@{}", m.get("myorigin").text),
    };
    let mut keys = Keys::new();
    keys.set("to", quoted(&to));
    if let Some((key, addresses)) = from {
        keys.set(key, list(addresses));
    }
    m.config.section("[[copy]]", keys);
}
