//! The transport protocol of class 0 (X.224) over TCP: connect, disconnect, data in TPDUs.
//!
//! [`TpduReader`] parses TPDUs in a connection's input, and passes data on as it arrives, without waiting for the end
//! of a TPDU. [`Framer`] splits a TSDU of known length into TPDUs.

mod framer;
mod reader;
mod tpdu;

pub use framer::{Framer, Outbox};
pub use reader::{
    TPDU_HEADER_BYTES_MAX, TpduItem, TpduReader, TransportError, USER_DATA_BYTES_MAX,
};
pub use tpdu::{Confirm, ConnectionRequest, Disconnect, DisconnectReason, Tpdu, TpduSize};

/// The largest TPDU, header included, without the TPKT's: 511 units of 128 octets (X.224 §13.3.4).
pub const TPDU_BYTES_MAX: usize = 65_408;
/// The smallest.
pub const TPDU_BYTES_MIN: usize = 128;
