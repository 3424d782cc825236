//! Tables that stand in the configuration itself.

use super::LocalTable;
use config::{Reader, TableSection, TableSettings};
use lookup::{Judge, Mistake, Table, TextTable, Written, fold};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Keys and values that stand in the configuration. Keys are found without regard to case.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct InlineText(BTreeMap<String, String>);

impl TableSection for InlineText {
    const KEY: &'static str = "inline";
    const SUMMARY: &'static str = "Keys and values that stand here.";
    const EXAMPLE: &'static str = "inline = { \"abuse@example.org\" = \"root@example.org\" }";
    const IS_REMOTE: bool = false;
    type Text = InlineText;

    fn read(text: InlineText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        let mut folded = BTreeMap::new();
        for (key, value) in text.0 {
            if let Some((other, _)) = folded.insert(fold(&key).into_owned(), (key.clone(), value)) {
                let message = format!("\"{other}\" and \"{key}\" are the same key");
                reader.error(&key, message, "keys are found without regard to case");
            }
        }
        let pairs = folded.into_iter().map(|(key, (_, value))| (key, value)).collect();
        Some(Arc::new(Inline { pairs }))
    }
}

/// Folded keys and their values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inline {
    pairs: BTreeMap<String, String>,
}

impl TableSettings for Inline {
    fn is_like(&self, other: &dyn TableSettings) -> bool {
        other.of::<Inline>() == Some(self)
    }
}

impl LocalTable for Inline {
    fn path(&self) -> Option<&Path> {
        None
    }

    fn file_bytes_max(&self) -> usize {
        0
    }

    fn make(&self, _: &[u8], judge: Judge<'_>) -> Result<Arc<dyn Table>, Vec<Mistake>> {
        let pairs = || self.pairs.iter().map(|(key, value)| (&**key, &**value));
        let wrong = |(key, text)| {
            let why = judge(&Written { key: Some(key), text, goes_on: false }).err()?;
            Some(Mistake { line: 0, column: 0, text: format!("key \"{key}\": {why}").into() })
        };
        let mistakes: Vec<Mistake> = pairs().filter_map(wrong).collect();
        if mistakes.is_empty() { Ok(Arc::new(TextTable::inline(pairs()))) } else { Err(mistakes) }
    }
}
