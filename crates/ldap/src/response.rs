//! Answers (RFC 4511 §4.2.2, §4.5.2, §4.12, §4.13).

use crate::ber::{BerReader, INTEGER, Malformed, OCTETS, SEQUENCE, SET};
use crate::{Outcome, ResponseControl, SyncInfo};

/// A message of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The request that it answers; 0: none (RFC 4511 §4.4).
    pub id: i32,
    /// Its operation.
    pub op: Op,
    /// The control that answers a control of the request.
    pub beside: Option<ResponseControl>,
}

/// The operation of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// The result of a bind.
    Bind(Outcome),
    /// An entry that a search found.
    Entry(Entry),
    /// Other servers know more.
    Reference,
    /// The result of a search.
    Done(Outcome),
    /// The result of an extended operation; without a request, a notice of disconnection.
    Extended(Outcome),
    /// Changes of entries, after a request for them.
    News(SyncInfo),
    /// Something else, by its tag.
    Other(u8),
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub dn: String,
    /// Its values of the requested attributes.
    pub attributes: Vec<Attribute>,
}

/// An attribute and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name, with options.
    pub name: String,
    /// At least one from a correct server.
    pub values: Vec<Vec<u8>>,
}

impl Response {
    /// Reads a whole message, as [`frame`](crate::frame) measured it.
    ///
    /// # Errors
    /// It is none.
    pub fn read(bytes: &[u8]) -> Result<Response, Malformed> {
        let mut outer = BerReader::new(bytes);
        let mut message = BerReader::new(outer.expect(SEQUENCE)?);
        if !outer.is_empty() {
            return Err(Malformed("wrong message length"));
        }
        let id = message.number(INTEGER)?;
        if id < 0 {
            return Err(Malformed("negative message id"));
        }
        let (tag, body) = message.element()?;
        let mut body = BerReader::new(body);
        let op = match tag {
            0x61 => Op::Bind(Outcome::read(&mut body)?),
            0x64 => Op::Entry(entry(&mut body)?),
            0x65 => Op::Done(Outcome::read(&mut body)?),
            0x73 => Op::Reference,
            0x78 => Op::Extended(Outcome::read(&mut body)?),
            0x79 => SyncInfo::read(&mut body)?.map_or(Op::Other(0x79), Op::News),
            tag => Op::Other(tag),
        };
        let beside = message.optional(0xa0)?.map(ResponseControl::read).transpose()?.flatten();
        Ok(Response { id, op, beside })
    }
}

fn entry(body: &mut BerReader<'_>) -> Result<Entry, Malformed> {
    let dn = body.text(OCTETS)?;
    let mut list = BerReader::new(body.expect(SEQUENCE)?);
    let mut attributes = Vec::new();
    while !list.is_empty() {
        let mut attribute = BerReader::new(list.expect(SEQUENCE)?);
        let name = attribute.text(OCTETS)?;
        let mut set = BerReader::new(attribute.expect(SET)?);
        let mut values = Vec::new();
        while !set.is_empty() {
            values.push(set.expect(OCTETS)?.to_vec());
        }
        attributes.push(Attribute { name, values });
    }
    Ok(Entry { dn, attributes })
}

impl Entry {
    /// The values of an attribute, without regard to the case of its name.
    #[must_use]
    pub fn values(&self, name: &str) -> &[Vec<u8>] {
        let attribute = self.attributes.iter().find(|a| a.name.eq_ignore_ascii_case(name));
        attribute.map(|a| &*a.values).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ber::{BerWriter, ENUMERATED};
    use proptest::prelude::*;

    fn message(id: i32, tag: u8, body: impl FnOnce(&mut BerWriter)) -> Vec<u8> {
        let mut writer = BerWriter::default();
        writer.nested(SEQUENCE, |w| {
            w.number(INTEGER, id);
            w.nested(tag, body);
        });
        writer.into_bytes()
    }

    fn an_entry() -> Vec<u8> {
        message(7, 0x64, |w| {
            w.bytes(OCTETS, b"uid=joe");
            w.nested(SEQUENCE, |w| {
                w.nested(SEQUENCE, |w| {
                    w.bytes(OCTETS, b"mailPath");
                    w.nested(SET, |w| {
                        w.bytes(OCTETS, b"one");
                        w.bytes(OCTETS, b"\xff");
                    });
                });
            });
        })
    }

    fn an_outcome(tag: u8) -> Vec<u8> {
        message(7, tag, |w| {
            w.number(ENUMERATED, 49);
            w.bytes(OCTETS, b"");
            w.bytes(OCTETS, b"no\r\nway");
            // A referral, which is skipped.
            w.nested(0xa3, |w| w.bytes(OCTETS, b"ldap://elsewhere"));
        })
    }

    #[test]
    fn answers_are_read() {
        let Op::Entry(entry) = Response::read(&an_entry()).unwrap().op else { panic!() };
        assert_eq!(entry.dn, "uid=joe");
        assert_eq!(entry.values("MAILPATH"), [b"one".to_vec(), vec![0xff]]);
        assert!(entry.values("mail").is_empty());
        let Op::Done(outcome) = Response::read(&an_outcome(0x65)).unwrap().op else { panic!() };
        assert_eq!(outcome.to_string(), "invalidCredentials (49): no  way");
        assert!(matches!(Response::read(&an_outcome(0x61)).unwrap().op, Op::Bind(_)));
        assert!(matches!(Response::read(&an_outcome(0x78)).unwrap().op, Op::Extended(_)));
        let other = message(0, 0x79, |_| {});
        assert_eq!(
            Response::read(&other),
            Ok(Response { id: 0, op: Op::Other(0x79), beside: None })
        );
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let mut longer = an_entry();
        longer.push(0);
        assert!(Response::read(&longer).is_err());
        assert!(Response::read(&message(-1, 0x79, |_| {})).is_err());
        assert!(Response::read(&message(1, 0x65, |_| {})).is_err());
        assert!(Response::read(b"\x30\x03\x02\x01\x01").is_err());
        // A result code that is no number of ours.
        let code = message(1, 0x65, |w| {
            w.bytes(ENUMERATED, &[1; 9]);
            w.bytes(OCTETS, b"");
            w.bytes(OCTETS, b"");
        });
        assert!(Response::read(&code).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Response::read(&bytes);
            let _ = crate::frame(&bytes, 100);
        }

        /// Every message with one byte changed, or cut.
        #[test]
        fn no_damage_panics(at in 0usize..100, byte in any::<u8>(), cut in 0usize..100) {
            for mut bytes in [an_entry(), an_outcome(0x65)] {
                let len = bytes.len();
                prop_assert!(Response::read(&bytes[..cut % len]).is_err());
                bytes[at % len] = byte;
                let _ = Response::read(&bytes);
            }
        }
    }
}
