//! The reference page and the schema for editors.

use channels::schema;

fn stored(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn the_reference_page_is_fresh() {
    assert!(
        stored("config.md") == schema().markdown(),
        "run: postrider config reference > docs/config.md"
    );
}

#[test]
fn the_schema_file_is_fresh() {
    let fresh = format!("{:#}\n", schema().json());
    assert!(
        stored("config.schema.json") == fresh,
        "run: postrider config schema > docs/config.schema.json"
    );
}

#[test]
fn every_key_is_described() {
    let schema = schema().json();
    let defs = schema["$defs"].as_object().unwrap();
    let mut count = 0;
    for (name, def) in defs.iter().chain(std::iter::once((&String::new(), schema))) {
        for (key, property) in def["properties"].as_object().into_iter().flatten() {
            let text = property["description"].as_str().unwrap_or("");
            assert!(text.ends_with('.') || text.ends_with(':'), "{name}.{key}: \"{text}\"");
            count += 1;
        }
    }
    assert!(count > 100, "{count} keys");
}
