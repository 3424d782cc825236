//! Local mail: accounts, aliases(5), and keys without a domain.

use super::domains::{DomainClass, Kind};
use super::maps::path_key;
use super::moving::Moving;
use super::values::{MapEntry, MapName, Parameter, entry_origin};
use crate::commands::migrate::new_config::{Keys, quoted};
use crate::commands::migrate::report::{SourceLine, Verdict};
use std::fmt::Write as _;
use std::path::Path;

/// Lines of a file that is made from keys without a domain.
const MADE_LINES_MAX: usize = 200_000;

/// Gives each class its recipients and aliases.
pub(super) fn fill(m: &mut Moving, classes: &mut [DomainClass]) {
    let virtual_aliases = virtual_aliases(m, classes);
    let locals = local_domains(classes);
    for class in classes.iter_mut() {
        let mut aliases = virtual_aliases.clone();
        match class.kind {
            Kind::Local => {
                let own = local_aliases(m, &locals, &mut class.include);
                aliases.extend(own);
                class.recipients = local_recipients(m, &locals);
            }
            Kind::Alias => {
                class.recipients = Some(m.config.inline_table("none", &[]));
            }
            Kind::Mailbox => class.recipients = recipients(m, "virtual_mailbox_maps"),
            Kind::Relay => class.recipients = recipients(m, "relay_recipient_maps"),
            Kind::Default => {}
        }
        let name = if class.kind == Kind::Local { "local-aliases" } else { "virtual-aliases" };
        if let Some(table) = m.first_of(name, &aliases) {
            let origin = m.get("myorigin").text;
            let mut keys = Keys::new();
            keys.text("table", &table).text("origin", &origin);
            class.aliases = Some(keys);
        }
    }
}

/// Domains in which a key without a domain is found.
fn local_domains(classes: &[DomainClass]) -> Vec<String> {
    let local = classes.iter().find(|class| class.kind == Kind::Local);
    let list = local.map(|class| class.domains.clone()).unwrap_or_default();
    let in_tables = list.tables.into_iter().flat_map(|(_, keys)| keys);
    let all = list.patterns.into_iter().chain(in_tables);
    all.filter(|domain| !domain.starts_with("*.")).collect()
}

/// The table of a class's recipients; none if all are accepted.
fn recipients(m: &mut Moving, name: &str) -> Option<String> {
    let of = m.get(name);
    if of.is_empty() {
        if of.is_set {
            m.carried(&of, "no `recipients`: each local part is accepted");
        }
        return None;
    }
    let (table, is_left_out) = m.table_of(&of);
    if !is_left_out {
        m.carried(&of, "`recipients` of the routes, with the tables as they are");
    }
    // An empty table rejects all recipients; no table would accept them.
    table.or_else(|| Some(m.config.inline_table("none", &[])))
}

/// Tables of virtual_alias_maps, for all routes.
fn virtual_aliases(m: &mut Moving, classes: &[DomainClass]) -> Vec<String> {
    let of = m.get("virtual_alias_maps");
    let mut domains = local_domains(classes);
    let origin = m.get("myorigin").text;
    if !domains.contains(&origin) {
        domains.push(origin);
    }
    let (mut tables, mut bare) = (Vec::new(), Vec::new());
    for map in m.maps(&of) {
        let is_bare = |entry: &MapEntry| {
            !entry.key.contains('@') && !classes.iter().any(|class| class.domains.has(&entry.key))
        };
        let entries = m.map_entries(&of, &map).unwrap_or_default();
        bare.extend(entries.into_iter().filter(is_bare));
        match m.table(&of, &map) {
            Some(name) => tables.push(name),
            None => {
                let why = format!("there is no table like {}:{}", map.kind, map.name);
                m.missing(&of, &why, "write its aliases into a file");
            }
        }
    }
    if !bare.is_empty() {
        let count = bare.len();
        if let Some(table) = with_domains(m, &of, "virtual-names", &bare, &domains) {
            tables.push(table);
            let why = format!("{count} keys without a domain are in a file of their own, with it");
            m.different(&of, &why, "give keys a domain in new entries");
        }
    } else if !tables.is_empty() {
        m.carried(&of, "`aliases` of the routes, with the tables as they are");
    }
    tables
}

/// A file with each key in each domain.
fn with_domains(
    m: &mut Moving,
    of: &Parameter,
    name: &str,
    entries: &[MapEntry],
    domains: &[String],
) -> Option<String> {
    if entries.len().saturating_mul(domains.len()) > MADE_LINES_MAX {
        let why = format!("more than {MADE_LINES_MAX} keys without a domain, in all domains");
        m.missing(of, &why, "give the keys their domain");
        return None;
    }
    let mut text = format!("# Made from {} of Postfix: keys with their domain.\n", of.name);
    for entry in entries {
        match entry.key.contains('@') {
            true => {
                let _ = writeln!(text, "{} {}", entry.key, entry.value);
            }
            false => {
                for domain in domains {
                    let _ = writeln!(text, "{}@{domain} {}", entry.key, entry.value);
                }
            }
        }
    }
    let path = m.made_file(name, text, false);
    Some(m.config.table(name, "file", &path_key(&path)))
}

/// local_recipient_maps: accounts, aliases and files of names.
fn local_recipients(m: &mut Moving, domains: &[String]) -> Option<String> {
    let of = m.get("local_recipient_maps");
    if of.is_empty() {
        m.carried(&of, "no `recipients`: each local part is accepted");
        return None;
    }
    let aliases = m.maps(&m.get("alias_maps"));
    let mut tables = Vec::new();
    for map in m.maps(&of) {
        if map.kind == "unix" {
            tables.extend(accounts(m, &of, domains));
        } else if !aliases.contains(&map) {
            match m.map_entries(&of, &map) {
                Some(entries) if entries.iter().any(|entry| !entry.key.contains('@')) => {
                    tables.extend(with_domains(m, &of, "local-users", &entries, domains));
                    let why = "keys get their domain in a file of their own";
                    m.different(&of, why, "add new users to that file");
                }
                _ => match m.table(&of, &map) {
                    Some(name) => tables.push(name),
                    None => {
                        let why = format!("there is no table like {}:{}", map.kind, map.name);
                        m.missing(&of, &why, "write its users into a file");
                    }
                },
            }
        }
    }
    m.carried(&of, "`recipients` of the routes");
    match m.first_of("local-recipients", &tables) {
        Some(table) => Some(table),
        None => Some(m.config.inline_table("none", &[])),
    }
}

/// A file of the machine's accounts with a home directory in /home; the value is the name.
fn accounts(m: &mut Moving, of: &Parameter, domains: &[String]) -> Option<String> {
    let path = m.accounts.clone();
    let text = m.map_text(of, &path)?;
    let transport = m.get("mailbox_transport");
    let (mut entries, mut others) = (Vec::new(), Vec::new());
    for (line, account) in (1..).zip(text.lines()) {
        let fields: Vec<&str> = account.split(':').collect();
        let [name, _, user, _, _, home, ..] = fields[..] else { continue };
        // A mailbox server knows accounts whatever their home; mail is never written as root.
        let is_kept = !transport.is_empty() || (user != "0" && home == format!("/home/{name}"));
        match is_kept {
            true => entries.push(MapEntry { key: name.to_owned(), value: name.to_owned(), line }),
            false => others.push(name.to_owned()),
        }
    }
    let why = format!(
        "a file with the accounts in {}; without a home directory /home/NAME: {}",
        path.display(),
        if others.is_empty() { "none".to_owned() } else { others.join(", ") }
    );
    m.different(of, &why, "add new accounts to the file; give system accounts an alias");
    with_domains(m, of, "accounts", &entries, domains)
}

/// alias_maps as tables with a domain in each key.
fn local_aliases(m: &mut Moving, domains: &[String], include: &mut Vec<String>) -> Vec<String> {
    let of = m.get("alias_maps");
    let mut tables = Vec::new();
    for map in m.maps(&of) {
        let Some(path) = map.text_file() else {
            if map.kind != "nis" || of.is_set {
                let why = format!("{}:{} is not read here", map.kind, map.name);
                m.missing(&of, &why, "write its aliases into a file, each key with its domain");
            }
            continue;
        };
        // The default names a file that may not be there.
        if !of.is_set && !path.exists() {
            continue;
        }
        let Some(text) = m.map_text(&of, &path) else { continue };
        let entries: Vec<MapEntry> = alias_entries(m, &map, &text)
            .into_iter()
            .filter_map(|e| usable(m, &map, e, include))
            .collect();
        tables.extend(with_domains(m, &of, "local-aliases", &entries, domains));
        let why = format!("a copy of {} with domains; the file is not read later", map.name);
        m.different(&of, &why, "change aliases in the copy; there is no newaliases");
    }
    tables
}

/// Lines of aliases(5), or of a map without colons.
fn alias_entries(m: &mut Moving, map: &MapName, text: &str) -> Vec<MapEntry> {
    let mut all = Vec::new();
    for line in lookup::Lines::new(text.as_bytes()) {
        let number = line.place(0).0;
        let text = String::from_utf8_lossy(&line.text).trim().to_owned();
        let end = match text.strip_prefix('"') {
            Some(rest) => rest.find('"').map_or(0, |at| at + 2),
            None => text.find(|c: char| c == ':' || c.is_ascii_whitespace()).unwrap_or(text.len()),
        };
        let (key, rest) = text.split_at(end);
        let value = rest.trim_start().trim_start_matches(':').trim();
        let key = key.trim_matches('"').to_ascii_lowercase();
        let key = match key.contains([' ', '"', '\\']) {
            true => format!("\"{key}\""),
            false => key,
        };
        if key.is_empty() || value.is_empty() {
            let why = format!("{}:{number}: no alias: {text}", map.name);
            m.site.trouble(&SourceLine::default(), why);
            continue;
        }
        all.push(MapEntry { key, value: value.to_owned(), line: number });
    }
    all
}

/// The entry without members that are no addresses, which the report has; none if nothing is left.
fn usable(
    m: &mut Moving,
    map: &MapName,
    entry: MapEntry,
    include: &mut Vec<String>,
) -> Option<MapEntry> {
    let mut kept = Vec::new();
    for member in members(&entry.value) {
        let plain = member.trim_matches('"').to_owned();
        let origin = entry_origin(map, entry.line);
        if plain.starts_with('|') {
            let why = format!("the command {plain} is not run by an alias");
            let remedy = "a `pipe` route for a separate domain, and an alias that leads there: \
                          docs/aliases.md";
            m.note(Verdict::Missing, &origin, &entry.key, &why, remedy, false);
        } else if plain.starts_with('/') {
            let why = format!("mail is not appended to the file {plain}");
            let remedy = "`maildir` or `discard` of a route for a separate domain";
            m.note(Verdict::Missing, &origin, &entry.key, &why, remedy, false);
        } else if let Some(path) = plain.strip_prefix(":include:") {
            let directory = Path::new(path.trim()).parent().map(|path| path.display().to_string());
            let directory = directory.unwrap_or_default();
            if !include.contains(&directory) {
                include.push(directory);
            }
            kept.push(plain.replace(":include: ", ":include:"));
        } else {
            kept.push(member);
        }
    }
    (!kept.is_empty()).then(|| MapEntry { value: kept.join(", "), ..entry })
}

/// Splits at commas outside of quotes.
fn members(text: &str) -> Vec<String> {
    let (mut all, mut member, mut is_quoted) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        is_quoted ^= letter == '"';
        match letter == ',' && !is_quoted {
            true => all.push(std::mem::take(&mut member)),
            false => member.push(letter),
        }
    }
    all.push(member);
    let trimmed = all.into_iter().map(|member| member.trim().to_owned());
    trimmed.filter(|member| !member.is_empty()).collect()
}

/// The address of the postmaster: the end of the aliases of `postmaster` in `myorigin`.
pub(super) fn postmaster(m: &mut Moving, classes: &[DomainClass]) {
    let origin = m.get("myorigin").text;
    let mut address = format!("postmaster@{origin}");
    let is_local = local_domains(classes).contains(&origin);
    let mut maps = vec![m.get("virtual_alias_maps")];
    maps.extend(is_local.then(|| m.get("alias_maps")));
    for _ in 0..10 {
        let mut next = None;
        for of in &maps {
            for map in m.maps(of) {
                let Some(path) = map.text_file().filter(|path| path.exists()) else { continue };
                let Ok(text) = m.site.file(&path) else { continue };
                let name = address.split('@').next().unwrap_or_default().to_owned();
                let is_it = |e: &MapEntry| {
                    e.key.eq_ignore_ascii_case(&address) || e.key.eq_ignore_ascii_case(&name)
                };
                let found = alias_entries(m, &map, &text).into_iter().find(is_it);
                next = next.or(found.map(|entry| entry.value));
            }
        }
        let plain = |value: &String| !value.contains([',', '|', '/', ' ', ':', '"']);
        let Some(value) = next.filter(plain) else { break };
        let value = if value.contains('@') { value } else { format!("{value}@{origin}") };
        if value.eq_ignore_ascii_case(&address) {
            break;
        }
        address = value;
    }
    m.config.top.set("postmaster", quoted(&address));
}
