//! The milter protocol as a mail server speaks it (version 6 of Sendmail's, as libmilter has it), as bytes:
//! requests are written, answers are read, nothing is sent.
//!
//! No document of a standards body describes it: `libmilter/mfapi.h` and `mfdef.h` of Sendmail 8.14 and
//! later do. A [`Dialogue`] is one connection; what a filter wants changed it says at the end of a message,
//! a [`Change`] each. [`Header`] is the header of a message as filters see and change it.

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
