//! The schema for editors and the reference page for people, both generated from
//! [`super::written`].

use super::Schema;
use super::schema::{ChannelKind, StageKind, TableKind};
use super::section::SectionKind;
use super::written::FileText;
use crate::schema::json_schema;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// JSON schema of the file, for editors.
pub(super) fn json(sections: &Schema) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let registered = Registered::define(sections, &mut generator);
    let mut schema = generator.into_root_schema_for::<FileText>().to_value();
    schema["additionalProperties"] = false.into();
    registered.add_to(&mut schema, sections);
    let channels = sections.channels().iter().map(|kind| kind.key);
    name_kinds(&mut schema["$defs"]["RouteText"], "CHANNELS", channels);
    let tables = sections.tables().iter().map(|kind| kind.key);
    name_kinds(&mut schema["$defs"]["TableText"], "TABLES", tables);
    json_schema::strip_null(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_owned(), "Postrider configuration".into());
    }
    // The order must not depend on a feature that another crate switches on in serde_json.
    schema.sort_all_objects();
    schema
}

/// The registered parts of the file: definitions come with the generator, properties are added after it.
struct Registered<'a> {
    channels: Vec<(&'a ChannelKind, Value)>,
    tables: Vec<(&'a TableKind, Value)>,
    stages: Vec<(&'a StageKind, Value)>,
    owned: Vec<(&'static str, Value)>,
}

impl<'a> Registered<'a> {
    fn define(sections: &'a Schema, generator: &mut SchemaGenerator) -> Registered<'a> {
        let mut channels = Vec::new();
        for kind in sections.channels() {
            let mut property = (kind.define)(generator);
            property.insert("description".to_owned(), kind.summary.into());
            channels.push((kind, property.to_value()));
        }
        for protocol in sections.protocols() {
            (protocol.define)(generator);
        }
        for listener in sections.listeners() {
            (listener.define)(generator);
        }
        let mut tables = Vec::new();
        for kind in sections.tables() {
            let mut property = (kind.define)(generator);
            property.insert("description".to_owned(), kind.summary.into());
            tables.push((kind, property.to_value()));
        }
        let stages = sections.stages().iter();
        let stages = stages.map(|kind| (kind, (kind.define)(generator).to_value())).collect();
        let owned = sections.sections().iter();
        let owned = owned.map(|kind| define_section(kind, generator)).collect();
        Registered { channels, tables, stages, owned }
    }

    fn add_to(self, schema: &mut Value, sections: &Schema) {
        for (key, property) in self.owned {
            schema["properties"][key] = property;
        }
        for (kind, item) in self.stages {
            schema["$defs"][&kind.definition]["additionalProperties"] = false.into();
            schema["properties"][kind.key] = serde_json::json!({
                "type": "array", "items": item, "default": [], "description": kind.summary,
            });
        }
        for protocol in sections.protocols() {
            add_to_listener(&mut schema["$defs"], &protocol.definition);
        }
        for listener in sections.listeners() {
            add_to_listener(&mut schema["$defs"], &(listener.definition)());
        }
        for (kind, property) in self.channels {
            add_channel(&mut schema["$defs"], kind, property);
        }
        for (kind, property) in self.tables {
            schema["$defs"]["TableText"]["properties"][kind.key] = property;
            // With arbitrary keys, the values are described there already.
            let definition = &mut schema["$defs"][&kind.definition];
            if definition.get("additionalProperties").is_none() {
                definition["additionalProperties"] = false.into();
            }
        }
    }
}

/// The key of a section, and its schema.
fn define_section(kind: &SectionKind, generator: &mut SchemaGenerator) -> (&'static str, Value) {
    let mut property = (kind.define)(generator);
    property.insert("description".to_owned(), kind.summary.into());
    property.insert("default".to_owned(), (kind.default)());
    (kind.key, property.to_value())
}

/// Adds the keys of a protocol, or of another owner, to those of a listener.
fn add_to_listener(definitions: &mut Value, definition: &str) {
    let Some(mut owner) = definitions.as_object_mut().and_then(|all| all.remove(definition)) else {
        return;
    };
    let listener = &mut definitions["ListenerText"];
    listener["additionalProperties"] = false.into();
    for (key, property) in owner["properties"].as_object_mut().into_iter().flatten() {
        listener["properties"][key] = property.take();
    }
}

/// Adds the key of a kind of channel to those of a route.
fn add_channel(definitions: &mut Value, kind: &ChannelKind, property: Value) {
    definitions["RouteText"]["properties"][kind.key] = property;
    let definition = &mut definitions[&kind.definition];
    // Parts that sections share are flattened into them, which serde can't have together with a
    // refusal of unknown keys; the check of the document's shape sees to that.
    definition["additionalProperties"] = false.into();
    let defaults: toml::Table = kind.defaults.parse().unwrap_or_default();
    for (key, default) in defaults {
        let default = serde_json::to_value(default).unwrap_or_default();
        definition["properties"][key]["default"] = default;
    }
}

/// Says which keys name the kind of a section, in the place of `word`.
fn name_kinds(section: &mut Value, word: &str, keys: impl Iterator<Item = &'static str>) {
    section["additionalProperties"] = false.into();
    let keys: Vec<String> = keys.map(|key| format!("`{key}`")).collect();
    if let Some(Value::String(text)) = section.get_mut("description") {
        *text = text.replace(word, &keys.join(", "));
    }
}

/// The reference page.
pub(super) fn markdown(sections: &Schema) -> String {
    let schema = sections.json();
    let mut page = Page { schema, out: HEAD.to_owned() };
    page.keys("", schema);
    for (heading, example, definition) in SECTIONS {
        page.section(heading, example, definition);
        for kind in sections.sections().iter().filter(|kind| kind.behind == heading) {
            for table in (kind.page)() {
                page.section(table.heading, &table.opened, &table.definition);
            }
        }
        if heading == "route" {
            for kind in sections.channels() {
                page.section(&format!("route: {}", kind.key), kind.example, &kind.definition);
            }
            for kind in sections.stages() {
                page.section(kind.key, &format!("[[{}]]", kind.key), &kind.definition);
            }
        }
        if heading == "table" {
            for kind in sections.tables() {
                page.section(&format!("table: {}", kind.key), kind.example, &kind.definition);
            }
        }
    }
    page.out
}

const HEAD: &str = "\
# Configuration

<!-- Generated by `postrider config reference`; edit the doc comments in \
crates/config/src/written and in crates/channels instead. -->

One TOML file. An unknown key, a wrong type or a route to nowhere is an error that
`postrider check --config FILE` shows with its place; `postrider explain RECIPIENT --config FILE`
shows the handling of a recipient with the deciding line of each step. A running server loads a
changed file with `postrider reload` or SIGHUP, or reports the error and keeps the old one.

Durations are text with units: `\"250ms\"`, `\"5m\"`, `\"1h30m\"`, `\"5d\"`. Sizes are bytes, or text
with a unit: `52_428_800`, `\"50MiB\"`. Relative paths start from the directory that the server was
started in. `examples/` in the source has whole files for common tasks.

## Top level

These keys stand before the first section.

";

/// Heading, how the section is opened, and the definition that describes it.
const SECTIONS: [(&str, &str, &str); 18] = [
    ("spool", "[spool]", "SpoolText"),
    ("certificate", "[[certificate]]", "CertificateText"),
    ("listener", "[[listener]]", "ListenerText"),
    ("route", "[[route]]", "RouteText"),
    ("table", "[[table]]", "TableText"),
    ("table: cache", "[[table]]\ncache = { … }", "TableCacheText"),
    ("source", "[[source]]", "SourceText"),
    ("source: warmup", "[[source]]\nwarmup = { … }", "WarmupText"),
    ("pool", "[[pool]]", "PoolText"),
    ("pool: sources", "[[pool]]\nsources = [{ … }]", "PoolSourceText"),
    ("tenant", "[[tenant]]", "TenantText"),
    ("retry", "[retry]", "RetryText"),
    ("reports", "[reports]", "ReportsText"),
    ("reports: retry", "[reports]\nretry = { … }", "ReportRetryText"),
    ("tls", "[tls]", "TlsText"),
    ("dns", "[dns]", "DnsText"),
    ("admin", "[admin]", "AdminText"),
    ("log", "[log]", "LogText"),
];

struct Page<'a> {
    schema: &'a Value,
    out: String,
}

impl<'a> Page<'a> {
    fn section(&mut self, heading: &str, example: &str, definition: &str) {
        let schema = &self.schema["$defs"][definition];
        self.out.push_str(&format!("## {heading}\n\n`{example}`\n\n"));
        if let Some(text) = schema["description"].as_str() {
            self.out.push_str(&format!("{}\n\n", one_line(text)));
        }
        self.keys(heading, schema);
    }

    fn keys(&mut self, heading: &str, schema: &'a Value) {
        let Some(properties) = schema["properties"].as_object() else { return };
        self.out.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
        for (key, property) in properties {
            let property = self.merged(property);
            let default = match property.get("default") {
                _ if heading.is_empty() => String::new(),
                Some(Value::Array(items)) if items.is_empty() => "`[]`".to_owned(),
                Some(default) => format!("`{default}`"),
                None => String::new(),
            };
            let mut meaning = property
                .get("description")
                .and_then(Value::as_str)
                .map(one_line)
                .unwrap_or_default();
            for (choice, text) in self.choices(&property) {
                meaning.push_str(&format!("<br>`\"{choice}\"`: {}", one_line(&text)));
            }
            let value = self.kind(&property);
            let line = format!("| `{key}` | {value} | {default} | {meaning} |\n");
            self.out.push_str(&line);
        }
        self.out.push('\n');
    }

    /// A property merged with its referenced definition, appended to its own text.
    fn merged(&self, property: &Value) -> Map<String, Value> {
        let mut merged = property.as_object().cloned().unwrap_or_default();
        if let Some(target) = merged.remove("$ref").as_ref().and_then(Value::as_str) {
            let target = self.schema.pointer(target.trim_start_matches('#'));
            for (key, value) in target.and_then(Value::as_object).into_iter().flatten() {
                merged.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        merged
    }

    fn choices(&self, property: &Map<String, Value>) -> Vec<(String, String)> {
        let Some(list) = property.get("oneOf").and_then(Value::as_array) else { return Vec::new() };
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        list.iter()
            .filter(|choice| choice["const"].is_string())
            .map(|choice| (text(&choice["const"]), text(&choice["description"])))
            .collect()
    }

    fn kind(&self, property: &Map<String, Value>) -> String {
        if let Some(title) = property.get("title").and_then(Value::as_str) {
            return title.to_owned();
        }
        if property.contains_key("oneOf") {
            return "choice".to_owned();
        }
        if let Some(any) = property.get("anyOf").and_then(Value::as_array) {
            let mut kinds: Vec<String> = any.iter().map(|s| self.kind(&self.merged(s))).collect();
            kinds.dedup();
            return kinds.join(" or ");
        }
        match property.get("type").and_then(Value::as_str) {
            Some("array") => {
                let items = self.merged(property.get("items").unwrap_or(&Value::Null));
                if items.get("type").is_some_and(|kind| kind == "object") {
                    "sections".to_owned()
                } else {
                    format!("list of {}", self.kind(&items))
                }
            }
            Some("object") => "table".to_owned(),
            Some("boolean") => "true or false".to_owned(),
            Some("string") => "text".to_owned(),
            Some("integer" | "number") => range(property),
            _ => String::new(),
        }
    }
}

fn range(property: &Map<String, Value>) -> String {
    let bound = |key: &str| property.get(key).filter(|bound| bound.as_f64() != Some(0.0));
    match (bound("minimum"), bound("maximum")) {
        (Some(min), Some(max)) => format!("number, {min} to {max}"),
        (Some(min), None) => format!("number, at least {min}"),
        (None, Some(max)) if property.get("type").is_some_and(|kind| kind == "number") => {
            format!("number, 0 to {max}")
        }
        _ => "number".to_owned(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
