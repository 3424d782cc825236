//! MIXER: messages, reports and addresses between X.400 and internet mail (RFC 2156, RFC 2157). Pure functions: what
//! is converted is all in memory, and no longer than [`CONTENT_BYTES_MAX`].

pub mod address;
pub mod entity;
pub mod mailbox;
pub mod mcgam;
pub mod message_id;
pub mod printable;
pub mod status;
pub mod words;

pub use address::{Gateway, Use};
pub use mcgam::{Mappings, TableKind};

/// Octets of a message that is converted at most, on either side.
pub const CONTENT_BYTES_MAX: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests;
