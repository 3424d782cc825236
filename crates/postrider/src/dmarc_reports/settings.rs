//! `[dmarc_reports]`.

use crate::daily_reports::check_texts;
use config::{Reader, Section};
use mail::Mailbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What owners of domains are told of mail in their name: one report a day to each domain whose DMARC
/// record asks for it (`rua`), about messages that `checks` with `dmarc` of a listener has looked at. See
/// `docs/checks.md`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DmarcReportsText {
    /// The address that reports come from, in a domain that this server may send for. Without it none are
    /// made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    /// Who reports, for those who read it. Without it: `hostname`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) organization_name: Option<String>,
    /// How those can ask about it: an address or a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) contact: Option<String>,
    /// From this hour on (UTC) reports of the day before are sent.
    #[schemars(range(max = 23))]
    pub(crate) hour: u8,
}

/// `[dmarc_reports]`, when they are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DmarcSender {
    /// Whom they come from.
    pub(crate) from: Mailbox,
    /// Who reports.
    pub(crate) organization_name: Box<str>,
    /// How that can be asked.
    pub(crate) contact: Option<Box<str>>,
    /// From this hour on (UTC) those of the day before are sent.
    pub(crate) hour: u8,
}

impl Section for DmarcSender {
    const KEY: &'static str = "dmarc_reports";
    const SUMMARY: &'static str = "What owners of domains are told of mail in their name (DMARC).";
    const BEHIND: &'static str = "dns";
    const IN_FORCE_BY: &'static str = "dmarc_reports";
    type Text = DmarcReportsText;
    type Value = DmarcSender;

    fn read(text: DmarcReportsText, reader: &mut Reader<'_, '_>) -> Option<DmarcSender> {
        let (organization, contact) = (text.organization_name.as_deref(), text.contact.as_deref());
        let texts = [("organization_name", organization), ("contact", contact)];
        check_texts(text.from.as_deref(), texts, reader);
        let from = reader.mailbox("from", text.from.as_deref()?)?;
        Some(DmarcSender {
            from,
            organization_name: organization.unwrap_or(reader.hostname().as_str()).into(),
            contact: contact.map(Box::from),
            hour: text.hour,
        })
    }
}
