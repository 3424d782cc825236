//! JSON schema of TOML values.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

/// JSON schema of a separate file.
pub(crate) fn of_file<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    strip_null(&mut schema);
    schema
}

/// The names of the keys of a table.
pub(crate) fn keys_of<T: JsonSchema>() -> Vec<String> {
    let schema = T::json_schema(&mut SchemaGenerator::default());
    let keys = schema.get("properties").and_then(Value::as_object);
    keys.into_iter().flat_map(|keys| keys.keys().cloned()).collect()
}

/// TOML has no null: an optional key is left out.
pub(crate) fn strip_null(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip_null),
        Value::Object(map) => {
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    map.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(any)) = map.get_mut("anyOf") {
                any.retain(|schema| schema.get("type").is_none_or(|kind| kind != "null"));
                if let [Value::Object(only)] = any.as_slice() {
                    let only = only.clone();
                    map.remove("anyOf");
                    map.extend(only);
                }
            }
            map.values_mut().for_each(strip_null);
        }
        _ => {}
    }
}
