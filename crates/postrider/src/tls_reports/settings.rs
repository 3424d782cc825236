//! `[tls_reports]`.

use crate::daily_reports::check_texts;
use config::quantity::DurationText;
use config::{Reader, Section};
use mail::Mailbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Reports are sent so long after the end of their day at most: what can't be sent is tried for another day.
const SPREAD_MAX: Duration = Duration::from_secs(12 * 3_600);

/// TLS reports (RFC 8460): one per day to each domain that requests them (`_smtp._tls.DOMAIN`), about TLS sessions of
/// `mx` routes with its MX hosts. See `docs/tls.md`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TlsReportsText {
    /// Sender address of reports, in a domain that this server may send and sign for. Default: no reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    /// Name of the reporting organization. Default: `hostname`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) organization_name: Option<String>,
    /// Contact address for questions. Default: `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) contact: Option<String>,
    /// Period after the end of a day (midnight UTC) in which its reports are sent, each at a random time, so that not
    /// all servers report at once. At most `"12h"`.
    pub(crate) spread: DurationText,
}

impl Default for TlsReportsText {
    fn default() -> TlsReportsText {
        TlsReportsText { from: None, organization_name: None, contact: None, spread: "4h".into() }
    }
}

/// `[tls_reports]`, when they are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsSender {
    /// Whom they come from.
    pub(crate) from: Mailbox,
    /// Who reports.
    pub(crate) organization_name: Box<str>,
    /// Who can be asked.
    pub(crate) contact: Mailbox,
    /// They are sent within so long after midnight (UTC).
    pub(crate) spread: Duration,
}

impl Section for TlsSender {
    const KEY: &'static str = "tls_reports";
    const SUMMARY: &'static str = "TLS reports to domain owners (RFC 8460).";
    const IN_FORCE_BY: &'static str = "tls_reports";
    type Text = TlsReportsText;
    type Value = TlsSender;

    fn read(text: TlsReportsText, reader: &mut Reader<'_, '_>) -> Option<TlsSender> {
        let (organization, contact) = (text.organization_name.as_deref(), text.contact.as_deref());
        let texts = [("organization_name", organization), ("contact", contact)];
        check_texts(text.from.as_deref(), texts, reader);
        let spread = reader.duration("spread", &text.spread);
        if spread > SPREAD_MAX {
            reader.error("spread", "more than half a day", "at most \"12h\"");
        }
        let from = reader.mailbox("from", text.from.as_deref()?)?;
        let contact = match contact {
            Some(contact) => reader.mailbox("contact", contact)?,
            None => from.clone(),
        };
        Some(TlsSender {
            from,
            organization_name: organization.unwrap_or(reader.hostname().as_str()).into(),
            contact,
            spread,
        })
    }
}
