//! Non-delivery reasons and diagnostics (X.411 §8.3.1.2.1.10, §8.3.1.2.1.11) by name, and this MTA's choice for each
//! cause.

use std::fmt;

/// Names of reasons, by number.
const REASONS: [&str; 9] = [
    "transfer-failure",
    "unable-to-transfer",
    "conversion-not-performed",
    "physical-rendition-not-performed",
    "physical-delivery-not-performed",
    "restricted-delivery",
    "directory-operation-unsuccessful",
    "deferred-delivery-not-performed",
    "transfer-failure-for-security-reason",
];

/// Names of diagnostics, by number; those of 61 and above are all about security.
const DIAGNOSTICS: [&str; 61] = [
    "unrecognised-OR-name",
    "ambiguous-OR-name",
    "mts-congestion",
    "loop-detected",
    "recipient-unavailable",
    "maximum-time-expired",
    "encoded-information-types-unsupported",
    "content-too-long",
    "conversion-impractical",
    "implicit-conversion-prohibited",
    "implicit-conversion-not-subscribed",
    "invalid-arguments",
    "content-syntax-error",
    "size-constraint-violation",
    "protocol-violation",
    "content-type-not-supported",
    "too-many-recipients",
    "no-bilateral-agreement",
    "unsupported-critical-function",
    "conversion-with-loss-prohibited",
    "line-too-long",
    "page-split",
    "pictorial-symbol-loss",
    "punctuation-symbol-loss",
    "alphabetic-character-loss",
    "multiple-information-loss",
    "recipient-reassignment-prohibited",
    "redirection-loop-detected",
    "DL-expansion-prohibited",
    "no-DL-submit-permission",
    "DL-expansion-failure",
    "physical-rendition-attributes-not-supported",
    "physical-delivery-address-incorrect",
    "physical-delivery-office-incorrect-or-invalid",
    "physical-delivery-address-incomplete",
    "recipient-unknown",
    "recipient-deceased",
    "organization-expired",
    "recipient-refused-to-accept",
    "recipient-did-not-claim",
    "recipient-changed-address-permanently",
    "recipient-changed-address-temporarily",
    "recipient-changed-temporary-address",
    "new-address-unknown",
    "recipient-did-not-want-forwarding",
    "originator-prohibited-forwarding",
    "secure-messaging-error",
    "unable-to-downgrade",
    "unable-to-complete-transfer",
    "transfer-attempts-limit-reached",
    "incorrect-notification-type",
    "DL-expansion-prohibited-by-security-policy",
    "forbidden-alternate-recipient",
    "security-policy-violation",
    "security-services-refusal",
    "unauthorised-DL-member",
    "unauthorised-DL-name",
    "unauthorised-originally-intended-recipient-name",
    "unauthorised-originator-name",
    "unauthorised-recipient-name",
    "unreliable-system",
];

/// A reason and perhaps a diagnostic, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NonDelivery {
    /// The reason.
    pub reason: u32,
    /// The diagnostic.
    pub diagnostic: Option<u32>,
}

impl NonDelivery {
    /// A reason with a diagnostic.
    #[must_use]
    pub const fn new(reason: u32, diagnostic: u32) -> NonDelivery {
        NonDelivery { reason, diagnostic: Some(diagnostic) }
    }

    /// A reason alone.
    #[must_use]
    pub const fn bare(reason: u32) -> NonDelivery {
        NonDelivery { reason, diagnostic: None }
    }

    /// The reason's name.
    #[must_use]
    pub fn reason_name(self) -> &'static str {
        name(&REASONS, self.reason).unwrap_or("unknown-reason")
    }

    /// The diagnostic's name.
    #[must_use]
    pub fn diagnostic_name(self) -> Option<&'static str> {
        let fallback =
            |number| if number <= 78 { "security-failure" } else { "unknown-diagnostic" };
        self.diagnostic.map(|number| name(&DIAGNOSTICS, number).unwrap_or_else(|| fallback(number)))
    }

    /// The meaning, as a sentence without a full stop.
    #[must_use]
    pub fn explanation(self) -> String {
        match self.diagnostic_name() {
            Some(diagnostic) => {
                format!("{} ({})", words(diagnostic), words(self.reason_name()))
            }
            None => words(self.reason_name()),
        }
    }
}

/// As operators write it: `1/0`, `5/-`.
impl fmt::Display for NonDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.diagnostic {
            Some(diagnostic) => write!(f, "{}/{diagnostic}", self.reason),
            None => write!(f, "{}/-", self.reason),
        }
    }
}

fn name(names: &[&'static str], number: u32) -> Option<&'static str> {
    names.get(usize::try_from(number).ok()?).copied()
}

fn words(name: &str) -> String {
    name.replace('-', " ").replace("OR name", "O/R name")
}

/// The cause of a non-delivery by this MTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Nobody is called so, and no route leads further.
    UnknownName,
    /// Several are.
    AmbiguousName,
    /// A queue or a disk was full for too long.
    Congestion,
    /// The trace shows that the message has been here before.
    Loop,
    /// The mailbox is unreachable or unavailable.
    RecipientUnavailable,
    /// Its latest delivery time passed, or it was tried for as long as we try.
    TimeExpired,
    /// The recipient cannot process the information types of the content.
    EitsUnsupported,
    /// The content is longer than we, the peer or the mailbox takes.
    ContentTooLong,
    /// A gateway can't convert the content.
    ConversionImpractical,
    /// A necessary conversion by a gateway is prohibited.
    ConversionProhibited,
    /// A gateway would lose something, and may not.
    ConversionWithLossProhibited,
    /// A field of the envelope has a value that it can't have.
    InvalidArguments,
    /// The content does not match its type.
    ContentSyntax,
    /// The envelope breaks the protocol.
    ProtocolViolation,
    /// A gateway has no mapping for this type of content.
    ContentTypeUnsupported,
    /// More recipients than we take.
    TooManyRecipients,
    /// The peer is not one that this may go to.
    NoBilateralAgreement,
    /// An extension that must be understood is not.
    UnsupportedCriticalFunction,
    /// The originator may not write to this recipient, by this peer.
    RestrictedDelivery,
    /// A necessary redirection is prohibited.
    ReassignmentProhibited,
    /// Redirections lead in a circle.
    RedirectionLoop,
    /// The recipient is a list, and the originator wants none expanded.
    DlExpansionProhibited,
    /// The originator may not write to the list.
    NoDlSubmitPermission,
    /// A list can't be expanded.
    DlExpansionFailure,
    /// The peer uses the 1984 protocol, and a critical element cannot be downgraded.
    UnableToDowngrade,
    /// The peer did not take it, as often as we tried.
    TransferAttemptsReached,
    /// The peer refused it, or disconnected permanently.
    TransferFailed,
    /// A directory did not answer for too long.
    DirectoryFailed,
}

impl Cause {
    /// All causes.
    pub const ALL: [Cause; 28] = [
        Cause::UnknownName,
        Cause::AmbiguousName,
        Cause::Congestion,
        Cause::Loop,
        Cause::RecipientUnavailable,
        Cause::TimeExpired,
        Cause::EitsUnsupported,
        Cause::ContentTooLong,
        Cause::ConversionImpractical,
        Cause::ConversionProhibited,
        Cause::ConversionWithLossProhibited,
        Cause::InvalidArguments,
        Cause::ContentSyntax,
        Cause::ProtocolViolation,
        Cause::ContentTypeUnsupported,
        Cause::TooManyRecipients,
        Cause::NoBilateralAgreement,
        Cause::UnsupportedCriticalFunction,
        Cause::RestrictedDelivery,
        Cause::ReassignmentProhibited,
        Cause::RedirectionLoop,
        Cause::DlExpansionProhibited,
        Cause::NoDlSubmitPermission,
        Cause::DlExpansionFailure,
        Cause::UnableToDowngrade,
        Cause::TransferAttemptsReached,
        Cause::TransferFailed,
        Cause::DirectoryFailed,
    ];

    /// Reason and diagnostic in the report.
    #[must_use]
    pub const fn non_delivery(self) -> NonDelivery {
        match self {
            Cause::UnknownName => NonDelivery::new(1, 0),
            Cause::AmbiguousName => NonDelivery::new(1, 1),
            Cause::Congestion => NonDelivery::new(1, 2),
            Cause::Loop => NonDelivery::new(1, 3),
            Cause::RecipientUnavailable => NonDelivery::new(1, 4),
            Cause::TimeExpired => NonDelivery::new(1, 5),
            Cause::EitsUnsupported => NonDelivery::new(1, 6),
            Cause::ContentTooLong => NonDelivery::new(1, 7),
            Cause::ConversionImpractical => NonDelivery::new(2, 8),
            Cause::ConversionProhibited => NonDelivery::new(2, 9),
            Cause::ConversionWithLossProhibited => NonDelivery::new(2, 19),
            Cause::InvalidArguments => NonDelivery::new(1, 11),
            Cause::ContentSyntax => NonDelivery::new(1, 12),
            Cause::ProtocolViolation => NonDelivery::new(1, 14),
            Cause::ContentTypeUnsupported => NonDelivery::new(1, 15),
            Cause::TooManyRecipients => NonDelivery::new(1, 16),
            Cause::NoBilateralAgreement => NonDelivery::new(1, 17),
            Cause::UnsupportedCriticalFunction => NonDelivery::new(1, 18),
            Cause::RestrictedDelivery => NonDelivery::bare(5),
            Cause::ReassignmentProhibited => NonDelivery::new(1, 26),
            Cause::RedirectionLoop => NonDelivery::new(1, 27),
            Cause::DlExpansionProhibited => NonDelivery::new(1, 28),
            Cause::NoDlSubmitPermission => NonDelivery::new(1, 29),
            Cause::DlExpansionFailure => NonDelivery::new(1, 30),
            Cause::UnableToDowngrade => NonDelivery::new(2, 47),
            Cause::TransferAttemptsReached => NonDelivery::new(0, 49),
            Cause::TransferFailed => NonDelivery::bare(0),
            Cause::DirectoryFailed => NonDelivery::bare(6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_reason() {
        let table = [
            "1/0", "1/1", "1/2", "1/3", "1/4", "1/5", "1/6", "1/7", "2/8", "2/9", "2/19", "1/11",
            "1/12", "1/14", "1/15", "1/16", "1/17", "1/18", "5/-", "1/26", "1/27", "1/28", "1/29",
            "1/30", "2/47", "0/49", "0/-", "6/-",
        ];
        assert_eq!(Cause::ALL.map(|cause| cause.non_delivery().to_string()), table);
        for cause in Cause::ALL {
            let code = cause.non_delivery();
            assert_ne!(code.reason_name(), "unknown-reason");
            assert_eq!(code.diagnostic_name().is_some(), code.diagnostic.is_some());
        }
    }

    #[test]
    fn names() {
        assert_eq!(NonDelivery::new(1, 0).diagnostic_name(), Some("unrecognised-OR-name"));
        assert_eq!(
            NonDelivery::new(1, 49).diagnostic_name(),
            Some("transfer-attempts-limit-reached")
        );
        assert_eq!(NonDelivery::new(8, 60).diagnostic_name(), Some("unreliable-system"));
        assert_eq!(NonDelivery::new(8, 78).diagnostic_name(), Some("security-failure"));
        assert_eq!(NonDelivery::new(9, 79).diagnostic_name(), Some("unknown-diagnostic"));
        assert_eq!(NonDelivery::bare(9).reason_name(), "unknown-reason");
        assert_eq!(
            NonDelivery::new(1, 0).explanation(),
            "unrecognised O/R name (unable to transfer)"
        );
        assert_eq!(NonDelivery::bare(5).explanation(), "restricted delivery");
    }
}
