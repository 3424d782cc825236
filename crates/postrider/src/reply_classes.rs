//! The rules by which refusals are classed: the operator's files, and ours.

use classes::{BUILTIN, Classes, FILE_BYTES_MAX, Named, ReplyClass, RuleFile};
use config::shaping::Providers;
use config::{Config, Problem, Reader, Rest, Section};
use mta::shaping::Rules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads the reply classes, and the shaping rules that use them. Providers in rules are looked up only if the shaping
/// files could be read (`is_shaped`).
///
/// # Errors
/// Returns all errors, each at the key that names its file.
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
/// Returns all errors, each on a line with file, line and column.
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
    let sources: Vec<RuleFile<'_>> =
        texts.iter().map(|(name, text)| RuleFile { name, text }).collect();
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
        // Built-in rules may name providers that the operator's files do not have.
        named.file != BUILTIN && !known.knows(name)
    });
    let told = named.map(|(name, Named { file, line, column })| {
        format!("{file}:{line}:{column}: unknown provider `{name}`: not in the shaping files")
    });
    told.collect()
}

/// A file, or a prefix long enough to show that it is too long.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// Classification of peers' replies. Each deferral or rejection gets a class, shown in events, metrics and `postrider
/// queue`. See `docs/classes.md`; `postrider classify` shows the class of a reply.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ClassesText {
    /// Files with rules that take precedence over the built-in ones, in order. Read at start and at each reload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "path" }))]
    pub(crate) files: Vec<String>,
}

/// Files with the operator's rules, which precede the built-in ones.
#[derive(Debug)]
pub(crate) struct ClassFiles(pub(crate) Vec<PathBuf>);

impl Section for ClassFiles {
    const KEY: &'static str = "classes";
    const SUMMARY: &'static str = "Classes of peers' failure replies.";
    const IN_FORCE_BY: &'static str = "files of classes and shaping";
    type Text = ClassesText;
    type Value = ClassFiles;

    fn read(text: ClassesText, reader: &mut Reader<'_, '_>) -> Option<ClassFiles> {
        let mut paths = Vec::with_capacity(text.files.len());
        for (index, text) in text.files.iter().enumerate() {
            let at = format!("files[{index}]");
            let path = reader.file_path(&at, text);
            if paths.contains(&path) {
                reader.error(&at, format!("\"{text}\" is listed twice"), "");
            }
            paths.push(path);
        }
        Some(ClassFiles(paths))
    }

    /// Routes may name classes.
    fn review(_: Option<&ClassFiles>, rest: &Rest<'_>, reader: &mut Reader<'_, '_>) {
        for route in rest.routes {
            let mut of_route = reader.elsewhere(&format!("route[{}]", route.index));
            for (index, name) in route.defer_classes.iter().enumerate() {
                if name.parse::<ReplyClass>().is_err() {
                    let names: Vec<_> =
                        ReplyClass::ALL.iter().map(|class| class.as_str()).collect();
                    let help = format!("one of {}", names.join(", "));
                    let message = format!("unknown class \"{name}\"");
                    of_route.error(&format!("defer_classes[{index}]"), message, &help);
                }
            }
        }
    }
}
