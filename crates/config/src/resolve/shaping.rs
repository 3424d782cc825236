//! Where shaping comes from.

use crate::resolver::Resolver;
use crate::shaping::{BUILTIN_NAME, ShapingSource};

impl Resolver<'_> {
    /// Files in their order.
    pub(super) fn shaping(&mut self, written: &[String]) -> Vec<ShapingSource> {
        let mut sources = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let at = format!("shaping[{index}]");
            let source = match text.as_str() {
                BUILTIN_NAME => ShapingSource::Builtin,
                path => ShapingSource::File(self.file_path(&at, path)),
            };
            if sources.contains(&source) {
                self.error(&at, format!("\"{text}\" stands here twice"), "");
            }
            sources.push(source);
        }
        sources
    }
}
