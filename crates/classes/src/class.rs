//! The classes and kinds that there are.

use std::fmt;
use std::str::FromStr;

/// What a sender does about a failure, in four words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// The address is no good: it should not be written to again.
    Hard,
    /// The recipient, or the peer's patience, is short for now: later it may work.
    Soft,
    /// The sender or its message is not wanted: its address, its domain, what it sends.
    Block,
    /// Neither recipient nor sender is the matter: servers, networks, protocols.
    Technical,
}

impl FailureKind {
    /// All of them.
    pub const ALL: [FailureKind; 4] =
        [FailureKind::Hard, FailureKind::Soft, FailureKind::Block, FailureKind::Technical];

    /// As files and events spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            FailureKind::Hard => "hard",
            FailureKind::Soft => "soft",
            FailureKind::Block => "block",
            FailureKind::Technical => "technical",
        }
    }
}

macro_rules! classes {
    ($($variant:ident $name:literal $kind:ident $meaning:literal;)*) => {
        /// Why a peer refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ReplyClass {
            $(#[doc = $meaning] $variant,)*
        }

        impl ReplyClass {
            /// All of them, in the order of the enum.
            pub const ALL: &'static [ReplyClass] = &[$(ReplyClass::$variant,)*];

            /// As files, events and metrics spell it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(ReplyClass::$variant => $name,)*
                }
            }

            /// The kind that it has in a final reply where a rule names no other.
            #[must_use]
            pub const fn kind(self) -> FailureKind {
                match self {
                    $(ReplyClass::$variant => FailureKind::$kind,)*
                }
            }

            /// The kind that it has in a reply with this code: what is not final is not hard.
            #[must_use]
            pub const fn kind_in(self, code: u16) -> FailureKind {
                match self.kind() {
                    FailureKind::Hard if code < 500 => FailureKind::Soft,
                    kind => kind,
                }
            }

            /// One sentence for people.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(ReplyClass::$variant => $meaning,)*
                }
            }
        }
    };
}

classes! {
    UnknownRecipient "unknown_recipient" Hard "Nobody has this address.";
    InactiveMailbox "inactive_mailbox" Hard "The address was given up, closed or suspended.";
    BadDomain "bad_domain" Hard "The recipient's domain is not there, or takes no mail.";
    MailboxFull "mailbox_full" Soft "The recipient's mailbox has no room.";
    RateLimited "rate_limited" Soft "Too much at once: messages, connections, or mail for one recipient.";
    Greylisted "greylisted" Soft "A stranger is asked to come again.";
    TooManyRecipients "too_many_recipients" Soft "More recipients in one transaction than the peer takes.";
    Reputation "reputation" Block "The sending address or domain has a bad name, or stands on a list.";
    SpamContent "spam_content" Block "The message is taken for spam.";
    Virus "virus" Block "The message carries something dangerous, or an attachment that is not allowed.";
    AuthenticationFailed "authentication_failed" Block "The message failed SPF, DKIM or DMARC, or has none of them.";
    ReverseDns "reverse_dns" Block "The name of the sending address, or the one in EHLO, is missing or wrong.";
    SenderRejected "sender_rejected" Block "The sender's address is not accepted, or its domain is not there.";
    Policy "policy" Block "A rule of the peer's own, which it doesn't explain.";
    RelayDenied "relay_denied" Technical "The peer does not take mail for this domain.";
    TlsRequired "tls_required" Technical "The peer takes mail over TLS only.";
    LoginRequired "login_required" Technical "The peer wants a login, or refused the one it got.";
    MessageTooLarge "message_too_large" Technical "The message is larger than the peer or the recipient takes.";
    MessageFormat "message_format" Technical "The message breaks RFC 5322 or MIME.";
    ProtocolError "protocol_error" Technical "The peer did not understand what was said, or counted errors.";
    RoutingLoop "routing_loop" Technical "The message has gone in a circle.";
    Routing "routing" Technical "The peer found no way on: DNS, a dead next hop, the wrong server.";
    Timeout "timeout" Technical "The peer had waited too long.";
    ServerError "server_error" Technical "The peer is broken, busy or being repaired.";
    Unclassified "unclassified" Technical "No rule matches.";
}

impl fmt::Display for ReplyClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ReplyClass {
    type Err = String;

    fn from_str(text: &str) -> Result<ReplyClass, String> {
        let found = ReplyClass::ALL.iter().find(|class| class.as_str() == text);
        found.copied().ok_or_else(|| format!("there is no class `{text}`"))
    }
}

impl FromStr for FailureKind {
    type Err = String;

    fn from_str(text: &str) -> Result<FailureKind, String> {
        let found = FailureKind::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| format!("there is no kind `{text}`: hard, soft, block or technical"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (n, class) in ReplyClass::ALL.iter().enumerate() {
            assert_eq!(class.as_str().parse(), Ok(*class));
            assert_eq!(*class as usize, n);
            assert!(class.meaning().ends_with('.'));
        }
        for kind in FailureKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        assert!("Hard".parse::<FailureKind>().is_err() && "spam".parse::<ReplyClass>().is_err());
    }
}
