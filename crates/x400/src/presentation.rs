//! The presentation protocol (X.226): its PDUs at connect, refusal and abort, in normal mode and in X.410 mode, and the
//! values in user data.
//!
//! In normal mode, contexts distinguish the values of RTSE and of the MTAs. X.410 mode has no contexts: its PDUs are
//! RTSE's fields in another tag.

use crate::ber::{BerError, BerFault, Element, Reader, Tag, Writer};

/// Contexts in one proposal.
pub const CONTEXTS_MAX: usize = 32;
/// Transfer syntax: BER, 2.1.1.
pub const BER: &[u8] = &[0x51, 0x01];

/// Provider reason of a refusal: user data not readable (X.226 §8.2, CPR).
pub const REASON_USER_DATA: u32 = 6;
/// Provider reason of an abort: a parameter that is not understood, or an unexpected PPDU.
pub const REASON_UNEXPECTED: u32 = 1;

const NORMAL_MODE: u32 = 1;
const X410_MODE: u32 = 0;

/// A proposed context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its number; odd for the initiator.
    pub id: i64,
    /// The abstract syntax of its values: an object identifier.
    pub abstract_syntax: Vec<u8>,
    /// BER is among its transfer syntaxes.
    pub has_ber: bool,
}

/// Result of a proposed context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextResult {
    /// It may be used.
    Accepted,
    /// The other's user rejects it.
    RejectedByUser,
    /// The other's provider rejects it: the abstract syntax is not supported.
    RejectedByProvider,
}

/// A value of user data with its context.
#[derive(Clone, Copy, Debug)]
pub struct Pdv<'a> {
    /// The number of its context.
    pub context: i64,
    /// The value.
    pub value: Element<'a>,
}

/// CP: a connection is wanted.
#[derive(Clone, Debug)]
pub enum ConnectPdu<'a> {
    /// In normal mode.
    Normal {
        /// The caller's P-selector.
        calling: Vec<u8>,
        /// The called selector.
        called: Vec<u8>,
        /// In its order.
        contexts: Vec<Context>,
        /// ACSE's.
        user_data: Option<Pdv<'a>>,
    },
    /// In X.410 mode: RTSE's fields.
    X410(Reader<'a>),
}

/// CPA: the connection is accepted.
#[derive(Clone, Debug)]
pub enum AcceptPdu<'a> {
    /// In normal mode.
    Normal {
        /// The P-selector that answers.
        responding: Vec<u8>,
        /// In the order proposed.
        results: Vec<ContextResult>,
        /// ACSE's.
        user_data: Option<Pdv<'a>>,
    },
    /// In X.410 mode: RTSE's fields.
    X410(Reader<'a>),
}

/// CPR: the connection is refused.
#[derive(Clone, Debug)]
pub enum RefusePdu<'a> {
    /// In normal mode.
    Normal {
        /// The reason, if the provider refuses.
        provider_reason: Option<i64>,
        /// ACSE's.
        user_data: Option<Pdv<'a>>,
    },
    /// In X.410 mode: RTSE's fields.
    X410(Reader<'a>),
}

/// ARU or ARP: the connection is aborted.
#[derive(Clone, Debug)]
pub enum AbortPdu<'a> {
    /// By the user, in normal mode.
    User(Option<Pdv<'a>>),
    /// By the user, in X.410 mode: RTSE's fields.
    X410(Reader<'a>),
    /// By the provider.
    Provider(Option<i64>),
}

impl<'a> ConnectPdu<'a> {
    /// Reads CP.
    ///
    /// # Errors
    /// Returns an error if it is malformed.
    pub fn read(octets: &'a [u8]) -> Result<Self, BerError> {
        let Some(fields) = mode_fields(octets)? else {
            return Err(BerFault::Missing { wanted: None }.at(0));
        };
        let mut fields = match fields {
            PresentationFields::X410(fields) => return Ok(ConnectPdu::X410(fields)),
            PresentationFields::Normal(fields) => fields,
        };
        let (mut calling, mut called) = (Vec::new(), Vec::new());
        let (mut contexts, mut user_data) = (Vec::new(), None);
        while let Some(field) = fields.next().transpose()? {
            if field.tag == Tag::context(1) {
                calling = field.octets()?.into_owned();
            } else if field.tag == Tag::context(2) {
                called = field.octets()?.into_owned();
            } else if field.tag == Tag::context(4) {
                contexts = read_contexts(field)?;
            } else if field.tag == USER_DATA {
                user_data = read_user_data(field)?;
            }
        }
        Ok(ConnectPdu::Normal { calling, called, contexts, user_data })
    }
}

impl<'a> AcceptPdu<'a> {
    /// Reads CPA.
    ///
    /// # Errors
    /// Returns an error if it is malformed.
    pub fn read(octets: &'a [u8]) -> Result<Self, BerError> {
        let Some(fields) = mode_fields(octets)? else {
            return Err(BerFault::Missing { wanted: None }.at(0));
        };
        let mut fields = match fields {
            PresentationFields::X410(fields) => return Ok(AcceptPdu::X410(fields)),
            PresentationFields::Normal(fields) => fields,
        };
        let (mut responding, mut results, mut user_data) = (Vec::new(), Vec::new(), None);
        while let Some(field) = fields.next().transpose()? {
            if field.tag == Tag::context(3) {
                responding = field.octets()?.into_owned();
            } else if field.tag == Tag::context(5) {
                results = read_results(field)?;
            } else if field.tag == USER_DATA {
                user_data = read_user_data(field)?;
            }
        }
        Ok(AcceptPdu::Normal { responding, results, user_data })
    }
}

impl<'a> RefusePdu<'a> {
    /// Reads CPR: a SET in X.410 mode, a SEQUENCE in normal mode.
    ///
    /// # Errors
    /// It is none.
    pub fn read(octets: &'a [u8]) -> Result<Self, BerError> {
        let pdu = Reader::new(octets).any()?;
        let mut fields = pdu.children()?;
        if pdu.tag == Tag::SET {
            return Ok(RefusePdu::X410(fields));
        }
        let (mut provider_reason, mut user_data) = (None, None);
        while let Some(field) = fields.next().transpose()? {
            if field.tag == Tag::context(10) {
                provider_reason = Some(field.integer()?);
            } else if field.tag == USER_DATA {
                user_data = read_user_data(field)?;
            }
        }
        Ok(RefusePdu::Normal { provider_reason, user_data })
    }
}

impl<'a> AbortPdu<'a> {
    /// Reads ARU or ARP.
    ///
    /// # Errors
    /// It is neither.
    pub fn read(octets: &'a [u8]) -> Result<Self, BerError> {
        let pdu = Reader::new(octets).any()?;
        let mut fields = pdu.children()?;
        if pdu.tag == Tag::SET {
            return Ok(AbortPdu::X410(fields));
        }
        let (mut reason, mut user_data) = (None, None);
        while let Some(field) = fields.next().transpose()? {
            // [0] is the reason in ARP, and the contexts in ARU.
            if field.tag == Tag::context(0) && pdu.tag == Tag::SEQUENCE {
                reason = Some(field.integer()?);
            } else if field.tag == USER_DATA {
                user_data = read_user_data(field)?;
            }
        }
        Ok(if pdu.tag == Tag::SEQUENCE {
            AbortPdu::Provider(reason)
        } else {
            AbortPdu::User(user_data)
        })
    }
}

enum PresentationFields<'a> {
    Normal(Reader<'a>),
    X410(Reader<'a>),
}

/// The fields of CP or CPA in whichever mode it is.
fn mode_fields(octets: &[u8]) -> Result<Option<PresentationFields<'_>>, BerError> {
    let (mut mode, mut normal, mut x410) = (None, None, None);
    for field in Reader::new(octets).read(Tag::SET)?.children()? {
        let field = field?;
        if field.tag == Tag::context(0) {
            mode = Some(field.only(Tag::context(0))?.unsigned(NORMAL_MODE)?);
        } else if field.tag == Tag::context(1) {
            x410 = Some(field.children()?);
        } else if field.tag == Tag::context(2) {
            normal = Some(field.children()?);
        }
    }
    Ok(match mode {
        Some(X410_MODE) => x410.map(PresentationFields::X410),
        Some(_) => normal.map(PresentationFields::Normal),
        None => None,
    })
}

fn read_contexts(list: Element<'_>) -> Result<Vec<Context>, BerError> {
    let mut contexts = Vec::new();
    for item in list.children()? {
        let item = item?;
        if contexts.len() == CONTEXTS_MAX {
            return Err(BerFault::Trailing.at(item.at));
        }
        let mut fields = item.children()?;
        let id = fields.read(Tag::INTEGER)?.integer()?;
        let abstract_syntax = fields.read(Tag::OID)?.oid()?.to_vec();
        let mut has_ber = false;
        for syntax in fields.read(Tag::SEQUENCE)?.children()? {
            has_ber |= syntax?.contents == BER;
        }
        contexts.push(Context { id, abstract_syntax, has_ber });
    }
    Ok(contexts)
}

fn read_results(list: Element<'_>) -> Result<Vec<ContextResult>, BerError> {
    let mut results = Vec::new();
    for item in list.children()? {
        let item = item?;
        if results.len() == CONTEXTS_MAX {
            return Err(BerFault::Trailing.at(item.at));
        }
        results.push(match item.children()?.read(Tag::context(0))?.unsigned(2)? {
            0 => ContextResult::Accepted,
            1 => ContextResult::RejectedByUser,
            _ => ContextResult::RejectedByProvider,
        });
    }
    Ok(results)
}

/// fully-encoded-data (X.226 §8.4.2).
pub const USER_DATA: Tag = Tag::application(1);

/// The first value in fully-encoded-data, encoded as a single ASN.1 type or octet-aligned.
fn read_user_data(data: Element<'_>) -> Result<Option<Pdv<'_>>, BerError> {
    let Some(list) = data.children()?.next().transpose()? else { return Ok(None) };
    let mut fields = list.children()?;
    let _transfer_syntax = fields.read_if(Tag::OID)?;
    let context = fields.read(Tag::INTEGER)?.integer()?;
    Ok(Some(Pdv { context, value: encoding(&mut fields)? }))
}

/// A value as EXTERNAL and PDV-list have it: [0] around it, or [1] with its octets.
pub(crate) fn encoding<'a>(fields: &mut Reader<'a>) -> Result<Element<'a>, BerError> {
    let field = fields.any()?;
    if field.tag == Tag::context(1) && !field.constructed {
        return Reader::with_base(field.contents, field.contents_at).any();
    }
    if field.tag == Tag::context(0) {
        return field.only_child();
    }
    Err(BerFault::Unexpected { found: field.tag, wanted: Tag::context(0) }.at(field.at))
}

/// Reads separate user data, as in FINISH.
///
/// # Errors
/// Returns an error if it is malformed.
pub fn read_pdv(octets: &[u8]) -> Result<Option<Pdv<'_>>, BerError> {
    read_user_data(Reader::new(octets).read(USER_DATA)?)
}

/// Writes user data with one value.
pub fn write_pdv(out: &mut Writer, context: i64, value: impl FnOnce(&mut Writer)) {
    out.constructed(USER_DATA, |data| {
        data.constructed(Tag::SEQUENCE, |list| {
            list.integer(Tag::INTEGER, context);
            list.constructed(Tag::context(0), value);
        });
    });
}

/// Contexts to propose: numbers and abstract syntaxes, all in BER.
pub type Proposal<'a> = [(i64, &'a [u8])];

/// Writes CP in normal mode; `user_data` writes the output of [`write_pdv`].
pub fn connect_pdu(
    calling: &[u8],
    called: &[u8],
    contexts: &Proposal<'_>,
    user_data: impl FnOnce(&mut Writer),
) -> Vec<u8> {
    normal_mode(|fields| {
        selector(fields, 1, calling);
        selector(fields, 2, called);
        fields.constructed(Tag::context(4), |list| {
            for (id, abstract_syntax) in contexts {
                list.constructed(Tag::SEQUENCE, |item| {
                    item.integer(Tag::INTEGER, *id);
                    item.primitive(Tag::OID, abstract_syntax);
                    item.constructed(Tag::SEQUENCE, |syntaxes| syntaxes.primitive(Tag::OID, BER));
                });
            }
        });
        user_data(fields);
    })
}

/// Writes CPA in normal mode.
pub fn accept_pdu(
    responding: &[u8],
    results: &[ContextResult],
    user_data: impl FnOnce(&mut Writer),
) -> Vec<u8> {
    normal_mode(|fields| {
        selector(fields, 3, responding);
        write_results(fields, results);
        user_data(fields);
    })
}

/// Writes CPR in normal mode; without a provider's reason it is the user that refuses.
pub fn refuse_pdu(
    results: &[ContextResult],
    provider_reason: Option<u32>,
    user_data: impl FnOnce(&mut Writer),
) -> Vec<u8> {
    let mut out = Writer::new();
    out.constructed(Tag::SEQUENCE, |fields| {
        if !results.is_empty() {
            write_results(fields, results);
        }
        if let Some(reason) = provider_reason {
            fields.integer(Tag::context(10), i64::from(reason));
        }
        user_data(fields);
    });
    out.into_vec()
}

/// Writes ARU in normal mode, with the contexts of the values in it.
pub fn user_abort_pdu(contexts: &[i64], user_data: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::new();
    out.constructed(Tag::context(0), |fields| {
        fields.constructed(Tag::context(0), |list| {
            for id in contexts {
                list.constructed(Tag::SEQUENCE, |item| {
                    item.integer(Tag::INTEGER, *id);
                    item.primitive(Tag::OID, BER);
                });
            }
        });
        user_data(fields);
    });
    out.into_vec()
}

/// Writes ARP.
#[must_use]
pub fn provider_abort_pdu(reason: u32) -> Vec<u8> {
    let mut out = Writer::new();
    out.constructed(Tag::SEQUENCE, |fields| fields.integer(Tag::context(0), i64::from(reason)));
    out.into_vec()
}

/// Writes CP or CPA in X.410 mode: `fields` are RTSE's.
pub fn x410_pdu(fields: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::new();
    out.constructed(Tag::SET, |pdu| {
        mode_selector(pdu, X410_MODE);
        pdu.constructed(Tag::context(1), fields);
    });
    out.into_vec()
}

/// Writes CPR or ARU in X.410 mode: `fields` are RTSE's.
pub fn x410_refusal_or_abort(fields: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::new();
    out.constructed(Tag::SET, fields);
    out.into_vec()
}

fn mode_selector(pdu: &mut Writer, mode: u32) {
    pdu.constructed(Tag::context(0), |selector| selector.integer(Tag::context(0), i64::from(mode)));
}

fn normal_mode(fields: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::new();
    out.constructed(Tag::SET, |pdu| {
        mode_selector(pdu, NORMAL_MODE);
        pdu.constructed(Tag::context(2), fields);
    });
    out.into_vec()
}

fn selector(fields: &mut Writer, number: u32, value: &[u8]) {
    if !value.is_empty() {
        fields.primitive(Tag::context(number), value);
    }
}

fn write_results(fields: &mut Writer, results: &[ContextResult]) {
    fields.constructed(Tag::context(5), |list| {
        for result in results {
            list.constructed(Tag::SEQUENCE, |item| match result {
                ContextResult::Accepted => {
                    item.integer(Tag::context(0), 0);
                    item.primitive(Tag::context(1), BER);
                }
                ContextResult::RejectedByUser => item.integer(Tag::context(0), 1),
                ContextResult::RejectedByProvider => {
                    item.integer(Tag::context(0), 2);
                    // abstract-syntax-not-supported
                    item.integer(Tag::context(2), 1);
                }
            });
        }
    });
}
