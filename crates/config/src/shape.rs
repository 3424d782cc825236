//! Validation of a document's shape by the schema: existing keys, values of the right type and range. The schema itself
//! drives it, so that it finds all errors at once and can never contradict the reference page.

use super::document::{Document, child};
use super::problem::Problem;
use super::syntax;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Knows keys of registered sections.
pub(super) trait OwnedKeys {
    /// The reason for the deliberate absence of a key from `section` (`route.mx`).
    fn elsewhere(&self, section: &str, key: &str) -> Option<&'static str>;

    /// The feature of the program's build that would bring this key.
    fn missing_feature(&self, section: &str, key: &str) -> Option<&'static str>;
}

/// The shape of a file.
#[derive(Clone, Copy)]
pub(super) struct Shape<'a> {
    /// As JSON schema.
    pub(super) json: &'a Value,
    /// Owners of sections, where sections are registered.
    pub(super) sections: Option<&'a dyn OwnedKeys>,
}

impl Shape<'_> {
    /// Reads the text. All problems of one kind are found at once: syntax, then shape.
    ///
    /// # Errors
    /// What is wrong with the syntax, or with keys and types.
    pub(super) fn read<T: DeserializeOwned>(
        self,
        file: Arc<str>,
        text: Arc<str>,
    ) -> Result<(Document, T), (Document, Vec<Problem>)> {
        let mut document = Document::new(file, text.clone());
        let (root, errors) = DeTable::parse_recoverable(&text);
        if !errors.is_empty() {
            let is_list = |section: &str| is_list_of_tables(self.json, section);
            let problems = syntax::problems(&document, &errors, &is_list);
            return Err((document, problems));
        }
        document.walk_table("", root.get_ref());
        let problems = self.problems(root.get_ref(), &document);
        if !problems.is_empty() {
            return Err((document, problems));
        }
        match T::deserialize(toml::Deserializer::from(root)) {
            Ok(written) => Ok((document, written)),
            // The shape is valid, so this error is one that a schema cannot express.
            Err(error) => {
                let problem = document.toml_problem(&error);
                Err((document, vec![problem]))
            }
        }
    }

    /// Deviations of the document from the shape.
    fn problems(self, root: &DeTable<'_>, document: &Document) -> Vec<Problem> {
        let Shape { json, sections } = self;
        let mut problems = Vec::new();
        let mut checker = Checker { sections, schema: json, document, problems: &mut problems };
        checker.check_table("", root, json);
        problems
    }
}

struct Checker<'a> {
    sections: Option<&'a dyn OwnedKeys>,
    schema: &'a Value,
    document: &'a Document,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Checker<'a> {
    fn check_table(&mut self, path: &str, table: &DeTable<'_>, schema: &'a Value) {
        if let Some(any) = schema.get("additionalProperties").filter(|any| any.is_object()) {
            // Keys that are not names: all values have this shape.
            for (key, value) in table {
                self.check_value(&child(path, key.get_ref()), value, any);
            }
            return;
        }
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            for key in table.keys() {
                self.unknown_key(path, key, &mut std::iter::empty());
            }
            return;
        };
        for (key, value) in table {
            match properties.get(key.get_ref().as_ref()) {
                Some(schema) => self.check_value(&child(path, key.get_ref()), value, schema),
                None => self.unknown_key(path, key, &mut properties.keys().map(String::as_str)),
            }
        }
    }

    fn unknown_key(
        &mut self,
        path: &str,
        key: &Spanned<impl AsRef<str>>,
        known: &mut dyn Iterator<Item = &str>,
    ) {
        let key_text = key.get_ref().as_ref();
        let known: Vec<&str> = known.collect();
        let near = known
            .iter()
            .map(|candidate| (distance(key_text, candidate), *candidate))
            .min()
            .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4);
        let section = section_of(path);
        let feature = self.sections.and_then(|s| s.missing_feature(&section, key_text));
        let elsewhere = self.sections.and_then(|s| s.elsewhere(&section, key_text));
        let help = match near {
            _ if let Some(feature) = feature => format!("build it with `--features {feature}`"),
            _ if let Some(reason) = elsewhere => reason.to_owned(),
            _ if !path.is_empty() && is_top_value(self.schema, key_text) => {
                format!("`{key_text}` belongs above the first section")
            }
            Some((_, candidate)) => format!("did you mean `{candidate}`?"),
            None if known.is_empty() => "this section has no keys".to_owned(),
            None => format!("keys here: {}", known.join(", ")),
        };
        let message = match section {
            _ if let Some(feature) = feature => {
                format!("`{key_text}` needs the feature `{feature}`, missing in this build")
            }
            section if section.is_empty() => format!("unknown key `{key_text}`"),
            section => format!("unknown key `{key_text}` in `{section}`"),
        };
        self.problems.push(self.document.problem_at(key.span(), true, message, &help));
    }

    fn check_value(&mut self, path: &str, value: &Spanned<DeValue<'_>>, schema: &'a Value) {
        let schema = self.resolve(schema);
        let mut alternatives = Vec::new();
        self.alternatives(schema, &mut alternatives);
        let kind = kind_of(value.get_ref());
        let fitting: Vec<&'a Value> =
            alternatives.into_iter().filter(|s| accepts(s, kind)).collect();
        let Some(first) = fitting.first() else {
            let wanted = self.describe(schema);
            let message = format!("`{}` must be {wanted}, not {}", last_key(path), name_of(kind));
            let help = match value.get_ref() {
                DeValue::Table(_) if is_list_of_tables(self.schema, path) => {
                    format!("write `[[{path}]]`: it is a list")
                }
                DeValue::Array(items) if items.iter().any(|item| item.get_ref().is_table()) => {
                    format!("write `[{path}]`: there is only one")
                }
                _ => String::new(),
            };
            self.problems.push(self.document.problem(path, true, message, &help));
            return;
        };
        match value.get_ref() {
            DeValue::Table(table) => self.check_table(path, table, first),
            DeValue::Array(items) => {
                if let Some(item_schema) = first.get("items") {
                    for (index, item) in items.iter().enumerate() {
                        self.check_value(&format!("{path}[{index}]"), item, item_schema);
                    }
                }
            }
            DeValue::String(text) => self.check_choice(path, text, &fitting),
            DeValue::Integer(_) | DeValue::Float(_) => {
                self.check_range(path, value.get_ref(), first);
            }
            _ => {}
        }
    }

    fn check_choice(&mut self, path: &str, text: &str, fitting: &[&Value]) {
        let mut choices: Vec<&str> = Vec::new();
        for schema in fitting {
            match (schema.get("const").and_then(Value::as_str), schema.get("enum")) {
                (Some(choice), _) => choices.push(choice),
                (None, Some(Value::Array(list))) => {
                    choices.extend(list.iter().filter_map(Value::as_str))
                }
                // Free text.
                _ => return,
            }
        }
        if !choices.contains(&text) {
            let message = format!("invalid value \"{text}\" for `{}`", last_key(path));
            let choices: Vec<String> = choices.iter().map(|c| format!("\"{c}\"")).collect();
            let help = format!("one of {}", choices.join(", "));
            self.problems.push(self.document.problem(path, true, message, &help));
        }
    }

    fn check_range(&mut self, path: &str, value: &DeValue<'_>, schema: &Value) {
        let number: Option<f64> = match value {
            DeValue::Integer(n) => {
                i64::from_str_radix(n.as_str(), n.radix()).ok().map(|n| n as f64)
            }
            DeValue::Float(n) => n.as_str().parse().ok(),
            _ => None,
        };
        let format_max = match schema.get("format").and_then(Value::as_str) {
            Some("uint8") => Some(f64::from(u8::MAX)),
            Some("uint16") => Some(f64::from(u16::MAX)),
            Some("uint32") => Some(f64::from(u32::MAX)),
            _ => None,
        };
        let minimum = schema.get("minimum").and_then(Value::as_f64);
        let maximum = schema.get("maximum").and_then(Value::as_f64).or(format_max);
        let fits = number.is_some_and(|n| {
            n.is_finite()
                && minimum.is_none_or(|min| n >= min)
                && maximum.is_none_or(|max| n <= max)
        });
        if !fits {
            // The bound of the integer type is only mentioned if exceeded.
            let maximum = maximum.filter(|max| {
                schema.get("maximum").is_some() || number.is_none_or(|number| number > *max)
            });
            let range = match (minimum, maximum) {
                (Some(min), Some(max)) => format!("between {min} and {max}"),
                (_, None) if number.is_none() => "smaller (too many digits)".to_owned(),
                (Some(min), None) => format!("at least {min}"),
                (None, Some(max)) => format!("at most {max}"),
                (None, None) => "a finite number".to_owned(),
            };
            let message = format!("`{}` must be {range}", last_key(path));
            self.problems.push(self.document.problem(path, true, message, ""));
        }
    }

    fn resolve(&self, schema: &'a Value) -> &'a Value {
        resolved(self.schema, schema)
    }

    fn alternatives(&self, schema: &'a Value, out: &mut Vec<&'a Value>) {
        let schema = self.resolve(schema);
        match schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
            Some(list) => list.iter().for_each(|s| self.alternatives(s, out)),
            None => out.push(schema),
        }
    }

    /// The expected value: "a duration in quotes", "true or false", "an integer".
    fn describe(&self, schema: &'a Value) -> String {
        if let Some(title) = schema.get("title").and_then(Value::as_str) {
            return describe_title(title).to_owned();
        }
        let mut alternatives = Vec::new();
        self.alternatives(schema, &mut alternatives);
        let mut names: Vec<&str> = alternatives
            .iter()
            .filter_map(|s| s.get("type").and_then(Value::as_str))
            .map(name_of)
            .collect();
        names.dedup();
        names.join(" or ")
    }
}

/// The schema behind references.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap_or(schema),
        None => schema,
    }
}

/// The schemas that a key at the top of the file may have.
fn forms_of_top<'a>(root: &'a Value, key: &str) -> Vec<&'a Value> {
    let Some(schema) = root.get("properties").and_then(|all| all.get(key)) else {
        return Vec::new();
    };
    let schema = resolved(root, schema);
    match schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
        Some(list) => list.iter().map(|form| resolved(root, form)).collect(),
        None => vec![schema],
    }
}

/// Returns true for a section `[[key]]`.
fn is_list_of_tables(root: &Value, key: &str) -> bool {
    forms_of_top(root, key).iter().any(|form| {
        let items = form.get("items").map(|items| resolved(root, items));
        items.is_some_and(|items| accepts(items, "object"))
    })
}

/// Returns true for a key at the top of the file that is no section.
fn is_top_value(root: &Value, key: &str) -> bool {
    let forms = forms_of_top(root, key);
    !forms.is_empty()
        && !is_list_of_tables(root, key)
        && !forms.iter().any(|form| accepts(form, "object"))
}

/// Name of a kind of value in errors.
fn describe_title(title: &str) -> &str {
    match title {
        "duration" => "a duration in quotes, for example \"5m\"",
        "size" => "a size, for example 65536 or \"64KiB\"",
        "name server" => "an address in quotes, for example \"192.0.2.53\"",
        "address:port" => "an address and port in quotes, for example \"127.0.0.1:25\"",
        "network" => "a network in quotes, for example \"192.0.2.0/24\"",
        "domain" => "a domain in quotes, for example \"example.org\"",
        "host" => "a host in quotes, for example \"192.0.2.1:25\"",
        other => other,
    }
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "string",
        DeValue::Integer(_) => "integer",
        DeValue::Float(_) => "number",
        DeValue::Boolean(_) => "boolean",
        DeValue::Datetime(_) => "date",
        DeValue::Array(_) => "array",
        DeValue::Table(_) => "object",
    }
}

fn name_of(kind: &str) -> &'static str {
    match kind {
        "string" => "text in quotes",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "a table",
        _ => "a date",
    }
}

fn accepts(schema: &Value, kind: &str) -> bool {
    match schema.get("type").and_then(Value::as_str) {
        Some("number") => kind == "number" || kind == "integer",
        Some(wanted) => wanted == kind,
        None => false,
    }
}

fn last_key(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// The section's name without list positions: `route.smtp`.
fn section_of(path: &str) -> String {
    let mut section = String::new();
    let mut depth = 0;
    for c in path.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            c if depth == 0 => section.push(c),
            _ => {}
        }
    }
    section
}

/// Edits between two keys (Levenshtein): short texts, so the plain table will do.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        row[0] = left;
        for (j, y) in b.iter().enumerate() {
            let cost = usize::from(x != *y);
            let best = (diagonal + cost).min(left + 1).min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = best;
            left = best;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("hostname", "hostname"), 0);
        assert_eq!(distance("hostnam", "hostname"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
