//! The envelope: sender, recipients, and their notification requests (RFC 5321, RFC 3461).

use crate::dsn::xtext::Envid;
use crate::{Mailbox, Wall};

/// BODY= of MAIL (RFC 6152).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyType {
    /// No BODY parameter, or 7BIT.
    #[default]
    SevenBit,
    /// BODY=8BITMIME.
    EightBit,
}

/// RET= of MAIL (RFC 3461 §4.3): the part of the message in a failure DSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ret {
    /// The whole message.
    Full,
    /// Its header only.
    Headers,
}

/// NOTIFY= of RCPT (RFC 3461 §4.1) as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify(pub u8);

impl Notify {
    /// NOTIFY=NEVER.
    pub const NEVER: Notify = Notify(0);
    /// Report when delivered.
    pub const SUCCESS: Notify = Notify(1);
    /// Report when failed.
    pub const FAILURE: Notify = Notify(2);
    /// Report when delayed.
    pub const DELAY: Notify = Notify(4);
    /// The parameter was absent: failures and delays are reported, and no parameter is relayed.
    pub const UNSPECIFIED: Notify = Notify(0x80 | 2 | 4);

    /// Returns true if `event` (one of the constants) was requested.
    #[must_use]
    pub fn wants(self, event: Notify) -> bool {
        self.0 & event.0 & 0x7f != 0
    }

    /// The combined request for a recipient given twice: all events in either.
    #[must_use]
    pub fn union(self, other: Notify) -> Notify {
        if self == other {
            return self;
        }
        // An event requested explicitly stays, even if the other request has no NOTIFY.
        Notify((self.0 | other.0) & 0x7f)
    }

    /// Returns true if the client gave a NOTIFY parameter.
    #[must_use]
    pub fn is_specified(self) -> bool {
        self.0 & 0x80 == 0
    }
}

/// A recipient: the stored form of an accepted forward-path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// The destination address.
    pub mailbox: Mailbox,
    /// Reports requested by the sender.
    pub notify: Notify,
    /// ORCPT= as received, still xtext-encoded: `rfc822;user+2Bx@example.com` (RFC 3461 §4.2).
    pub orcpt: Option<Box<str>>,
}

/// The content of MAIL and RCPT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// `None` is the null reverse-path `<>`.
    pub reverse_path: Option<Mailbox>,
    /// In order of acceptance; a recipient's number is its index here.
    pub recipients: Vec<Recipient>,
    /// BODY=.
    pub body: BodyType,
    /// SMTPUTF8 was given (RFC 6531).
    pub smtputf8: bool,
    /// RET=.
    pub ret: Option<Ret>,
    /// ENVID= as received, still xtext-encoded.
    pub envid: Option<Envid>,
}

/// The DELIVERBY request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliverBy {
    /// By when.
    pub at: Wall,
    /// Action at the deadline.
    pub mode: ByMode,
    /// Each relaying server notifies the sender.
    pub is_traced: bool,
}

/// Action for a late message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByMode {
    /// It is returned.
    Return,
    /// The sender is notified.
    Notify,
}

/// From -9 to 9; 0 for messages without a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(i8);

impl Priority {
    /// Normal.
    pub const NORMAL: Priority = Priority(0);

    /// `None` if out of range.
    #[must_use]
    pub fn new(value: i8) -> Option<Priority> {
        (-9..=9).contains(&value).then_some(Priority(value))
    }

    /// Parses the form of RFC 6710 §6: a digit with an optional minus sign.
    #[must_use]
    pub fn parse(text: &str) -> Option<Priority> {
        let (is_below, digit) = match text.strip_prefix('-') {
            Some(digit) => (true, digit),
            None => (false, text),
        };
        let [digit @ b'0'..=b'9'] = digit.as_bytes() else { return None };
        let value = (digit - b'0').cast_signed();
        match (is_below, value) {
            (true, 0) => None,
            (true, value) => Some(Priority(-value)),
            (false, value) => Some(Priority(value)),
        }
    }

    /// As a number from -9 to 9.
    #[must_use]
    pub fn value(self) -> i8 {
        self.0
    }

    /// The class, one of ten, 0 being the least urgent and 4 that of normal mail. Any priority above normal sorts
    /// before normal mail, and any below sorts after it.
    #[must_use]
    pub fn class(self) -> u8 {
        let steps = self.0.unsigned_abs().div_ceil(2);
        if self.0 > 0 { 4 + steps } else { 4_u8.saturating_sub(steps) }
    }
}

/// TLS requirement set by the sender of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequireTls {
    /// Not set: policies decide.
    #[default]
    Unsaid,
    /// REQUIRETLS of MAIL (§2): only over TLS, and only to authenticated servers with the same guarantee.
    Yes,
    /// `TLS-Required: No` of its header (§3): TLS policies of recipients' domains are ignored.
    No,
}

impl RequireTls {
    /// Combines REQUIRETLS of MAIL with `TLS-Required: No` of the header (§4.1: MAIL takes precedence).
    #[must_use]
    pub fn of(mail: bool, header: bool) -> RequireTls {
        match (mail, header) {
            (true, _) => RequireTls::Yes,
            (false, true) => RequireTls::No,
            (false, false) => RequireTls::Unsaid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notify_says_what_is_wanted() {
        let wants =
            |n: Notify| [Notify::SUCCESS, Notify::FAILURE, Notify::DELAY].map(|e| n.wants(e));
        assert_eq!(wants(Notify::NEVER), [false, false, false]);
        assert_eq!(wants(Notify::UNSPECIFIED), [false, true, true]);
        assert_eq!(wants(Notify(1 | 4)), [true, false, true]);
        assert_eq!(Notify::NEVER.union(Notify::SUCCESS), Notify::SUCCESS);
        assert_eq!(Notify::UNSPECIFIED.union(Notify::SUCCESS), Notify(1 | 2 | 4));
        assert_eq!(Notify::UNSPECIFIED.union(Notify::UNSPECIFIED), Notify::UNSPECIFIED);
        assert!(!Notify::UNSPECIFIED.is_specified());
        assert!(Notify::NEVER.is_specified() && Notify::FAILURE.is_specified());
    }

    #[test]
    fn what_is_written_is_read() {
        for value in -9..=9 {
            assert_eq!(Priority::parse(&value.to_string()), Priority::new(value));
        }
        for bad in ["", "-", "10", "-10", "+1", "01", "-0", "1 ", "high"] {
            assert_eq!(Priority::parse(bad), None, "{bad}");
        }
        assert_eq!((Priority::new(10), Priority::new(-10)), (None, None));
    }

    #[test]
    fn ten_classes_keep_the_order() {
        let classes: Vec<u8> = (-9..=9).map(|value| Priority(value).class()).collect();
        assert_eq!(classes, [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9]);
    }
}
