//! The SPDUs.

use super::SERIAL_MAX;
use std::fmt;

/// The serial number of a synchronization point; written as decimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Serial(pub u32);

impl Serial {
    /// Up to six digits.
    pub(super) fn parse(digits: &[u8]) -> Option<Serial> {
        if digits.is_empty() || digits.len() > 6 || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        Some(Serial(digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'))))
    }

    /// The next one.
    #[must_use]
    pub const fn next(self) -> Serial {
        Serial(if self.0 < SERIAL_MAX { self.0 + 1 } else { SERIAL_MAX })
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An end's reference for a session connection (X.225 §8.3.1.2): each part is usually BER.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// The speaker's own: calling in CONNECT, called in ACCEPT and REFUSE.
    pub user: Vec<u8>,
    /// The common reference: a time.
    pub common: Vec<u8>,
    /// More.
    pub additional: Vec<u8>,
}

/// CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The caller's reference.
    pub reference: Reference,
    /// Bit 1: it can take extended concatenation.
    pub options: u8,
    /// The versions that it knows, as bits.
    pub versions: u8,
    /// Holders of the tokens.
    pub token_setting: u8,
    /// The functional units that it wants.
    pub requirements: u16,
    /// Its S-selector.
    pub calling: Vec<u8>,
    /// The called selector.
    pub called: Vec<u8>,
    /// More user data follows than fits.
    pub has_overflow: bool,
    /// The presentation's.
    pub user_data: Vec<u8>,
}

/// ACCEPT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The answerer's reference.
    pub reference: Reference,
    /// Bit 1: it can take extended concatenation.
    pub options: u8,
    /// The version chosen, as a bit.
    pub versions: u8,
    /// Holders of the tokens.
    pub token_setting: u8,
    /// The functional units agreed.
    pub requirements: u16,
    /// Its S-selector.
    pub responding: Vec<u8>,
    /// The presentation's.
    pub user_data: Vec<u8>,
}

/// Reason for refusing a session (§8.3.5.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefuseReason {
    /// 0: by the user above, without a reason.
    Rejected,
    /// 1
    Congested,
    /// 2: the reason is in the user data.
    UserData,
    /// 129
    SelectorUnknown,
    /// 130
    NotAttached,
    /// 131
    ProviderCongested,
    /// 132
    Version,
    /// 133
    ProviderUnspecified,
    /// 134
    Restriction,
    /// Any other.
    Other(u8),
}

impl RefuseReason {
    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            RefuseReason::Rejected => 0,
            RefuseReason::Congested => 1,
            RefuseReason::UserData => 2,
            RefuseReason::SelectorUnknown => 0x81,
            RefuseReason::NotAttached => 0x82,
            RefuseReason::ProviderCongested => 0x83,
            RefuseReason::Version => 0x84,
            RefuseReason::ProviderUnspecified => 0x85,
            RefuseReason::Restriction => 0x86,
            RefuseReason::Other(code) => code,
        }
    }

    pub(super) const fn from_code(code: u8) -> Self {
        match code {
            0 => RefuseReason::Rejected,
            1 => RefuseReason::Congested,
            2 => RefuseReason::UserData,
            0x81 => RefuseReason::SelectorUnknown,
            0x82 => RefuseReason::NotAttached,
            0x83 => RefuseReason::ProviderCongested,
            0x84 => RefuseReason::Version,
            0x85 => RefuseReason::ProviderUnspecified,
            0x86 => RefuseReason::Restriction,
            other => RefuseReason::Other(other),
        }
    }

    /// Another try may go better.
    #[must_use]
    pub const fn is_temporary(self) -> bool {
        matches!(
            self,
            RefuseReason::Rejected
                | RefuseReason::Congested
                | RefuseReason::NotAttached
                | RefuseReason::ProviderCongested
        )
    }
}

/// REFUSE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refuse {
    /// The answerer's reference.
    pub reference: Reference,
    /// The transport connection is closed too.
    pub releases_transport: bool,
    /// The functional units that it would take.
    pub requirements: Option<u16>,
    /// The versions that it knows.
    pub versions: Option<u8>,
    /// Why.
    pub reason: RefuseReason,
    /// The presentation's, where the reason is [`RefuseReason::UserData`].
    pub user_data: Vec<u8>,
}

/// Reason why an activity ends without an APDU (X.225 §8.3.23, reason codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceptionReason {
    /// No reason.
    Unspecified,
    /// Not now.
    TemporarilyUnable,
    /// An SPDU was out of order.
    SequenceError,
    /// A local error of the peer.
    LocalError,
    /// It can't be recovered.
    Unrecoverable,
    /// The peer wants the data token.
    DemandDataToken,
    /// Any other code.
    Other(u8),
}

impl ExceptionReason {
    /// The code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            ExceptionReason::Unspecified => 0,
            ExceptionReason::TemporarilyUnable => 1,
            ExceptionReason::SequenceError => 3,
            ExceptionReason::LocalError => 5,
            ExceptionReason::Unrecoverable => 6,
            ExceptionReason::DemandDataToken => 128,
            ExceptionReason::Other(code) => code,
        }
    }

    /// Maps the code.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code {
            0 => ExceptionReason::Unspecified,
            1 => ExceptionReason::TemporarilyUnable,
            3 => ExceptionReason::SequenceError,
            5 => ExceptionReason::LocalError,
            6 => ExceptionReason::Unrecoverable,
            128 => ExceptionReason::DemandDataToken,
            other => ExceptionReason::Other(other),
        }
    }
}

/// An SPDU. Unneeded parameters are omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spdu {
    /// CN
    Connect(Box<Connect>),
    /// AC
    Accept(Box<Accept>),
    /// RF
    Refuse(Box<Refuse>),
    /// FN
    Finish {
        /// The presentation's.
        user_data: Vec<u8>,
    },
    /// DN
    Disconnect {
        /// The presentation's.
        user_data: Vec<u8>,
    },
    /// NF
    NotFinished,
    /// AB
    Abort {
        /// Bits: 1 release of the transport, 2 by the user, 4 protocol error, 8 no reason.
        reason: u8,
        /// The presentation's.
        user_data: Vec<u8>,
    },
    /// AA
    AbortAccept,
    /// GT alone: the tokens in it.
    GiveTokens {
        /// Token item bits.
        tokens: u8,
    },
    /// PT: requests tokens.
    PleaseTokens {
        /// Token item bits.
        tokens: u8,
        /// The presentation's.
        user_data: Vec<u8>,
    },
    /// GTC: gives all tokens.
    GiveTokensConfirm,
    /// GTA
    GiveTokensAck,
    /// AS
    ActivityStart {
        /// Its identifier.
        id: Vec<u8>,
    },
    /// AR
    ActivityResume,
    /// AE: the major synchronization point that ends an activity.
    ActivityEnd(Serial),
    /// AEA
    ActivityEndAck(Serial),
    /// AI, with its reason.
    ActivityInterrupt(ExceptionReason),
    /// AIA
    ActivityInterruptAck,
    /// AD, with its reason.
    ActivityDiscard(ExceptionReason),
    /// ADA
    ActivityDiscardAck,
    /// MIP
    MinorSync {
        /// Its number.
        serial: Serial,
        /// An acknowledgement is requested.
        wants_ack: bool,
    },
    /// MIA
    MinorSyncAck(Serial),
    /// ER, by the session's provider.
    ExceptionReport,
    /// ED, with its reason.
    ExceptionData(ExceptionReason),
}
