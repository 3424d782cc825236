//! Sections of stages: what is done with mail before it is durable.
//!
//! A kind of stage implements [`StageSection`] for its keys and is registered with
//! [`Schema::stage`](crate::Schema::stage). Its sections are lists, `[[copy]]`: each table is one stage.

use super::reader::Reader;
use mail::Domain;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// The `[[section]]` of one kind of stage.
pub trait StageSection: 'static {
    /// Its key in the file: `copy` for `[[copy]]`.
    const KEY: &'static str;
    /// What the section is for: a sentence in the table of the file's keys.
    const SUMMARY: &'static str;
    /// The table as it is written. Its doc comments are the reference page.
    type Text: DeserializeOwned + JsonSchema;

    /// Reads one table. `None` when there is a mistake in it, which `reader` was told.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn StageSettings>>;
}

/// What one stage is told. Its owner knows the type.
pub trait StageSettings: Any + Debug + Send + Sync {
    /// How many connections the stage holds open on each shard at most: so many descriptors are kept
    /// for it.
    fn connections_max(&self) -> u32 {
        0
    }

    /// What it would do to mail whose author is of this domain and whose client may relay, for people.
    fn explain_for_author(&self, _domain: &Domain) -> Option<String> {
        None
    }
}

impl dyn StageSettings {
    /// The settings as their stage knows them; `None`: they are another kind's.
    #[must_use]
    pub fn of<T: StageSettings>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// One stage of the file.
#[derive(Clone, Debug)]
pub struct StageEntry {
    /// The kind's key.
    pub key: &'static str,
    /// What it is told.
    pub settings: Arc<dyn StageSettings>,
    /// Line of the file, from 1.
    pub line: u32,
}
