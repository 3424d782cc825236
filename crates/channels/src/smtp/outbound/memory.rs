//! What is remembered of a next hop from one connection to another.

use super::lessons::Lessons;
use super::moves::Moves;

/// Kept beside the next hop, and dropped with it.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) lessons: Lessons,
    pub(super) moves: Moves,
}
