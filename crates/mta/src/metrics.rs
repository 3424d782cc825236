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
use crate::rate_limits::settings::LimitBy;
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
    sessions_displaced: Counter = "sessions_displaced" {} "Client sessions closed with 421 in favour of clients that hold fewer sessions.";
    sessions_refused: Counter = "sessions_refused" {} "Client connections rejected with 421 because of a limit.";
    logins: Counter = "logins" {} "Successful logins of clients.";
    login_failures: Counter = "login_failures" {} "Failed logins: wrong password, unknown user or invalid proof.";
    logins_deferred: Counter = "logins_deferred" {} "Logins deferred with 421 or 454: limit \
     reached, no answer from the table or server, or too many passwords to hash.";
    password_checks: Grid<Lane, Histogram<CommitBounds>> = "password_check" {} "Time from a login \
     to the verdict on its password or its deferral, by lane: clients recently authenticated as \
     this user, unknown clients, clients with recent failures.";
    password_checks_refused: Grid<Lane> = "password_checks_refused" {} "Logins deferred with 454 \
     because too many passwords wait in their lane, or this one waited too long.";
    early_talkers: Counter = "early_talkers" {} "Clients rejected because they sent data before the greeting.";
    proxy_headers_refused: Counter = "proxy_headers_refused" {} "Proxy connections closed: invalid PROXY header or timeout.";
    sessions_open: Gauge = "sessions_open" {} "Client sessions open now.";
    tls_handshakes: Counter = "tls_handshakes" {} "Completed TLS handshakes of clients.";
    tls_handshakes_failed: Counter = "tls_handshakes_failed" {} "TLS handshakes of clients that failed or timed out.";
    tls_connections: Counter = "tls_connections" {} "Encrypted connections to next hops.";
    tls_connections_failed: Counter = "tls_connections_failed" {} "Connections to next hops with a failed TLS handshake.";
    tls_policy_connections: Grid<TlsPolicy> = "tls_policy_connections" {} "Connections to next \
     hops encrypted as required by TLSA records or the domain's policy, by policy.";
    tls_policy_failures: Grid<TlsPolicy> = "tls_policy_failures" {} "Hosts of next hops skipped, by \
     TLS policy (DANE, MTA-STS): the host did not match the policy, or the policy lookup failed.";
    require_tls_failures: Grid<RequireTlsLack> = "require_tls_failures" {} "Recipients of \
     messages with REQUIRETLS that were bounced, by missing feature of the next hop: encryption \
     by an authenticated host (5.7.10), or REQUIRETLS (5.7.30).";
    messages_received: Counter = "messages_received" {} "Messages accepted with 250, without local DSNs.";
    recipients_received: Counter = "recipients_received" {} "Recipients of accepted messages.";
    bytes_received: Counter = "bytes_received" {} "Content bytes of accepted messages.";
    refused: Grid<RefusalReason> = "refused" {} "Rejections and deferrals at intake, by reason.";
    checked_iprev: Grid<iprev::IprevResult> = "checked" {check = "iprev"} "Messages from unauthenticated clients with a checked sender, by check and verdict.";
    checked_spf: Grid<spf::SpfResult> = "checked" {check = "spf"} "Messages from unauthenticated clients with a checked sender, by check and verdict.";
    checked_dkim: Grid<dkim::DkimResult> = "checked" {check = "dkim"} "Messages from unauthenticated clients with a checked sender, by check and verdict.";
    checked_dmarc: Grid<dmarc::DmarcResult> = "checked" {check = "dmarc"} "Messages from unauthenticated clients with a checked sender, by check and verdict.";
    checked_arc: Grid<arc::ArcResult> = "checked" {check = "arc"} "Messages from unauthenticated clients with a checked sender, by check and verdict.";
    checked_dnsbl: Grid<dnsbl::DnsblResult> = "checked" {check = "dnsbl"} "Messages from unauthenticated clients with a checked sender, by check and verdict.";
    strangers_refused: Grid<StrangersCheck> = "strangers_refused" {} "Recipients of unauthenticated clients rejected before their message, by check.";
    greylist: Grid<greylist::GreylistResult> = "greylist" {} "Recipients checked by greylisting, \
     by result: new, retried too early, retried in time, known, known client.";
    sealed: Grid<SealedChain> = "sealed" {} "Messages sealed by ARC, by the status of the chain before the seal.";
    signatures: Grid<Algorithm> = "signatures" {} "DKIM signatures, by algorithm.";
    unsigned: Grid<UnsignedReason> = "unsigned" {} "Messages left unsigned: not exactly one author, or no signer for the author.";
    signing_failures: Counter = "signing_failures" {} "Messages deferred with 451 because the signing key was unavailable.";
    tenant_queue_full: Counter = "tenant_queue_full_refusals" {} "Messages deferred with 452 because their tenant reached its limit of queued recipients.";
    held_refused: Counter = "held_full_refusals" {} "Messages deferred with 451 because the limit \
     of held mail was reached, for all clients or for one.";
    holds_ended: Grid<HoldEnd> = "holds_ended" {} "Messages held by checks and not released within hold_for, by outcome.";
    held_by_checks: Gauge = "held_by_checks_recipients" {} "Recipients of messages now held by checks.";
    held_by_checks_max: Gauge = "held_by_checks_recipients_max" {} "Maximum number of recipients of messages held by checks.";
    limits_reached: Grid<LimitBy> = "limits_reached" {} "Times that a login, sender, sender's \
     domain or listener reached a [[limit]], by that property.";
    limited: Grid<LimitBy> = "limit_excess" {} "Messages and recipients deferred or held because \
     a [[limit]] was reached, by the limited property.";
    queue_full: Counter = "queue_full_refusals" {} "Transactions deferred with 452 because the queue was full.";
    commit_refused: Counter = "commit_refusals" {} "Messages deferred with 451 or 452 because the spool could not store them.";
    content_waits: Counter = "body_memory_waits" {} "Waits of sessions for body memory.";
    spilled: Counter = "body_spills" {} "Bodies written to a blob because body memory was exhausted.";
    body_memory_bytes: Gauge = "body_memory_bytes" {} "Memory now used by message bodies.";
    recipients_done: Grid<RecipientOutcome> = "recipients_done" {} "Settled recipients, by outcome.";
    deferrals: Counter = "deferrals" {} "Failed delivery attempts to be repeated, per recipient.";
    dsns: Grid<DsnAction> = "dsns" {} "DSNs queued, by action.";
    milter_failures: Counter = "milter_failures" {} "Milter failures: unreachable, timeout or protocol error.";
    milter_refusals: Counter = "milter_refusals" {} "Sessions, senders, recipients and messages rejected or deferred by milters.";
    milter_rewrites: Counter = "milter_rewrites" {} "Messages with a header or body changed by milters.";
    milter_discards: Counter = "milter_discards" {} "Messages discarded by milters.";
    dsns_suppressed: Counter = "dsns_suppressed" {} "DSNs suppressed: reports are off, the hourly \
     limit of the sender was reached, or an operator's order.";
    connections_opened: Counter = "connections_opened" {} "Connections to next hops that reached a greeting.";
    connections_failed: Counter = "connections_failed" {} "Connections to next hops that failed before they could carry mail.";
    connections_open: Gauge = "connections_open" {} "Open connections to next hops.";
    transactions: Counter = "transactions" {} "Transactions begun with next hops.";
    doubtful: Counter = "transactions_doubtful" {} "Transactions lost after the content was sent; the next hop may have it and gets it again.";
    bytes_sent: Counter = "bytes_sent" {} "Content bytes of messages accepted by next hops.";
    queue_recipients: Grid<QueueState, Gauge> = "queue_recipients" {} "Queued recipients now, by state.";
    queue_slots_free: Gauge = "queue_slots_free" {} "Free queue slots for recipients before 452 4.3.1.";
    unsettled: Gauge = "unsettled_recipients" {} "Settled recipients with a settle record not yet on stable storage.";
    connections_waiting: Gauge = "connections_waiting" {} "Connections to next hops that wait in \
     line because the process has its maximum of open connections, or of connections before a \
     greeting.";
    suspensions: Counter = "suspensions" {} "Suspensions of next hops and of domains that cannot be looked up.";
    next_hops_suspended: Gauge = "next_hops_suspended" {} "Suspended next hops and domains that cannot be looked up.";
    shaping_effects_begun: Grid<Action> = "shaping_effects_begun" {} "Activations of shaping rules, by action.";
    shaping_effects: Gauge = "shaping_effects" {} "Effects of shaping rules now in force.";
    lookups: Counter = "dns_lookups" {} "DNS queries, including those answered from the cache.";
    lookups_failed: Counter = "dns_lookups_failed" {} "DNS queries that timed out or failed (SERVFAIL and similar).";
    messages_read_back: Counter = "messages_read_back" {} "Messages read back from the spool for delivery because they were no longer in memory.";
    conversions_again: Counter = "conversions_again" {} "Conversions between X.400 and internet \
     mail repeated: their memory was released while a peer was silent.";
    lookups_waiting: Gauge = "dns_lookups_waiting" {} "Lookups that wait in line because max_lookups of [dns] are in progress.";
    lookup_time: Histogram<CommitBounds> = "dns_lookup" {} "Time from a DNS query to its answer, without the wait in line.";
    delivery_delay: Histogram<DelayBounds> = "delivery_delay" {} "Time from acceptance to delivery or relay, per recipient.";
}

metric_set! {
    /// Classes of peers' negative replies, over all shards.
    ClassMetrics:

    deferrals: Grid<ReplyClass> = "deferrals_by_class" {} "Attempts deferred by a peer's reply, per recipient, by class of the reply.";
    failures: Grid<ReplyClass> = "failures_by_class" {} "Recipients failed permanently by a peer's reply, by class of the reply.";
}

metric_set! {
    /// Of one source with a warm-up, over all shards.
    WarmupMetrics:

    recipients: Counter = "warmup_recipients" {} "Recipients allowed for a source in warm-up.";
    pauses: Counter = "warmup_pauses" {} "Stops of a source towards a provider because of its warm-up.";
    days_repeated: Counter = "warmup_days_repeated" {} "Days of a source's warm-up with a \
     provider repeated because too much was blocked or rate limited.";
    finished: Counter = "warmups_finished" {} "Completed warm-ups of a source with a provider.";
}

metric_set! {
    /// Of one log of the spool.
    LogMetrics:

    commits: Counter = "spool_commits" {} "Batches written (and synced, depending on durability).";
    commit_records: Counter = "spool_records" {} "Records written.";
    commit_bytes: Counter = "spool_written_bytes" {} "Bytes written to segments.";
    commit_failures: Counter = "spool_commit_failures" {} "Writes or syncs that failed.";
    commit_latency: Histogram<CommitBounds> = "spool_commit" {} "Time from the write of a batch to the end of its sync.";
    poisoned: Gauge = "spool_poisoned" {} "1 after a failed sync, when this log accepts nothing more.";
    full: Gauge = "spool_full" {} "1 while messages are deferred with 452 because disk space is low.";
    segments: Gauge = "spool_segments" {} "Segments with live records.";
    segments_spare: Gauge = "spool_segments_spare" {} "Spare segments.";
    live_messages: Gauge = "spool_live_messages" {} "Messages with at least one open recipient.";
    live_bytes: Gauge = "spool_live_bytes" {} "Bytes of live records.";
    blobs: Gauge = "spool_blobs" {} "Bodies in separate files.";
    compacted_bytes: Counter = "spool_compacted_bytes" {} "Bytes moved by compaction.";
    room_bytes: Gauge = "spool_room_bytes" {} "Bytes free on the disk of the log, or in its files.";
    message_ids_left: Gauge = "spool_message_ids_left" {} "Message ids left in the log.";
    damaged: Counter = "spool_damaged_records" {} "Records found damaged and quarantined.";
    orphan_blobs_removed: Counter = "spool_orphan_blobs_removed" {} "Orphan bodies removed at the start.";
    orphan_blobs_kept: Gauge = "spool_orphan_blobs_kept" {} "Orphan bodies kept at the start because they may belong to a damaged record.";
}

metric_set! {
    /// Of one pool.
    PoolMetrics:

    used: Gauge = "pool_used" {} "Amount of a pool now in use.";
    max: Gauge = "pool_max" {} "Size of a pool.";
    waiting: Gauge = "pool_waiting" {} "Requests that wait for a pool.";
    pressed: Gauge = "pool_under_pressure" {} "1 while a pool has waiting or rejected requests, and for ten seconds longer.";
    turned_away: Counter = "pool_turned_away" {} "Requests rejected, deferred or displaced because a pool was exhausted.";
}

metric_set! {
    /// Of the mailbox writers.
    MailboxMetrics:

    writers: Gauge = "mailbox_writers" {} "Maximum number of mailbox writer threads now, as many as make deliveries faster.";
    writers_busy: Gauge = "mailbox_writers_busy" {} "Mailbox writer threads that are writing.";
    waiting: Gauge = "mailbox_writes_waiting" {} "Messages, and pieces of large ones, waiting for a mailbox writer.";
    written: Counter = "mailbox_messages" {} "Messages written to mailboxes.";
    batches: Counter = "mailbox_batches" {} "Batches written by mailbox writers; the messages of a batch share their syncs.";
    write_time: Histogram<CommitBounds> = "mailbox_write" {} "Time from the begin of a batch of mailbox writes to the end of its syncs.";
    whole_syncs: Counter = "mailbox_whole_syncs" {} "Batches with a sync of the whole file system instead of each file and directory.";
}

metric_set! {
    /// Of MTA-STS policies.
    PolicyMetrics:

    fetches: Counter = "mta_sts_fetches" {} "MTA-STS policies fetched.";
    fetches_failed: Counter = "mta_sts_fetches_failed" {} "MTA-STS policies that could not be fetched or were malformed.";
    evicted: Counter = "mta_sts_policies_evicted" {} "MTA-STS policies in force evicted because the cache was full.";
    cached: Gauge = "mta_sts_policies" {} "MTA-STS policies in the cache.";
}

metric_set! {
    /// Of the event log.
    EventMetrics:

    emitted: Counter = "events" {} "Events emitted.";
    dropped: Counter = "events_dropped" {} "Events lost because the queue of the event log was full.";
    write_failures: Counter = "events_write_failures" {} "Failed writes to the event log.";
    lag: Gauge = "events_lag" {} "Events emitted but not written yet.";
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
