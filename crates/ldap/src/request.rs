//! Requests (RFC 4511 §4.2 to §4.14).

use crate::ber::{BOOLEAN, BerWriter, ENUMERATED, INTEGER, OCTETS, SEQUENCE};
use crate::key::Key;
use crate::{Filter, RequestControl};

/// The operation that begins TLS (RFC 4511 §4.14.1).
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

/// A message with one operation.
fn message(id: i32, operation: impl FnOnce(&mut BerWriter)) -> Vec<u8> {
    let mut writer = BerWriter::default();
    writer.nested(SEQUENCE, |w| {
        w.number(INTEGER, id);
        operation(w);
    });
    writer.into_bytes()
}

/// The identity of a bind.
#[derive(Clone, Copy, Debug)]
pub enum BindAs<'a> {
    /// By a name and a password.
    Simple {
        /// The name.
        dn: &'a str,
        /// The password. An empty one makes an unauthenticated bind (RFC 4513 §5.1.2): never send it.
        password: &'a [u8],
    },
    /// The identity of the connection: the user of a Unix socket or of a certificate (RFC 4422
    /// appendix A).
    External,
}

/// A bind (RFC 4511 §4.2).
#[must_use]
pub fn bind(id: i32, as_whom: BindAs<'_>) -> Vec<u8> {
    message(id, |w| {
        w.nested(0x60, |w| {
            w.number(INTEGER, 3);
            match as_whom {
                BindAs::Simple { dn, password } => {
                    w.bytes(OCTETS, dn.as_bytes());
                    w.bytes(0x80, password);
                }
                BindAs::External => {
                    w.bytes(OCTETS, b"");
                    w.nested(0xa3, |w| {
                        w.bytes(OCTETS, b"EXTERNAL");
                        // An empty authorization identity: only that of the connection (RFC 4422 appendix A).
                        w.bytes(OCTETS, b"");
                    });
                }
            }
        });
    })
}

/// The request to begin TLS (RFC 4511 §4.14).
#[must_use]
pub fn start_tls(id: i32) -> Vec<u8> {
    message(id, |w| w.nested(0x77, |w| w.bytes(0x80, START_TLS)))
}

/// The answers to a request are no longer wanted (RFC 4511 §4.11). Nothing comes back.
#[must_use]
pub fn abandon(id: i32, target: i32) -> Vec<u8> {
    message(id, |w| w.number(0x50, target))
}

/// Farewell (RFC 4511 §4.3). Nothing comes back.
#[must_use]
pub fn unbind(id: i32) -> Vec<u8> {
    message(id, |w| w.bytes(0x42, b""))
}

/// The depth of a search below its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The base alone.
    Base,
    /// The direct children of the base.
    One,
    /// The base and all below it.
    Sub,
}

/// A search (RFC 4511 §4.5.1). Aliases are not followed.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The name of its base entry.
    pub base: &'a str,
    /// Its depth.
    pub scope: Scope,
    /// Its filter.
    pub filter: &'a Filter,
    /// The values for the filter's places.
    pub key: Key<'a>,
    /// The attributes to return.
    pub attributes: &'a [Box<str>],
    /// Maximum number of entries; 0: no limit.
    pub entries_max: i32,
    /// Time limit of the server in seconds; 0: none.
    pub seconds_max: i32,
}

impl Search<'_> {
    /// Writes the request, with an optional control.
    #[must_use]
    pub fn request(&self, id: i32, ask: Option<&RequestControl<'_>>) -> Vec<u8> {
        message(id, |w| {
            w.nested(0x63, |w| {
                w.bytes(OCTETS, self.base.as_bytes());
                let scope = match self.scope {
                    Scope::Base => 0,
                    Scope::One => 1,
                    Scope::Sub => 2,
                };
                w.number(ENUMERATED, scope);
                // Aliases: never.
                w.number(ENUMERATED, 0);
                w.number(INTEGER, self.entries_max);
                w.number(INTEGER, self.seconds_max);
                w.boolean(BOOLEAN, false);
                self.filter.write(&self.key, w);
                w.nested(SEQUENCE, |w| {
                    for attribute in self.attributes {
                        w.bytes(OCTETS, attribute.as_bytes());
                    }
                });
            });
            if let Some(ask) = ask {
                ask.write(w);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_byte_by_byte() {
        let simple = BindAs::Simple { dn: "cn=a", password: b"b" };
        assert_eq!(
            bind(1, simple),
            b"\x30\x11\x02\x01\x01\x60\x0c\x02\x01\x03\x04\x04cn=a\x80\x01b"
        );
        assert_eq!(
            bind(2, BindAs::External),
            b"\x30\x18\x02\x01\x02\x60\x13\x02\x01\x03\x04\x00\xa3\x0c\x04\x08EXTERNAL\x04\x00"
        );
        assert_eq!(start_tls(1), b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037");
        assert_eq!(abandon(3, 2), b"\x30\x06\x02\x01\x03\x50\x01\x02");
        assert_eq!(unbind(3), b"\x30\x05\x02\x01\x03\x42\x00");
        let filter = Filter::parse("(mail=%s)").unwrap();
        let search = Search {
            base: "dc=a",
            scope: Scope::Sub,
            filter: &filter,
            key: Key::new("j"),
            attributes: &["cn".into()],
            entries_max: 2,
            seconds_max: 5,
        };
        assert_eq!(
            search.request(2, None),
            b"\x30\x2b\x02\x01\x02\x63\x26\x04\x04dc=a\x0a\x01\x02\x0a\x01\x00\x02\x01\x02\x02\x01\x05\
              \x01\x01\x00\xa3\x09\x04\x04mail\x04\x01j\x30\x04\x04\x02cn"
        );
    }
}
