//! `[steering]` as it is written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Header fields by which clients in a listener's `steering_from` say how a message is to be sent. They are
/// left out of what is sent, signed and returned; from everybody else they are content like any other. A
/// value that can't be read is refused, with 550 5.6.0 and the name of the field. See `docs/steering.md`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SteeringText {
    /// The field that names the tenant whose mail it is, such as `"X-Tenant"`: 1 to 128 printable
    /// characters of ASCII but for `<` and `>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The field that names the campaign: what has the same waits together. As a tenant's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// The field that names the `[[pool]]` that it is sent from, in place of the route's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The field with the priority, from -9 to 9 as in MT-PRIORITY (RFC 6710); 0 is what all other mail has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// The field with the time before which it is not sent: as in RFC 3339 (`2026-12-01T09:00:00+01:00`) or
    /// as in a Date field (RFC 5322). At most a year ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// The field with the time from which on it is not sent, but returned (5.4.7), likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The field with the hours in which it is sent: `mon-fri 09:00-17:00 Europe/Berlin`, or several of
    /// these with commas between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
}
