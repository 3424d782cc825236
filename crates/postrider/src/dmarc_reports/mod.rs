//! Telling owners of domains of mail in their name (RFC 7489 §7.2): messages are counted by day, and each
//! day's counts sent on the next.

mod counts;
mod sending;

use crate::daily_reports::{
    DAY_MS, DailyCounting, DailyReporter, DomainReport, ReportKind, ReporterSettings, check_texts,
};
use auth::dmarc::reporting::ReportedMessage;
use config::{Config, Reader, Section};
use counts::Domain;
use mail::Mailbox;
use mta::seams::DomainReports;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What could not be sent for so many days is not sent any more.
const DAYS_MAX: u64 = 3;

/// Counts messages for all shards, and sends what was counted.
pub(crate) type DmarcReporting = DailyCounting<Dmarc>;

/// Mail in the names of domains.
pub(crate) struct Dmarc;

impl ReportKind for Dmarc {
    const DIRECTORY: &'static str = "dmarc-reports";
    const ABOUT: &'static str = "dmarc_reports";
    const NOTES: &'static str = "messages";
    type CounterCommand = ReportedMessage;
    type Domain = Domain;
    type Settings = DmarcSender;

    fn settings(config: &Config) -> Option<DmarcSender> {
        config.of::<DmarcSender>().cloned()
    }

    fn due_after_ms(terms: &ReporterSettings<DmarcSender>, _: &str, _: u64) -> u64 {
        u64::from(terms.settings.hour) * 3_600_000
    }

    fn given_up_after_ms(_: &ReporterSettings<DmarcSender>) -> u64 {
        DAYS_MAX * DAY_MS
    }

    async fn send(
        daily: &Arc<DailyReporter<Dmarc>>,
        report: &Arc<DomainReport<Dmarc>>,
    ) -> Result<(), String> {
        sending::send(daily, report).await
    }
}

impl DomainReports for DmarcReporting {
    fn is_on(&self) -> bool {
        DailyCounting::is_on(self)
    }

    fn note(&self, message: ReportedMessage) {
        DailyCounting::note(self, message);
    }
}

/// DMARC aggregate reports: one per day to each domain with a DMARC record that requests them (`rua`), about messages
/// checked at listeners with `dmarc` in `checks`. See `docs/checks.md`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DmarcReportsText {
    /// Sender address of reports, in a domain that this server may send for. Default: no reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    /// Name of the reporting organization. Default: `hostname`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) organization_name: Option<String>,
    /// Contact for questions: a mail address or a web page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) contact: Option<String>,
    /// Hour (UTC) from which on the previous day's reports are sent.
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
    const SUMMARY: &'static str = "DMARC aggregate reports to domain owners.";
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
