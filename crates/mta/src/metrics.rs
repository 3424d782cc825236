//! Metrics of the server. One [`Metrics`] per shard and one [`LogMetrics`] per log are made at start and passed in; the
//! exporter adds them up. No locks, no globals.
//!
//! All metrics are in the table below: field, kind, exported name, labels and help come from one line each.

mod grid;
mod labels;
mod parties;

pub use grid::{Grid, Label, Show};
pub use labels::{
    DsnAction, HoldEnd, QueueState, RecipientOutcome, RefusalReason, RequireTlsLack, SealedChain,
    StrangersCheck, TlsPolicy, UnsignedReason,
};
pub(crate) use parties::{AttemptOutcome, PartyLabels};
pub use parties::{NamedParties, NamedWarmups, PartyMetrics, SendingMetrics};

use crate::clients::Lane;
use auth::dkim::Algorithm;
use auth::{arc, dkim, dmarc, dnsbl, greylist, iprev, spf};
use classes::ReplyClass;
use config::shaping::Action;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A monotonic counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn inc(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// The current value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A value that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    pub fn inc(&self) {
        self.add(1);
    }

    pub fn dec(&self) {
        self.add(-1);
    }

    /// `n` more, or less if negative.
    pub fn add(&self, n: i64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub fn set(&self, n: i64) {
        self.0.store(n, Relaxed);
    }

    /// Replaces the value with an unsigned number, saturating.
    pub fn set_u64(&self, n: u64) {
        self.set(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// The current value.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// Upper bounds of a histogram's buckets, ascending; one more bucket counts larger values.
pub trait Bounds {
    const BOUNDS_US: &'static [u64];
}

/// From a tenth of a millisecond to five seconds: disk syncs, DNS answers.
#[derive(Debug, Default)]
pub struct CommitBounds;

impl Bounds for CommitBounds {
    const BOUNDS_US: &'static [u64] = &[
        100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
        1_000_000, 5_000_000,
    ];
}

/// From a millisecond to five days: deliveries.
#[derive(Debug, Default)]
pub struct DelayBounds;

impl Bounds for DelayBounds {
    const BOUNDS_US: &'static [u64] = &[
        1_000,
        5_000,
        10_000,
        50_000,
        100_000,
        500_000,
        1_000_000,
        5_000_000,
        30_000_000,
        60_000_000,
        300_000_000,
        1_800_000_000,
        3_600_000_000,
        21_600_000_000,
        86_400_000_000,
        432_000_000_000,
    ];
}

/// Maximum number of buckets of a histogram, including the one above all bounds.
const BUCKETS_MAX: usize = 20;

/// Counts of durations by bucket.
#[derive(Debug)]
pub struct Histogram<B> {
    buckets: [AtomicU64; BUCKETS_MAX],
    sum_us: AtomicU64,
    bounds: std::marker::PhantomData<B>,
}

impl<B> Default for Histogram<B> {
    fn default() -> Histogram<B> {
        Histogram {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_us: AtomicU64::new(0),
            bounds: std::marker::PhantomData,
        }
    }
}

impl<B: Bounds> Histogram<B> {
    const FITS: () = assert!(B::BOUNDS_US.len() < BUCKETS_MAX);

    pub fn observe(&self, duration: Duration) {
        let () = Self::FITS;
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = B::BOUNDS_US.partition_point(|&bound| bound < us);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    /// The counts so far.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        let buckets = self.buckets.iter().take(B::BOUNDS_US.len() + 1);
        HistogramSnapshot {
            bounds_us: B::BOUNDS_US,
            counts: buckets.map(|count| count.load(Relaxed)).collect(),
            sum_us: self.sum_us.load(Relaxed),
        }
    }
}

/// A copy of a histogram's counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// Upper bounds, inclusive.
    pub bounds_us: &'static [u64],
    /// Count of each bucket; one more than bounds.
    pub counts: Vec<u64>,
    /// Sum of all durations.
    pub sum_us: u64,
}

impl HistogramSnapshot {
    fn merge(&mut self, other: &HistogramSnapshot) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }
}

/// Name and help of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description<'a> {
    /// Exported name without suffix: a counter gains `_total`, a histogram `_seconds`.
    pub name: &'static str,
    /// Labels that distinguish metrics with the same name.
    pub labels: &'a [(&'static str, &'static str)],
    /// One sentence.
    pub help: &'static str,
}

/// Value of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Monotonic.
    Counter(u64),
    /// Rises and falls.
    Gauge(i64),
    Histogram(HistogramSnapshot),
}

impl Value {
    /// Adds the value of the same metric from another shard or log.
    pub fn merge(&mut self, other: &Value) {
        match (self, other) {
            (Value::Counter(a), Value::Counter(b)) => *a = a.saturating_add(*b),
            (Value::Gauge(a), Value::Gauge(b)) => *a = a.saturating_add(*b),
            (Value::Histogram(a), Value::Histogram(b)) => a.merge(b),
            _ => {}
        }
    }
}

/// A metric that can be read as a [`Value`].
pub trait Metric {
    /// The current value.
    fn read(&self) -> Value;
}

impl Metric for Counter {
    fn read(&self) -> Value {
        Value::Counter(self.get())
    }
}

impl Metric for Gauge {
    fn read(&self) -> Value {
        Value::Gauge(self.get())
    }
}

impl<B: Bounds> Metric for Histogram<B> {
    fn read(&self) -> Value {
        Value::Histogram(self.snapshot())
    }
}

/// A set of metrics with several copies that are added up.
pub trait MetricSet: std::fmt::Debug + Send + Sync {
    /// Shows every metric in a fixed order; metrics of the same name are adjacent.
    fn each(&self, show: &mut dyn FnMut(&Description<'_>, Value));
}

/// Declares a set of metrics and its [`MetricSet`] in one table:
/// `field: Type = "name" {labels} "help";`
#[macro_export]
macro_rules! metric_set {
    (
        $(#[$doc:meta])* $set:ident:
        $($field:ident: $kind:ty = $name:literal {$($label:ident = $value:literal),*} $help:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $set {
            $(#[doc = $help] pub $field: $kind,)*
        }

        impl $crate::metrics::MetricSet for $set {
            fn each(
                &self,
                show: &mut dyn FnMut(&$crate::metrics::Description<'_>, $crate::metrics::Value),
            ) {
                $($crate::metrics::Show::show(
                    &self.$field,
                    &$crate::metrics::Description {
                        name: $name,
                        labels: &[$((stringify!($label), $value)),*],
                        help: $help,
                    },
                    show,
                );)*
            }
        }
    };
}

metric_set! {
    /// Of one shard.
    Metrics:

    sessions: Counter = "sessions" {} "Client sessions accepted.";
    sessions_displaced: Counter = "sessions_displaced" {} "Client sessions that were ended with 421 because the server was full and others came who hold less.";
    sessions_refused: Counter = "sessions_refused" {} "Client connections turned away with 421 because of a limit.";
    logins: Counter = "logins" {} "Logins of clients.";
    login_failures: Counter = "login_failures" {} "Logins that failed: a wrong password, an unknown user, a proof that is none.";
    logins_deferred: Counter = "logins_deferred" {} "Logins put off with 421 or 454: a limit, a table or server without an answer, too many passwords to hash.";
    password_checks: Grid<Lane, Histogram<CommitBounds>> = "password_check" {} "From a login whose password is to be checked to the verdict, or until it is put off, by lane: clients that were this user lately, strangers, those who failed lately.";
    password_checks_refused: Grid<Lane> = "password_checks_refused" {} "Logins put off with 454 because too many passwords wait to be checked in their lane, or this one has waited too long.";
    early_talkers: Counter = "early_talkers" {} "Clients that were refused because they spoke before they were greeted.";
    proxy_headers_refused: Counter = "proxy_headers_refused" {} "Connections of proxies that were closed because their PROXY header was none, or took too long.";
    sessions_open: Gauge = "sessions_open" {} "Client sessions open now.";
    tls_handshakes: Counter = "tls_handshakes" {} "TLS handshakes of clients that were done.";
    tls_handshakes_failed: Counter = "tls_handshakes_failed" {} "TLS handshakes of clients that failed, or took too long.";
    tls_connections: Counter = "tls_connections" {} "Connections to next hops that were encrypted.";
    tls_connections_failed: Counter = "tls_connections_failed" {} "Connections to next hops whose TLS handshake failed.";
    tls_policy_connections: Grid<TlsPolicy> = "tls_policy_connections" {} "Connections to next hops that were encrypted as TLSA records or the domain say, by policy.";
    tls_policy_failures: Grid<TlsPolicy> = "tls_policy_failures" {} "Times that a host was left out because it was not as TLSA records or the domain say, or there was no answer about that, by policy.";
    require_tls_failures: Grid<RequireTlsLack> = "require_tls_failures" {} "Recipients of messages with REQUIRETLS that were returned, by what their next hop lacks: encryption by an authenticated host (5.7.10), or REQUIRETLS (5.7.30).";
    messages_received: Counter = "messages_received" {} "Messages accepted with 250, notifications of our own not counted.";
    recipients_received: Counter = "recipients_received" {} "Recipients of accepted messages.";
    bytes_received: Counter = "bytes_received" {} "Content bytes of accepted messages.";
    refused: Grid<RefusalReason> = "refused" {} "Refusals at intake, by their reason.";
    checked_iprev: Grid<iprev::IprevResult> = "checked" {check = "iprev"} "Messages from strangers whose sender was checked, by check and verdict.";
    checked_spf: Grid<spf::SpfResult> = "checked" {check = "spf"} "Messages from strangers whose sender was checked, by check and verdict.";
    checked_dkim: Grid<dkim::DkimResult> = "checked" {check = "dkim"} "Messages from strangers whose sender was checked, by check and verdict.";
    checked_dmarc: Grid<dmarc::DmarcResult> = "checked" {check = "dmarc"} "Messages from strangers whose sender was checked, by check and verdict.";
    checked_arc: Grid<arc::ArcResult> = "checked" {check = "arc"} "Messages from strangers whose sender was checked, by check and verdict.";
    checked_dnsbl: Grid<dnsbl::DnsblResult> = "checked" {check = "dnsbl"} "Messages from strangers whose sender was checked, by check and verdict.";
    strangers_refused: Grid<StrangersCheck> = "strangers_refused" {} "Recipients of strangers that were refused before their message, by check.";
    greylist: Grid<greylist::GreylistResult> = "greylist" {} "Recipients of strangers that greylisting was asked about, by what it knew: a new one, one that came again too early, one that came again, one that had, a client that often has.";
    sealed: Grid<SealedChain> = "sealed" {} "Messages that got an ARC seal, by what it says of the chain before it.";
    signatures: Grid<Algorithm> = "signatures" {} "DKIM signatures that were made, by algorithm.";
    unsigned: Grid<UnsignedReason> = "unsigned" {} "Messages that were to be signed and were not: not one author, or no signer for it.";
    signing_failures: Counter = "signing_failures" {} "Messages that could not be signed for want of a key, and were put off with 451.";
    tenant_queue_full: Counter = "tenant_queue_full_refusals" {} "Messages answered with 452 because their tenant had as many recipients queued as it may.";
    held_refused: Counter = "held_full_refusals" {} "Messages answered with 451 because checks hold as many as they may, of all clients or of one.";
    holds_ended: Grid<HoldEnd> = "holds_ended" {} "Messages that checks held and nobody released within hold_for, by outcome.";
    held_by_checks: Gauge = "held_by_checks_recipients" {} "Recipients of messages that checks hold now.";
    held_by_checks_max: Gauge = "held_by_checks_recipients_max" {} "Recipients of messages that checks may hold.";
    queue_full: Counter = "queue_full_refusals" {} "Transactions answered with 452 because the queue had no slots left.";
    commit_refused: Counter = "commit_refusals" {} "Messages answered with 451 or 452 because the spool could not take them.";
    content_waits: Counter = "body_memory_waits" {} "Times a session waited for body memory.";
    spilled: Counter = "body_spills" {} "Bodies that went to a blob because there was no memory for them.";
    body_memory_bytes: Gauge = "body_memory_bytes" {} "Memory taken by message bodies now.";
    recipients_done: Grid<RecipientOutcome> = "recipients_done" {} "Recipients done with, by outcome.";
    deferrals: Counter = "deferrals" {} "Attempts that failed and will be repeated, per recipient.";
    dsns: Grid<DsnAction> = "dsns" {} "Notifications queued, by what they say.";
    milter_failures: Counter = "milter_failures" {} "Times a milter could not be reached, said nothing in time, or what the protocol does not have.";
    milter_refusals: Counter = "milter_refusals" {} "Sessions, senders, recipients and messages that milters refused or put off.";
    milter_rewrites: Counter = "milter_rewrites" {} "Messages that were stored with another header or body than they came with, because milters changed it.";
    milter_discards: Counter = "milter_discards" {} "Messages of which nothing was kept, because milters wanted it so.";
    dsns_suppressed: Counter = "dsns_suppressed" {} "Notifications that were due and not made, because reports are off, their sender had enough of them in the hour, or an operator said so.";
    connections_opened: Counter = "connections_opened" {} "Connections to next hops that got through to a greeting.";
    connections_failed: Counter = "connections_failed" {} "Connections to next hops that failed before they could carry mail.";
    connections_open: Gauge = "connections_open" {} "Connections to next hops open now.";
    transactions: Counter = "transactions" {} "Transactions begun with next hops.";
    doubtful: Counter = "transactions_doubtful" {} "Transactions that broke off after the content was sent: the next hop may have it, and gets it again.";
    bytes_sent: Counter = "bytes_sent" {} "Content bytes of messages that next hops took.";
    queue_recipients: Grid<QueueState, Gauge> = "queue_recipients" {} "Queued recipients now, by state.";
    queue_slots_free: Gauge = "queue_slots_free" {} "Recipients that may still be queued before 452 4.3.1.";
    unsettled: Gauge = "unsettled_recipients" {} "Recipients done with whose settle record is not on stable storage yet.";
    connections_waiting: Gauge = "connections_waiting" {} "Connections to next hops that wait in line because as many are open, or wait for a greeting, as the process may have.";
    suspensions: Counter = "suspensions" {} "Times a next hop, or a domain that can't be looked up, was left alone for a while.";
    next_hops_suspended: Gauge = "next_hops_suspended" {} "Next hops, and domains that can't be looked up, that are left alone now.";
    shaping_effects_begun: Grid<Action> = "shaping_effects_begun" {} "Times that a rule of shaping took effect, or did again, by what it does.";
    shaping_effects: Gauge = "shaping_effects" {} "Effects of rules of shaping that are in force now.";
    lookups: Counter = "dns_lookups" {} "Questions to the DNS, those answered from the cache included.";
    lookups_failed: Counter = "dns_lookups_failed" {} "Questions to the DNS that got no answer or SERVFAIL and its like.";
    messages_read_back: Counter = "messages_read_back" {} "Messages read back from the spool to be delivered, since they were no longer in memory.";
    conversions_again: Counter = "conversions_again" {} "Conversions between X.400 and internet mail made once more, since others needed their memory while a peer was silent.";
    lookups_waiting: Gauge = "dns_lookups_waiting" {} "Lookups that wait in line because max_lookups of [dns] are under way.";
    lookup_time: Histogram<CommitBounds> = "dns_lookup" {} "From a question to the DNS to its answer, the wait in line not counted.";
    delivery_delay: Histogram<DelayBounds> = "delivery_delay" {} "From acceptance to delivery or relay, per recipient.";
}

metric_set! {
    /// Classes of peers' negative replies, over all shards.
    ClassMetrics:

    deferrals: Grid<ReplyClass> = "deferrals_by_class" {} "Attempts that a peer's reply put off, per recipient, by the class of the reply.";
    failures: Grid<ReplyClass> = "failures_by_class" {} "Recipients that failed for good by a peer's reply, by the class of the reply.";
}

metric_set! {
    /// Of one source with a warm-up, over all shards.
    WarmupMetrics:

    recipients: Counter = "warmup_recipients" {} "Recipients that a source which warms up was allowed to send to.";
    pauses: Counter = "warmup_pauses" {} "Times that nothing more could go from a source to a provider for now, because of its warm-up.";
    days_repeated: Counter = "warmup_days_repeated" {} "Days of a source's warm-up with a provider that are repeated, because too much was blocked or rate limited.";
    finished: Counter = "warmups_finished" {} "Times that a source was through with its warm-up with a provider.";
}

metric_set! {
    /// Of one log of the spool.
    LogMetrics:

    commits: Counter = "spool_commits" {} "Batches written (and synced, if durability says so).";
    commit_records: Counter = "spool_records" {} "Records written.";
    commit_bytes: Counter = "spool_written_bytes" {} "Bytes written to segments.";
    commit_failures: Counter = "spool_commit_failures" {} "Writes or syncs that failed.";
    commit_latency: Histogram<CommitBounds> = "spool_commit" {} "From the write of a batch to the end of its sync.";
    poisoned: Gauge = "spool_poisoned" {} "1 when a sync failed and this log takes nothing more.";
    full: Gauge = "spool_full" {} "1 while messages are refused with 452 for lack of disk space.";
    segments: Gauge = "spool_segments" {} "Segments with live records.";
    segments_spare: Gauge = "spool_segments_spare" {} "Segments that wait to be used.";
    live_messages: Gauge = "spool_live_messages" {} "Messages with at least one open recipient.";
    live_bytes: Gauge = "spool_live_bytes" {} "Bytes of live records.";
    blobs: Gauge = "spool_blobs" {} "Bodies in files of their own.";
    compacted_bytes: Counter = "spool_compacted_bytes" {} "Bytes moved by compaction.";
    room_bytes: Gauge = "spool_room_bytes" {} "Bytes that are free on the disk of the log, or in its files.";
    message_ids_left: Gauge = "spool_message_ids_left" {} "Messages that the log can take before it has no id for another.";
    damaged: Counter = "spool_damaged_records" {} "Records found damaged and quarantined.";
    orphan_blobs_removed: Counter = "spool_orphan_blobs_removed" {} "Bodies of no message that the start removed.";
    orphan_blobs_kept: Gauge = "spool_orphan_blobs_kept" {} "Bodies of no message that the start kept, because they may belong to a damaged record.";
}

metric_set! {
    /// Of one pool.
    PoolMetrics:

    used: Gauge = "pool_used" {} "What is taken of a pool now.";
    max: Gauge = "pool_max" {} "What there is of it.";
    waiting: Gauge = "pool_waiting" {} "Those who wait for some of it.";
    pressed: Gauge = "pool_under_pressure" {} "1 while somebody waits for it or is turned away from it, and for ten seconds longer.";
    turned_away: Counter = "pool_turned_away" {} "Those who were refused or put off for want of it, or left it to others.";
}

metric_set! {
    /// Of the mailbox writers.
    MailboxMetrics:

    writers: Gauge = "mailbox_writers" {} "Threads that may write mailboxes at once now: as many as make deliveries faster.";
    writers_busy: Gauge = "mailbox_writers_busy" {} "Those of them that write.";
    waiting: Gauge = "mailbox_writes_waiting" {} "Messages, and pieces of large ones, that wait for a mailbox writer.";
    written: Counter = "mailbox_messages" {} "Messages written to mailboxes.";
    batches: Counter = "mailbox_batches" {} "Times that a mailbox writer wrote what waited: messages in a batch share their syncs.";
    whole_syncs: Counter = "mailbox_whole_syncs" {} "Batches for which the whole file system was synced, instead of each file and each directory.";
}

metric_set! {
    /// Of MTA-STS policies.
    PolicyMetrics:

    fetches: Counter = "mta_sts_fetches" {} "MTA-STS policies that were fetched.";
    fetches_failed: Counter = "mta_sts_fetches_failed" {} "MTA-STS policies that could not be fetched, or were malformed.";
    evicted: Counter = "mta_sts_policies_evicted" {} "MTA-STS policies in force that were forgotten because there are too many.";
    cached: Gauge = "mta_sts_policies" {} "MTA-STS policies in the cache.";
}

metric_set! {
    /// Of the event log.
    EventMetrics:

    emitted: Counter = "events" {} "Events made.";
    dropped: Counter = "events_dropped" {} "Events lost because the queue to the event log was full.";
    write_failures: Counter = "events_write_failures" {} "Failed writes to the event log.";
    lag: Gauge = "events_lag" {} "Events made but not written yet.";
    written_bytes: Counter = "events_written_bytes" {} "Bytes written to the event log.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_bounds_are_inclusive_and_what_is_above_is_kept() {
        let histogram = Histogram::<CommitBounds>::default();
        for us in [0, 100, 101, 5_000_000, 5_000_001, u64::MAX >> 1] {
            histogram.observe(Duration::from_micros(us));
        }
        let seen = histogram.snapshot();
        assert_eq!(seen.counts.len(), CommitBounds::BOUNDS_US.len() + 1);
        assert_eq!(seen.counts[0], 2);
        assert_eq!(seen.counts[1], 1);
        assert_eq!(seen.counts[13], 1);
        assert_eq!(seen.counts[14], 2);
        assert_eq!(seen.counts.iter().sum::<u64>(), 6);
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [CommitBounds::BOUNDS_US, DelayBounds::BOUNDS_US] {
            assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }

    #[test]
    fn two_shards_add_up() {
        let (a, b) = (Metrics::default(), Metrics::default());
        a.messages_received.add(3);
        b.messages_received.inc();
        a.sessions_open.inc();
        b.sessions_open.dec();
        b.delivery_delay.observe(Duration::from_secs(2));
        let mut sums: Vec<(&'static str, Value)> = Vec::new();
        a.each(&mut |d, v| sums.push((d.name, v)));
        let mut n = 0;
        b.each(&mut |_, v| {
            sums[n].1.merge(&v);
            n += 1;
        });
        let of = |name| &sums.iter().find(|(n, _)| *n == name).unwrap().1;
        assert_eq!(of("messages_received"), &Value::Counter(4));
        assert_eq!(of("sessions_open"), &Value::Gauge(0));
        let Value::Histogram(delay) = of("delivery_delay") else { panic!() };
        assert_eq!((delay.counts.iter().sum::<u64>(), delay.sum_us), (1, 2_000_000));
    }

    #[test]
    fn metrics_of_one_name_stand_together_and_agree() {
        fn check(set: &dyn MetricSet) {
            let mut seen = Vec::new();
            set.each(&mut |d, _| seen.push((d.name, d.help, d.labels.to_vec())));
            for (n, (name, help, labels)) in seen.iter().enumerate() {
                if let Some(first) = seen.iter().position(|other| other.0 == *name) {
                    assert!(seen[first..=n].iter().all(|other| other.0 == *name), "{name}");
                    assert_eq!(seen[first].1, *help, "{name}");
                    assert!(first == n || seen[first].2 != *labels, "{name}");
                }
            }
        }
        check(&Metrics::default());
        check(&ClassMetrics::default());
        check(&LogMetrics::default());
        check(&EventMetrics::default());
    }
}
