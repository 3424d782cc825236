//! The trace field Received (RFC 5321 §4.4).

use crate::{MessageId, Wall};
use std::net::IpAddr;

/// What goes into a Received field.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// What the client called itself in EHLO or HELO.
    pub helo: &'a str,
    /// The client's address.
    pub client: IpAddr,
    /// This server's name.
    pub by: &'a str,
    /// `ESMTP`, `SMTP`, `UTF8SMTP`, … (RFC 3848, RFC 6531 §4.3).
    pub with: &'a str,
    /// The message's id.
    pub id: MessageId,
    /// The only recipient, named only when there is just one, so that none is disclosed.
    pub for_recipient: Option<&'a str>,
    /// When the message was received.
    pub at: Wall,
}

impl Received<'_> {
    /// Appends the field, folded, with its CRLF.
    pub fn write_to(&self, _out: &mut Vec<u8>) {
        todo!()
    }
}
