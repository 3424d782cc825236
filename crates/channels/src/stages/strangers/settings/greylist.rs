//! Greylisting settings.

use super::{Exempt, ExemptText};
use auth::greylist::GreylistPolicy;
use config::quantity::Period;
use config::{Reader, TableRefText};
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::time::Duration;

/// Maximum delay of a client: many servers expire mail after days, and users wait.
const DELAY_MAX: Duration = Duration::from_secs(86_400);

/// Greylisting: `true`, or a table that says how.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum GreylistText {
    /// As usual, or not at all.
    Word(bool),
    /// So.
    Table(Box<GreylistTable>),
}

/// How greylisting is done.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GreylistTable {
    /// Whoever comes for the first time is put off for so long, and whoever comes again earlier for the
    /// rest of it. At most a day.
    delay: Period,
    /// Whoever comes again only after so long comes for the first time.
    retry_window: Period,
    /// So long after they were seen last those are remembered who have come again.
    remember: Period,
    /// A client that has come again for so many recipients or senders, one an hour at most, is not put off
    /// any more. 0: none is spared.
    clients_after: u32,
    /// Clients are the same whose IPv4 addresses begin with so many bits.
    #[schemars(range(min = 8, max = 32))]
    ipv4_prefix: u32,
    /// The same for IPv6.
    #[schemars(range(min = 16, max = 128))]
    ipv6_prefix: u32,
    /// Clients are the same, whatever their addresses, that send for a domain which says by SPF that they
    /// may: large senders come again from other networks.
    by_spf: bool,
    /// The table of clients, by address or network, that are not put off.
    #[serde(skip_serializing_if = "Option::is_none")]
    exempt_clients: Option<TableRefText>,
    /// The same for recipients, by address or domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    exempt_recipients: Option<TableRefText>,
}

impl Default for GreylistTable {
    fn default() -> GreylistTable {
        GreylistTable {
            delay: "5m".into(),
            retry_window: "2d".into(),
            remember: "35d".into(),
            clients_after: 5,
            ipv4_prefix: 24,
            ipv6_prefix: 64,
            by_spf: true,
            exempt_clients: None,
            exempt_recipients: None,
        }
    }
}

impl<'de> Deserialize<'de> for GreylistText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GreylistText, D::Error> {
        deserializer.deserialize_any(WordOrTable)
    }
}

/// Reports the error in a table. A derived deserializer only reports that no form matches.
struct WordOrTable;

impl<'de> Visitor<'de> for WordOrTable {
    type Value = GreylistText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or a table")
    }

    fn visit_bool<E: Error>(self, word: bool) -> Result<GreylistText, E> {
        Ok(GreylistText::Word(word))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<GreylistText, A::Error> {
        let table = GreylistTable::deserialize(MapAccessDeserializer::new(table))?;
        Ok(GreylistText::Table(Box::new(table)))
    }
}

/// Greylisting of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Greylist {
    pub(crate) rules: GreylistPolicy,
    /// Bits of IPv4 addresses.
    pub(crate) ipv4_prefix: u8,
    /// Bits of IPv6 addresses.
    pub(crate) ipv6_prefix: u8,
    pub(crate) by_spf: bool,
    pub(crate) exempt: Exempt,
}

impl GreylistText {
    pub(crate) fn read(&self, reader: &mut Reader<'_, '_>) -> Option<Greylist> {
        let table = match self {
            GreylistText::Word(false) => return None,
            GreylistText::Word(true) => &GreylistTable::default(),
            GreylistText::Table(table) => table,
        };
        let at = "checks.greylist";
        for (key, period) in [
            ("delay", &table.delay),
            ("retry_window", &table.retry_window),
            ("remember", &table.remember),
        ] {
            reader.check_timeout(&format!("{at}.{key}"), period);
        }
        let rules = GreylistPolicy {
            delay: table.delay.get(),
            retry_window: table.retry_window.get(),
            remember: table.remember.get(),
            clients_after: table.clients_after,
        };
        if rules.delay > DELAY_MAX {
            let message = "nobody is put off for longer than a day";
            reader.error(&format!("{at}.delay"), message, "the usual is \"5m\"");
        } else if rules.retry_window <= rules.delay {
            let help = "it counts from the first time, as `delay` does";
            let message = "whoever has waited would be too late";
            reader.error(&format!("{at}.retry_window"), message, help);
        }
        let exempt: ExemptText<'_> = (&table.exempt_clients, &table.exempt_recipients);
        let bits = |bits| u8::try_from(bits).unwrap_or(u8::MAX);
        Some(Greylist {
            rules,
            ipv4_prefix: bits(table.ipv4_prefix),
            ipv6_prefix: bits(table.ipv6_prefix),
            by_spf: table.by_spf,
            exempt: Exempt::read(at, exempt, reader),
        })
    }
}
