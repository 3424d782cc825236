//! Metrics of remote tables.

use lookup::LookupErrorKind;
use mta::metrics::{CommitBounds, Counter, Gauge, Grid, Histogram};

mta::metric_set! {
    /// Metrics of one remote table.
    RemoteMetrics:

    hits: Counter = "table_hits" {} "Lookups in a table answered from its cache.";
    misses: Counter = "table_misses" {} "Lookups in a table not answered from its cache.";
    stale: Counter = "table_stale_answers" {} "Lookups in a table answered with an expired entry because the server failed.";
    requests: Counter = "table_requests" {} "Requests to the server of a table, each for one key or several.";
    troubles: Grid<LookupErrorKind> = "table_troubles" {} "Lookups in a table without an answer from its server, by kind.";
    waiting: Gauge = "table_waiting" {} "Pending lookups by table.";
    under_way: Gauge = "table_requests_open" {} "Requests to the server of a table in progress.";
    silent: Gauge = "table_silent" {} "1 while the server of a table fails and gets only occasional probes.";
    entries: Gauge = "table_cached" {} "Answers in the cache of a table, including expired ones.";
    request_time: Histogram<CommitBounds> = "table_request" {} "Time from a request to the server of a table to its answer or timeout.";
}
