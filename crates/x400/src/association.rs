//! An association between two MTAs, from the first octet on a connection to the last: two sans-IO machines,
//! [`Responder`] (who was called) and [`Initiator`] (who calls), over the same layers.
//!
//! **The driver's loop**, for both: feed what was read ([`Responder::handle_input`]); take events until there
//! is none ([`Responder::poll_event`]) and act on them; write all of [`Responder::take_output`] in one
//! vectored write, saying [`Responder::handle_written`] when part of it went out; wait for input or for
//! [`Responder::next_deadline`] (then [`Responder::handle_deadline`]). Read on while writing: a peer may
//! say something meanwhile, and two sides that only write wait for each other. When
//! [`Responder::is_closed`] and the output is written, close the connection.
//!
//! **Receiving** an APDU: `ActivityStarted`, `Content` …, `ApduComplete`. The peer keeps the APDU until
//! [`Responder::acknowledge`] writes AEA (X.225 §8.3.27), so that must come after it is durable.
//! [`Responder::refuse_apdu`] may be called at any time from `ActivityStarted` on; then `ActivityDropped`
//! says that the peer gave it up.
//!
//! **Sending** one: [`Initiator::transfer`], then `Acknowledged`, or `NotTaken`, or `Ended`. Large APDUs
//! need not be in memory: [`Initiator::begin_transfer`] and [`Initiator::push_content`].
//!
//! What is received is an APDU's octets and nothing else: RTSE's EXTERNAL around it (X.419 §13.1) is taken
//! off, and put around what is sent. How the APDU is encoded is nobody's concern here; octets behind it
//! come too.

mod abort;
mod core;
mod dialogue;
mod event;
mod initiator;
mod machine;
mod receiving;
mod responder;
mod sending;
mod settings;
mod transfers;

pub use crate::rtse::{AbortReason, BindError, Identity, Mode, Password};
pub use crate::session::ExceptionReason;
pub use event::{AssociationEnd, BindRequest, Binding, Event, Layer, Phase, Refusal, Violation};
pub use initiator::Initiator;
pub use responder::Responder;
pub use settings::{
    CHECKPOINT_KIB_MAX, InitiatorSettings, ResponderSettings, S_SELECTOR_BYTES_MAX,
    SELECTOR_BYTES_MAX, Selectors, Timeouts, WINDOW_MAX,
};
