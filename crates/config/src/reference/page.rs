//! One page of the reference: sections with a table of keys each.

use serde_json::{Map, Value};

/// A page that is written section by section.
pub(super) struct Page<'a> {
    pub(super) schema: &'a Value,
    pub(super) out: String,
}

impl<'a> Page<'a> {
    /// A heading with the header in the file, the description and the keys.
    pub(super) fn section(&mut self, level: &str, heading: &str, opened: &str, definition: &str) {
        let schema = &self.schema["$defs"][definition];
        self.out.push_str(&format!("{level} {heading}\n\n`{opened}`\n\n"));
        if let Some(text) = schema["description"].as_str() {
            self.out.push_str(&format!("{}\n\n", one_line(text)));
        }
        self.keys(schema, &mut |key| format!("`{key}`"), true);
    }

    /// The table of keys; `named` gives the first column.
    pub(super) fn keys(
        &mut self,
        schema: &'a Value,
        named: &mut dyn FnMut(&str) -> String,
        has_defaults: bool,
    ) {
        let Some(properties) = schema["properties"].as_object() else { return };
        self.out.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
        for (key, property) in properties {
            let property = self.merged(property);
            let default = match property.get("default") {
                _ if !has_defaults => String::new(),
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
            let key = named(key);
            let line = format!("| {key} | {value} | {default} | {meaning} |\n");
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
