//! Settings of a listener's milters (`milters`).

use crate::values;
use config::quantity::Period;
use config::{Explainer, Listener, ListenerSection, Reader};
use mta::seams::Endpoint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Maximum timeout for a reply: clients wait five minutes for replies to commands (RFC 5321 §4.5.3.2.3).
const COMMAND_TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// The same for content: clients wait ten minutes for the final reply (RFC 5321 §4.5.3.2.6).
const CONTENT_TIMEOUT_MAX: Duration = Duration::from_secs(480);
/// Maximum number of filters at one listener. Each has a connection for each session.
const MILTERS_MAX: usize = 10;

/// Keys of a `[[listener]]` for milters.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct MilterKeys {
    /// Milters (Sendmail's filter protocol) for all sessions and messages of this listener, in order; each sees the
    /// changes of the previous ones. Example: `[{ address = "127.0.0.1:11332", on_failure = "accept" }]`. `address` is
    /// an IP address and port, or `unix:` and the path of a socket. `on_failure` is the action if the milter fails:
    /// `"tempfail"` (the default), `"accept"` or `"reject"`. The timeouts are `connect_timeout` (30s),
    /// `command_timeout` (30s) and `content_timeout` (5m). See `docs/milters.md`.
    milters: Vec<MilterText>,
}

impl ListenerSection for MilterKeys {
    type Text = MilterKeys;
    type Value = Vec<Milter>;

    fn read(text: MilterKeys, reader: &mut Reader<'_, '_>) -> Option<Vec<Milter>> {
        Some(read(&text.milters, reader))
    }

    fn explain(milters: &Vec<Milter>, explainer: &mut Explainer<'_>) {
        explain(milters, explainer);
    }
}

impl MilterKeys {
    /// The filters of a listener.
    pub(in crate::stages) fn at(listener: &Listener) -> &[Milter] {
        listener.of::<MilterKeys>().map_or(&[], Vec::as_slice)
    }
}

/// A milter.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MilterText {
    /// Address of the milter: an IP address and port, or `unix:` and the path of a socket. Required.
    #[schemars(extend("title" = "address:port or unix:path"))]
    address: String,
    /// Action if the milter can't be reached, does not reply in time, or sends an invalid reply.
    on_failure: OnFailure,
    /// Timeout for a connection and its negotiation. At most a minute.
    connect_timeout: Period,
    /// Timeout for a reply before the content. At most a minute.
    command_timeout: Period,
    /// Timeout for a reply to a piece of content, and after each progress reply at the end. At most eight minutes, for
    /// all milters together.
    content_timeout: Period,
}

impl Default for MilterText {
    fn default() -> MilterText {
        MilterText {
            address: String::new(),
            on_failure: OnFailure::Tempfail,
            connect_timeout: "30s".into(),
            command_timeout: "30s".into(),
            content_timeout: "5m".into(),
        }
    }
}

/// Action if a milter fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnFailure {
    /// Defer with 451 4.7.1.
    #[default]
    Tempfail,
    /// Accept as if the milter were not configured.
    Accept,
    /// Reject with 550 5.7.1.
    Reject,
}

impl fmt::Display for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnFailure::Tempfail => "tempfail",
            OnFailure::Accept => "accept",
            OnFailure::Reject => "reject",
        })
    }
}

/// A filter and its timeouts.
#[derive(Clone, Debug)]
pub(crate) struct Milter {
    pub(crate) endpoint: Endpoint,
    /// Its address as written.
    pub(crate) name: String,
    pub(crate) on_failure: OnFailure,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) content_timeout: Duration,
}

fn read(texts: &[MilterText], reader: &mut Reader<'_, '_>) -> Vec<Milter> {
    if texts.len() > MILTERS_MAX {
        let message = format!("{} milters at one listener", texts.len());
        reader.error("milters", message, &format!("at most {MILTERS_MAX}"));
    }
    let milters = texts.iter().enumerate();
    milters.filter_map(|(at, text)| text.read(&format!("milters[{at}]"), reader)).collect()
}

impl MilterText {
    fn read(&self, at: &str, reader: &mut Reader<'_, '_>) -> Option<Milter> {
        for (key, timeout, max) in [
            ("connect_timeout", &self.connect_timeout, COMMAND_TIMEOUT_MAX),
            ("command_timeout", &self.command_timeout, COMMAND_TIMEOUT_MAX),
            ("content_timeout", &self.content_timeout, CONTENT_TIMEOUT_MAX),
        ] {
            let key = format!("{at}.{key}");
            reader.check_timeout(&key, timeout);
            if timeout.get() > max {
                let message = format!("at most {} s", max.as_secs());
                reader.error(&key, message, "clients wait only a few minutes for a reply");
            }
        }
        if self.address.is_empty() {
            let help = "name its address, for example address = \"127.0.0.1:11332\"";
            reader.error(at, "a milter without `address`", help);
            return None;
        }
        let Some(endpoint) = values::read(&self.address) else {
            let message = format!("\"{}\" is not a milter address", self.address);
            reader.error(&format!("{at}.address"), message, values::HELP);
            return None;
        };
        Some(Milter {
            endpoint,
            name: self.address.clone(),
            on_failure: self.on_failure,
            connect_timeout: self.connect_timeout.get(),
            command_timeout: self.command_timeout.get(),
            content_timeout: self.content_timeout.get(),
        })
    }
}

/// Shows the milters in order, each with its failure action.
fn explain(milters: &[Milter], explainer: &mut Explainer<'_>) {
    let shown: Vec<String> = milters
        .iter()
        .map(|milter| format!("{} (on failure: {})", milter.name, milter.on_failure))
        .collect();
    if !shown.is_empty() {
        explainer.own_key("milters", shown.join(", then "));
    }
}
