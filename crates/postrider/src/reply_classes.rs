//! The rules by which refusals are classed: the operator's files, and ours.

use classes::{Classes, FILE_BYTES_MAX, Source};
use config::Config;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// Reads the files that a configuration names.
///
/// # Errors
/// All mistakes, each in a line with file, line and column.
pub(crate) fn read(config: &Config) -> Result<Arc<Classes>, Vec<String>> {
    if config.class_files.is_empty() {
        return Ok(Classes::builtin());
    }
    let mut texts = Vec::new();
    for path in &config.class_files {
        let text = read_file(path).map_err(|error| vec![format!("{}: {error}", path.display())])?;
        texts.push((path.display().to_string(), text));
    }
    let sources: Vec<Source<'_>> = texts.iter().map(|(name, text)| Source { name, text }).collect();
    let read = Classes::read(&sources);
    read.map(Arc::new).map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

/// A file, or as much of it as shows that it is too long.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}
