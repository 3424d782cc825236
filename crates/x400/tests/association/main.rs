//! Associations: conversations with other people's MTAs replayed, our two ends with each other, and bad
//! input.

mod bad_input;
mod captures;
mod codec;
mod hex;
mod limits;
mod mutated;
mod self_talk;
