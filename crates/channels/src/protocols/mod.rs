//! Ways in, a line each. A protocol that only takes mail is a file or folder here; SMTP and X.400, which are ways out as
//! well, have folders beside this one.

use crate::{smtp, x400};
use config::Schema;
use mta::ingress::Protocols;
use mta::seams::World;
use std::rc::Rc;

/// The list: the keys that a listener of each has in the configuration, and what serves its connections.
macro_rules! protocols {
    ($($keys:ty => $protocol:expr,)*) => {
        /// The keys of all of them.
        pub(crate) fn keys(schema: Schema) -> Schema {
            schema$(.protocol::<$keys>())*
        }

        /// All ways in, for one shard.
        #[must_use]
        pub fn protocols<W: World>() -> Protocols<W> {
            vec![$(Rc::new($protocol)),*]
        }
    };
}

protocols! {
    smtp::SmtpListenerText => smtp::Inbound::SMTP,
    smtp::SubmissionText => smtp::Inbound::SUBMISSION,
    x400::P1Text => x400::P1,
}
