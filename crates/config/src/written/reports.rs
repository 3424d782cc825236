//! `[reports]` as it is written.

use crate::quantity::DurationText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What senders are told of the fate of their mail (delivery status notifications, RFC 3464). One
/// report names all recipients of a message whose fate was decided together, up to 100, and counts
/// the rest.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReportsText {
    /// Whom reports are addressed to: `"sender"`; `"nobody"`: none are sent; or the address of
    /// somebody who gets them instead.
    pub to: String,
    /// An address that gets a copy of each report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_to: Option<String>,
    /// A Maildir in which each report is kept as a file, sent or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// What reports of a failure return of the message.
    pub returns: Returns,
    /// So many reports go to one sender in an hour about mail from strangers (clients that are not
    /// in `relay_from`), whose senders are often forged; what is over is logged as
    /// `dsn_suppressed`. 0: no limit.
    pub per_sender_per_hour: u32,
    /// Whether senders of strangers' mail are told of delays, too. Of failures they are.
    pub delays_to_strangers: bool,
    /// Who is told of mail without a sender, such as a report, that failed. Without it that is
    /// only logged: such mail is mostly an answer to a forged sender, and who reads of each of
    /// these soon reads none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub double_bounce_to: Option<String>,
    /// When mail without a sender is tried again: keys of `[retry]`, or the route's, that differ.
    /// Not to be set per route.
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

/// What a report of a failure returns of the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Returns {
    /// All of it where the sender asked for it (RET=FULL), up to 64 KiB; else its header.
    #[default]
    Full,
    /// Its header, up to 16 KiB.
    Headers,
}

/// Keys of `[retry]` that differ for mail without a sender.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReportRetryText {
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<DurationText>,
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<DurationText>,
    /// See `[retry]`. Without it: 2 days, or as other mail if that is given up sooner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub give_up_after: Option<DurationText>,
}

/// Keys of `[reports]` that differ for one route: they decide about reports on its recipients.
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
