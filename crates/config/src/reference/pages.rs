//! The pages of the reference: an index and a page for each area.

use super::page::Page;
use crate::Schema;
use crate::area::Area;
use serde_json::Value;
use std::collections::BTreeSet;

/// A page of the reference, as Markdown.
#[derive(Clone, Debug)]
pub struct ReferencePage {
    /// Its path below the directory of the documents.
    pub path: String,
    /// The text.
    pub text: String,
}

/// The index and the pages of the areas.
pub(crate) fn pages(sections: &Schema) -> Vec<ReferencePage> {
    let mut all = vec![ReferencePage { path: "config.md".to_owned(), text: index(sections) }];
    for area in Area::ALL {
        let text = format!("# {}\n\n{MADE}\n\n{}", area.title(), area_text(sections, area, "##"));
        all.push(ReferencePage { path: format!("config/{}.md", area.name()), text });
    }
    all
}

/// The index and all areas as one page.
pub(crate) fn whole(sections: &Schema) -> String {
    let mut out = format!("# Configuration\n\n{HEAD}{TOP_LEVEL}");
    let schema = sections.json();
    out.push_str(&top_level(sections, schema, &|_, heading| format!("#{heading}")));
    for area in Area::ALL {
        out.push_str(&format!("## {}\n\n{}", area.title(), area_text(sections, area, "###")));
    }
    out
}

fn index(sections: &Schema) -> String {
    let mut out = format!("# Configuration\n\n{MADE}\n\n{HEAD}## Areas\n\n| page | |\n|---|---|\n");
    for area in Area::ALL {
        let (title, name) = (area.title(), area.name());
        out.push_str(&format!("| [{title}](config/{name}.md) | {} |\n", area.summary()));
    }
    out.push_str(&format!("\n{TOP_LEVEL}"));
    let link = |area: Area, heading: &str| format!("config/{}.md#{heading}", area.name());
    out.push_str(&top_level(sections, sections.json(), &link));
    out
}

/// The keys of the file itself, each with a link to its section.
fn top_level(sections: &Schema, schema: &Value, link: &dyn Fn(Area, &str) -> String) -> String {
    let places = parts(sections);
    let mut page = Page { schema, out: String::new() };
    let mut named = |key: &str| match places.iter().find(|part| part.heading == key) {
        Some(part) => format!("[`{key}`]({})", link(part.area, key)),
        None => format!("`{key}`"),
    };
    page.keys(schema, &mut named, false);
    page.out
}

fn area_text(sections: &Schema, area: Area, level: &str) -> String {
    let mut page = Page { schema: sections.json(), out: String::new() };
    for part in parts(sections).iter().filter(|part| part.area == area) {
        page.section(level, &part.heading, &part.opened, &part.definition);
    }
    page.out
}

/// A section of a page.
#[derive(Clone)]
struct Part {
    area: Area,
    heading: String,
    /// Its header in the file.
    opened: String,
    /// Name of the definition in the JSON schema.
    definition: String,
}

impl Part {
    fn of(area: Area, heading: &str, opened: &str, definition: &str) -> Part {
        Part {
            area,
            heading: heading.to_owned(),
            opened: opened.to_owned(),
            definition: definition.to_owned(),
        }
    }
}

/// The sections of all pages, each followed by the tables inside it.
fn parts(sections: &Schema) -> Vec<Part> {
    let named = sections_in_order(sections);
    let mut all = Vec::new();
    for area in Area::ALL {
        // A table of sections in several areas is on the page of each.
        let mut seen: BTreeSet<String> = named.iter().map(|part| part.definition.clone()).collect();
        for part in named.iter().filter(|part| part.area == area) {
            add_with_tables(part.clone(), sections.json(), &mut seen, &mut all);
        }
    }
    all
}

fn add_with_tables(part: Part, schema: &Value, seen: &mut BTreeSet<String>, all: &mut Vec<Part>) {
    let mut inside = Vec::new();
    let properties = schema["$defs"][&part.definition]["properties"].as_object();
    for (key, property) in properties.into_iter().flatten() {
        let (brackets, property) = match property.get("items") {
            Some(items) => ("[{ … }]", items),
            None => ("{ … }", property),
        };
        for name in tables_of(property, schema) {
            if seen.insert(name.to_owned()) {
                let heading = format!("{}: {key}", part.heading);
                let opened = format!("{}\n{key} = {brackets}", part.opened);
                inside.push(Part::of(part.area, &heading, &opened, name));
            }
        }
    }
    all.push(part);
    for part in inside {
        add_with_tables(part, schema, seen, all);
    }
}

/// Names of the definitions with keys that a property may be, through definitions that are a choice only.
fn tables_of<'a>(property: &'a Value, schema: &'a Value) -> Vec<&'a str> {
    let choices = ["anyOf", "oneOf"].into_iter().filter_map(|key| property[key].as_array());
    let mut found: Vec<&str> =
        choices.flatten().flat_map(|choice| tables_of(choice, schema)).collect();
    if let Some(name) = property["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        let definition = &schema["$defs"][name];
        if definition["properties"].is_object() {
            found.push(name);
        } else {
            found.extend(tables_of(definition, schema));
        }
    }
    found
}

/// Those of this crate and the registered ones, page by page.
fn sections_in_order(sections: &Schema) -> Vec<Part> {
    let mut all = Vec::new();
    for area in Area::ALL {
        let own = SECTIONS.iter().filter(|part| part.0 == area);
        all.extend(own.map(|(_, part, opened, of)| Part::of(area, part, opened, of)));
        match area {
            Area::Routes => all.extend(sections.channels().iter().map(|kind| {
                Part::of(area, &format!("route: {}", kind.key), kind.example, &kind.definition)
            })),
            Area::Tables => all.extend(sections.tables().iter().map(|kind| {
                Part::of(area, &format!("table: {}", kind.key), kind.example, &kind.definition)
            })),
            Area::Intake => all.extend(sections.stages().iter().map(|kind| {
                Part::of(area, kind.key, &format!("[[{}]]", kind.key), &kind.definition)
            })),
            Area::Server | Area::Listeners | Area::Sending | Area::X400 => (),
        }
        for kind in sections.sections().iter().filter(|kind| kind.area == area) {
            all.extend(
                (kind.page)()
                    .iter()
                    .map(|table| Part::of(area, table.heading, &table.opened, &table.definition)),
            );
        }
    }
    all
}

const MADE: &str = "\
<!-- Generated by `postrider config reference --out docs`; edit the doc comments in \
crates/config/src/written and in crates/channels instead. -->";

const HEAD: &str = "\
One TOML file. An unknown key, a wrong type or a route to nowhere is an error that
`postrider check --config FILE` shows with its place; `postrider explain RECIPIENT --config FILE`
shows the handling of a recipient with the deciding line of each step. A running server loads a
changed file with `postrider reload` or SIGHUP, or reports the error and keeps the old one.

Durations are text with units: `\"250ms\"`, `\"5m\"`, `\"1h30m\"`, `\"5d\"`. Sizes are bytes, or text
with a unit: `52_428_800`, `\"50MiB\"`. Relative paths start from the directory that the server was
started in. `examples/` in the source has whole files for common tasks.

";

const TOP_LEVEL: &str = "\
## Top level

These keys stand before the first section.

";

/// Area, heading, header in the file, and the definition in the JSON schema.
const SECTIONS: [(Area, &str, &str, &str); 14] = [
    (Area::Server, "spool", "[spool]", "SpoolText"),
    (Area::Server, "retry", "[retry]", "RetryText"),
    (Area::Server, "reports", "[reports]", "ReportsText"),
    (Area::Server, "dns", "[dns]", "DnsText"),
    (Area::Server, "admin", "[admin]", "AdminText"),
    (Area::Server, "log", "[log]", "LogText"),
    (Area::Listeners, "listener", "[[listener]]", "ListenerText"),
    (Area::Listeners, "certificate", "[[certificate]]", "CertificateText"),
    (Area::Listeners, "tls", "[tls]", "TlsText"),
    (Area::Routes, "route", "[[route]]", "RouteText"),
    (Area::Tables, "table", "[[table]]", "TableText"),
    (Area::Sending, "source", "[[source]]", "SourceText"),
    (Area::Sending, "pool", "[[pool]]", "PoolText"),
    (Area::Sending, "tenant", "[[tenant]]", "TenantText"),
];
