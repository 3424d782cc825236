//! Numbers of tables whose answers come from elsewhere.

use lookup::TroubleKind;
use mta::metrics::{CommitBounds, Counter, Gauge, Histogram};

mta::metric_set! {
    /// Of one table whose answers come from elsewhere.
    RemoteMetrics:

    hits: Counter = "table_hits" {} "Questions to a table that were answered from its cache.";
    misses: Counter = "table_misses" {} "Questions to a table that only its server could answer.";
    stale: Counter = "table_stale_answers" {} "Questions to a table that got an answer which was too old, because the server gave none.";
    requests: Counter = "table_requests" {} "Requests to the server of a table, each for one key or several.";
    unreachable: Counter = "table_troubles" {kind = "unreachable"} "Questions to a table that its server gave no answer to, by kind.";
    timeouts: Counter = "table_troubles" {kind = "timeout"} "Questions to a table that its server gave no answer to, by kind.";
    wrong: Counter = "table_troubles" {kind = "wrong"} "Questions to a table that its server gave no answer to, by kind.";
    odd_keys: Counter = "table_troubles" {kind = "key"} "Questions to a table that its server gave no answer to, by kind.";
    busy: Counter = "table_troubles" {kind = "busy"} "Questions to a table that its server gave no answer to, by kind.";
    waiting: Gauge = "table_waiting" {} "Questions to a table that wait for an answer now.";
    under_way: Gauge = "table_requests_open" {} "Requests to the server of a table that are under way now.";
    silent: Gauge = "table_silent" {} "1 while the server of a table gives no answers and is left alone, but for a probe now and then.";
    entries: Gauge = "table_cached" {} "Answers in the cache of a table, old ones included.";
    request_time: Histogram<CommitBounds> = "table_request" {} "From a request to the server of a table to its answer, or to the end of patience.";
}

/// All kinds of trouble.
const KINDS: [TroubleKind; 5] = [
    TroubleKind::Unreachable,
    TroubleKind::Timeout,
    TroubleKind::Wrong,
    TroubleKind::Key,
    TroubleKind::Busy,
];

impl RemoteMetrics {
    /// Questions that got this kind of trouble.
    pub(super) fn trouble(&self, kind: TroubleKind) -> &Counter {
        match kind {
            TroubleKind::Unreachable => &self.unreachable,
            TroubleKind::Timeout => &self.timeouts,
            TroubleKind::Wrong => &self.wrong,
            TroubleKind::Key => &self.odd_keys,
            TroubleKind::Busy => &self.busy,
        }
    }

    /// How many questions got which kind of trouble.
    pub(super) fn troubles(&self) -> impl Iterator<Item = (TroubleKind, u64)> + '_ {
        KINDS.into_iter().map(|kind| (kind, self.trouble(kind).get()))
    }
}

/// What a kind of trouble is called, as in the label.
pub(super) fn name_of(kind: TroubleKind) -> &'static str {
    match kind {
        TroubleKind::Unreachable => "unreachable",
        TroubleKind::Timeout => "timeout",
        TroubleKind::Wrong => "wrong",
        TroubleKind::Key => "key",
        TroubleKind::Busy => "busy",
    }
}
