//! The rules by which refusals are classed: the operator's files, and ours.

mod settings;

pub(crate) use settings::ClassFiles;

use classes::{BUILTIN, Classes, FILE_BYTES_MAX, Named, Source};
use config::shaping::Providers;
use config::{Config, Problem};
use mta::shaping::Rules;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// What peers' refusals mean, and the rules of shaping that listen for them. Providers that rules name are looked for
/// if the shaping files could be read (`is_shaped`).
///
/// # Errors
/// All mistakes, each at the key that names its file.
pub(crate) fn read_with_rules(
    config: &Config,
    is_shaped: bool,
) -> Result<(Arc<Classes>, Rules), Vec<Problem>> {
    let providers = is_shaped.then(|| config.providers());
    let classes = read_files(config, providers.as_ref());
    let rules = Rules::read(config.shaping_rules());
    let at = |key: &'static str, all: Vec<String>| {
        all.into_iter().map(move |why| config.mistake_at(key, why))
    };
    match (classes, rules) {
        (Ok(classes), Ok(rules)) => Ok((classes, rules)),
        (classes, rules) => {
            let of_classes = at("classes.files", classes.err().unwrap_or_default());
            Err(of_classes.chain(at("shaping", rules.err().unwrap_or_default())).collect())
        }
    }
}

/// Reads the files that a configuration names.
///
/// # Errors
/// All mistakes, each in a line with file, line and column.
pub(crate) fn read(config: &Config) -> Result<Arc<Classes>, Vec<String>> {
    read_files(config, Some(&config.providers()))
}

fn read_files(config: &Config, providers: Option<&Providers>) -> Result<Arc<Classes>, Vec<String>> {
    let files = config.of::<ClassFiles>().map_or(&[][..], |files| &files.0);
    if files.is_empty() {
        return Ok(Classes::builtin());
    }
    let (mut texts, mut unread) = (Vec::new(), Vec::new());
    for path in files {
        match read_file(path) {
            Ok(text) => texts.push((path.display().to_string(), text)),
            Err(error) => unread.push(format!("{}: {error}", path.display())),
        }
    }
    if !unread.is_empty() {
        return Err(unread);
    }
    let sources: Vec<Source<'_>> = texts.iter().map(|(name, text)| Source { name, text }).collect();
    let read = Classes::read(&sources);
    let classes = read.map_err(|mistakes| -> Vec<String> {
        mistakes.iter().map(ToString::to_string).collect()
    })?;
    let unknown = providers.map(|known| unknown_providers(&classes, known));
    match unknown.unwrap_or_default() {
        unknown if unknown.is_empty() => Ok(Arc::new(classes)),
        unknown => Err(unknown),
    }
}

/// Providers that an operator's rules name and no shaping file knows.
fn unknown_providers(classes: &Classes, known: &Providers) -> Vec<String> {
    let named = classes.providers().filter(|(name, named)| {
        // Ours may name who is not among an operator's providers.
        named.file != BUILTIN && !known.knows(name)
    });
    let told = named.map(|(name, Named { file, line, column })| {
        format!("{file}:{line}:{column}: no shaping file knows the provider `{name}`")
    });
    told.collect()
}

/// A file, or as much of it as shows that it is too long.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}
