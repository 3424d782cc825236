//! Classes and kinds of failures.

use std::fmt;
use std::str::FromStr;

/// Group of failures with the same remedy for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// The address is invalid: send no more mail to it.
    Hard,
    /// A temporary limit of the recipient or the peer: a retry may succeed.
    Soft,
    /// A refusal of the sender: its address, its domain or its content.
    Block,
    /// A failure of servers, networks or protocols.
    Technical,
}

impl FailureKind {
    /// All kinds.
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
        /// Cause of a refusal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ReplyClass {
            $(#[doc = $meaning] $variant,)*
        }

        impl ReplyClass {
            /// All classes, in the order of the enum.
            pub const ALL: &'static [ReplyClass] = &[$(ReplyClass::$variant,)*];

            /// As files, events and metrics spell it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(ReplyClass::$variant => $name,)*
                }
            }

            /// Default kind in a permanent failure.
            #[must_use]
            pub const fn kind(self) -> FailureKind {
                match self {
                    $(ReplyClass::$variant => FailureKind::$kind,)*
                }
            }

            /// Default kind in a reply with this code: temporary failures are not hard.
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
    UnknownRecipient "unknown_recipient" Hard "No mailbox has this address.";
    InactiveMailbox "inactive_mailbox" Hard "The address was disabled, closed or suspended.";
    BadDomain "bad_domain" Hard "The recipient's domain does not exist, or accepts no mail.";
    MailboxFull "mailbox_full" Soft "The recipient's mailbox is full.";
    RateLimited "rate_limited" Soft "Too much at once: messages, connections, or mail for one recipient.";
    Greylisted "greylisted" Soft "Greylisting of an unknown client.";
    TooManyRecipients "too_many_recipients" Soft "More recipients in one transaction than the peer accepts.";
    Reputation "reputation" Block "The sending address or domain has a bad reputation, or is on a blocklist.";
    SpamContent "spam_content" Block "The message is classified as spam.";
    Virus "virus" Block "The message has malware or a forbidden attachment.";
    AuthenticationFailed "authentication_failed" Block "The message failed SPF, DKIM or DMARC, or is unauthenticated.";
    ReverseDns "reverse_dns" Block "Missing or wrong name in reverse DNS or EHLO.";
    SenderRejected "sender_rejected" Block "The sender's address is not accepted, or its domain does not exist.";
    Policy "policy" Block "An unexplained local rule of the peer.";
    RelayDenied "relay_denied" Technical "The peer does not accept mail for this domain.";
    TlsRequired "tls_required" Technical "The peer requires TLS.";
    LoginRequired "login_required" Technical "The peer requires authentication, or rejected it.";
    MessageTooLarge "message_too_large" Technical "The message is larger than the peer or the recipient accepts.";
    MessageFormat "message_format" Technical "The message breaks RFC 5322 or MIME.";
    ProtocolError "protocol_error" Technical "The peer did not understand a command, or counted errors.";
    RoutingLoop "routing_loop" Technical "Mail loop.";
    Routing "routing" Technical "The peer found no route: DNS, a dead next hop, the wrong server.";
    Timeout "timeout" Technical "The peer timed out.";
    ServerError "server_error" Technical "The peer is out of order, busy or in maintenance.";
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
        found.copied().ok_or_else(|| format!("unknown class `{text}`"))
    }
}

impl FromStr for FailureKind {
    type Err = String;

    fn from_str(text: &str) -> Result<FailureKind, String> {
        let found = FailureKind::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| format!("unknown kind `{text}`: use hard, soft, block or technical"))
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
