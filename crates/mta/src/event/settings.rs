//! `[events]`: the event log.

use config::quantity::{DurationText, SizeText};
use config::{KeyTable, NEXT_START, Reader, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of header fields in an event.
const HEADERS_MAX: usize = 16;

/// The event log: `"off"`, `"on"`, or a table of settings.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum EventsText {
    /// The default settings, or off.
    Word(EventsWord),
    /// Settings.
    Table(EventsTable),
}

impl Default for EventsText {
    fn default() -> EventsText {
        EventsText::Word(EventsWord::On)
    }
}

/// The event log without settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventsWord {
    /// Write events with the default settings.
    On,
    /// Write no events.
    Off,
}

/// The event log: one JSON object per line for each event of a message.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EventsTable {
    /// The log file; rotated files are in the same directory. Default: `events.jsonl` in the first spool directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Size at which the file is rotated. 0 for never.
    pub rotate_bytes: SizeText,
    /// Age at which the file is rotated. `"0"` for never.
    pub rotate_after: DurationText,
    /// Number of rotated files to keep; older ones are removed. 0 for all.
    pub keep_files: u32,
    /// Maximum number of events waiting to be written. If the log's disk is slow, events are written later; mail is not
    /// delayed.
    #[schemars(range(min = 1))]
    pub waiting_max: u32,
    /// Names of header fields, for example `["Subject"]`, to include in the `received` event; at most 16. See
    /// `docs/events.md`.
    pub headers: Vec<String>,
}

impl Default for EventsTable {
    fn default() -> EventsTable {
        EventsTable {
            path: None,
            rotate_bytes: "100MiB".into(),
            rotate_after: "1d".into(),
            keep_files: 14,
            waiting_max: 65_536,
            headers: Vec::new(),
        }
    }
}

/// The file of the event log, and its rotation.
#[derive(Clone, Debug, PartialEq)]
pub struct EventFile {
    pub path: PathBuf,
    /// `None`: by age only.
    pub rotate_bytes: Option<u64>,
    /// `None`: by size only.
    pub rotate_after: Option<Duration>,
    /// Rotated files kept; `None`: all.
    pub keep_files: Option<u32>,
    /// Maximum number of waiting events.
    pub waiting_max: u32,
}

/// `events`, when enabled.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSettings {
    /// File of the log.
    pub file: EventFile,
    /// Header fields included in events, without duplicates.
    pub headers: Arc<[Arc<str>]>,
}

impl Section for EventSettings {
    const KEY: &'static str = "events";
    const SUMMARY: &'static str =
        "The event log, the history of each message. `\"off\"` for none, or a table.";
    const IN_FORCE_BY: &'static str = NEXT_START;
    type Text = EventsText;
    type Value = EventSettings;

    fn read(text: EventsText, reader: &mut Reader<'_, '_>) -> Option<EventSettings> {
        let table = match text {
            EventsText::Word(EventsWord::Off) => return None,
            EventsText::Word(EventsWord::On) => EventsTable::default(),
            EventsText::Table(table) => table,
        };
        let file = file(&table, reader);
        Some(EventSettings { file, headers: headers(&table.headers, reader) })
    }

    fn page() -> Vec<KeyTable> {
        vec![KeyTable::of::<EventsTable>("events", "[events]")]
    }
}

fn file(table: &EventsTable, reader: &mut Reader<'_, '_>) -> EventFile {
    let path = match &table.path {
        Some(text) => reader.file_path("path", text),
        None => reader.first_spool().join("events.jsonl"),
    };
    let rotate_bytes = reader.size("rotate_bytes", &table.rotate_bytes);
    if rotate_bytes > 0 && rotate_bytes < 4_096 {
        reader.error("rotate_bytes", "less than 4096 bytes", "");
    }
    let rotate_after = reader.duration("rotate_after", &table.rotate_after);
    if !rotate_after.is_zero() && rotate_after < Duration::from_secs(1) {
        reader.error("rotate_after", "less than a second", "");
    }
    EventFile {
        path,
        rotate_bytes: (rotate_bytes > 0).then_some(rotate_bytes),
        rotate_after: (!rotate_after.is_zero()).then_some(rotate_after),
        keep_files: (table.keep_files > 0).then_some(table.keep_files),
        waiting_max: table.waiting_max,
    }
}

/// The names of the fields without duplicates, case-insensitive.
fn headers(written: &[String], reader: &mut Reader<'_, '_>) -> Arc<[Arc<str>]> {
    if written.len() > HEADERS_MAX {
        reader.error("headers", format!("more than {HEADERS_MAX} header fields"), "");
        return Arc::default();
    }
    let mut names: Vec<Arc<str>> = Vec::new();
    for (index, name) in written.iter().enumerate() {
        let path = format!("headers[{index}]");
        // RFC 5322 §2.2.
        let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b':';
        if name.is_empty() || name.len() > 76 || !name.bytes().all(is_name) {
            let help = "1 to 76 printable ASCII characters without spaces and colons";
            reader.error(&path, format!("\"{name}\" is not a field name"), help);
        } else if names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            reader.error(&path, format!("{name} is listed twice"), "");
        } else {
            names.push(name.as_str().into());
        }
    }
    names.into()
}
