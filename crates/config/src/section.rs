//! Sections with registered owners. Three kinds exist:
//!
//! - Top-level sections, for example `[srs]` and `[events]`. The owner implements [`Section`] and registers it with
//!   [`Schema::section`](crate::Schema::section); [`Config::of`](crate::Config::of) returns its value.
//! - Stages, which process mail before it is durable. The owner implements [`StageSection`] and registers it with
//!   [`Schema::stage`](crate::Schema::stage). Its sections are lists, `[[copy]]`: each table is one stage.
//! - Kinds of tables. The owner implements [`TableSection`] for the keys and [`TableSettings`] for their values, and
//!   registers them with [`Schema::table`](crate::Schema::table).

pub(crate) mod owned;

use super::listener::Listener;
use super::reader::Reader;
use super::route::Route;
use super::table::TableSettings;
use crate::area::Area;
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

/// A section of the file. A list of sections, `[[peer]]`, is one section with a list as `Text`.
pub trait Section: 'static {
    /// Its key in the file.
    const KEY: &'static str;
    /// The purpose of the section: a sentence in the table of the file's keys.
    const SUMMARY: &'static str;
    /// Its page in the reference.
    const AREA: Area = Area::Server;
    /// The party that applies a changed section at a reload: the service of this name, or `shards`, which adopt a new
    /// [`Config`](crate::Config) as a whole. [`NEXT_START`]: none, and a reload reports the section.
    const IN_FORCE_BY: &'static str;
    /// The section as it is written; its doc comments are the reference page. Without the section in the file: the
    /// default, which is read like anything else.
    type Text: DeserializeOwned + Serialize + JsonSchema + Default;
    /// Its value.
    type Value: Any + Debug + Send + Sync;

    /// Reads the section. `None` if it has no effect, or after an error, which was reported to `reader`. Listeners and
    /// routes are read after it.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Self::Value>;

    /// Checks it against the rest of the file, once that is read.
    fn review(value: Option<&Self::Value>, rest: &Rest<'_>, reader: &mut Reader<'_, '_>) {
        let _ = (value, rest, reader);
    }

    /// A local domain of this section, even without a route. Its postmaster is this server's.
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

/// The file without its sections.
#[derive(Clone, Copy, Debug)]
pub struct Rest<'a> {
    /// All listeners without a mistake.
    pub listeners: &'a [Listener],
    /// All routes.
    pub routes: &'a [Route],
}

impl Rest<'_> {
    /// Returns true if a route accepts this domain, by name or as a catch-all.
    #[must_use]
    pub fn has_route(&self, domain: &Domain) -> bool {
        let takes = |route: &Route| {
            route.is_catch_all() || route.domains.iter().any(|pattern| pattern.covers(domain))
        };
        self.routes.iter().any(|route| !route.is_built_in() && takes(route))
    }
}

impl Reader<'_, '_> {
    /// The value of section `S`, for reference by listeners and routes; `None` if it has no effect.
    #[must_use]
    pub fn section<S: Section<Value: Clone>>(&self) -> Option<S::Value> {
        self.resolver.sections.get::<S, S::Value>().cloned()
    }
}

/// A table of keys on the reference page.
#[derive(Debug)]
pub struct KeyTable {
    pub(super) heading: &'static str,
    /// Its header in the file.
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
    pub(super) area: Area,
    pub(super) in_force_by: &'static str,
    pub(super) page: fn() -> Vec<KeyTable>,
    pub(super) define: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
    pub(super) default: fn() -> serde_json::Value,
    /// Stores the value in the reader's resolver.
    pub(super) read: fn(Option<toml::Value>, &mut Reader<'_, '_>),
    pub(super) review: fn(&Owned, &Rest<'_>, &mut Reader<'_, '_>),
    pub(super) own_domain: fn(&Owned) -> Option<&Domain>,
}

impl SectionKind {
    pub(super) fn of<S: Section>() -> SectionKind {
        SectionKind {
            key: S::KEY,
            summary: S::SUMMARY,
            area: S::AREA,
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

/// Reads a section of valid shape, or the default if missing.
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
    /// The purpose of the section: a sentence in the table of the file's keys.
    const SUMMARY: &'static str;
    /// The table as it is written. Its doc comments are the reference page.
    type Text: DeserializeOwned + JsonSchema;

    /// Reads one table. `None` after an error, which was reported to `reader`.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn StageSettings>>;
}

/// Settings of one stage. Its owner knows the type.
pub trait StageSettings: Any + Debug + Send + Sync {
    /// Maximum number of connections that the stage keeps open on each shard: this many descriptors are reserved.
    fn connections_max(&self) -> u32 {
        0
    }

    /// Explains its effect on mail with an author in this domain and a client that may relay, for people.
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
    /// Its settings.
    pub settings: Arc<dyn StageSettings>,
    /// Line of the file, from 1.
    pub line: u32,
}

/// The key in `[[table]]` that selects its kind.
pub trait TableSection: 'static {
    /// The key.
    const KEY: &'static str;
    /// The purpose of the kind: a sentence in the table of `[[table]]`'s keys.
    const SUMMARY: &'static str;
    /// An example in the file's syntax, for the reference page.
    const EXAMPLE: &'static str;
    /// Answers come from a server, with a delay: they are cached.
    const IS_REMOTE: bool;
    /// Concurrent requests, unless set in the file.
    const REQUESTS_MAX: u32 = 16;
    /// The value as it is written: a table. Its doc comments are the reference page.
    type Text: DeserializeOwned + JsonSchema;

    /// Reads it. `None` after an error, which was reported to `reader`.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>>;
}
