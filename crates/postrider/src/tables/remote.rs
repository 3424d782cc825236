//! Remote tables, as used by the shards.
//!
//! A fresh answer comes from the cache at once. Any other lookup goes to the table's worker, on the thread of all
//! remote tables, which coalesces lookups (`lookup::Coalescer`) and queries the server. If the server does not answer, a
//! stale answer is used.

mod clerk;
mod handle;
mod metrics;
mod shared;
mod status;
mod thread;

pub(crate) use handle::Remote;
pub(crate) use metrics::RemoteMetrics;
pub(crate) use status::Health;
pub(crate) use thread::{Seed, TableThread};

#[cfg(test)]
mod tests;
