//! `[reports]` as it is written.

use crate::quantity::DurationText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Delivery status notifications to senders (bounces and delay warnings, RFC 3464). One report covers all recipients of
/// a message decided at the same time; it lists up to 100 and counts the rest.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReportsText {
    /// Recipient of reports: `"sender"`, `"nobody"` for none, or an address that gets them instead of the sender.
    pub to: String,
    /// Address that gets a copy of each report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_to: Option<String>,
    /// Maildir that stores each report as a file, sent or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Part of the message returned in a failure report.
    pub returns: Returns,
    /// Maximum number of reports per hour to one sender about mail from clients that may not relay, because their
    /// senders are often forged. Further ones are logged as `dsn_suppressed`. 0 for no limit.
    pub per_sender_per_hour: u32,
    /// Send delay warnings also for mail from clients that may not relay. Failure reports are sent in any case.
    pub delays_to_strangers: bool,
    /// Recipient of reports about failed mail with an empty sender, for example a bounce. Default: these failures are
    /// only logged, since most concern replies to forged senders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub double_bounce_to: Option<String>,
    /// Keys of `[retry]` that differ for mail with an empty sender. Not available per route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<ReportRetryText>,
}

impl Default for ReportsText {
    fn default() -> ReportsText {
        ReportsText {
            to: "sender".to_owned(),
            copy_to: None,
            directory: None,
            returns: Returns::Full,
            per_sender_per_hour: 100,
            delays_to_strangers: false,
            double_bounce_to: None,
            retry: None,
        }
    }
}

/// Part of the message returned in a failure report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Returns {
    /// The whole message, up to 64 KiB, if the sender requested it (RET=FULL), otherwise its header.
    #[default]
    Full,
    /// The header, up to 16 KiB.
    Headers,
}

/// Keys of `[retry]` that differ for mail with an empty sender.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReportRetryText {
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<DurationText>,
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<DurationText>,
    /// See `[retry]`. Default: 2 days, or as for other mail if that expires sooner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub give_up_after: Option<DurationText>,
}

/// Keys of `[reports]` that differ for recipients of one route.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReportsOverrideText {
    /// See `[reports]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// See `[reports]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_to: Option<String>,
    /// See `[reports]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// See `[reports]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returns: Option<Returns>,
    /// See `[reports]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_sender_per_hour: Option<u32>,
    /// See `[reports]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delays_to_strangers: Option<bool>,
    /// See `[reports]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub double_bounce_to: Option<String>,
}
