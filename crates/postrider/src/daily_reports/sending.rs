//! Sending what was counted, a day at a time.

use super::day::{DAY_MS, Day, DomainCounts, SentReports};
use super::{DailyReporter, ReportKind, ReporterSettings};
use crate::mutex::lock;
use crate::world::clock::wall_now;
use aws_lc_rs::digest;
use mail::Wall;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// How often it is seen whether something is due.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// A day is over when nobody counts for it any more.
const OVER_AFTER_MS: u64 = 600_000;

/// Reports that are sent at once: who is slow to take one must not keep the others waiting.
const AT_ONCE: usize = 16;

/// What could not be sent is tried again after so long, each time twice as long, up to the longest.
const FIRST_RETRY: Duration = LOOK_EVERY;
const LONGEST_RETRY: Duration = Duration::from_secs(3_600);

/// One domain's report about one day.
pub(crate) struct DomainReport<K: ReportKind> {
    pub(crate) terms: Arc<ReporterSettings<K::Settings>>,
    /// Whom it is for.
    pub(crate) domain: String,
    pub(crate) counted: Arc<K::Domain>,
    /// The day.
    pub(crate) number: u64,
    pub(crate) now: Wall,
    /// What was sent of that day already.
    pub(crate) sent: Arc<SentReports>,
}

impl<K: ReportKind> DomainReport<K> {
    /// First and last second of the day.
    pub(crate) fn range(&self) -> (u64, u64) {
        let begin = self.number * (DAY_MS / 1_000);
        (begin, begin + DAY_MS / 1_000 - 1)
    }

    /// The same whenever it is made.
    pub(crate) fn id(&self) -> String {
        let mut id = format!("{}.", self.number);
        for byte in hash(&self.terms.hostname, &self.domain, self.number).as_ref().iter().take(8) {
            let _ = write!(id, "{byte:02x}");
        }
        id
    }
}

/// What is the same for a domain's report whenever it is asked for, and another for each of them.
fn hash(hostname: &str, domain: &str, number: u64) -> digest::Digest {
    digest::digest(&digest::SHA256, format!("{hostname} {domain} {number}").as_bytes())
}

/// A moment within so long, which chance has chosen for this report once and for all.
pub(crate) fn moment_within(spread_ms: u64, hostname: &str, domain: &str, number: u64) -> u64 {
    let hash = hash(hostname, domain, number);
    let tail = hash.as_ref().last_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    tail % spread_ms.max(1)
}

/// When those that failed are tried again.
#[derive(Default)]
struct Retries(BTreeMap<(u64, String), (Instant, Duration)>);

impl Retries {
    fn must_wait(&self, number: u64, domain: &str, now: Instant) -> bool {
        self.0.get(&(number, domain.to_owned())).is_some_and(|(at, _)| now < *at)
    }

    fn fail(&mut self, number: u64, domain: String, now: Instant) {
        let key = (number, domain);
        let wait = self.0.get(&key).map_or(FIRST_RETRY, |(_, wait)| (*wait * 2).min(LONGEST_RETRY));
        self.0.insert(key, (now + wait, wait));
    }

    fn forget(&mut self, number: u64) {
        self.0.retain(|(day, _), _| *day != number);
    }
}

/// The task that sends.
pub(super) async fn run<K: ReportKind>(daily: Arc<DailyReporter<K>>) {
    let mut retries = Retries::default();
    loop {
        look(&daily, &mut retries).await;
        // Another configuration is followed at once.
        let _ = tokio::time::timeout(LOOK_EVERY, daily.adopted.notified()).await;
    }
}

/// Milliseconds since the end of a day, when nobody counts for it any more.
fn since_end(number: u64, now: Wall) -> Option<u64> {
    let end = number.saturating_add(1).saturating_mul(DAY_MS);
    now.0.checked_sub(end).filter(|since| *since >= OVER_AFTER_MS)
}

/// A day that is over, as its files have it.
struct OpenDay<D> {
    number: u64,
    /// Domains without their report.
    unsent: u64,
    /// Domains that get it now.
    due: Vec<(String, Arc<D>)>,
    sent: Arc<SentReports>,
}

impl<D: DomainCounts> OpenDay<D> {
    /// Reads it, `since` its end so many milliseconds ago.
    ///
    /// # Errors
    /// As [`Day::open`].
    fn read<K: ReportKind<Domain = D>>(
        directory: &Path,
        terms: &ReporterSettings<K::Settings>,
        (number, since): (u64, u64),
    ) -> io::Result<OpenDay<D>> {
        let domains = Day::<D>::open(directory, number)?.into_domains();
        let sent = SentReports::open(directory, number);
        let (mut unsent, mut due) = (0, Vec::new());
        for (domain, counted) in domains.into_iter().filter(|(domain, _)| !sent.has(domain)) {
            unsent += 1;
            if since >= K::due_after_ms(terms, &domain, number) {
                due.push((domain, Arc::new(counted)));
            }
        }
        Ok(OpenDay { number, unsent, due, sent: Arc::new(sent) })
    }
}

/// Sends the reports that are due.
async fn look<K: ReportKind>(daily: &Arc<DailyReporter<K>>, retries: &mut Retries) {
    let Some(terms) = lock(&daily.terms).clone() else { return };
    let terms = Arc::new(terms);
    for number in daily.aside(|daily| Day::<K::Domain>::all(&daily.directory)).await {
        let Some(since) = since_end(number, wall_now()) else { continue };
        let is_late = since >= K::given_up_after_ms(&terms);
        let of_read = Arc::clone(&terms);
        let read = move |daily: &DailyReporter<K>| {
            OpenDay::read::<K>(&daily.directory, &of_read, (number, since))
        };
        let day = match daily.aside(read).await {
            Ok(day) => day,
            Err(error) if is_late || error.kind() == io::ErrorKind::InvalidData => {
                daily.aside(move |daily| daily.put_aside(number, &error)).await;
                continue;
            }
            // The system may lack something just now.
            Err(error) => {
                daily.warn(format_args!("reports of day {number} wait: {error}"));
                continue;
            }
        };
        let left = send_day(daily, &terms, day, retries).await;
        if left > 0 && !is_late {
            continue;
        }
        if left > 0 {
            daily.kind.tell_given_up(left);
            daily.warn(format_args!("{left} reports dropped: not sent in time"));
        }
        daily.aside(move |daily| Day::<K::Domain>::remove(&daily.directory, number)).await;
        retries.forget(number);
    }
}

/// Returns the number of reports left.
async fn send_day<K: ReportKind>(
    daily: &Arc<DailyReporter<K>>,
    terms: &Arc<ReporterSettings<K::Settings>>,
    OpenDay { number, unsent, due, sent }: OpenDay<K::Domain>,
    retries: &mut Retries,
) -> u64 {
    if let Some(path) = sent.damaged() {
        let why = format!("{} is damaged", path.display());
        daily.files.lost(K::ABOUT, path, &why, "some domains get the same report again");
    }
    let (mut left, mut under_way) = (unsent, JoinSet::new());
    for (domain, counted) in due {
        if retries.must_wait(number, &domain, Instant::now()) {
            continue;
        }
        if under_way.len() >= AT_ONCE {
            left -= settle(under_way.join_next().await, number, retries);
        }
        let (daily, terms, sent) = (Arc::clone(daily), Arc::clone(terms), Arc::clone(&sent));
        under_way.spawn_local(async move {
            let now = wall_now();
            let report = Arc::new(DomainReport { terms, domain, counted, number, now, sent });
            let is_sent = send(&daily, &report).await;
            (report.domain.clone(), is_sent)
        });
    }
    while let Some(ended) = under_way.join_next().await {
        left -= settle(Some(ended), number, retries);
    }
    left
}

/// How many were sent: one or none.
fn settle(
    ended: Option<Result<(String, bool), tokio::task::JoinError>>,
    number: u64,
    retries: &mut Retries,
) -> u64 {
    match ended {
        Some(Ok((_, true))) => 1,
        Some(Ok((domain, false))) => {
            retries.fail(number, domain, Instant::now());
            0
        }
        _ => 0,
    }
}

/// Returns true if a domain has its report, or gets none.
async fn send<K: ReportKind>(daily: &Arc<DailyReporter<K>>, report: &Arc<DomainReport<K>>) -> bool {
    let domain = &report.domain;
    match K::send(daily, report).await {
        Ok(()) => {
            if let Err(error) = note_sent(daily, report, domain.clone()).await {
                daily.warn(format_args!("cannot record sent reports: {error}"));
            }
            true
        }
        Err(why) => {
            daily.warn(format_args!("the report to {domain} waits: {why}"));
            false
        }
    }
}

/// Notes on disk that a report was sent; `to` is the domain, with a place behind it where there are several.
///
/// # Errors
/// As the operating system says.
pub(crate) async fn note_sent<K: ReportKind>(
    daily: &Arc<DailyReporter<K>>,
    report: &Arc<DomainReport<K>>,
    to: String,
) -> io::Result<()> {
    let sent = Arc::clone(&report.sent);
    daily.aside(move |_| sent.note(&to)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_over_when_nobody_counts_for_it_any_more() {
        let at = |minutes: u64| Wall(8 * DAY_MS + minutes * 60_000);
        assert_eq!((since_end(7, at(9)), since_end(7, at(10))), (None, Some(600_000)));
        assert_eq!((since_end(8, at(120)), since_end(6, at(0))), (None, Some(DAY_MS)));
        assert_eq!(since_end(u64::MAX, at(0)), None);
    }

    #[test]
    fn reports_of_a_day_are_spread_over_their_time_and_keep_their_moment() {
        let spread = 4 * 3_600_000;
        let of = |n: u64| moment_within(spread, "relay.test", &format!("d{n}.test"), 7);
        let moments: Vec<u64> = (0..1_000).map(of).collect();
        assert!(moments.iter().all(|moment| *moment < spread));
        for quarter in 0..4 {
            let hour = quarter * 3_600_000..(quarter + 1) * 3_600_000;
            let count = moments.iter().filter(|moment| hour.contains(*moment)).count();
            assert!((200..300).contains(&count), "{count}");
        }
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), moment_within(spread, "relay.test", "d1.test", 8));
        assert_eq!(moment_within(0, "relay.test", "d1.test", 8), 0);
    }

    #[test]
    fn what_fails_is_tried_ever_more_seldom() {
        let (mut retries, mut now) = (Retries::default(), Instant::now());
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            retries.fail(7, "a.test".to_owned(), now);
            let until = now + Duration::from_secs(minutes * 60);
            assert!(retries.must_wait(7, "a.test", until - Duration::from_millis(1)));
            assert!(!retries.must_wait(7, "a.test", until), "{minutes}");
            now = until;
        }
        assert!(!retries.must_wait(8, "a.test", Instant::now()));
        retries.forget(7);
        assert!(retries.0.is_empty());
    }
}
