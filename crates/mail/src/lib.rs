//! The vocabulary of a mail switch: value types shared by all other crates, without I/O.
//!
//! No module here opens a socket, reads a clock or keeps state between calls.

pub mod address;
pub mod address_list;
pub mod content;
mod date;
pub mod dsn;
pub mod envelope;
pub mod failure;
pub mod field_watch;
pub mod header;
pub mod header_end;
pub mod id;
pub mod map;
pub mod omitted;
pub mod origin;
pub mod random;
pub mod received;
pub mod recent;
pub mod refusal;
pub mod reply;
pub mod step;
mod tag;
pub mod time;
pub mod transfer_encoding;
mod turns;

pub use address::{AddressError, Domain, Mailbox, OrAddress, is_dot_string, or_text};
pub use content::{ContentFacts, ContentScanner, HeaderScan};
pub use envelope::{
    BodyType, ByMode, DeliverBy, Envelope, Notify, Priority, Recipient, RequireTls, Ret,
};
pub use failure::{Class, Culprit, Failure};
pub use field_watch::FieldWatch;
pub use id::MessageId;
pub use omitted::Omitted;
pub use random::Random;
pub use recent::Recent;
pub use refusal::{Refusal, RefusalClass};
pub use reply::{EnhancedStatus, Reply};
pub use step::Step;
pub use tag::TagDelimiters;
pub use time::{Mono, Wall};
pub use turns::Turns;
