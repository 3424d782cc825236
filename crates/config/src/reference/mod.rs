//! The schema for editors and the reference pages for people, both generated from
//! [`crate::written`].

mod page;
mod pages;

pub use pages::ReferencePage;
pub(crate) use pages::{pages, whole};

use crate::Schema;
use crate::schema::{ChannelKind, StageKind, TableKind, json_schema};
use crate::section::SectionKind;
use crate::written::FileText;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// JSON schema of the file, for editors.
pub(crate) fn json(sections: &Schema) -> Value {
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
