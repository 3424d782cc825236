//! `[classes]`.

use config::{Reader, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What peers' refusals mean: each gets a class, which events, metrics and `postrider queue` name. See
/// `docs/classes.md`; `postrider classify` shows what becomes of a reply.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ClassesText {
    /// Files with rules that go before those that are built in, in order. Read at the start and at each
    /// reload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "path" }))]
    pub(crate) files: Vec<String>,
}

/// Rules of what peers' refusals mean, which go before our own: their files.
#[derive(Debug)]
pub(crate) struct ClassFiles(pub(crate) Vec<PathBuf>);

impl Section for ClassFiles {
    const KEY: &'static str = "classes";
    const SUMMARY: &'static str = "What peers' refusals mean.";
    const BEHIND: &'static str = "dns";
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
}
