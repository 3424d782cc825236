//! The source of table metrics.

use super::ldap::SnapshotMetrics;
use super::remote::RemoteMetrics;
use std::fmt;
use std::sync::Arc;

/// The numbers of tables, by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableSets {
    /// Metrics of remote tables.
    pub(crate) remote: Vec<(Arc<str>, Arc<RemoteMetrics>)>,
    /// Metrics of copied directories.
    pub(crate) snapshots: Vec<(Arc<str>, Arc<SnapshotMetrics>)>,
}

type Tables = dyn Fn() -> TableSets + Send + Sync;

/// The source of table metrics.
#[derive(Clone)]
pub(crate) struct TableNumbers(Arc<Tables>);

impl TableNumbers {
    /// `tables` is called for each reading.
    pub(crate) fn new(tables: impl Fn() -> TableSets + Send + Sync + 'static) -> TableNumbers {
        TableNumbers(Arc::new(tables))
    }

    /// The current sets.
    pub(crate) fn get(&self) -> TableSets {
        (self.0)()
    }
}

impl Default for TableNumbers {
    fn default() -> TableNumbers {
        TableNumbers::new(TableSets::default)
    }
}

impl fmt::Debug for TableNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
