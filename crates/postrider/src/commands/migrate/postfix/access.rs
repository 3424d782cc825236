//! access(5) tables: as they are where this server reads them alike, else as a copy.

use super::maps::path_key;
use super::moving::Moving;
use super::values::{MapEntry, MapName, Parameter, entry_origin};
use crate::commands::migrate::report::Verdict;
use std::net::IpAddr;

/// Keys of an access rule.
pub(super) struct AccessRule {
    pub(super) table: String,
    pub(super) by: &'static str,
    pub(super) has_parents: bool,
}

/// Actions that mean the same here, without regard to case.
const ACTIONS: &[&str] = &[
    "ok",
    "permit",
    "relay",
    "dunno",
    "reject",
    "defer",
    "defer_if_permit",
    "defer_if_reject",
    "discard",
    "redirect",
    "bcc",
    "hold",
    "prepend",
    "warn",
    "info",
];

/// The rules for a table: one, and another before it for classes that ask for the sender.
pub(super) fn rules(
    m: &mut Moving,
    of: &Parameter,
    map: &MapName,
    by: &'static str,
    classes: &[String],
) -> Vec<AccessRule> {
    let parents = m.get("parent_domain_matches_subdomains").words();
    let has_parents = by != "client" && parents.iter().any(|word| word == "smtpd_access_maps");
    let entries = m.map_entries(of, map).unwrap_or_default();
    if by == "client" {
        report_names(m, of, map, &entries);
    }
    let odd: Vec<&MapEntry> = entries.iter().filter(|entry| !is_known(&entry.value)).collect();
    let mut all = Vec::new();
    if map.is_pattern() || map.kind == "cidr" {
        patterns_with_odd_actions(m, of, map);
    }
    if odd.is_empty() {
        match m.table(of, map) {
            Some(table) => all.push(AccessRule { table, by, has_parents }),
            None => {
                let why = format!("there is no table like {}:{}", map.kind, map.name);
                m.open(of, &why, "write its entries into a file");
            }
        }
        return all;
    }
    all.extend(copied(m, map, &entries, by, classes).into_iter().map(|(table, by)| AccessRule {
        table,
        has_parents: has_parents && by != "sender+recipient",
        by,
    }));
    m.different(of, "a copy of the table without classes and restrictions", "change the copy");
    all
}

/// A copy of a table without unknown actions; before it, a table of senders with recipients for classes.
fn copied(
    m: &mut Moving,
    map: &MapName,
    entries: &[MapEntry],
    by: &'static str,
    classes: &[String],
) -> Vec<(String, &'static str)> {
    let (mut pairs, mut all) = (String::new(), Vec::new());
    let mut text = format!("# Made from {} of Postfix.\n", map.name);
    for entry in entries {
        if is_known(&entry.value) {
            text.push_str(&format!("{} {}\n", entry.key, entry.value));
            continue;
        }
        let class = classes.iter().find(|class| **class == entry.value);
        let senders = class.filter(|_| by == "recipient").and_then(|class| senders_of(m, class));
        if let Some(senders) = &senders {
            for sender in senders {
                let (sender_key, key) = (pair_key(&sender.key), pair_key(&entry.key));
                pairs.push_str(&format!("{sender_key},{key} {}\n", sender.value));
            }
        }
        text.push_str(&replaced(m, map, entry, senders.is_some()));
    }
    if !pairs.is_empty() {
        let path = m.made_file("by-sender-and-recipient", pairs, false);
        let table = m.config.table("by-sender-and-recipient", "file", &path_key(&path));
        all.push((table, "sender+recipient"));
    }
    let short = map.name.rsplit('/').next().unwrap_or("access").to_owned();
    let path = m.made_file(&short, text, false);
    all.push((m.config.table(&short, "file", &path_key(&path)), by));
    all
}

/// The line for an entry with an unknown action: it refuses, or is left out if Postfix would accept.
fn replaced(m: &mut Moving, map: &MapName, entry: &MapEntry, is_by_sender: bool) -> String {
    let origin = entry_origin(map, entry.line);
    let subject = format!("{} {}", entry.key, entry.value);
    let refused = format!("{} REJECT\n", entry.key);
    if is_by_sender {
        let why = "a rule by sender and recipient";
        m.note(Verdict::Different, &origin, &subject, why, "", false);
        return refused;
    }
    if entry.value.to_ascii_uppercase().starts_with("FILTER") {
        let remedy = "a milter, or a route to the filter";
        m.note(Verdict::Missing, &origin, &subject, "there are no content filters", remedy, true);
        return String::new();
    }
    let why = "the action has no counterpart here: the entry refuses";
    m.note(Verdict::Missing, &origin, &subject, why, "see docs/access.md", false);
    refused
}

/// Returns true if the action means the same here.
fn is_known(value: &str) -> bool {
    let word = value.split_whitespace().next().unwrap_or_default();
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    is_number || ACTIONS.contains(&word.to_ascii_lowercase().as_str())
}

/// The key of an address or domain in a table of pairs.
fn pair_key(key: &str) -> String {
    match key.contains('@') {
        true => key.trim_end_matches('@').to_owned(),
        false => format!("@{key}"),
    }
}

/// The entries by sender of a class `check_sender_access TABLE, reject`.
fn senders_of(m: &mut Moving, class: &str) -> Option<Vec<MapEntry>> {
    let of = m.get(class);
    let words = of.words();
    let [check, table, end] = words.as_slice() else { return None };
    if check != "check_sender_access" || end != "reject" {
        return None;
    }
    let entries = m.map_entries(&of, &MapName::parse(table)?)?;
    entries.iter().all(|entry| is_known(&entry.value)).then_some(entries)
}

/// Names of clients are not looked up.
fn report_names(m: &mut Moving, of: &Parameter, map: &MapName, entries: &[MapEntry]) {
    let is_name = |key: &str| {
        let is_octets = key.split('.').all(|part| part.parse::<u8>().is_ok());
        !is_octets && key.parse::<IpAddr>().is_err() && !key.contains(':')
    };
    for entry in entries.iter().filter(|entry| is_name(&entry.key)) {
        let word = entry.value.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        let permits = ["ok", "permit", "dunno", "relay"].contains(&word.as_str());
        let origin = entry_origin(map, entry.line);
        let subject = format!("{}: {} {}", of.name, entry.key, entry.value);
        let why = "names of clients are not looked up";
        let remedy = "the client's addresses, or `client_name` of `checks`";
        m.note(Verdict::Missing, &origin, &subject, why, remedy, !permits);
    }
}

/// Rules in files of patterns are not rewritten, so that an unknown action must be changed by hand.
fn patterns_with_odd_actions(m: &mut Moving, of: &Parameter, map: &MapName) {
    if map.name.starts_with('{') {
        return;
    }
    let Some(text) = m.map_text(of, std::path::Path::new(&map.name)) else { return };
    for (line, text) in (1..).zip(text.lines()) {
        let is_filter = text.split_whitespace().any(|word| word.eq_ignore_ascii_case("filter"));
        if is_filter && !text.trim_start().starts_with('#') {
            let why = "FILTER is an error in a table here; the configuration is not loaded with it";
            let origin = entry_origin(map, line);
            let remedy = "remove the line; a milter can filter instead";
            m.note(Verdict::Missing, &origin, text.trim(), why, remedy, true);
        }
    }
}
