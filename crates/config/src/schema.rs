//! The sections of the file: those of every server, and registered ones.

pub(crate) mod json_schema;

use super::channel::{ChannelSection, Settings};
use super::listener::{ProtocolSection, ProtocolSettings};
use super::listener_section::{ListenerKind, ListenerSection};
use super::reader::Reader;
use super::section::{Section, SectionKind, StageSection, StageSettings, TableSection};
use super::shape::OwnedKeys;
use super::table::TableSettings;
use crate::listener::takes::Takes;
use crate::schema::json_schema::keys_of;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// The schema of the file.
#[derive(Debug, Default)]
pub struct Schema {
    /// Protocols of listeners.
    protocols: Vec<ProtocolKind>,
    /// Keys of listeners with owners other than protocols.
    listeners: Vec<ListenerKind>,
    channels: Vec<ChannelKind>,
    sections: Vec<SectionKind>,
    stages: Vec<StageKind>,
    tables: Vec<TableKind>,
    /// Kinds of tables that this build does not have, with the feature that would bring them.
    absent_tables: Vec<(&'static str, &'static str)>,
    /// As JSON schema, once requested.
    pub(super) json: OnceLock<Value>,
}

/// A protocol, as [`ProtocolSection`] describes it.
#[derive(Debug)]
pub(super) struct ProtocolKind {
    pub(super) kind: &'static str,
    /// Name of the definition in the JSON schema.
    pub(super) definition: String,
    pub(super) define: fn(&mut SchemaGenerator) -> schemars::Schema,
    pub(super) read: ReadProtocol,
    pub(super) takes: Takes,
    /// The names of its keys.
    pub(super) keys: fn() -> Vec<String>,
}

/// A kind of channel, as [`ChannelSection`] describes it.
#[derive(Debug)]
pub(super) struct ChannelKind {
    pub(super) key: &'static str,
    pub(super) summary: &'static str,
    pub(super) example: &'static str,
    pub(super) defaults: &'static str,
    pub(super) elsewhere: &'static [(&'static [&'static str], &'static str)],
    /// Name of the definition in the JSON schema.
    pub(super) definition: String,
    pub(super) define: fn(&mut SchemaGenerator) -> schemars::Schema,
    pub(super) read: SectionReader,
    pub(super) mailbox_at: fn(&str, u64) -> Option<Arc<dyn Settings>>,
}

/// A kind of stage, as [`StageSection`] describes it.
#[derive(Debug)]
pub(super) struct StageKind {
    pub(super) key: &'static str,
    pub(super) summary: &'static str,
    /// Name of the definition in the JSON schema.
    pub(super) definition: String,
    pub(super) define: fn(&mut SchemaGenerator) -> schemars::Schema,
    pub(super) read: ReadStage,
}

/// A kind of table, as [`TableSection`] describes it.
#[derive(Debug)]
pub(super) struct TableKind {
    pub(super) key: &'static str,
    pub(super) summary: &'static str,
    pub(super) example: &'static str,
    pub(super) is_remote: bool,
    pub(super) requests_max: u32,
    /// Name of the definition in the JSON schema.
    pub(super) definition: String,
    pub(super) define: fn(&mut SchemaGenerator) -> schemars::Schema,
    pub(super) read: ReadTable,
}

type ReadTable = fn(toml::Table, &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>>;

/// Reads the settings of a kind of table, given a valid shape.
fn read_table<S: TableSection>(
    table: toml::Table,
    reader: &mut Reader<'_, '_>,
) -> Option<Arc<dyn TableSettings>> {
    S::read(reader.text(table)?, reader)
}

type ReadProtocol = fn(toml::Table, &mut Reader<'_, '_>) -> Option<Arc<dyn ProtocolSettings>>;

/// Reads the keys of a protocol, given a valid shape.
fn read_protocol<S: ProtocolSection>(
    table: toml::Table,
    reader: &mut Reader<'_, '_>,
) -> Option<Arc<dyn ProtocolSettings>> {
    S::read(reader.text(table)?, reader)
}

type ReadStage = fn(toml::Table, &mut Reader<'_, '_>) -> Option<Arc<dyn StageSettings>>;

/// Reads the table of a stage, given a valid shape.
fn read_stage<S: StageSection>(
    table: toml::Table,
    reader: &mut Reader<'_, '_>,
) -> Option<Arc<dyn StageSettings>> {
    S::read(reader.text(table)?, reader)
}

type SectionReader = fn(toml::Table, &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>>;

/// Reads the table of a channel, given a valid shape.
fn read<S: ChannelSection>(
    written: toml::Table,
    reader: &mut Reader<'_, '_>,
) -> Option<Arc<dyn Settings>> {
    let mut table: toml::Table = S::DEFAULTS.parse().unwrap_or_default();
    table.extend(written);
    S::read(reader.text(table)?, reader)
}

impl Schema {
    /// The sections of every server.
    #[must_use]
    pub fn new() -> Schema {
        Schema::default()
    }

    /// Adds a protocol for listeners.
    #[must_use]
    pub fn protocol<S: ProtocolSection>(mut self) -> Schema {
        self.protocols.push(ProtocolKind {
            kind: S::KIND,
            definition: S::Text::schema_name().into_owned(),
            define: SchemaGenerator::subschema_for::<S::Text>,
            read: read_protocol::<S>,
            takes: S::TAKES,
            keys: keys_of::<S::Text>,
        });
        self
    }

    /// Adds keys of listeners.
    #[must_use]
    pub fn listener<S: ListenerSection>(mut self) -> Schema {
        self.listeners.push(ListenerKind::of::<S>());
        self
    }

    /// Adds a section.
    #[must_use]
    pub fn section<S: Section>(mut self) -> Schema {
        self.sections.push(SectionKind::of::<S>());
        self
    }

    /// Adds a kind of channel.
    #[must_use]
    pub fn channel<S: ChannelSection>(mut self) -> Schema {
        self.channels.push(ChannelKind {
            key: S::KEY,
            summary: S::SUMMARY,
            example: S::EXAMPLE,
            defaults: S::DEFAULTS,
            elsewhere: S::ELSEWHERE,
            definition: S::Text::schema_name().into_owned(),
            define: SchemaGenerator::subschema_for::<S::Text>,
            read: read::<S>,
            mailbox_at: S::mailbox_at,
        });
        self
    }

    /// Adds a kind of stage.
    #[must_use]
    pub fn stage<S: StageSection>(mut self) -> Schema {
        self.stages.push(StageKind {
            key: S::KEY,
            summary: S::SUMMARY,
            definition: S::Text::schema_name().into_owned(),
            define: SchemaGenerator::subschema_for::<S::Text>,
            read: read_stage::<S>,
        });
        self
    }

    /// Adds a kind of table.
    #[must_use]
    pub fn table<S: TableSection>(mut self) -> Schema {
        self.tables.push(TableKind {
            key: S::KEY,
            summary: S::SUMMARY,
            example: S::EXAMPLE,
            is_remote: S::IS_REMOTE,
            requests_max: S::REQUESTS_MAX,
            definition: S::Text::schema_name().into_owned(),
            define: SchemaGenerator::subschema_for::<S::Text>,
            read: read_table::<S>,
        });
        self
    }

    /// Names a kind of table missing in this build, and the feature that would add it, for the error shown at its use.
    #[must_use]
    pub fn absent_table(mut self, key: &'static str, feature: &'static str) -> Schema {
        self.absent_tables.push((key, feature));
        self
    }

    pub(super) fn tables(&self) -> &[TableKind] {
        &self.tables
    }

    /// The service that applies a new section of this key at a reload, by its owner; `None` without an owner.
    #[must_use]
    pub fn in_force_by(&self, key: &str) -> Option<&'static str> {
        self.sections.iter().find(|kind| kind.key == key).map(|kind| kind.in_force_by)
    }

    pub(super) fn sections(&self) -> &[SectionKind] {
        &self.sections
    }

    pub(super) fn listeners(&self) -> &[ListenerKind] {
        &self.listeners
    }

    pub(super) fn protocols(&self) -> &[ProtocolKind] {
        &self.protocols
    }

    pub(super) fn stages(&self) -> &[StageKind] {
        &self.stages
    }

    pub(super) fn channels(&self) -> &[ChannelKind] {
        &self.channels
    }

    /// Settings that keep mail in a directory of this machine, by the first kind that can.
    pub(super) fn mailbox_at(&self, path: &str, quota_bytes: u64) -> Option<Arc<dyn Settings>> {
        self.channels.iter().find_map(|kind| (kind.mailbox_at)(path, quota_bytes))
    }
}

impl OwnedKeys for Schema {
    fn missing_feature(&self, section: &str, key: &str) -> Option<&'static str> {
        let mut absent = self.absent_tables.iter().filter(|_| section == "table");
        absent.find(|(absent, _)| *absent == key).map(|(_, feature)| *feature)
    }

    fn elsewhere(&self, section: &str, key: &str) -> Option<&'static str> {
        let kind = section.strip_prefix("route.")?;
        let kind = self.channels.iter().find(|channel| channel.key == kind)?;
        kind.elsewhere.iter().find(|(keys, _)| keys.contains(&key)).map(|(_, reason)| *reason)
    }
}
