//! Output generated from the tables in the program: the configuration's reference, shell completions.

use crate::cli::{Cli, CompletionsArgs, ConfigArgs, ConfigCommand, ReferenceArgs, exit};
use clap::CommandFactory;
use config::EMBEDDED;
use std::path::Path;
use std::process::ExitCode;

/// `postrider config`.
pub(crate) fn config(args: &ConfigArgs) -> ExitCode {
    match &args.command {
        ConfigCommand::Schema => super::print(&format!("{:#}\n", crate::sections::schema().json())),
        ConfigCommand::Reference(ReferenceArgs { out: None }) => {
            super::print(&crate::sections::schema().reference());
        }
        ConfigCommand::Reference(ReferenceArgs { out: Some(out) }) => return write_pages(out),
        ConfigCommand::Default => super::print(EMBEDDED),
    }
    ExitCode::SUCCESS
}

fn write_pages(out: &Path) -> ExitCode {
    for page in crate::sections::schema().reference_pages() {
        let path = out.join(page.path);
        let directory = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = directory.and_then(|()| std::fs::write(&path, page.text)) {
            return not_written(&path, &error);
        }
    }
    ExitCode::SUCCESS
}

fn not_written(path: &Path, error: &std::io::Error) -> ExitCode {
    eprintln!("postrider: {}: {error}", path.display());
    ExitCode::from(exit::FAILED)
}

/// `postrider completions`.
pub(crate) fn completions(args: &CompletionsArgs) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "postrider", &mut script);
    super::print(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_know_the_commands() {
        let mut script = Vec::new();
        let shell = clap_complete::Shell::Bash;
        clap_complete::generate(shell, &mut Cli::command(), "postrider", &mut script);
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("explain") && script.contains("--shards"));
    }

    fn stored(name: &str) -> String {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    #[test]
    #[cfg_attr(not(feature = "sql"), ignore = "the pages have the keys of all features")]
    fn the_reference_pages_are_fresh() {
        let pages = crate::sections::schema().reference_pages();
        for page in &pages {
            let is_fresh = stored(&page.path) == page.text;
            assert!(is_fresh, "{}: run: postrider config reference --out docs", page.path);
        }
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config");
        let stored = std::fs::read_dir(directory).unwrap().count();
        assert_eq!(stored + 1, pages.len(), "docs/config has a page of no area");
    }

    /// Keys of the table are on a page, with their description.
    #[test]
    fn every_key_of_the_schema_is_on_a_page() {
        let schema = crate::sections::schema();
        let pages: String = schema.reference_pages().into_iter().map(|page| page.text).collect();
        let whole = schema.reference();
        let defs = schema.json()["$defs"].as_object().unwrap();
        for (name, def) in defs.iter().chain(std::iter::once((&String::new(), schema.json()))) {
            for (key, property) in def["properties"].as_object().into_iter().flatten() {
                let text = property["description"].as_str().unwrap_or("").replace('|', "\\|");
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                let has = |page: &str| {
                    let mut rows = page.lines().filter(|row| row.contains(&format!("`{key}`")));
                    rows.any(|row| row.contains(&text))
                };
                assert!(has(&pages) && has(&whole), "{name}.{key}: {text}");
            }
        }
    }

    #[test]
    fn the_page_of_limits_is_fresh() {
        let (fresh, name) = (mta::pools::page(), "limits.md");
        if std::env::var_os("POOLS").is_some_and(|what| what == "write") {
            let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, &fresh).unwrap();
        }
        assert!(stored(name) == fresh, "run: POOLS=write cargo test the_page_of_limits_is_fresh");
    }

    #[test]
    fn the_page_of_problems_is_fresh() {
        let (fresh, name) = (mta::problems::page(), "problems.md");
        if std::env::var_os("PROBLEMS").is_some_and(|what| what == "write") {
            let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, &fresh).unwrap();
        }
        assert!(
            stored(name) == fresh,
            "run: PROBLEMS=write cargo test the_page_of_problems_is_fresh"
        );
    }

    /// All sources below a directory.
    fn sources(directory: &std::path::Path, all: &mut Vec<(std::path::PathBuf, String)>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, all);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                all.push((path, text));
            }
        }
    }

    fn all_sources() -> Vec<(std::path::PathBuf, String)> {
        let mut all = Vec::new();
        let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        for name in ["auth", "channels", "lookup", "mta", "postrider", "queue"] {
            sources(&std::path::Path::new(crates).join(name), &mut all);
        }
        all
    }

    /// The kinds of problems in a source, without those of tests at its end.
    fn kinds_in(text: &str) -> Vec<&str> {
        let text = text.split("mod tests {").next().unwrap_or_default();
        let conditions = ["conditions(\"", "Conditions::new(\""];
        let set = conditions.into_iter().flat_map(|begin| text.split(begin).skip(1));
        let found = text.split("ProblemKind for ").skip(1).filter_map(|body| {
            let name = body.split_once("fn name(&self) -> &'static str {")?.1;
            name.trim_start().strip_prefix('"')
        });
        set.chain(found).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn each_kind_of_problem_has_an_entry() {
        let entries: Vec<&str> =
            mta::problems::PROBLEM_KINDS.iter().map(|kind| kind.name).collect();
        let mut all = all_sources();
        // This file has the words that are searched for.
        all.retain(|(path, _)| {
            let is_list = ["problems/kinds.rs", "commands/reference.rs"];
            let is_list = is_list.iter().any(|name| path.ends_with(name));
            !is_list && !path.iter().any(|part| part == "tests")
        });
        let mut found = std::collections::BTreeSet::new();
        for (path, text) in &all {
            for kind in kinds_in(text) {
                let is_known = entries.contains(&kind);
                assert!(is_known, "{}: {kind} is not in problems/kinds.rs", path.display());
                found.insert(kind);
            }
        }
        assert!(found.len() > 15, "{found:?}");
        for name in entries {
            let quoted = format!("\"{name}\"");
            let is_there = all.iter().any(|(_, text)| text.contains(&quoted));
            assert!(is_there, "{name} is in problems/kinds.rs only");
        }
    }

    #[test]
    fn tests_that_the_page_of_limits_names_are_there() {
        let all = all_sources();
        let mut count = 0;
        for pool in mta::pools::POOLS {
            let named = pool.test.split('`').skip(1).step_by(2).filter(|name| name.contains("::"));
            for name in named {
                let last = name.rsplit("::").next().unwrap();
                let is_there = all.iter().any(|(path, text)| match last.strip_suffix('…') {
                    Some(begins) => text.contains(&format!("fn {begins}")),
                    None => {
                        let stem = path.file_stem().and_then(|stem| stem.to_str());
                        text.contains(&format!("fn {last}("))
                            || stem == Some(last)
                            || name.ends_with("::tests") && text.contains("mod tests")
                    }
                });
                assert!(is_there, "{}: {name}", pool.word());
                count += 1;
            }
        }
        assert!(count >= mta::pools::POOLS.len(), "{count}");
    }

    #[test]
    #[cfg_attr(not(feature = "sql"), ignore = "the file has the keys of all features")]
    fn the_schema_file_is_fresh() {
        let fresh = format!("{:#}\n", crate::sections::schema().json());
        assert!(
            stored("config.schema.json") == fresh,
            "run: postrider config schema > docs/config.schema.json"
        );
    }

    #[test]
    fn every_key_is_described() {
        let schema = crate::sections::schema().json();
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
}
