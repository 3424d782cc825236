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

/// Greylisting: `true`, or a table of settings.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum GreylistText {
    /// The default settings, or off.
    Word(bool),
    /// Settings.
    Table(Box<GreylistTable>),
}

/// Greylisting settings.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GreylistTable {
    /// Minimum time between the first attempt and one that is accepted. Earlier attempts are deferred for the remaining
    /// time. At most a day.
    delay: Period,
    /// Maximum time between the first attempt and a retry. A later attempt counts as a first one.
    retry_window: Period,
    /// Time for which a successful combination is remembered, counted from its last use.
    remember: Period,
    /// Number of successful senders or recipients, at most one counted per hour, after which a client is not greylisted
    /// any more. 0 for never.
    clients_after: u32,
    /// Length of the IPv4 prefix that identifies a client.
    #[schemars(range(min = 8, max = 32))]
    ipv4_prefix: u32,
    /// Length of the IPv6 prefix that identifies a client.
    #[schemars(range(min = 16, max = 128))]
    ipv6_prefix: u32,
    /// Treat all clients that pass SPF for the sender's domain as one client. Large senders retry from several
    /// networks.
    by_spf: bool,
    /// Table of exempt clients, by address or network.
    #[serde(skip_serializing_if = "Option::is_none")]
    exempt_clients: Option<TableRefText>,
    /// Table of exempt recipients, by address or domain.
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
            let message = "longer than a day";
            reader.error(&format!("{at}.delay"), message, "\"5m\" is usual");
        } else if rules.retry_window <= rules.delay {
            let help = "it starts with the first attempt, as `delay` does";
            let message = "`retry_window` ends before `delay`: no retry would be in time";
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
