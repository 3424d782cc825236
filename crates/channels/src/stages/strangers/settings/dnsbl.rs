//! DNSBL settings.

use crate::stages::action::Check;
use auth::dnsbl::{DnsList, DnsblEntry, DnsblIdentity};
use auth::judgement::ActionLimit;
use config::Reader;
use config::quantity::Period;
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::time::Duration;

/// Maximum number of lists at one listener. Each client costs a lookup in each.
const LISTS_MAX: usize = 32;

/// Maximum timeout for a list: the client waits for its reply that long.
const TIMEOUT_MAX: Duration = Duration::from_secs(30);

/// DNS block lists: names, or a table with weights.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum DnsblText {
    /// Each list alone causes a rejection.
    Lists(Vec<String>),
    /// Lists with weights, and the action.
    Table(Box<DnsblTable>),
}

/// DNS block lists with weights.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DnsblTable {
    /// Lists of client addresses, in Postfix's form: `zone`, `zone=127.0.0.[2..11]` (only these results count),
    /// `zone=127.0.0.4*2` (with a weight; default 1). Allow lists have a negative weight.
    lists: Vec<String>,
    /// Lists of domains for the client's HELO name.
    helo_lists: Vec<String>,
    /// Lists of domains for the sender's domain.
    sender_lists: Vec<String>,
    /// Minimum total weight for the action.
    #[schemars(range(min = 1))]
    threshold: u32,
    /// Action for a listed client.
    action: Check,
    /// Timeout for a reply of one list. All lists together take at most 10 seconds.
    timeout: Period,
}

impl Default for DnsblTable {
    fn default() -> DnsblTable {
        DnsblTable {
            lists: Vec::new(),
            helo_lists: Vec::new(),
            sender_lists: Vec::new(),
            threshold: 1,
            action: Check::Reject,
            timeout: "3s".into(),
        }
    }
}

impl<'de> Deserialize<'de> for DnsblText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DnsblText, D::Error> {
        deserializer.deserialize_any(ListsOrTable)
    }
}

/// Reports the error in the form that was used. A derived deserializer only reports that no form matches.
struct ListsOrTable;

impl<'de> Visitor<'de> for ListsOrTable {
    type Value = DnsblText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of lists or a table")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, lists: A) -> Result<DnsblText, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(lists)).map(DnsblText::Lists)
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<DnsblText, A::Error> {
        let table = DnsblTable::deserialize(MapAccessDeserializer::new(table))?;
        Ok(DnsblText::Table(Box::new(table)))
    }
}

/// The lists and the action for listed clients.
#[derive(Clone, Debug)]
pub(crate) struct Dnsbl {
    pub(crate) lists: Vec<DnsList>,
    pub(crate) threshold: i32,
    pub(crate) power: ActionLimit,
    /// Timeout for a reply.
    pub(crate) timeout: Duration,
}

impl DnsblText {
    pub(crate) fn read(&self, reader: &mut Reader<'_, '_>) -> Option<Dnsbl> {
        let default = DnsblTable::default();
        let (table, keys) = match self {
            DnsblText::Lists(lists) => {
                let table = DnsblTable { lists: lists.clone(), ..default };
                (table, ["checks.dnsbl", "", ""])
            }
            DnsblText::Table(table) => (
                (**table).clone(),
                ["checks.dnsbl.lists", "checks.dnsbl.helo_lists", "checks.dnsbl.sender_lists"],
            ),
        };
        let kinds = [
            (DnsblIdentity::Client, &table.lists),
            (DnsblIdentity::Helo, &table.helo_lists),
            (DnsblIdentity::Sender, &table.sender_lists),
        ];
        let mut entries = Vec::new();
        for ((by, texts), key) in kinds.into_iter().zip(keys) {
            for (index, text) in texts.iter().enumerate() {
                match DnsblEntry::parse(text) {
                    Ok(entry) => entries.push((by, entry)),
                    Err(why) => reader.error(&format!("{key}[{index}]"), why, HELP),
                }
            }
        }
        let lists = DnsList::of(entries);
        if lists.len() > LISTS_MAX {
            let message = format!("at most {LISTS_MAX} lists");
            reader.error("checks.dnsbl", message, "");
        }
        reader.check_timeout("checks.dnsbl.timeout", &table.timeout);
        if table.timeout.get() > TIMEOUT_MAX {
            let message = "longer than 30 seconds";
            reader.error("checks.dnsbl.timeout", message, "the client waits for this time");
        }
        let threshold = i32::try_from(table.threshold).unwrap_or(i32::MAX);
        let (power, timeout) = (table.action.power(), table.timeout.get());
        let is_asked = !lists.is_empty() && power.is_made();
        is_asked.then_some(Dnsbl { lists, threshold, power, timeout })
    }
}

/// Correct forms of entries.
const HELP: &str = "write a list as \"zen.example\", \"zen.example=127.0.0.[2..11]\" or \
 \"zen.example=127.0.0.4*2\"";
