//! Tables of Postfix, `type:name`, as tables here.

use super::databases::{ldap, sql};
use super::moving::Moving;
use super::values::{MapEntry, MapName, Parameter, inside, words};
use crate::commands::migrate::new_config::{Keys, quoted};
use lookup::Lines;
use std::path::{Path, PathBuf};

/// The entries of a text in the format of postmap(1).
pub(super) fn entries(text: &str) -> Vec<MapEntry> {
    let mut all = Vec::new();
    for line in Lines::new(text.as_bytes()) {
        if let Ok((key, value)) = lookup::pair(&line.text) {
            let (key, value) = (key.to_owned(), value.to_owned());
            all.push(MapEntry { key, value, line: line.place(0).0 });
        }
    }
    all
}

impl Moving {
    /// The text of a map's file; an error is recorded with the parameter's line.
    pub(super) fn map_text(&self, of: &Parameter, path: &Path) -> Option<String> {
        let error = match self.site.file(path) {
            Ok(text) => return Some(text),
            Err(error) => error,
        };
        let with = |ending: &str| PathBuf::from(format!("{}.{ending}", path.display()));
        let built = ["db", "lmdb", "cdb"].map(with).into_iter().find(|path| path.exists());
        let why = match built.filter(|_| !path.exists()) {
            Some(built) => format!(
                "{}: {error}; {} is there, but its source is needed: postmap -s {}",
                of.name,
                built.display(),
                path.display()
            ),
            None => format!("{}: {error}", of.name),
        };
        self.site.trouble(&of.origin, why);
        None
    }

    /// The entries of a map, if it is a file with keys and values or has them inline.
    pub(super) fn map_entries(&self, of: &Parameter, map: &MapName) -> Option<Vec<MapEntry>> {
        if map.kind == "inline" {
            return Some(inline_entries(&map.name, of.origin.line));
        }
        self.map_text(of, &map.text_file()?).map(|text| entries(&text))
    }

    /// The maps in a parameter.
    pub(super) fn maps(&self, of: &Parameter) -> Vec<MapName> {
        of.words().iter().filter_map(|word| MapName::parse(word)).collect()
    }

    /// A table for a map; none, with a row in the report, if this server has no table of the kind.
    pub(super) fn table(&mut self, of: &Parameter, map: &MapName) -> Option<String> {
        let short = map.short();
        let (kind, source) = match &*map.kind {
            "cidr" | "regexp" | "pcre" => self.pattern_file(of, map)?,
            "static" => {
                let line = format!("/^/ {}\n", inside(&map.name));
                let path = self.made_file(&format!("static-{short}"), line, false);
                ("regexp", path_key(&path))
            }
            "inline" => {
                let pairs: Vec<(String, String)> = inline_entries(&map.name, 0)
                    .into_iter()
                    .map(|entry| (entry.key, entry.value))
                    .collect();
                return Some(self.config.inline_table(&of.name, &pairs));
            }
            "ldap" => ("ldap", ldap(self, of, map, &short)?),
            "mysql" | "pgsql" | "sqlite" => ("sql", sql(self, of, map, &short)?),
            "tcp" => ("tcp", Keys::new().text("server", &map.name).inline()),
            "socketmap" => ("socketmap", socketmap(self, of, map)?),
            "unionmap" | "first" => return self.union(of, map),
            _ => {
                let path = map.text_file()?;
                self.map_text(of, &path)?;
                ("file", path_key(&map.name))
            }
        };
        Some(self.config.table(&short, kind, &source))
    }

    fn pattern_file(&mut self, of: &Parameter, map: &MapName) -> Option<(&'static str, String)> {
        let kind = match &*map.kind {
            "cidr" => "cidr",
            "regexp" => "regexp",
            _ => "pcre",
        };
        if !map.name.starts_with('{') {
            self.map_text(of, Path::new(&map.name))?;
            return Some((kind, path_key(&map.name)));
        }
        // Rules in the parameter itself.
        let rules = words(inside(&map.name));
        let lines: String = rules.iter().map(|rule| inside(rule).to_owned() + "\n").collect();
        let path = self.made_file(&of.name, lines, false);
        Some((kind, path_key(&path)))
    }

    fn union(&mut self, of: &Parameter, map: &MapName) -> Option<String> {
        let parts: Vec<MapName> =
            words(inside(&map.name)).iter().filter_map(|word| MapName::parse(word)).collect();
        let mut names = Vec::new();
        for part in parts {
            names.push(self.table(of, &part)?);
        }
        let tables = crate::commands::migrate::new_config::list(&names);
        Some(self.config.table("union", "union", &format!("{{ tables = {tables} }}")))
    }

    /// One table for these: itself, or the first that has the key.
    pub(super) fn first_of(&mut self, name: &str, tables: &[String]) -> Option<String> {
        match tables {
            [] => None,
            [one] => Some(one.clone()),
            _ => {
                let tables = crate::commands::migrate::new_config::list(tables);
                Some(self.config.table(name, "first", &format!("{{ tables = {tables} }}")))
            }
        }
    }

    /// All maps of a parameter as one table. The second value is true if a map is left out, which the report has.
    pub(super) fn table_of(&mut self, of: &Parameter) -> (Option<String>, bool) {
        let (mut tables, mut is_left_out) = (Vec::new(), false);
        for map in self.maps(of) {
            match self.table(of, &map) {
                Some(name) => tables.push(name),
                None => {
                    is_left_out = true;
                    self.missing(
                        of,
                        &format!("there is no table like {}:{}", map.kind, map.name),
                        "write its entries into a table of another kind, see docs/tables.md",
                    );
                }
            }
        }
        (self.first_of(&of.name, &tables), is_left_out)
    }
}

/// `{ path = … }`.
pub(super) fn path_key(path: &str) -> String {
    format!("{{ path = {} }}", quoted(path))
}

/// `{ key = value, { key = value with blanks }, … }`.
fn inline_entries(text: &str, line: u32) -> Vec<MapEntry> {
    let text = inside(text).replace(" = ", "=");
    let pair = |word: &String| {
        let (key, value) = inside(word).split_once('=')?;
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        Some(MapEntry { key, value, line })
    };
    words(&text).iter().filter_map(pair).collect()
}

/// `inet:host:port:name`, `unix:path:name`.
fn socketmap(moving: &mut Moving, of: &Parameter, map: &MapName) -> Option<String> {
    let found = map.name.rsplit_once(':').and_then(|(server, name)| {
        let server = match server.strip_prefix("inet:") {
            Some(server) => server.to_owned(),
            None => format!("unix:{}", server.strip_prefix("unix:")?),
        };
        Some(Keys::new().text("server", &server).text("map", name).inline())
    });
    if found.is_none() {
        let why = format!("{}: socketmap:{} has no server and name", of.name, map.name);
        moving.site.trouble(&of.origin, why);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_and_entries_have_the_forms_of_postmap() {
        let map = MapName::parse("proxy:mysql:/etc/postfix/x.cf").unwrap();
        assert_eq!((&*map.kind, &*map.name, &*map.short()), ("mysql", "/etc/postfix/x.cf", "x"));
        assert_eq!(MapName::parse("/etc/hosts"), None);
        let all = entries("# c\na b c\n  d\n\"x y\"@z q\nalone\n");
        let shown: Vec<String> =
            all.iter().map(|e| format!("{}|{}|{}", e.key, e.value, e.line)).collect();
        assert_eq!(shown, ["a|b c  d|2", "\"x y\"@z|q|4"]);
        let inline = inline_entries("{ a = 1, { b = 2 3 } }", 1);
        assert_eq!((&*inline[0].value, &*inline[1].value), ("1", "2 3"));
    }
}
