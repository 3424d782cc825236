//! The server's side of the milter protocol (version 6, as in libmilter), without I/O: requests are
//! written to bytes, and responses are read from bytes.
//!
//! Its only description is in `libmilter/mfapi.h` and `mfdef.h` of Sendmail 8.14 and later. A
//! [`Dialogue`] is one connection. At the end of a message a filter sends a [`Change`] for each
//! modification. [`Header`] is the header of a message as filters see and change it.

mod answer;
mod dialogue;
mod header;
mod moment;
mod negotiation;
mod packet;
mod request;

pub use answer::{Answer, Change, FilterDecision, REJECTED};
pub use dialogue::Dialogue;
pub use header::{FIELDS_MAX, Header};
pub use moment::MilterEvent;
pub use negotiation::{Agreed, VERSION, offer};
pub use packet::{DATA_BYTES_MAX, Fault, frame};
pub use request::{BODY_BYTES_MAX, MilterCommand, Symbols, abort, quit};
