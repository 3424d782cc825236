//! X.400 as sans-IO state machines and pure functions. It covers the transfer protocol P1 (X.411, X.419) with its lower
//! layers (RFC 1006, X.224, X.225, X.226, X.227, X.228), and contents (P2 and P22, X.420).
//!
//! Input is bytes and the time; output is events, bytes to send and content. Nothing here opens a socket, reads a clock
//! or waits.

pub mod acse;
pub mod association;
pub mod ber;
pub mod content;
pub mod decode;
pub mod mixer;
pub mod mts;
pub mod or_name;
pub mod presentation;
pub mod reasons;
pub mod report;
pub mod rtse;
pub mod session;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tpkt;
pub mod x224;
