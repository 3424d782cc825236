//! Metrics of remote tables.

use lookup::LookupErrorKind;
use mta::metrics::{CommitBounds, Counter, Gauge, Grid, Histogram};

mta::metric_set! {
    /// Metrics of one remote table.
    RemoteMetrics:

    hits: Counter = "table_hits" {} "Questions to a table that were answered from its cache.";
    misses: Counter = "table_misses" {} "Questions to a table that only its server could answer.";
    stale: Counter = "table_stale_answers" {} "Questions to a table that got an answer which was too old, because the server gave none.";
    requests: Counter = "table_requests" {} "Requests to the server of a table, each for one key or several.";
    troubles: Grid<LookupErrorKind> = "table_troubles" {} "Questions to a table that its server gave no answer to, by kind.";
    waiting: Gauge = "table_waiting" {} "Questions to a table that wait for an answer now.";
    under_way: Gauge = "table_requests_open" {} "Requests to the server of a table that are under way now.";
    silent: Gauge = "table_silent" {} "1 while the server of a table gives no answers and is left alone, but for a probe now and then.";
    entries: Gauge = "table_cached" {} "Answers in the cache of a table, old ones included.";
    request_time: Histogram<CommitBounds> = "table_request" {} "From a request to the server of a table to its answer, or to the end of patience.";
}
