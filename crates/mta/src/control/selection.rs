//! Selection of queued mail by a command.

use super::{RecipientState, text};
use ::classes::ReplyClass;
use mail::MessageId;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Selects queued recipients. All fields must match the same recipient; an empty filter matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// The recipient's domain, case-insensitive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The whole reverse-path of the message; empty for `<>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// The recipient's address, case-insensitive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipient: Option<String>,
    /// The client: its address, or its EHLO argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The authenticated user that submitted the message, case-insensitive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// State of the recipient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<RecipientState>,
    /// Name of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Its next hop, or one of the hop's hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<String>,
    /// The tenant of the mail; empty: mail without a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The campaign that the sender gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// The egress pool: the message's own, or else its tenant's or its route's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The provider of the hosts, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Text in the last failure or in the reason of the hold, case-insensitive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The class of the reply in its last failure.
    #[serde(with = "text::class_option", skip_serializing_if = "Option::is_none")]
    pub class: Option<ReplyClass>,
    /// Minimum age of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_than_ms: Option<u64>,
    /// Maximum age of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub younger_than_ms: Option<u64>,
    /// One of these recipients, unless the list is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<QueuedRecipient>,
}

/// A recipient of a queued message: `ID/INDEX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuedRecipient {
    pub id: MessageId,
    /// Its index in the envelope.
    pub index: u32,
}

impl Serialize for QueuedRecipient {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}/{}", self.id, self.index))
    }
}

impl<'de> Deserialize<'de> for QueuedRecipient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QueuedRecipient, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parse = || {
            let (id, index) = text.split_once('/')?;
            Some(QueuedRecipient { id: id.parse().ok()?, index: index.parse().ok()? })
        };
        parse().ok_or_else(|| D::Error::custom("a recipient is written as ID/INDEX"))
    }
}

/// The target of a command that changes the queue. There is no default: "all" must be explicit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Select {
    #[serde(with = "text::id")]
    Id(MessageId),
    Filter(Box<Filter>),
    All,
}

/// Returns true if `wanted` is the ready queue's name of the next hop (`smtp:out:mx1.example:25>mx2.example:25`) or one
/// of its hosts, with or without the port.
pub(crate) fn is_hop(next_hop: &str, wanted: &str) -> bool {
    let is = |text: &str| text.eq_ignore_ascii_case(wanted);
    // The name begins with channel and route, which contain no colon.
    let hosts = next_hop.splitn(3, ':').nth(2).unwrap_or("");
    let without_port = |host: &str| host.rsplit_once(':').is_some_and(|(name, _)| is(name));
    is(next_hop) || hosts.split([',', '>']).any(|host| is(host) || without_port(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_are_written_with_their_message() {
        let filter = Filter {
            recipients: vec![QueuedRecipient { id: MessageId(0x2a), index: 3 }],
            ..Filter::default()
        };
        let json = serde_json::to_string(&filter).unwrap();
        assert_eq!(json, r#"{"recipients":["000000000000002a/3"]}"#);
        assert_eq!(serde_json::from_str::<Filter>(&json).unwrap(), filter);
        assert_eq!(serde_json::to_string(&Filter::default()).unwrap(), "{}");
        for bad in ["", "000000000000002a", "000000000000002a/", "2a/3", "000000000000002a/x"] {
            let json = format!(r#"{{"recipients":["{bad}"]}}"#);
            assert!(serde_json::from_str::<Filter>(&json).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_next_hop_is_known_by_its_whole_name_and_by_each_host() {
        let hop = "smtp:out:mx1.example:25>[2001:db8::1]:25";
        for name in [hop, "MX1.example", "mx1.example:25", "[2001:db8::1]", "[2001:db8::1]:25"] {
            assert!(is_hop(hop, name), "{name}");
        }
        for name in ["", "mx2.example", "example", "smtp", "out", "25", "mx1.example:2525"] {
            assert!(!is_hop(hop, name), "{name}");
        }
    }
}
