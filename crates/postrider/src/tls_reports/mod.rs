//! Telling owners of domains of TLS to their hosts (RFC 8460): sessions are counted by day, and each day's counts
//! sent on the next, by mail and to web servers.

mod posting;
mod sending;
mod settings;

use crate::daily_reports::{
    DAY_MS, DailyCounting, DailyReporter, DomainCounts, DomainReport, ReportKind, ReporterSettings,
    moment_within,
};
use crate::peer_tls::PeerTls;
use auth::tls_report::{Added, Counts, TlsSession};
use config::Config;
use mta::metrics::{Counter, Grid, MetricSet};
use mta::seams::TlsReports;
use serde::{Deserialize, Serialize};
pub(crate) use settings::TlsSender;
use std::sync::Arc;

/// RFC 8460 §5.5: what can't be delivered is tried again for a day.
const TRIED_FOR_MS: u64 = DAY_MS;

/// A report that is due when its day is over has so long at least before that.
const MARGIN_MS: u64 = 1_200_000;

/// Counts sessions for all shards, and sends what was counted.
pub(crate) type TlsReporting = DailyCounting<Tls>;

/// How a report goes.
#[derive(Clone, Copy, Debug)]
enum ReportWay {
    Mail,
    Https,
}

mta::label! { ReportWay, "by": Mail = "mail", Https = "https" }

mta::metric_set! {
    /// Of what domains are told of TLS to their hosts.
    TlsReportMetrics:

    sessions: Counter = "tls_report_sessions" {} "Sessions counted for TLS reports.";
    left_out: Counter = "tls_report_sessions_left_out" {} "Sessions not counted for TLS reports, \
     or without all details, because a limit was reached.";
    sent: Grid<ReportWay> = "tls_reports_sent" {} "TLS reports sent.";
    failed: Counter = "tls_reports_failed" {} "TLS reports not sent within a day.";
}

/// Sessions with the hosts of domains.
pub(crate) struct Tls {
    pub(crate) metrics: Arc<TlsReportMetrics>,
    /// For connections to web servers.
    pub(crate) peer_tls: Arc<PeerTls>,
}

/// As whom reports are sent, and to whom not.
#[derive(Clone)]
pub(crate) struct Settings {
    section: TlsSender,
    /// A route refuses private addresses: web servers that have such are no place for a report.
    public_only: bool,
}

impl ReportKind for Tls {
    const DIRECTORY: &'static str = "tls-reports";
    const ABOUT: &'static str = "tls_reports";
    const NOTES: &'static str = "sessions";
    type CounterCommand = TlsSession;
    type Domain = Domain;
    type Settings = Settings;

    fn settings(config: &Config) -> Option<Settings> {
        let mut sources = config.routes.iter().map(|route| route.channel.tls_sources());
        let public_only = sources.any(|sources| sources.public_only);
        Some(Settings { section: config.of::<TlsSender>().cloned()?, public_only })
    }

    fn metrics(&self) -> Option<Arc<dyn MetricSet>> {
        Some(Arc::clone(&self.metrics) as _)
    }

    fn due_after_ms(terms: &ReporterSettings<Settings>, domain: &str, number: u64) -> u64 {
        moment_within(spread_ms(terms), &terms.hostname, domain, number)
    }

    fn given_up_after_ms(terms: &ReporterSettings<Settings>) -> u64 {
        spread_ms(terms) + TRIED_FOR_MS + MARGIN_MS
    }

    async fn send(
        daily: &Arc<DailyReporter<Tls>>,
        report: &Arc<DomainReport<Tls>>,
    ) -> Result<(), String> {
        sending::send(daily, report).await
    }

    fn tell_counted(&self, counted: u64, left_out: u64) {
        self.metrics.sessions.add(counted);
        self.metrics.left_out.add(left_out);
    }

    fn tell_given_up(&self, count: u64) {
        self.metrics.failed.add(count);
    }
}

fn spread_ms(terms: &ReporterSettings<Settings>) -> u64 {
    u64::try_from(terms.settings.section.spread.as_millis()).unwrap_or(DAY_MS)
}

impl TlsReports for TlsReporting {
    fn is_on(&self) -> bool {
        DailyCounting::is_on(self)
    }

    fn note(&self, session: TlsSession) {
        DailyCounting::note(self, session);
    }

    fn leave_out(&self, count: u64) {
        DailyCounting::leave_out(self, count);
    }
}

/// Sessions with the hosts of one domain.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Domain(Counts);

/// Room is counted in octets. Nearly all domains have one policy and a failure or two.
impl DomainCounts for Domain {
    type Note = TlsSession;
    const DOMAINS_MAX: usize = 50_000;
    const ROOM_OF_DOMAIN: usize = 64 << 10;
    const ROOM: usize = 32 << 20;

    fn domain_of(session: &TlsSession) -> &str {
        &session.domain
    }

    fn add(&mut self, session: &TlsSession, room: usize) -> bool {
        matches!(self.0.add(session, room), Added::Whole(_))
    }

    fn taken(&self) -> usize {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daily_reports::Day;
    use auth::tls_report::{Details, Policy, ResultType};

    fn session(domain: &str, host: usize) -> TlsSession {
        let mut details = Details::new(ResultType::CertificateExpired);
        details.receiving_mx_hostname = Some(format!("mx{host}.{domain}").into());
        TlsSession { domain: domain.into(), policy: Policy::none(), failure: Some(details) }
    }

    #[test]
    fn what_was_counted_is_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let mut day = Day::<Domain>::open(directory.path(), 7).unwrap();
        for host in [1, 1, 2] {
            assert!(day.add(&session("a.test", host)));
        }
        day.write(directory.path()).unwrap();
        let taken = day.taken;
        let mut day = Day::<Domain>::open(directory.path(), 7).unwrap();
        assert_eq!(day.taken, taken);
        assert!(day.add(&session("a.test", 2)) && day.taken == taken);
        assert_eq!(day.domains()["a.test"].0.sessions(), (0, 4));
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let mut day = Day::<Domain>::default();
        for n in 0..Domain::DOMAINS_MAX {
            assert!(day.add(&session(&format!("d{n}.test"), 1)), "{n}");
        }
        assert!(!day.add(&session("more.test", 1)));
        assert_eq!((day.domains().len(), day.take_left_out()), (Domain::DOMAINS_MAX, 1));
        // Known domains go on, with what is known of them.
        assert!(day.add(&session("d1.test", 1)));
        day.taken = Domain::ROOM - 1;
        assert!(day.add(&session("d1.test", 1)) && !day.add(&session("d1.test", 2)));
        assert_eq!(day.domains()["d1.test"].0.sessions(), (0, 4));
        assert_eq!(day.take_left_out(), 1);
        // Nothing is left of a domain that there was no room for.
        let mut day = Day::<Domain>::default();
        day.taken = Domain::ROOM;
        assert!(!day.add(&session("a.test", 1)) && day.domains().is_empty());
    }
}
