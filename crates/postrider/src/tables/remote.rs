//! Tables whose answers come from elsewhere, as the shards hold them.
//!
//! A fresh answer is had from the cache at once. Anything else goes to the table's clerk, on the thread
//! that all such tables share: it sits at the table's desk (`lookup::Desk`) and has the server asked.
//! While that gives no answer, one that is too old serves.

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
