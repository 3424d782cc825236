//! The kinds of table that there are: what may stand in `[[table]]`, and the drivers of those whose
//! answers come from a server.

use config::{Schema, TableSettings};
use lookup::Backend;
use std::sync::Arc;

/// What may stand in the configuration of this program.
pub(crate) fn schema() -> &'static Schema {
    channels::schema()
}

/// Makes a driver, on the thread on which it will live.
pub(super) type Build = Box<dyn FnOnce() -> Box<dyn Backend> + Send>;

/// The driver of a table; `None`: its answers are kept in this process.
pub(super) fn backend(_settings: &Arc<dyn TableSettings>) -> Option<Build> {
    None
}
