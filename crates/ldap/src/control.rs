//! Controls: results in pages (RFC 2696), and content that is kept the same (RFC 4533).

use crate::ber::{
    BOOLEAN, BerReader, BerWriter, ENUMERATED, INTEGER, Malformed, OCTETS, SEQUENCE, SET,
};

const PAGES: &[u8] = b"1.2.840.113556.1.4.319";
const SYNC_REQUEST: &[u8] = b"1.3.6.1.4.1.4203.1.9.1.1";
const SYNC_STATE: &[u8] = b"1.3.6.1.4.1.4203.1.9.1.2";
const SYNC_DONE: &[u8] = b"1.3.6.1.4.1.4203.1.9.1.3";
const SYNC_INFO: &[u8] = b"1.3.6.1.4.1.4203.1.9.1.4";

/// OID of the control of RFC 4533, as in `supportedControl` of a server's root.
pub const SYNC_OID: &str = "1.3.6.1.4.1.4203.1.9.1.1";

/// A server's identifier of an entry, which stays when the entry is renamed (RFC 4530).
pub type EntryUuid = [u8; 16];

/// A control of a search request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestControl<'a> {
    /// One page of results (RFC 2696). A server without support returns all entries.
    Page {
        /// Maximum number of entries.
        entries: i32,
        /// Cookie of the previous page; empty for the first.
        cookie: &'a [u8],
    },
    /// All entries, or their changes since `cookie`, followed by later changes as they happen.
    Sync {
        /// The last state received; `None` without one.
        cookie: Option<&'a [u8]>,
    },
}

impl RequestControl<'_> {
    /// Writes the list of controls (RFC 4511 §4.1.11).
    pub(crate) fn write(&self, writer: &mut BerWriter) {
        writer.nested(0xa0, |w| {
            w.nested(SEQUENCE, |w| match self {
                RequestControl::Page { entries, cookie } => {
                    w.bytes(OCTETS, PAGES);
                    let mut value = BerWriter::default();
                    value.nested(SEQUENCE, |w| {
                        w.number(INTEGER, *entries);
                        w.bytes(OCTETS, cookie);
                    });
                    w.bytes(OCTETS, &value.into_bytes());
                }
                RequestControl::Sync { cookie } => {
                    w.bytes(OCTETS, SYNC_REQUEST);
                    w.boolean(BOOLEAN, true);
                    let mut value = BerWriter::default();
                    value.nested(SEQUENCE, |w| {
                        // refreshAndPersist
                        w.number(ENUMERATED, 3);
                        if let Some(cookie) = cookie {
                            w.bytes(OCTETS, cookie);
                        }
                    });
                    w.bytes(OCTETS, &value.into_bytes());
                }
            });
        });
    }
}

/// A control of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseControl {
    /// Cookie of the next page; empty after the last one.
    Page(Vec<u8>),
    /// The state of the entry.
    State {
        /// The entry.
        uuid: EntryUuid,
        /// Its change.
        state: EntryState,
        /// The state after this entry.
        cookie: Option<Vec<u8>>,
    },
    /// The state at the end of a search.
    SyncDone(Option<Vec<u8>>),
}

/// The change of an entry (RFC 4533 §2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// It exists, unchanged.
    Present,
    /// It is new, or reported for the first time.
    Added,
    /// Its content changed.
    Modified,
    /// It was deleted, or no longer matches the search.
    Deleted,
}

/// A message between entries (RFC 4533 §2.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncInfo {
    /// The state after this message.
    pub cookie: Option<Vec<u8>>,
    /// Its content.
    pub news: SyncNews,
}

/// Content of a message between entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncNews {
    /// A new cookie only.
    Cookie,
    /// A phase is over.
    PhaseDone {
        /// Entries not named in the phase are deleted; otherwise the phase named the deleted entries.
        was_present: bool,
        /// Later messages are changes as they happen.
        is_last: bool,
    },
    /// Entries by their names.
    Entries {
        /// They are deleted; otherwise they exist, unchanged.
        are_deleted: bool,
        /// The entries.
        uuids: Vec<EntryUuid>,
    },
}

impl ResponseControl {
    /// Returns the last known control of a message; unknown controls are skipped.
    pub(crate) fn read(list: &[u8]) -> Result<Option<ResponseControl>, Malformed> {
        let mut list = BerReader::new(list);
        let mut found = None;
        while !list.is_empty() {
            let mut control = BerReader::new(list.expect(SEQUENCE)?);
            let kind = control.expect(OCTETS)?;
            control.optional(BOOLEAN)?;
            let value = control.optional(OCTETS)?.unwrap_or_default();
            match kind {
                PAGES => found = Some(page(value)?),
                SYNC_STATE => found = Some(state(value)?),
                SYNC_DONE => {
                    let mut value = BerReader::new(BerReader::new(value).expect(SEQUENCE)?);
                    found = Some(ResponseControl::SyncDone(cookie(&mut value)?));
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

fn page(value: &[u8]) -> Result<ResponseControl, Malformed> {
    let mut value = BerReader::new(BerReader::new(value).expect(SEQUENCE)?);
    value.expect(INTEGER)?;
    Ok(ResponseControl::Page(value.expect(OCTETS)?.to_vec()))
}

fn state(value: &[u8]) -> Result<ResponseControl, Malformed> {
    let mut value = BerReader::new(BerReader::new(value).expect(SEQUENCE)?);
    let state = match value.number(ENUMERATED)? {
        0 => EntryState::Present,
        1 => EntryState::Added,
        2 => EntryState::Modified,
        3 => EntryState::Deleted,
        _ => return Err(Malformed("invalid entry state")),
    };
    let uuid = uuid(value.expect(OCTETS)?)?;
    Ok(ResponseControl::State { uuid, state, cookie: cookie(&mut value)? })
}

fn uuid(bytes: &[u8]) -> Result<EntryUuid, Malformed> {
    bytes.try_into().map_err(|_| Malformed("UUID without 16 bytes"))
}

fn cookie(reader: &mut BerReader<'_>) -> Result<Option<Vec<u8>>, Malformed> {
    Ok(reader.optional(OCTETS)?.map(<[u8]>::to_vec))
}

impl SyncInfo {
    /// Reads an intermediate response (RFC 4511 §4.13); `None`: it is another one.
    pub(crate) fn read(body: &mut BerReader<'_>) -> Result<Option<SyncInfo>, Malformed> {
        if body.optional(0x80)? != Some(SYNC_INFO) {
            return Ok(None);
        }
        let (tag, value) = BerReader::new(body.expect(0x81)?).element()?;
        let mut value = BerReader::new(value);
        match tag {
            0x80 => {
                let cookie = Some(value.rest().to_vec());
                Ok(Some(SyncInfo { cookie, news: SyncNews::Cookie }))
            }
            0xa1 | 0xa2 => {
                let cookie = cookie(&mut value)?;
                let is_last = value.flag(true)?;
                let news = SyncNews::PhaseDone { was_present: tag == 0xa2, is_last };
                Ok(Some(SyncInfo { cookie, news }))
            }
            0xa3 => {
                let cookie = cookie(&mut value)?;
                let are_deleted = value.flag(false)?;
                let mut set = BerReader::new(value.expect(SET)?);
                let mut uuids = Vec::new();
                while !set.is_empty() {
                    uuids.push(uuid(set.expect(OCTETS)?)?);
                }
                Ok(Some(SyncInfo { cookie, news: SyncNews::Entries { are_deleted, uuids } }))
            }
            _ => Err(Malformed("invalid sync info message")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(ask: RequestControl<'_>) -> Vec<u8> {
        let mut writer = BerWriter::default();
        ask.write(&mut writer);
        writer.into_bytes()
    }

    #[test]
    fn what_is_asked_byte_by_byte() {
        let page = asked(RequestControl::Page { entries: 500, cookie: b"c" });
        let mut wanted = b"\xa0\x25\x30\x23\x04\x161.2.840.113556.1.4.319\x04\x09".to_vec();
        wanted.extend_from_slice(b"\x30\x07\x02\x02\x01\xf4\x04\x01c");
        assert_eq!(page, wanted);
        let sync = asked(RequestControl::Sync { cookie: Some(b"c") });
        let mut wanted = b"\xa0\x29\x30\x27\x04\x181.3.6.1.4.1.4203.1.9.1.1\x01\x01\xff".to_vec();
        wanted.extend_from_slice(b"\x04\x08\x30\x06\x0a\x01\x03\x04\x01c");
        assert_eq!(sync, wanted);
    }

    fn control(kind: &[u8], value: impl FnOnce(&mut BerWriter)) -> Vec<u8> {
        let mut inner = BerWriter::default();
        inner.nested(SEQUENCE, value);
        let inner = inner.into_bytes();
        let mut writer = BerWriter::default();
        writer.nested(SEQUENCE, |w| {
            w.bytes(OCTETS, kind);
            w.bytes(OCTETS, &inner);
        });
        writer.into_bytes()
    }

    #[test]
    fn what_stands_beside_an_answer_is_read() {
        let last = control(PAGES, |w| {
            w.number(INTEGER, 0);
            w.bytes(OCTETS, b"");
        });
        assert_eq!(ResponseControl::read(&last), Ok(Some(ResponseControl::Page(Vec::new()))));
        let state = |number, uuid: &[u8]| {
            ResponseControl::read(&control(SYNC_STATE, |w| {
                w.number(ENUMERATED, number);
                w.bytes(OCTETS, uuid);
                w.bytes(OCTETS, b"c");
            }))
        };
        let cookie = Some(b"c".to_vec());
        let gone = ResponseControl::State { uuid: [7; 16], state: EntryState::Deleted, cookie };
        assert_eq!(state(3, &[7; 16]), Ok(Some(gone)));
        assert!(state(4, &[7; 16]).is_err());
        assert!(state(3, &[7; 15]).is_err());
        let other = control(b"1.2.3", |w| w.bytes(OCTETS, b"x"));
        assert_eq!(ResponseControl::read(&other), Ok(None));
        let done = control(SYNC_DONE, |w| w.bytes(OCTETS, b"c"));
        let both = [other, done].concat();
        assert_eq!(
            ResponseControl::read(&both),
            Ok(Some(ResponseControl::SyncDone(Some(b"c".to_vec()))))
        );
        assert!(ResponseControl::read(&both[..both.len() - 1]).is_err());
    }

    fn info(write: impl FnOnce(&mut BerWriter)) -> Result<Option<SyncInfo>, Malformed> {
        let mut value = BerWriter::default();
        write(&mut value);
        let value = value.into_bytes();
        let mut writer = BerWriter::default();
        writer.bytes(0x80, SYNC_INFO);
        writer.bytes(0x81, &value);
        SyncInfo::read(&mut BerReader::new(&writer.into_bytes()))
    }

    #[test]
    fn news_is_read_with_its_defaults() {
        let news = |info: Result<Option<SyncInfo>, Malformed>| info.unwrap().unwrap().news;
        let cookie = info(|w| w.bytes(0x80, b"c")).unwrap().unwrap();
        assert_eq!(cookie, SyncInfo { cookie: Some(b"c".to_vec()), news: SyncNews::Cookie });
        let phase = |was_present, is_last| SyncNews::PhaseDone { was_present, is_last };
        assert_eq!(news(info(|w| w.nested(0xa1, |_| {}))), phase(false, true));
        let more = |w: &mut BerWriter| {
            w.bytes(OCTETS, b"c");
            w.boolean(BOOLEAN, false);
        };
        assert_eq!(news(info(|w| w.nested(0xa2, more))), phase(true, false));
        let entries = news(info(|w| {
            w.nested(0xa3, |w| {
                w.boolean(BOOLEAN, true);
                w.nested(SET, |w| w.bytes(OCTETS, &[1; 16]));
            });
        }));
        assert_eq!(entries, SyncNews::Entries { are_deleted: true, uuids: vec![[1; 16]] });
        assert!(info(|w| w.nested(0xa4, |_| {})).is_err());
        assert!(info(|w| w.nested(0xa3, |w| w.nested(SET, |w| w.bytes(OCTETS, b"x")))).is_err());
        let mut other = BerWriter::default();
        other.bytes(0x80, b"1.2.3");
        assert_eq!(SyncInfo::read(&mut BerReader::new(&other.into_bytes())), Ok(None));
    }
}
