//! The envelope: who sends to whom, and what either wants to be told (RFC 5321, RFC 3461).

use crate::dsn::xtext::Envid;
use crate::{Mailbox, Wall};

/// BODY= of MAIL (RFC 6152).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyType {
    /// The client claimed nothing, or 7BIT.
    #[default]
    SevenBit,
    /// BODY=8BITMIME.
    EightBit,
}

/// RET= of MAIL (RFC 3461 §4.3): what a failure DSN brings back.
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
    /// The parameter was absent: failures and delays are reported, and nothing is passed on.
    pub const UNSPECIFIED: Notify = Notify(0x80 | 2 | 4);

    /// Whether `event` (one of the constants) is wanted.
    #[must_use]
    pub fn wants(self, event: Notify) -> bool {
        self.0 & event.0 & 0x7f != 0
    }

    /// What is wanted when the same recipient is given twice: all that either asks for.
    #[must_use]
    pub fn union(self, other: Notify) -> Notify {
        if self == other {
            return self;
        }
        // What one of the two asks for by name, the other's silence doesn't take away.
        Notify((self.0 | other.0) & 0x7f)
    }

    /// Whether the client gave a NOTIFY parameter.
    #[must_use]
    pub fn is_specified(self) -> bool {
        self.0 & 0x80 == 0
    }
}

/// One recipient: our record of a forward-path that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// Where the message shall go.
    pub mailbox: Mailbox,
    /// Which reports the sender wants.
    pub notify: Notify,
    /// ORCPT= as it came, still xtext-encoded: `rfc822;user+2Bx@example.com` (RFC 3461 §4.2).
    pub orcpt: Option<Box<str>>,
}

/// What MAIL and RCPT said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// `None` is the null reverse-path `<>`.
    pub reverse_path: Option<Mailbox>,
    /// In the order in which they were accepted; a recipient's number is its index here.
    pub recipients: Vec<Recipient>,
    /// BODY=.
    pub body: BodyType,
    /// SMTPUTF8 was given (RFC 6531).
    pub smtputf8: bool,
    /// RET=.
    pub ret: Option<Ret>,
    /// ENVID= as it came, still xtext-encoded.
    pub envid: Option<Envid>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliverBy {
    /// By when.
    pub at: Wall,
    /// What becomes of it then.
    pub mode: ByMode,
    /// Its sender hears of each server that passes it on.
    pub is_traced: bool,
}

/// What becomes of a message that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByMode {
    /// It is returned.
    Return,
    /// Its sender is told.
    Notify,
}

/// From -9 to 9; 0 is what messages have that say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(i8);

impl Priority {
    /// Normal.
    pub const NORMAL: Priority = Priority(0);

    /// `None`: there is no such.
    #[must_use]
    pub fn new(value: i8) -> Option<Priority> {
        (-9..=9).contains(&value).then_some(Priority(value))
    }

    /// As RFC 6710 §6 writes it: a digit, with a minus before it perhaps.
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

    /// Which of ten classes it is in, 0 being the least urgent and 4 that of normal mail. What is above normal
    /// goes before it and what is below behind it, whichever it is.
    #[must_use]
    pub fn class(self) -> u8 {
        let steps = self.0.unsigned_abs().div_ceil(2);
        if self.0 > 0 { 4 + steps } else { 4_u8.saturating_sub(steps) }
    }
}

/// Whether a message may go in clear, as far as its sender says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequireTls {
    /// Nothing is said: as policies have it.
    #[default]
    Unsaid,
    /// REQUIRETLS of MAIL (§2): only over TLS, to servers that are authenticated and promise the same.
    Yes,
    /// `TLS-Required: No` of its header (§3): what recipients' domains ask of TLS does not count.
    No,
}

impl RequireTls {
    /// Of a message whose MAIL had REQUIRETLS, or not, and whose header asks for no TLS, or not (§4.1: MAIL
    /// counts).
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
