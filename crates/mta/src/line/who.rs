//! Who waits in a line, and what is known of them.

/// Who waits or holds: those of one name take turns with others, whatever their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who(u64);

impl Who {
    /// Number `number` of a shard.
    #[must_use]
    pub fn new(shard: u16, number: u32) -> Who {
        Who(u64::from(shard) << 32 | u64::from(number))
    }

    /// A next hop, on whatever shard.
    #[must_use]
    pub fn hop(number: u32) -> Who {
        Who(1 << 62 | u64::from(number))
    }

    /// Another than [`Who::new`] of the same numbers.
    #[must_use]
    pub fn other(shard: u16, number: u32) -> Who {
        Who(1 << 63 | Who::new(shard, number).0)
    }
}

/// What is known of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It was well the last time.
    Good,
    Unknown,
    /// The last time was in vain.
    Doubtful,
}
