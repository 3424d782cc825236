//! MTS-APDUs (X.411 §12, X.419) exchanged by MTAs. Messages and probes ([`envelope`]), reports ([`report`]), and their
//! stream ([`reader`]). A relay changes an envelope's octets in place ([`relay`]); all other octets stay as received.
//!
//! X.410 of 1984 has the same APDUs with fewer fields; these are read too.

pub mod broken;
pub mod downgrade;
pub mod envelope;
pub mod extension;
mod fields;
pub mod reader;
pub mod recipient;
pub mod relay;
pub mod report;
mod report_fields;
pub mod time;
pub mod trace;
mod values;

pub use broken::Broken;
pub use envelope::{EnvelopeKind, TransferEnvelope};
pub use extension::{Extension, ExtensionKind, Extensions};
pub use reader::{ApduEvent, ApduReader, ReadError};
pub use recipient::{Recipient, RecipientIndicators};
pub use report::{ReportContent, ReportEnvelope};
pub use time::UtcTime;
pub use trace::{InternalTraceElement, TraceElement};

pub(crate) use fields::put_text;

use bytes::Bytes;
use std::fmt;

/// Recipients of a message at most (X.411, ub-recipients).
pub const RECIPIENTS_MAX: usize = 32_767;
/// Elements of trace, of redirection and of DL expansion at most (X.411: 512 each).
pub const TRACE_MAX: usize = 512;
/// Maximum number of extensions of a message or a recipient. X.411 defines 46, each of which may occur once, and
/// private ones are rare. Internal trace information is not counted, because each transferring MTA adds some.
pub const EXTENSIONS_MAX: usize = 128;
/// Octets of a local identifier that are read at most. X.411 allows 32; some write more.
pub const LOCAL_ID_BYTES_MAX: usize = 256;
/// Octets of an MTA's name that are read at most. X.411 allows 32.
pub const MTA_NAME_BYTES_MAX: usize = 256;
/// Bilateral items for domains at most (X.411, ub-transfers).
pub const BILATERAL_MAX: usize = 512;

/// Limits of a reader for one APDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Octets of the envelope: everything but the content. A thousand recipients take some 150 kB.
    pub envelope_bytes_max: usize,
    /// Recipients; [`RECIPIENTS_MAX`] at most.
    pub recipients_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { envelope_bytes_max: 8 * 1024 * 1024, recipients_max: RECIPIENTS_MAX }
    }
}

/// A management domain, by its name in the world (X.411, GlobalDomainIdentifier).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobalDomain {
    /// Country.
    pub country: Box<str>,
    /// Administration domain; empty and one space are the same.
    pub admd: Box<str>,
    /// Private domain.
    pub prmd: Option<Box<str>>,
}

/// The permanent identifier of a message, a probe or a report (X.411, MTSIdentifier).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MtsIdentifier {
    /// The domain that gave it.
    pub domain: GlobalDomain,
    /// Part unique within the domain.
    pub local: Box<str>,
}

/// Type of a content (X.411, ContentType).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// One that X.411 numbers.
    BuiltIn(u32),
    /// The octets of an object identifier.
    Extended(Bytes),
}

impl ContentType {
    /// Unidentified.
    pub const UNIDENTIFIED: ContentType = ContentType::BuiltIn(0);
    /// By an object identifier that 1984 has no place for.
    pub const EXTERNAL: ContentType = ContentType::BuiltIn(1);
    /// Interpersonal messages of 1984: P2.
    pub const P2: ContentType = ContentType::BuiltIn(2);
    /// Interpersonal messages of 1988: P22.
    pub const P22: ContentType = ContentType::BuiltIn(22);

    /// Returns true for an interpersonal message or notification.
    #[must_use]
    pub fn is_interpersonal(&self) -> bool {
        *self == ContentType::P2 || *self == ContentType::P22
    }
}

/// As RFC 2156 §5.3.6 writes it: a name and a number, or an object identifier.
impl fmt::Display for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContentType::BuiltIn(number) => {
                let name = match number {
                    0 => "Unidentified ",
                    1 => "External ",
                    2 => "P2-1984 ",
                    22 => "P2-1988 ",
                    35 => "EDI ",
                    40 => "Voice ",
                    _ => "",
                };
                write!(f, "{name}({number})")
            }
            ContentType::Extended(oid) => f.write_str(&crate::ber::oid_text(oid)),
        }
    }
}

/// Priority of a message (X.411, Priority). The order here is that of urgency, unlike the protocol's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// 1.
    NonUrgent,
    /// 0.
    #[default]
    Normal,
    /// 2.
    Urgent,
}

impl Priority {
    /// Its number in the protocol.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Priority::Normal => 0,
            Priority::NonUrgent => 1,
            Priority::Urgent => 2,
        }
    }

    /// The priority of this number.
    #[must_use]
    pub fn of_number(number: i64) -> Option<Priority> {
        [Priority::Normal, Priority::NonUrgent, Priority::Urgent]
            .into_iter()
            .find(|priority| priority.number() == number)
    }

    /// As RFC 2156 §5.3.6 writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Priority::Normal => "normal",
            Priority::NonUrgent => "non-urgent",
            Priority::Urgent => "urgent",
        }
    }
}

/// Named bits, of which the first 16 are kept (X.411, ub-bit-options). Bit 0 is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// Exactly these bits.
    #[must_use]
    pub const fn of(bits: &[u8]) -> Flags {
        let mut flags = 0;
        let mut rest = bits;
        while let [bit, more @ ..] = rest {
            flags |= 0x8000_u16 >> *bit;
            rest = more;
        }
        Flags(flags)
    }

    /// Returns true if this bit is set.
    #[must_use]
    pub const fn has(self, bit: u8) -> bool {
        self.0 & (0x8000_u16 >> bit) != 0
    }

    /// With this bit set or not.
    #[must_use]
    pub const fn with(self, bit: u8, on: bool) -> Flags {
        let mask = 0x8000_u16 >> bit;
        Flags(if on { self.0 | mask } else { self.0 & !mask })
    }

    /// Number of bits up to the last one set.
    #[must_use]
    pub const fn len(self) -> usize {
        16 - self.0.trailing_zeros() as usize
    }

    /// Returns true if no bit is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Bits of [`TransferEnvelope::indicators`] (X.411, PerMessageIndicators).
pub mod message_indicator {
    /// Recipients may be disclosed to each other.
    pub const DISCLOSE_RECIPIENTS: u8 = 0;
    /// No conversion without the originator's request.
    pub const IMPLICIT_CONVERSION_PROHIBITED: u8 = 1;
    /// Another recipient may be chosen by the recipient's domain.
    pub const ALTERNATE_RECIPIENT_ALLOWED: u8 = 2;
    /// The content is wanted back with a non-delivery report.
    pub const CONTENT_RETURN_REQUEST: u8 = 3;
}

/// Information types of a content (X.411, EncodedInformationTypes).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eits {
    /// Bit 0 is unknown, 2 IA5 text, 3 G3 fax, 5 teletex and so on.
    pub built_in: Flags,
    /// Octets of object identifiers.
    pub extended: Vec<Bytes>,
    /// Parameters of fax, teletex and presentation, as elements as received.
    pub parameters: Vec<Bytes>,
}

/// Object identifiers of [`Eits`] at most (X.411, ub-encoded-information-types).
pub const EITS_MAX: usize = 1_024;

/// As text: `/PRMD=p/ADMD=a/C=c/` (RFC 2156 §5.3.3.2).
impl fmt::Display for GlobalDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_address().fmt(f)
    }
}

impl GlobalDomain {
    /// The address that has these attributes only.
    #[must_use]
    pub fn to_address(&self) -> crate::or_name::OrAddress {
        crate::or_name::OrAddress {
            country: Some(self.country.clone()),
            admd: Some(self.admd.clone()),
            prmd: self.prmd.clone(),
            ..crate::or_name::OrAddress::default()
        }
    }

    /// The domain of an address; `None`: it has no country.
    #[must_use]
    pub fn of_address(address: &crate::or_name::OrAddress) -> Option<GlobalDomain> {
        Some(GlobalDomain {
            country: address.country.clone()?,
            admd: address.admd.clone().unwrap_or_else(|| " ".into()),
            prmd: address.prmd.clone(),
        })
    }

    /// Returns true for the same domain (X.402 §18.4).
    #[must_use]
    pub fn is_same(&self, other: &GlobalDomain) -> bool {
        self.to_address().is_same(&other.to_address())
    }
}

/// As text: `[/PRMD=p/ADMD=a/C=c/;local]` (RFC 2156 §5.3.6, mts-msg-id).
impl fmt::Display for MtsIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{};{}]", self.domain, self.local)
    }
}

impl MtsIdentifier {
    /// Reads that text.
    #[must_use]
    pub fn parse(text: &str) -> Option<MtsIdentifier> {
        let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
        // A domain's text ends with a slash, and nothing in it has one before a semicolon.
        let (domain, local) = inner.split_once("/;")?;
        let address = crate::or_name::OrAddress::parse(&format!("{domain}/")).ok()?;
        Some(MtsIdentifier {
            domain: GlobalDomain::of_address(&address)?,
            local: local.trim().into(),
        })
    }
}
