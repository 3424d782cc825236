//! A kind of table whose entries have named values. What its tables say is scripted, as of all tables
//! here: see `TestWorld::set_values`.

use config::{PasswordChecks, Reader, TableSection, TableSettings};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Names of values.
#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) struct ScriptedText {
    fields: Vec<String>,
}

impl TableSection for ScriptedText {
    const KEY: &'static str = "scripted";
    const SUMMARY: &'static str = "What a test has set.";
    const EXAMPLE: &'static str = "";
    const IS_REMOTE: bool = false;
    type Text = ScriptedText;

    fn read(text: ScriptedText, _: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        Some(Arc::new(text))
    }
}

impl TableSettings for ScriptedText {
    fn fields(&self) -> Vec<&str> {
        self.fields.iter().map(String::as_str).collect()
    }

    fn password_checks(&self) -> PasswordChecks {
        PasswordChecks::Sealed
    }

    fn is_like(&self, other: &dyn TableSettings) -> bool {
        other.of() == Some(self)
    }
}
