//! The envelope: who sends to whom, and what either wants to be told (RFC 5321, RFC 3461).

use crate::Mailbox;
use crate::dsn::xtext::Envid;

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
}
