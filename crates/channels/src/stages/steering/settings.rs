//! `[steering]`: header fields that set delivery options.

use config::{Area, Reader, Rest, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fields that must not be removed: a message needs them, or servers add them for tracing.
const NEEDED: [&str; 12] = [
    "From",
    "Sender",
    "To",
    "Cc",
    "Date",
    "Message-ID",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Received",
    "Return-Path",
    "DKIM-Signature",
];

/// Header fields that set delivery options, from clients in a listener's `steering_from`. They are removed from the
/// message before it is signed, sent or returned. For all other clients these fields are ordinary content. An invalid
/// value is rejected with 550 5.6.0 and the name of the field. See `docs/steering.md`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SteeringText {
    /// Field with the tenant, for example `"X-Tenant"`. Values are 1 to 128 printable ASCII characters without `<` and
    /// `>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// Field with the campaign. Messages of one campaign are queued together. Values are as for `tenant`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) campaign: Option<String>,
    /// Field with the `[[pool]]` to send from, instead of the route's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pool: Option<String>,
    /// Field with the priority, from -9 to 9 as in MT-PRIORITY (RFC 6710). All other mail has priority 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<String>,
    /// Field with the earliest time of sending, in the form of RFC 3339 (`2026-12-01T09:00:00+01:00`) or of a Date
    /// field (RFC 5322). At most a year ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_before: Option<String>,
    /// Field with the time after which the message is not sent but bounced (5.4.7), in the form of `not_before`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<String>,
    /// Field with the hours for sending: `mon-fri 09:00-17:00 Europe/Berlin`, or several of these separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<String>,
}

/// Option that a steering field sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SteeringKey {
    /// The tenant of the message.
    Tenant,
    /// The campaign: messages of one campaign are queued together.
    Campaign,
    /// The pool to send from.
    Pool,
    /// The priority over other mail.
    Priority,
    /// The earliest time of sending.
    NotBefore,
    /// The time of expiry.
    Expires,
    /// Hours in which it is sent.
    Window,
}

/// `[steering]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SteeringFields {
    /// Names of the fields, unique regardless of case.
    pub(crate) fields: Vec<(SteeringKey, Box<str>)>,
}

impl Section for SteeringFields {
    const KEY: &'static str = "steering";
    const SUMMARY: &'static str = "Header fields by which clients steer delivery.";
    const AREA: Area = Area::Intake;
    const IN_FORCE_BY: &'static str = "shards";
    type Text = SteeringText;
    type Value = SteeringFields;

    fn read(text: SteeringText, reader: &mut Reader<'_, '_>) -> Option<SteeringFields> {
        let keys = [
            ("tenant", SteeringKey::Tenant, text.tenant),
            ("campaign", SteeringKey::Campaign, text.campaign),
            ("pool", SteeringKey::Pool, text.pool),
            ("priority", SteeringKey::Priority, text.priority),
            ("not_before", SteeringKey::NotBefore, text.not_before),
            ("expires", SteeringKey::Expires, text.expires),
            ("window", SteeringKey::Window, text.window),
        ];
        let mut fields: Vec<(SteeringKey, Box<str>)> = Vec::new();
        for (key, meaning, name) in keys {
            let Some(name) = name else { continue };
            // RFC 5322 §2.2.
            let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b':';
            if name.is_empty() || name.len() > 76 || !name.bytes().all(is_name) {
                let help = "1 to 76 printable ASCII characters without spaces and colons";
                reader.error(key, format!("\"{name}\" is not a field name"), help);
            } else if NEEDED.iter().any(|needed| needed.eq_ignore_ascii_case(&name)) {
                let help = "choose another name, for example \"X-Tenant\"";
                reader.error(key, format!("{name} would be removed from sent mail"), help);
            } else if fields.iter().any(|(_, other)| other.eq_ignore_ascii_case(&name)) {
                reader.error(key, format!("{name} is already used for another key"), "");
            } else {
                fields.push((meaning, name.into()));
            }
        }
        (!fields.is_empty()).then_some(SteeringFields { fields })
    }

    /// Warns if no listener trusts any client with these fields.
    fn review(value: Option<&SteeringFields>, rest: &Rest<'_>, reader: &mut Reader<'_, '_>) {
        let is_obeyed = rest.listeners.iter().any(|one| !one.steering_from.is_empty());
        if value.is_some() && !is_obeyed {
            let help =
                "name the trusted clients: steering_from = [\"127.0.0.0/8\"] in a [[listener]]";
            reader.warn("", "no client may use steering fields", help);
        }
    }
}
