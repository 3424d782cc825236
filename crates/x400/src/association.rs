//! An association between two MTAs, from the first octet on a connection to the last. Two sans-IO machines,
//! [`Responder`] and [`Initiator`], share the same layers.
//!
//! **The driver's loop**, for both:
//!
//! 1. Pass input to [`Responder::handle_input`].
//! 2. Take events until none is left ([`Responder::poll_event`]) and act on them.
//! 3. Write all of [`Responder::take_output`] in one vectored write, and report written parts with
//!    [`Responder::handle_written`].
//! 4. Wait for input or for [`Responder::next_deadline`] (then [`Responder::handle_deadline`]).
//!
//! Continue reading while writing: the peer may send too, and two sides that only write deadlock. Once
//! [`Responder::is_closed`] and the output is written, close the connection.
//!
//! **Receiving** an APDU: `ActivityStarted`, `Content` …, `ApduComplete`. The peer keeps the APDU until
//! [`Responder::acknowledge`] writes AEA (X.225 §8.3.27), so call that only once it is durable.
//! [`Responder::refuse_apdu`] may be called at any time from `ActivityStarted` on; `ActivityDropped` then confirms that
//! the peer discarded it.
//!
//! **Sending** an APDU: [`Initiator::transfer`], then `Acknowledged`, or `NotTaken`, or `Ended`. Large APDUs need not
//! be in memory: [`Initiator::begin_transfer`] and [`Initiator::push_content`].
//!
//! Only an APDU's octets are received: RTSE's EXTERNAL around it (X.419 §13.1) is removed, and added when sending. The
//! APDU's encoding is not checked here; octets after it are passed too.

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
