//! Tables of ldap_table(5), mysql_table(5), pgsql_table(5) and sqlite_table(5): their files, as keys here.

use super::moving::Moving;
use super::values::{MapName, Parameter, words};
use crate::commands::migrate::new_config::{Keys, list};
use std::collections::BTreeMap;
use std::path::Path;

/// The parameters in a table's file, by name. Older tables have them in main.cf, as `NAME_parameter`.
struct TableFile {
    set: BTreeMap<String, String>,
    /// Names that a translation has read.
    read: Vec<&'static str>,
}

impl TableFile {
    /// `None`, with a row or an error, if the table can't be translated.
    fn open(moving: &mut Moving, of: &Parameter, map: &MapName) -> Option<TableFile> {
        if !map.name.starts_with('/') {
            let why = format!("{}: {}:{} names no file", of.name, map.kind, map.name);
            moving.site.trouble(&of.origin, why);
            return None;
        }
        let text = moving.map_text(of, Path::new(&map.name))?;
        let mut set = BTreeMap::new();
        for line in lookup::Lines::new(text.as_bytes()) {
            let line_text = String::from_utf8_lossy(&line.text);
            let Some((name, value)) = line_text.split_once('=') else {
                let why = format!("{}:{}: no `=`", map.name, line.place(0).0);
                moving.site.trouble(&of.origin, why);
                return None;
            };
            set.insert(name.trim().to_owned(), value.trim().to_owned());
        }
        let mut file = TableFile { set, read: Vec::new() };
        if file.get("result_format").is_some_and(|format| format != "%s") {
            let why = format!("{}: result_format is not available", map.name);
            let remedy = "put the form into the query, or into the key that uses it";
            moving.missing(of, &why, remedy);
            return None;
        }
        Some(file)
    }

    fn get(&mut self, name: &'static str) -> Option<String> {
        self.read.push(name);
        self.set.get(name).filter(|text| !text.is_empty()).cloned()
    }

    /// Parameters that have no counterpart.
    fn unread(&self) -> Vec<String> {
        let is_unread = |name: &&String| !self.read.contains(&name.as_str());
        self.set.keys().filter(is_unread).cloned().collect()
    }
}

/// Reports parameters of the file that are left out.
fn report_unread(moving: &mut Moving, of: &Parameter, map: &MapName, file: &TableFile) {
    let unread = file.unread();
    if !unread.is_empty() {
        let why = format!("{}: {} have no counterpart", map.name, unread.join(", "));
        moving.different(of, &why, "compare the table's answers: postrider table get");
    }
}

/// Writes a password into a separate file.
fn password_file(moving: &mut Moving, short: &str, password: &str) -> String {
    moving.made_file(&format!("{short}.password"), format!("{password}\n"), true)
}

/// Keys of `ldap`.
pub(super) fn ldap(
    moving: &mut Moving,
    of: &Parameter,
    map: &MapName,
    short: &str,
) -> Option<String> {
    let mut file = TableFile::open(moving, of, map)?;
    let port = file.get("server_port").unwrap_or_else(|| "389".to_owned());
    let hosts = file.get("server_host").unwrap_or_else(|| "localhost".to_owned());
    let url = |host: &String| match host.contains("://") {
        true => host.clone(),
        false if host.contains(':') => format!("ldap://{host}"),
        false => format!("ldap://{host}:{port}"),
    };
    let servers: Vec<String> = words(&hosts).iter().map(url).collect();
    let mut keys = Keys::new();
    keys.set("servers", list(&servers));
    keys.text("base", &file.get("search_base").unwrap_or_default());
    let filter =
        file.get("query_filter").unwrap_or_else(|| "(mailacceptinggeneralid=%s)".to_owned());
    keys.text("filter", &filter);
    let results = file.get("result_attribute").unwrap_or_else(|| "maildrop".to_owned());
    let leaves = file.get("leaf_result_attribute");
    keys.set("attributes", list(&words(&leaves.unwrap_or(results))));
    if let Some(members) = file.get("special_result_attribute") {
        keys.set("members", list(&words(&members)));
    }
    if let Some(domains) = file.get("domain") {
        keys.set("domains", list(&words(&domains)));
    }
    if let Some(scope) = file.get("scope") {
        keys.text("scope", &scope);
    }
    for (theirs, ours) in [
        ("recursion_limit", "max_depth"),
        ("expansion_limit", "max_members"),
        ("size_limit", "max_results"),
    ] {
        if let Some(limit) = file.get(theirs).filter(|limit| limit != "0") {
            keys.set(ours, limit);
        }
    }
    bind(moving, &mut file, short, &mut keys);
    file.get("version");
    report_unread(moving, of, map, &file);
    Some(keys.inline())
}

/// The bind, and TLS.
fn bind(moving: &mut Moving, file: &mut TableFile, short: &str, keys: &mut Keys) {
    let kind = file.get("bind").unwrap_or_else(|| "yes".to_owned());
    let (dn, password) = (file.get("bind_dn"), file.get("bind_pw"));
    if kind == "sasl" {
        file.get("sasl_mechs");
        keys.set("bind", "{ external = true }");
    } else if let (true, Some(dn), Some(password)) = (kind != "no", dn, password) {
        let path = password_file(moving, short, &password);
        let mut bind = Keys::new();
        bind.text("dn", &dn).text("password_file", &path);
        keys.set("bind", bind.inline());
    }
    if file.get("start_tls").is_some_and(|text| text == "yes") {
        keys.set("start_tls", "true");
    }
    let mut tls = Keys::new();
    for (theirs, ours) in
        [("tls_ca_cert_file", "ca_file"), ("tls_cert", "certificate_file"), ("tls_key", "key_file")]
    {
        if let Some(path) = file.get(theirs) {
            tls.text(ours, &path);
        }
    }
    if !tls.is_empty() {
        keys.set("tls", tls.inline());
    }
}

/// Keys of `sql`.
pub(super) fn sql(
    moving: &mut Moving,
    of: &Parameter,
    map: &MapName,
    short: &str,
) -> Option<String> {
    let mut file = TableFile::open(moving, of, map)?;
    let mut keys = Keys::new();
    keys.text("url", &database_url(&map.kind, &mut file));
    if let Some(password) = file.get("password") {
        keys.text("password_file", &password_file(moving, short, &password));
    }
    let query = match file.get("query") {
        Some(query) => query,
        None => old_query(&mut file),
    };
    keys.text("query", &unquoted(&query));
    if let Some(domains) = file.get("domain") {
        let why = format!("{}: all domains are looked up, not only {domains}", map.name);
        moving.different(of, &why, "add the domains to the query");
    }
    report_unread(moving, of, map, &file);
    Some(keys.inline())
}

/// A key is a parameter of the query, so that it has no quotes.
fn unquoted(query: &str) -> String {
    let mut query = query.to_owned();
    for letter in "sud123456789".chars() {
        query = query.replace(&format!("'%{letter}'"), &format!("%{letter}"));
    }
    query
}

fn database_url(kind: &str, file: &mut TableFile) -> String {
    if kind == "sqlite" {
        return format!("sqlite:{}", file.get("dbpath").unwrap_or_default());
    }
    let scheme = if kind == "mysql" { "mysql" } else { "postgres" };
    let user = file.get("user").map(|user| format!("{user}@")).unwrap_or_default();
    let hosts = file.get("hosts").unwrap_or_else(|| "localhost".to_owned());
    let host = words(&hosts).into_iter().next().unwrap_or_default();
    let host = host.strip_prefix("inet:").unwrap_or(&host);
    let name = file.get("dbname").unwrap_or_default();
    match host.strip_prefix("unix:") {
        Some(path) if kind == "mysql" => format!("{scheme}://{user}localhost/{name}?socket={path}"),
        Some(path) => format!("{scheme}://{user}localhost/{name}?host={path}"),
        None => format!("{scheme}://{user}{host}/{name}"),
    }
}

/// The query of tables that have none (`select_field`, `table`, `where_field`).
fn old_query(file: &mut TableFile) -> String {
    let mut get = |name| file.get(name).unwrap_or_default();
    let (select, table, field) = (get("select_field"), get("table"), get("where_field"));
    let further = get("additional_conditions");
    format!("SELECT {select} FROM {table} WHERE {field} = '%s' {further}").trim_end().to_owned()
}
