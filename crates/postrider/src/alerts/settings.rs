//! `[alerts]`.

use config::quantity::DurationText;
use config::{Reader, Section, WebPlace};
use mail::Mailbox;
use mta::problems::Severity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of addresses.
const ADDRESSES_MAX: usize = 8;
/// Minimum of `every`.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// Alerts about [problems](../problems.md) by mail, to a web server, or both. The first alert is sent at once, further
/// ones after `every`, with all changes since; one reports the end of all problems. Default: no alerts. See
/// `docs/alerts.md`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AlertsText {
    /// Mail addresses, at most 8. `"postmaster"` is this server's postmaster.
    pub(crate) to: Vec<String>,
    /// Address in the header field From. The envelope sender is null, so that no alert is returned. Default: this
    /// server's postmaster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    /// Web server that gets each alert as JSON, by POST.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) webhook: Option<WebhookText>,
    /// Lowest severity of problems that are reported.
    pub(crate) severity: AlertSeverity,
    /// Minimum time between two alerts to the same receiver.
    pub(crate) every: DurationText,
}

impl Default for AlertsText {
    fn default() -> AlertsText {
        AlertsText {
            to: Vec::new(),
            from: None,
            webhook: None,
            severity: AlertSeverity::default(),
            every: "1h".into(),
        }
    }
}

/// Web server for alerts.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebhookText {
    /// `https://…`; `http://` for this machine only. Required. The certificate must be valid for the host. Redirects
    /// are not followed.
    pub(crate) url: String,
    /// PEM file with the certificate authorities for the web server's certificate. Default: those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<String>,
}

/// Lowest severity of reported problems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AlertSeverity {
    /// Mail is refused or stands still.
    #[default]
    Error,
    /// Also: mail continues, and an operator should look.
    Warning,
    /// Also: next hops of a few recipients are down.
    Notice,
}

impl AlertSeverity {
    /// Returns true if problems of this severity are reported.
    pub(crate) fn includes(self, severity: Severity) -> bool {
        match self {
            AlertSeverity::Error => severity == Severity::Error,
            AlertSeverity::Warning => severity != Severity::Notice,
            AlertSeverity::Notice => true,
        }
    }
}

/// `[alerts]`, if there is a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlertSettings {
    pub(crate) to: Vec<Mailbox>,
    pub(crate) from: Option<Mailbox>,
    pub(crate) webhook: Option<Webhook>,
    pub(crate) severity: AlertSeverity,
    pub(crate) every: Duration,
}

/// Web server for alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Webhook {
    pub(crate) at: WebPlace,
    /// `None`: the roots of this machine.
    pub(crate) ca_file: Option<PathBuf>,
}

impl Section for AlertSettings {
    const KEY: &'static str = "alerts";
    const SUMMARY: &'static str = "Alerts about problems, by mail or to a web server.";
    const IN_FORCE_BY: &'static str = "alerts";
    type Text = AlertsText;
    type Value = AlertSettings;

    fn read(text: AlertsText, reader: &mut Reader<'_, '_>) -> Option<AlertSettings> {
        let every = reader.duration("every", &text.every);
        if every < EVERY_MIN {
            reader.error("every", "shorter than a second", "at least \"1s\"");
        }
        if text.to.len() > ADDRESSES_MAX {
            let help = "use an alias or a list";
            reader.error("to", format!("more than {ADDRESSES_MAX} addresses"), help);
        }
        let mut to = Vec::new();
        for (at, address) in text.to.iter().enumerate() {
            let key = format!("to[{at}]");
            let Some(mailbox) = receiver(reader, &key, address) else { continue };
            if to.contains(&mailbox) {
                reader.error(&key, format!("\"{address}\" is listed twice"), "");
            }
            to.push(mailbox);
        }
        let from = match text.from.as_deref() {
            Some(from) => Some(reader.mailbox("from", from)?),
            None => None,
        };
        let webhook = match &text.webhook {
            Some(webhook) => Some(read_webhook(webhook, reader)?),
            None => None,
        };
        if text.to.is_empty() && webhook.is_none() {
            if reader.is_written("") {
                let help = "set `to`, for example to = [\"postmaster\"], or `webhook`";
                reader.error("", "alerts without a receiver", help);
            }
            return None;
        }
        Some(AlertSettings { to, from, webhook, severity: text.severity, every })
    }
}

/// An address with its domain, or the postmaster.
fn receiver(reader: &mut Reader<'_, '_>, key: &str, text: &str) -> Option<Mailbox> {
    match text.eq_ignore_ascii_case("postmaster") {
        true => Mailbox::parse("postmaster", false).ok(),
        false => reader.mailbox(key, text),
    }
}

fn read_webhook(text: &WebhookText, reader: &mut Reader<'_, '_>) -> Option<Webhook> {
    let ca_file = text.ca_file.as_deref().map(|path| reader.file_path("webhook.ca_file", path));
    match WebPlace::parse(&text.url) {
        Ok(at) => Some(Webhook { at, ca_file }),
        Err(why) => {
            let key = if text.url.is_empty() { "webhook" } else { "webhook.url" };
            let help = "for example { url = \"https://alerts.example.org/postrider\" }";
            // The path may be a secret.
            reader.error(key, format!("not the URL of a web server: {why}"), help);
            None
        }
    }
}
