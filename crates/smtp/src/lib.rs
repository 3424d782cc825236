//! SMTP (RFC 5321) and LMTP (RFC 2033) as sans-IO state machines.
//!
//! Bytes and the time go in; replies, events and content come out. Nothing here opens a socket,
//! reads a clock or waits.

pub mod client;
pub mod server;
#[cfg(feature = "testing")]
pub mod testing;
pub mod wishes;
