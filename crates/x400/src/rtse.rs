//! The reliable transfer service element (X.228): its PDUs at the start, refusal and abort of an association, and the
//! framing of a transferred APDU.

mod bind;
mod unwrap;

pub use bind::{
    BindError, Credentials, Identity, Mode, NAME_BYTES_MAX, PASSWORD_BYTES_MAX, Password,
    read_error, write_argument, write_error, write_result,
};
pub use unwrap::{ApduUnwrapper, RttrReader, UnwrapError};

use crate::ber::{BerError, BerFault, Element, Reader, Tag, Writer, header_bytes};

/// The application context of P1, id-ac-mts-transfer: 2.6.0.1.6.
pub const MTS_TRANSFER: &[u8] = &[0x56, 0x00, 0x01, 0x06];
/// The abstract syntax of RTSE with the MTAs' bind, id-as-mta-rtse: 2.6.0.2.12.
pub const MTA_RTSE: &[u8] = &[0x56, 0x00, 0x02, 0x0C];
/// The abstract syntax of the APDUs, id-as-mtse: 2.6.0.2.7.
pub const MTSE: &[u8] = &[0x56, 0x00, 0x02, 0x07];

const RTORQ: Tag = Tag::context(16);
const RTOAC: Tag = Tag::context(17);
const RTORJ: Tag = Tag::context(18);
const RTAB: Tag = Tag::context(22);
/// Default windowSize.
const WINDOW_UNSAID: u32 = 3;
const NUMBER_MAX: u32 = i32::MAX as u32;

/// Reason of an abort by RTSE (X.228, AbortReason).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// 0
    LocalSystemProblem,
    /// 1
    InvalidParameter,
    /// 2: an activity to be resumed that isn't known.
    UnrecognizedActivity,
    /// 3: no association should be tried for some minutes.
    TemporaryProblem,
    /// 4
    ProtocolError,
    /// 5
    PermanentProblem,
    /// 6: the MTA aborts.
    UserError,
    /// 7: the activity to be resumed was complete.
    TransferCompleted,
    /// Any other number.
    Other(i64),
}

impl AbortReason {
    /// The number.
    #[must_use]
    pub const fn number(self) -> i64 {
        match self {
            AbortReason::LocalSystemProblem => 0,
            AbortReason::InvalidParameter => 1,
            AbortReason::UnrecognizedActivity => 2,
            AbortReason::TemporaryProblem => 3,
            AbortReason::ProtocolError => 4,
            AbortReason::PermanentProblem => 5,
            AbortReason::UserError => 6,
            AbortReason::TransferCompleted => 7,
            AbortReason::Other(number) => number,
        }
    }

    /// Maps the number.
    #[must_use]
    pub const fn from_number(number: i64) -> Self {
        match number {
            0 => AbortReason::LocalSystemProblem,
            1 => AbortReason::InvalidParameter,
            2 => AbortReason::UnrecognizedActivity,
            3 => AbortReason::TemporaryProblem,
            4 => AbortReason::ProtocolError,
            5 => AbortReason::PermanentProblem,
            6 => AbortReason::UserError,
            7 => AbortReason::TransferCompleted,
            other => AbortReason::Other(other),
        }
    }
}

/// Terms of the association besides the bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointTerms {
    /// Checkpoint distance in units of 1,024 octets; 0 for none.
    pub checkpoint_kib: u32,
    /// Checkpoints that may be unacknowledged.
    pub window: u32,
}

/// RTORQ: an association is wanted.
#[derive(Clone, Debug)]
pub struct OpenRequest<'a> {
    /// Checkpoints and window.
    pub terms: CheckpointTerms,
    /// Two-way alternate dialogue.
    pub two_way: bool,
    /// X.410 mode's application protocol.
    pub application_protocol: Option<u32>,
    /// Its purpose.
    pub connection: ConnectionMode<'a>,
}

/// Purpose of an association.
#[derive(Clone, Copy, Debug)]
pub enum ConnectionMode<'a> {
    /// It is; with the MTA's bind argument, if there is one.
    Open(Option<Element<'a>>),
    /// Recovery of a lost association.
    Recover,
}

impl<'a> OpenRequest<'a> {
    /// Reads RTORQ: in normal mode a SET with its own tag.
    ///
    /// # Errors
    /// Returns an error if it is malformed.
    pub fn read(value: Element<'a>) -> Result<Self, BerError> {
        OpenRequest::read_fields(tagged(value, RTORQ)?, value.at)
    }

    /// Reads the fields of RTORQ.
    ///
    /// # Errors
    /// Returns an error if they are malformed.
    pub fn read_fields(fields: Reader<'a>, at: u64) -> Result<Self, BerError> {
        let mut terms = CheckpointTerms { checkpoint_kib: 0, window: WINDOW_UNSAID };
        let (mut two_way, mut application_protocol, mut connection) = (false, None, None);
        for field in fields {
            let field = field?;
            if field.tag == Tag::context(0) {
                terms.checkpoint_kib = field.unsigned(NUMBER_MAX)?;
            } else if field.tag == Tag::context(1) {
                terms.window = field.unsigned(NUMBER_MAX)?;
            } else if field.tag == Tag::context(2) {
                two_way = field.unsigned(1)? == 1;
            } else if field.tag == Tag::context(3) {
                connection = Some(ConnectionMode::read(field)?);
            } else if field.tag == Tag::context(4) {
                application_protocol = Some(field.unsigned(NUMBER_MAX)?);
            }
        }
        let missing = BerFault::Missing { wanted: Some(Tag::context(3)) };
        let connection = connection.ok_or(missing.at(at))?;
        Ok(OpenRequest { terms, two_way, application_protocol, connection })
    }
}

impl<'a> ConnectionMode<'a> {
    /// CHOICE { open [0] ANY, recover [1] SEQUENCE }. Open without data is a primitive [0].
    fn read(field: Element<'a>) -> Result<Self, BerError> {
        let choice = field.only_child()?;
        if choice.tag == Tag::context(1) {
            return Ok(ConnectionMode::Recover);
        }
        if choice.tag != Tag::context(0) {
            return Err(
                BerFault::Unexpected { found: choice.tag, wanted: Tag::context(0) }.at(choice.at)
            );
        }
        if choice.constructed { choice.only_child().map(Some) } else { Ok(None) }
            .map(ConnectionMode::Open)
    }
}

/// RTOAC: the association is accepted.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// Checkpoints and window: these count, in both directions.
    pub terms: CheckpointTerms,
    /// The MTA's bind result, if there is one.
    pub bind: Option<Element<'a>>,
}

impl<'a> Response<'a> {
    /// Reads RTOAC: in normal mode a SET with its own tag.
    ///
    /// # Errors
    /// Returns an error if it is malformed.
    pub fn read(value: Element<'a>) -> Result<Self, BerError> {
        Response::read_fields(tagged(value, RTOAC)?)
    }

    /// Reads the fields of RTOAC.
    ///
    /// # Errors
    /// Returns an error if they are malformed.
    pub fn read_fields(fields: Reader<'a>) -> Result<Self, BerError> {
        let mut terms = CheckpointTerms { checkpoint_kib: 0, window: WINDOW_UNSAID };
        let mut bind = None;
        for field in fields {
            let field = field?;
            if field.tag == Tag::context(0) {
                terms.checkpoint_kib = field.unsigned(NUMBER_MAX)?;
            } else if field.tag == Tag::context(1) {
                terms.window = field.unsigned(NUMBER_MAX)?;
            } else if field.tag == Tag::context(2)
                && let ConnectionMode::Open(value) = ConnectionMode::read(field)?
            {
                bind = value;
            }
        }
        Ok(Response { terms, bind })
    }
}

/// Reads RTORJ of normal mode: the MTA's reason, if given.
///
/// # Errors
/// Returns an error if it is malformed.
pub fn read_refusal(value: Element<'_>) -> Result<Option<BindError>, BerError> {
    for field in tagged(value, RTORJ)? {
        let field = field?;
        if field.tag == Tag::context(1) {
            return read_error(field.only_child()?).map(Some);
        }
    }
    Ok(None)
}

/// Reads the fields of RTORJ in X.410 mode.
///
/// # Errors
/// Returns an error if they are malformed.
pub fn read_refusal_fields(fields: Reader<'_>) -> Result<Option<BindError>, BerError> {
    for field in fields {
        let field = field?;
        if field.tag == Tag::context(0) {
            return Ok(Some(BindError::from_refuse_reason(field.integer()?)));
        }
    }
    Ok(None)
}

/// Reads RTAB of normal mode: the reason, if given.
///
/// # Errors
/// Returns an error if it is malformed.
pub fn read_abort(value: Element<'_>) -> Result<Option<AbortReason>, BerError> {
    read_abort_fields(tagged(value, RTAB)?)
}

/// Reads the fields of RTAB.
///
/// # Errors
/// Returns an error if they are malformed.
pub fn read_abort_fields(fields: Reader<'_>) -> Result<Option<AbortReason>, BerError> {
    for field in fields {
        let field = field?;
        if field.tag == Tag::context(0) {
            return Ok(Some(AbortReason::from_number(field.integer()?)));
        }
    }
    Ok(None)
}

fn tagged(value: Element<'_>, wanted: Tag) -> Result<Reader<'_>, BerError> {
    if value.tag == wanted {
        value.children()
    } else {
        Err(BerFault::Unexpected { found: value.tag, wanted }.at(value.at))
    }
}

/// Writes RTORQ: in X.410 mode its fields alone.
pub fn write_request(
    out: &mut Writer,
    mode: Mode,
    terms: CheckpointTerms,
    two_way: bool,
    identity: &Identity,
) {
    wrapped(out, mode, RTORQ, |fields| {
        write_terms(fields, terms);
        fields.integer(Tag::context(2), i64::from(two_way));
        fields.constructed(Tag::context(3), |data| {
            data.constructed(Tag::context(0), |open| write_argument(open, mode, identity));
        });
        if let Some(protocol) = mode.application_protocol() {
            fields.integer(Tag::context(4), i64::from(protocol));
        }
    });
}

/// Writes RTOAC: in X.410 mode its fields alone.
pub fn write_response(out: &mut Writer, mode: Mode, terms: CheckpointTerms, identity: &Identity) {
    wrapped(out, mode, RTOAC, |fields| {
        write_terms(fields, terms);
        fields.constructed(Tag::context(2), |data| {
            data.constructed(Tag::context(0), |open| write_result(open, mode, identity));
        });
    });
}

/// Writes RTORJ: in X.410 mode its fields alone.
pub fn write_refusal(out: &mut Writer, mode: Mode, error: BindError) {
    wrapped(out, mode, RTORJ, |fields| {
        if mode != Mode::Normal {
            fields.integer(Tag::context(0), error.refuse_reason());
        } else if error != BindError::CannotRecover {
            // Normal mode has no reason of RTSE's own: an empty RTORJ refuses to recover.
            fields.constructed(Tag::context(1), |data| write_error(data, error));
        }
    });
}

/// Writes RTAB: in X.410 mode its fields alone.
pub fn write_abort(out: &mut Writer, mode: Mode, reason: AbortReason) {
    wrapped(out, mode, RTAB, |fields| fields.integer(Tag::context(0), reason.number()));
}

fn wrapped(out: &mut Writer, mode: Mode, tag: Tag, fields: impl FnOnce(&mut Writer)) {
    if mode == Mode::Normal { out.constructed(tag, fields) } else { fields(out) }
}

fn write_terms(fields: &mut Writer, terms: CheckpointTerms) {
    fields.integer(Tag::context(0), i64::from(terms.checkpoint_kib));
    fields.integer(Tag::context(1), i64::from(terms.window));
}

/// The octets before an APDU of this length in normal mode: an EXTERNAL in the APDUs' context (X.419 §13.1).
#[must_use]
pub fn apdu_front(mtse_context: i64, apdu_bytes: u64) -> Vec<u8> {
    let mut context = Writer::new();
    context.integer(Tag::INTEGER, mtse_context);
    context.header(Tag::context(0), true, apdu_bytes);
    let fields = context.into_vec();
    let mut front = Writer::new();
    front.header(Tag::EXTERNAL, true, apdu_bytes.saturating_add(fields.len() as u64));
    front.raw(&fields);
    front.into_vec()
}

/// The octets before a slice of that EXTERNAL in DATA: user data with an OCTET STRING in RTSE's context (RTTR).
#[must_use]
pub fn rttr_front(rtse_context: i64, slice_bytes: u64) -> Vec<u8> {
    let string_bytes =
        slice_bytes.saturating_add(header_bytes(Tag::OCTET_STRING, slice_bytes) as u64);
    let mut value = Writer::with_capacity(64);
    value.integer(Tag::INTEGER, rtse_context);
    value.header(Tag::context(0), true, string_bytes);
    let list_bytes = string_bytes.saturating_add(value.as_slice().len() as u64);
    let data_bytes = list_bytes.saturating_add(header_bytes(Tag::SEQUENCE, list_bytes) as u64);
    let mut front = Writer::with_capacity(64);
    front.header(crate::presentation::USER_DATA, true, data_bytes);
    front.header(Tag::SEQUENCE, true, list_bytes);
    front.raw(value.as_slice());
    front.header(Tag::OCTET_STRING, false, slice_bytes);
    front.into_vec()
}
