//! When a message is to be delivered at the latest (RFC 2852).

use crate::Wall;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliverBy {
    /// By when.
    pub at: Wall,
    /// What becomes of it then.
    pub mode: ByMode,
    /// Its sender hears of each server that passes it on.
    pub is_traced: bool,
}

/// What becomes of a message that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByMode {
    /// It is returned.
    Return,
    /// Its sender is told.
    Notify,
}
