//! Settings of header checks.

use super::walk::LineKind;
use crate::stages::is_for_listener;
use config::{Composition, Config, Reader, StageEntry, StageSection, StageSettings, TableEntry};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// Checks of header fields, or of body lines, by a table of patterns (Postfix's header_checks(5) and body_checks(5)). Each
/// field or line is compared with the tables in the order of the file, and the action of the first match is performed.
/// Messages of this server are not checked. See `docs/access.md` for actions and limits.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct HeaderCheckText {
    /// Name of the table: one of kind `regexp` or `pcre`, or a `first` with these kinds only. Required.
    table: String,
    /// Parts of a message that are checked. `"header"`: its header without MIME fields. `"mime"`: MIME fields, and headers
    /// of parts. `"nested"`: headers of attached messages without MIME fields. `"body"`: lines of the first 50 KiB of each
    /// body. Default: all headers.
    #[serde(rename = "in")]
    parts: PartsText,
    /// Names of listeners that the check applies to. Default: all.
    listeners: Vec<String>,
}

/// A part of a message, or several.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum PartsText {
    One(String),
    Several(Vec<String>),
}

impl Default for PartsText {
    fn default() -> PartsText {
        PartsText::Several(["header", "mime", "nested"].map(str::to_owned).into())
    }
}

impl JsonSchema for PartsText {
    fn schema_name() -> Cow<'static, str> {
        "CheckedParts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "part or list",
            "description": "The name of a part of messages, or a list of names.",
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
            ],
        })
    }
}

impl PartsText {
    fn names(&self) -> &[String] {
        match self {
            PartsText::One(name) => std::slice::from_ref(name),
            PartsText::Several(names) => names,
        }
    }
}

impl StageSection for HeaderCheckText {
    const KEY: &'static str = "header_check";
    const SUMMARY: &'static str = "Checks of header fields and body lines by patterns.";
    type Text = HeaderCheckText;

    fn read(text: HeaderCheckText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn StageSettings>> {
        reader.check_listeners("listeners", &text.listeners);
        reader.refuse_foreign("listeners", &text.listeners, "checked by patterns");
        let names = text.parts.names();
        let parts: Vec<LineKind> = names.iter().filter_map(|name| kind_of(name)).collect();
        let help = "use \"header\", \"mime\", \"nested\" or \"body\"";
        if let Some(unknown) = names.iter().find(|name| kind_of(name).is_none()) {
            reader.error("in", format!("unknown part of a message \"{unknown}\""), help);
        } else if names.is_empty() {
            reader.error("in", "names no part of a message", help);
        }
        let help = "a table with regexp = { … } or pcre = { … }";
        if text.table.is_empty() {
            reader.error("", "a header check without `table`", &format!("name {help}"));
            return None;
        }
        let table = reader.table("table", &text.table)?;
        if !is_of_patterns(&table) {
            let message = format!("table \"{}\" has no patterns for lines", table.name);
            reader.error("table", message, &format!("use {help}"));
        }
        Some(Arc::new(HeaderCheck { table, parts, listeners: text.listeners }))
    }
}

fn kind_of(name: &str) -> Option<LineKind> {
    match name {
        "header" => Some(LineKind::Header),
        "mime" => Some(LineKind::Mime),
        "nested" => Some(LineKind::Nested),
        "body" => Some(LineKind::Body),
        _ => None,
    }
}

fn is_of_patterns(table: &TableEntry) -> bool {
    match table.settings.composition() {
        None => matches!(table.kind, "regexp" | "pcre"),
        Some(Composition::First) => table.parts.iter().all(|part| is_of_patterns(part)),
        Some(Composition::Union) => false,
    }
}

/// One check.
#[derive(Clone, Debug)]
pub(super) struct HeaderCheck {
    pub(super) table: Arc<TableEntry>,
    pub(super) parts: Vec<LineKind>,
    listeners: Vec<String>,
}

impl StageSettings for HeaderCheck {}

impl HeaderCheck {
    pub(super) fn is_for(&self, listener: &str) -> bool {
        is_for_listener(&self.listeners, listener)
    }
}

/// The sections of checks, in the order of the file.
pub(super) fn entries(config: &Config) -> impl Iterator<Item = &StageEntry> {
    config.stages.iter().filter(|entry| entry.key == HeaderCheckText::KEY)
}

/// The lines that checks compare with this table, directly or as a part of another table: header fields, body lines.
pub(crate) fn lines_of(config: &Config, table: &TableEntry) -> [bool; 2] {
    let rules = entries(config).filter_map(|entry| entry.settings.of::<HeaderCheck>());
    let mut lines = [false; 2];
    for rule in rules.filter(|rule| rule.table.has(table)) {
        lines[0] |= rule.parts.iter().any(|part| *part != LineKind::Body);
        lines[1] |= rule.parts.contains(&LineKind::Body);
    }
    lines
}
