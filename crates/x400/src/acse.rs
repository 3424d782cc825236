//! ACSE (X.227): associations between application entities are requested, accepted or rejected, released and aborted.
//! RTSE PDUs are carried as user information.

use crate::ber::{BerError, Element, Tag, Writer};
use crate::presentation::{BER, Pdv, encoding};

/// The abstract syntax of ACSE, 2.2.1.0.1.
pub const ABSTRACT_SYNTAX: &[u8] = &[0x52, 0x01, 0x00, 0x01];

const AARQ: Tag = Tag::application(0);
const AARE: Tag = Tag::application(1);
const RLRQ: Tag = Tag::application(2);
const RLRE: Tag = Tag::application(3);
const ABRT: Tag = Tag::application(4);
const USER_INFORMATION: Tag = Tag::context(30);

/// AARE's diagnostic by the service user: application context name not supported.
pub const DIAGNOSTIC_CONTEXT_NAME: u32 = 2;
/// AARE's diagnostic by the service user: no reason given.
pub const DIAGNOSTIC_NO_REASON: u32 = 1;

/// AARQ: an association is wanted.
#[derive(Clone, Debug)]
pub struct AssociateRequest<'a> {
    /// The application context: an object identifier.
    pub context_name: &'a [u8],
    /// RTSE's.
    pub user_information: Option<Pdv<'a>>,
}

/// AARE: the answer.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// 0 accepted, 1 rejected permanently, 2 rejected transiently.
    pub result: u32,
    /// The diagnostic: true if from the provider, and its number.
    pub diagnostic: Option<(bool, i64)>,
    /// RTSE's.
    pub user_information: Option<Pdv<'a>>,
}

/// Any of ACSE's.
#[derive(Clone, Debug)]
pub enum Apdu<'a> {
    /// AARQ
    Request(AssociateRequest<'a>),
    /// AARE
    Response(Response<'a>),
    /// RLRQ
    Release,
    /// RLRE
    Released,
    /// ABRT
    Abort {
        /// It is the provider that aborts.
        by_provider: bool,
        /// RTSE's.
        user_information: Option<Pdv<'a>>,
    },
}

impl<'a> Apdu<'a> {
    /// Reads the value of a PDV in ACSE's context.
    ///
    /// # Errors
    /// It is no APDU of ACSE.
    pub fn read(value: Element<'a>) -> Result<Self, BerError> {
        let (mut context_name, mut user_information): (&[u8], _) = (&[], None);
        let (mut first, mut result, mut diagnostic) = (0, None, None);
        let is_response = value.tag == AARE;
        for field in value.children()? {
            let field = field?;
            if field.tag == USER_INFORMATION {
                user_information = read_external(field)?;
            } else if field.tag == Tag::context(1) && (is_response || value.tag == AARQ) {
                context_name = field.only(Tag::OID)?.oid()?;
            } else if field.tag == Tag::context(2) && is_response {
                result = Some(field.only_child()?.unsigned(2)?);
            } else if field.tag == Tag::context(3) && is_response {
                let source = field.only_child()?;
                diagnostic = Some((source.tag == Tag::context(2), source.only_child()?.integer()?));
            } else if field.tag == Tag::context(0) && value.tag == ABRT {
                first = field.unsigned(255)?;
            }
        }
        if value.tag == AARQ {
            return Ok(Apdu::Request(AssociateRequest { context_name, user_information }));
        }
        if is_response {
            let missing = crate::ber::BerFault::Missing { wanted: Some(Tag::context(2)) };
            let result = result.ok_or(missing.at(value.at))?;
            return Ok(Apdu::Response(Response { result, diagnostic, user_information }));
        }
        if value.tag == ABRT {
            return Ok(Apdu::Abort { by_provider: first == 1, user_information });
        }
        match value.tag {
            RLRQ => Ok(Apdu::Release),
            RLRE => Ok(Apdu::Released),
            found => Err(crate::ber::BerFault::Unexpected { found, wanted: AARQ }.at(value.at)),
        }
    }
}

/// The first EXTERNAL in user information, if there is one.
fn read_external(field: Element<'_>) -> Result<Option<Pdv<'_>>, BerError> {
    let Some(external) = field.children()?.next().transpose()? else { return Ok(None) };
    let mut fields = external.children()?;
    let _direct_reference = fields.read_if(Tag::OID)?;
    let context = fields.read_if(Tag::INTEGER)?.map_or(Ok(-1), |id| id.integer())?;
    let _descriptor = fields.read_if(Tag::universal(7))?;
    Ok(Some(Pdv { context, value: encoding(&mut fields)? }))
}

/// User information with one value of RTSE's in its context.
fn write_external(out: &mut Writer, context: i64, value: impl FnOnce(&mut Writer)) {
    out.constructed(USER_INFORMATION, |information| {
        information.constructed(Tag::EXTERNAL, |external| {
            external.primitive(Tag::OID, BER);
            external.integer(Tag::INTEGER, context);
            external.constructed(Tag::context(0), value);
        });
    });
}

/// Writes AARQ.
pub fn request(
    out: &mut Writer,
    context_name: &[u8],
    context: i64,
    value: impl FnOnce(&mut Writer),
) {
    out.constructed(AARQ, |aarq| {
        aarq.constructed(Tag::context(1), |name| name.primitive(Tag::OID, context_name));
        write_external(aarq, context, value);
    });
}

/// Writes AARE: accepted.
pub fn accepted(
    out: &mut Writer,
    context_name: &[u8],
    context: i64,
    value: impl FnOnce(&mut Writer),
) {
    out.constructed(AARE, |aare| {
        answer(aare, context_name, 0, 0);
        write_external(aare, context, value);
    });
}

/// Writes AARE: rejected by the service user, for good or for now; with RTSE's in its context, if there is
/// something.
pub fn rejected(
    out: &mut Writer,
    context_name: &[u8],
    is_permanent: bool,
    diagnostic: u32,
    value: Option<(i64, &[u8])>,
) {
    out.constructed(AARE, |aare| {
        answer(aare, context_name, if is_permanent { 1 } else { 2 }, diagnostic);
        if let Some((context, encoded)) = value {
            write_external(aare, context, |out| out.raw(encoded));
        }
    });
}

fn answer(aare: &mut Writer, context_name: &[u8], result: i64, diagnostic: u32) {
    aare.constructed(Tag::context(1), |name| name.primitive(Tag::OID, context_name));
    aare.constructed(Tag::context(2), |field| field.integer(Tag::INTEGER, result));
    aare.constructed(Tag::context(3), |source| {
        source
            .constructed(Tag::context(1), |user| user.integer(Tag::INTEGER, i64::from(diagnostic)));
    });
}

/// Writes RLRQ: released in order.
pub fn release(out: &mut Writer) {
    out.constructed(RLRQ, |rlrq| rlrq.integer(Tag::context(0), 0));
}

/// Writes RLRE.
pub fn released(out: &mut Writer) {
    out.constructed(RLRE, |rlre| rlre.integer(Tag::context(0), 0));
}

/// Writes ABRT by the service user.
pub fn abort(out: &mut Writer, context: i64, value: impl FnOnce(&mut Writer)) {
    out.constructed(ABRT, |abrt| {
        abrt.integer(Tag::context(0), 0);
        write_external(abrt, context, value);
    });
}

/// Writes ABRT by the service provider.
pub fn provider_abort(out: &mut Writer) {
    out.constructed(ABRT, |abrt| abrt.integer(Tag::context(0), 1));
}
