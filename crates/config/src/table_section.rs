//! The keys of one kind of table.
//!
//! A kind of table implements [`TableSection`] for its keys and [`TableSettings`] for what they come
//! to, and is registered with [`Schema::table`](crate::Schema::table).

use super::reader::Reader;
use super::table::TableSettings;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The key in `[[table]]` that says of which kind it is.
pub trait TableSection: 'static {
    /// The key.
    const KEY: &'static str;
    /// What the kind is for: a sentence in the table of `[[table]]`'s keys.
    const SUMMARY: &'static str;
    /// How it is written, for the reference page.
    const EXAMPLE: &'static str;
    /// Answers come from elsewhere, later: they are cached.
    const IS_REMOTE: bool;
    /// Requests at once, where the file says nothing.
    const REQUESTS_MAX: u32 = 16;
    /// The value as it is written: a table. Its doc comments are the reference page.
    type Text: DeserializeOwned + JsonSchema;

    /// Reads it. `None` when there is a mistake in it, which `reader` was told.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>>;
}
