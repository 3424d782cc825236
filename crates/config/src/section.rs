//! Sections at the top of the file that others own: `[srs]`, `[events]`.
//!
//! An owner implements [`Section`] for its keys and registers it with
//! [`Schema::section`](crate::Schema::section); [`Config::of`](crate::Config::of) has what became of them.
//!
//! Sections of stages: what is done with mail before it is durable.
//!
//! A kind of stage implements [`StageSection`] for its keys and is registered with
//! [`Schema::stage`](crate::Schema::stage). Its sections are lists, `[[copy]]`: each table is one stage.
//!
//! The keys of one kind of table.
//!
//! A kind of table implements [`TableSection`] for its keys and [`TableSettings`] for what they come
//! to, and is registered with [`Schema::table`](crate::Schema::table).

pub(crate) mod owned;

use super::listener::Listener;
use super::reader::Reader;
use super::route::Route;
use super::table::TableSettings;
use crate::section::owned::Owned;
use mail::Domain;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

/// Of a section that holds from one start to the next ([`Section::IN_FORCE_BY`]).
pub const NEXT_START: &str = "next start";

/// A section of the file. A list of sections, `[[peer]]`, is one whose `Text` is a list.
pub trait Section: 'static {
    /// Its key in the file.
    const KEY: &'static str;
    /// What the section is for: a sentence in the table of the file's keys.
    const SUMMARY: &'static str;
    /// The heading behind which it stands on the reference page; sections behind the same one follow each other as
    /// they were registered.
    const BEHIND: &'static str = "log";
    /// What puts another one in force at a reload: the service of this name, or `shards`, which take up a new
    /// [`Config`](crate::Config) with all that is in it. [`NEXT_START`]: nothing does, and a reload names it.
    const IN_FORCE_BY: &'static str;
    /// The section as it is written; its doc comments are the reference page. Without the section in the file: the
    /// default, which is read like anything else.
    type Text: DeserializeOwned + Serialize + JsonSchema + Default;
    /// What comes of it.
    type Value: Any + Debug + Send + Sync;

    /// Reads the section. `None`: there is nothing to do by it, or a mistake in it, which `reader` was told.
    /// Listeners and routes are read after it.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Self::Value>;

    /// Looks at it together with what else is in the file, once that is read.
    fn review(value: Option<&Self::Value>, rest: &Rest<'_>, reader: &mut Reader<'_, '_>) {
        let _ = (value, rest, reader);
    }

    /// A domain whose mail comes here though no route names it. Its postmaster is ours.
    fn own_domain(value: &Self::Value) -> Option<&Domain> {
        let _ = value;
        None
    }

    /// Its tables of keys on the reference page.
    #[must_use]
    fn page() -> Vec<KeyTable> {
        vec![KeyTable::of::<Self::Text>(Self::KEY, format!("[{}]", Self::KEY))]
    }
}

/// What a file has beside its sections.
#[derive(Clone, Copy, Debug)]
pub struct Rest<'a> {
    /// All listeners without a mistake.
    pub listeners: &'a [Listener],
    /// All routes.
    pub routes: &'a [Route],
}

impl Rest<'_> {
    /// Whether a route takes this domain, by its name or with all others.
    #[must_use]
    pub fn has_route(&self, domain: &Domain) -> bool {
        let takes = |route: &Route| {
            route.is_catch_all() || route.domains.iter().any(|pattern| pattern.covers(domain))
        };
        self.routes.iter().any(|route| !route.is_built_in() && takes(route))
    }
}

impl Reader<'_, '_> {
    /// What became of the section of `S`, which listeners and routes may refer to; `None`: nothing.
    #[must_use]
    pub fn section<S: Section<Value: Clone>>(&self) -> Option<S::Value> {
        self.resolver.sections.get::<S, S::Value>().cloned()
    }
}

/// A table of keys on the reference page.
#[derive(Debug)]
pub struct KeyTable {
    pub(super) heading: &'static str,
    /// How it is opened in the file.
    pub(super) opened: Cow<'static, str>,
    /// Name of the definition in the JSON schema.
    pub(super) definition: Cow<'static, str>,
}

impl KeyTable {
    /// That of the keys of `T`, which is opened so in the file.
    #[must_use]
    pub fn of<T: JsonSchema>(
        heading: &'static str,
        opened: impl Into<Cow<'static, str>>,
    ) -> KeyTable {
        KeyTable { heading, opened: opened.into(), definition: T::schema_name() }
    }
}

/// A section, as [`Section`] describes it.
#[derive(Debug)]
pub(super) struct SectionKind {
    pub(super) key: &'static str,
    pub(super) summary: &'static str,
    pub(super) behind: &'static str,
    pub(super) in_force_by: &'static str,
    pub(super) page: fn() -> Vec<KeyTable>,
    pub(super) define: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
    pub(super) default: fn() -> serde_json::Value,
    /// Keeps what comes of it in the reader's resolver.
    pub(super) read: fn(Option<toml::Value>, &mut Reader<'_, '_>),
    pub(super) review: fn(&Owned, &Rest<'_>, &mut Reader<'_, '_>),
    pub(super) own_domain: fn(&Owned) -> Option<&Domain>,
}

impl SectionKind {
    pub(super) fn of<S: Section>() -> SectionKind {
        SectionKind {
            key: S::KEY,
            summary: S::SUMMARY,
            behind: S::BEHIND,
            in_force_by: S::IN_FORCE_BY,
            page: S::page,
            define: schemars::SchemaGenerator::subschema_for::<S::Text>,
            default: || serde_json::to_value(S::Text::default()).unwrap_or_default(),
            read: read::<S>,
            review: |owned, rest, reader| S::review(owned.get::<S, S::Value>(), rest, reader),
            own_domain: |owned| S::own_domain(owned.get::<S, S::Value>()?),
        }
    }
}

/// Reads a section whose shape is right; without it, what holds then.
fn read<S: Section>(written: Option<toml::Value>, reader: &mut Reader<'_, '_>) {
    let text = match written {
        Some(value) => reader.text(value),
        None => Some(S::Text::default()),
    };
    if let Some(value) = text.and_then(|text| S::read(text, reader)) {
        reader.resolver.sections.put::<S, S::Value>(value);
    }
}

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
