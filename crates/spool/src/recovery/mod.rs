//! Recovery: restores the state of the log after a restart. It reads in two passes, so that it needs only the memory of
//! the live index. The first pass finds the live messages, the second hands them over.

mod hand_over;
mod read;
mod seal;

pub(crate) use hand_over::wrong_length;
pub(crate) use read::{MISSING, Recovery};
