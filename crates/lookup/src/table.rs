//! Tables that answer at once.

use super::{Entry, Mistake, Trouble};
use std::fmt::Debug;

/// A table that is kept in this process, or in a file that is read a piece at a time. Shared by all
/// shards; a changed file makes a new table.
pub trait Table: Debug + Send + Sync {
    /// What it says of this key; `None`: it does not have it. May wait for a disk.
    ///
    /// # Errors
    /// The table is damaged, or can't be read.
    fn find(&self, key: &str) -> Result<Option<Entry>, Trouble>;

    /// The same, if nobody has to be waited for; else `None`.
    fn find_now(&self, key: &str) -> Option<Result<Option<Entry>, Trouble>> {
        Some(self.find(key))
    }

    /// How many keys it has, where that can be told.
    fn keys_count(&self) -> Option<u64> {
        None
    }

    /// What was left out when it was made, for people to be told.
    fn warnings(&self) -> &[Mistake] {
        &[]
    }
}
