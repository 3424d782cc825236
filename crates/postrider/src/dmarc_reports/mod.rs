//! Telling owners of domains of mail in their name (RFC 7489 §7.2): messages are counted by day, and each
//! day's counts sent on the next.

mod counts;
mod letter;
mod sending;
mod settings;

pub(crate) use settings::DmarcSender;

use crate::daily_reports::{DAY_MS, Daily, Inner, Kind, Report, Terms};
use auth::dmarc::reporting::Message;
use config::Config;
use counts::Domain;
use mta::seams::DomainReports;

/// What could not be sent for so many days is not sent any more.
const DAYS_MAX: u64 = 3;

/// Counts messages for all shards, and sends what was counted.
pub(crate) type DmarcReporting = Daily<Dmarc>;

/// Mail in the names of domains.
pub(crate) struct Dmarc;

impl Kind for Dmarc {
    const DIRECTORY: &'static str = "dmarc-reports";
    const ABOUT: &'static str = "dmarc_reports";
    const THREADS: [&'static str; 2] = ["dmarc-counts", "dmarc-reports"];
    const NOTES: &'static str = "messages";
    type Note = Message;
    type Domain = Domain;
    type Settings = DmarcSender;

    fn settings(config: &Config) -> Option<DmarcSender> {
        config.of::<DmarcSender>().cloned()
    }

    fn due_after_ms(terms: &Terms<DmarcSender>, _: &str, _: u64) -> u64 {
        u64::from(terms.settings.hour) * 3_600_000
    }

    fn given_up_after_ms(_: &Terms<DmarcSender>) -> u64 {
        DAYS_MAX * DAY_MS
    }

    async fn send(daily: &Inner<Dmarc>, report: &Report<'_, Dmarc>) -> Result<(), String> {
        sending::send(daily, report).await
    }
}

impl DomainReports for DmarcReporting {
    fn is_on(&self) -> bool {
        Daily::is_on(self)
    }

    fn note(&self, message: Message) {
        Daily::note(self, message);
    }
}
