//! Encoding of facts.

use bytes::Bytes;
use mail::{ByMode, DeliverBy, Omitted, Priority, RequireTls, Wall};
use std::net::IpAddr;

/// A fact with its encoding.
pub(super) trait Fact<'a>: Sized {
    fn write(self) -> Bytes;
    /// `None` if it is truncated or invalid.
    fn read(value: &'a Bytes) -> Option<Self>;
}

impl<'a> Fact<'a> for &'a str {
    fn write(self) -> Bytes {
        Bytes::copy_from_slice(self.as_bytes())
    }

    fn read(value: &'a Bytes) -> Option<&'a str> {
        std::str::from_utf8(value).ok()
    }
}

impl<'a> Fact<'a> for &'a Bytes {
    fn write(self) -> Bytes {
        self.clone()
    }

    fn read(value: &'a Bytes) -> Option<&'a Bytes> {
        Some(value)
    }
}

impl Fact<'_> for Wall {
    fn write(self) -> Bytes {
        Bytes::copy_from_slice(&self.0.to_le_bytes())
    }

    fn read(value: &Bytes) -> Option<Wall> {
        Some(Wall(u64::from_le_bytes(*value.first_chunk()?)))
    }
}

impl Fact<'_> for Priority {
    fn write(self) -> Bytes {
        Bytes::copy_from_slice(&self.value().to_le_bytes())
    }

    fn read(value: &Bytes) -> Option<Priority> {
        Priority::new(value.first()?.cast_signed())
    }
}

impl Fact<'_> for DeliverBy {
    fn write(self) -> Bytes {
        let mode = match self.mode {
            ByMode::Return => b'R',
            ByMode::Notify => b'N',
        };
        let mut value = self.at.0.to_le_bytes().to_vec();
        value.extend([mode, u8::from(self.is_traced)]);
        Bytes::from(value)
    }

    fn read(value: &Bytes) -> Option<DeliverBy> {
        let [at @ .., mode, is_traced] = &value[..] else { return None };
        let mode = match mode {
            b'R' => ByMode::Return,
            b'N' => ByMode::Notify,
            _ => return None,
        };
        let at = Wall(u64::from_le_bytes(at.try_into().ok()?));
        Some(DeliverBy { at, mode, is_traced: *is_traced == 1 })
    }
}

impl Fact<'_> for RequireTls {
    fn write(self) -> Bytes {
        Bytes::from_static(match self {
            RequireTls::Unsaid => &[],
            RequireTls::Yes => &[1],
            RequireTls::No => &[2],
        })
    }

    /// An unknown value of a later version is read as the safe one.
    fn read(value: &Bytes) -> Option<RequireTls> {
        Some(if value[..] == [2] { RequireTls::No } else { RequireTls::Yes })
    }
}

/// A fact without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Present;

impl Fact<'_> for Present {
    fn write(self) -> Bytes {
        Bytes::from_static(&[1])
    }

    fn read(_: &Bytes) -> Option<Present> {
        Some(Present)
    }
}

/// A client that may not relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stranger {
    /// The sender address is authenticated.
    pub(crate) is_vouched: bool,
}

impl Fact<'_> for Stranger {
    fn write(self) -> Bytes {
        Bytes::from_static(if self.is_vouched { &[2] } else { &[1] })
    }

    fn read(value: &Bytes) -> Option<Stranger> {
        Some(Stranger { is_vouched: value[..] != [1] })
    }
}

/// The address of a client, as in Received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientAddress<'a>(pub(crate) &'a str);

impl ClientAddress<'_> {
    pub(crate) fn ip(self) -> Option<IpAddr> {
        self.0.strip_prefix("IPv6:").unwrap_or(self.0).parse().ok()
    }
}

impl<'a> Fact<'a> for ClientAddress<'a> {
    fn write(self) -> Bytes {
        self.0.write()
    }

    fn read(value: &'a Bytes) -> Option<ClientAddress<'a>> {
        Fact::read(value).map(ClientAddress)
    }
}

/// Ranges of a body ([`Omitted`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranges<'a>(pub(crate) &'a [u8]);

impl Ranges<'_> {
    /// The ranges within a body of `body_bytes` octets.
    pub(crate) fn within(self, body_bytes: u64) -> Omitted {
        Omitted::from_bytes(self.0, body_bytes)
    }
}

impl<'a> Fact<'a> for Ranges<'a> {
    fn write(self) -> Bytes {
        Bytes::copy_from_slice(self.0)
    }

    fn read(value: &'a Bytes) -> Option<Ranges<'a>> {
        Some(Ranges(value))
    }
}

/// A hold by a check: its end, and the parties that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold<'a> {
    /// The message may be bounced to its sender.
    pub(crate) is_returnable: bool,
    /// The peer that sent octets which can't be read, or empty.
    pub(crate) peer: &'a str,
    /// The sender's domain, or empty.
    pub(crate) sender: &'a str,
    /// The author's domain, or empty.
    pub(crate) author: &'a str,
    pub(crate) reason: &'a str,
}

/// Bits in the first octet of a hold.
const HELD_RETURNABLE: u8 = 1;
/// The sender is a peer.
const HELD_OF_PEER: u8 = 2;

impl<'a> Fact<'a> for Hold<'a> {
    fn write(self) -> Bytes {
        let Hold { is_returnable, peer, sender, author, reason } = self;
        let (kind, sender) = if peer.is_empty() { (0, sender) } else { (HELD_OF_PEER, peer) };
        let mut value = vec![kind | if is_returnable { HELD_RETURNABLE } else { 0 }];
        // The reason comes last, as it may be any text.
        value.extend_from_slice(format!("{sender}\n{author}\n{reason}").as_bytes());
        Bytes::from(value)
    }

    fn read(value: &'a Bytes) -> Option<Hold<'a>> {
        let (bits, text) = value.split_first()?;
        let mut lines = std::str::from_utf8(text).ok()?.splitn(3, '\n');
        let (first, author, reason) = (lines.next()?, lines.next()?, lines.next()?);
        let (peer, sender) = if bits & HELD_OF_PEER != 0 { (first, "") } else { ("", first) };
        Some(Hold { is_returnable: bits & HELD_RETURNABLE != 0, peer, sender, author, reason })
    }
}
