//! P1 of X.400 (X.411), as far as load needs it: a source, a sink and a bare relay.
//!
//! All of it is written from the standards and from what other implementations sent, and shares nothing with the
//! crate that Postrider speaks P1 with: a misreading that both ends of a test had in common would never be seen.
//! What is sent comes from templates; what comes is read by looking for what matters.
//!
//! From the wire up: TPKT and X.224 (`tpkt`), session (`spdu`), what an association begins with (`bind`, `answer`:
//! presentation, ACSE, RTSE), activities (`plan`), envelopes (`message`, `apdu`), and the two ends (`association`
//! calls, `responder` answers).

mod address;
mod answer;
mod apdu;
mod association;
mod ber;
mod bind;
mod floor;
mod message;
mod options;
mod plan;
mod responder;
mod sink;
mod source;
mod spdu;
#[cfg(test)]
mod tests;
mod tpkt;

pub use address::OrAddress;
pub use bind::Mode;
pub use floor::{P1FloorOptions, run as run_floor};
pub use message::Priority;
pub use options::{PeerOptions, Selector};
pub use sink::{P1Drop, P1Phase, P1Refuse, P1SinkOptions, run as run_sink};
pub use source::{P1SourceOptions, run as run_source};
