//! Listener protocols, one line each. A protocol that only receives mail is a file or folder here. SMTP and X.400,
//! which also send, have folders beside this one.

use crate::{smtp, x400};
use config::Schema;
use mta::ingress::Protocols;
use mta::seams::World;
use std::rc::Rc;

/// The list: configuration keys of a listener of each protocol, and the type that serves its connections.
macro_rules! protocols {
    ($($keys:ty => $protocol:expr,)*) => {
        /// Adds the keys of all protocols.
        pub(crate) fn keys(schema: Schema) -> Schema {
            schema$(.protocol::<$keys>())*
        }

        /// All listener protocols, for one shard.
        #[must_use]
        pub fn protocols<W: World>() -> Protocols<W> {
            vec![$(Rc::new($protocol)),*]
        }
    };
}

protocols! {
    smtp::SmtpListenerText => smtp::Inbound::SMTP,
    smtp::SubmissionText => smtp::Inbound::SUBMISSION,
    smtp::LocalText => smtp::Inbound::LOCAL,
    x400::P1Text => x400::P1,
}
