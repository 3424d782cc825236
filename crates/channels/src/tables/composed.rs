//! Tables composed from other tables.

use config::{Composition, Reader, TableSection, TableSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The entry of the first of several tables that has the key.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct FirstText {
    /// Names of tables defined above, in the order of lookup. Required.
    tables: Vec<String>,
}

/// The entries of several tables, joined by commas.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct UnionText {
    /// Names of tables defined above, in the order of their entries. Required.
    tables: Vec<String>,
}

impl TableSection for FirstText {
    const KEY: &'static str = "first";
    const SUMMARY: &'static str = "The first of several tables with the key.";
    const EXAMPLE: &'static str = "first = { tables = [\"exceptions\", \"users\"] }";
    const IS_REMOTE: bool = false;
    type Text = FirstText;

    fn read(text: FirstText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        Composed::read(Composition::First, text.tables, reader)
    }
}

impl TableSection for UnionText {
    const KEY: &'static str = "union";
    const SUMMARY: &'static str = "The combined answers of several tables.";
    const EXAMPLE: &'static str = "union = { tables = [\"staff\", \"archive\"] }";
    const IS_REMOTE: bool = false;
    type Text = UnionText;

    fn read(text: UnionText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        Composed::read(Composition::Union, text.tables, reader)
    }
}

/// Kind of composition, and the tables it consists of.
#[derive(Debug, PartialEq, Eq)]
struct Composed {
    composition: Composition,
    tables: Vec<String>,
}

impl Composed {
    fn read(
        composition: Composition,
        tables: Vec<String>,
        reader: &mut Reader<'_, '_>,
    ) -> Option<Arc<dyn TableSettings>> {
        if tables.is_empty() {
            reader.error("", "`tables` is empty", "name some: tables = [\"users\"]");
            return None;
        }
        let mut seen = BTreeSet::new();
        for (index, table) in tables.iter().enumerate() {
            if !seen.insert(table) {
                let message = format!("\"{table}\" is listed twice");
                reader.error(&format!("tables[{index}]"), message, "");
            }
        }
        Some(Arc::new(Composed { composition, tables }))
    }
}

impl TableSettings for Composed {
    fn parts(&self) -> Vec<&str> {
        self.tables.iter().map(String::as_str).collect()
    }

    fn composition(&self) -> Option<Composition> {
        Some(self.composition)
    }

    fn is_like(&self, other: &dyn TableSettings) -> bool {
        other.of::<Composed>() == Some(self)
    }
}
