//! Finds out what the log says after a restart. Reads in two passes, so that the memory it needs
//! is that of the live index: the first tells what is live, the second hands it over.

mod hand_over;
mod read;
mod seal;

pub(crate) use hand_over::wrong_length;
pub(crate) use read::{MISSING, Recovery};
