//! What is sent to an MTA.

use bytes::Bytes;
use mail::Failure;

/// Recipients that can't be in an APDU, by index.
pub(super) type Refused = Vec<(u32, Failure)>;

/// An APDU but for its content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Departure {
    /// The octets before the content.
    pub(super) prefix: Vec<u8>,
    /// What follows.
    pub(super) content: Content,
    /// Recipients of the next MTA that can't be in it, by index. If that is all of them, there is nothing to send.
    pub(super) refused: Refused,
}

/// The content of an APDU.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A probe has none.
    None,
    /// As it is kept.
    Kept,
    /// Made of a message of internet mail.
    Made(Bytes),
}
