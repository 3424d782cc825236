//! Why an attempt did not succeed, in the terms a postmaster asks in.

use crate::{EnhancedStatus, Reply};
use std::fmt;

/// Whether trying again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Worth another attempt (4yz).
    Transient,
    /// Final (5yz).
    Permanent,
}

/// Who or what stood in the way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Culprit {
    /// The peer answered so: host name and address, as `mx.example.com[192.0.2.1]:25`.
    Peer(Box<str>),
    /// The way to the peer: connection refused, reset, timed out.
    Network(Box<str>),
    /// The DNS; the text is the name that was asked for.
    Dns(Box<str>),
    /// A rule of this server's own: a limit, a policy, an operator.
    Local,
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Culprit::Peer(who) | Culprit::Network(who) => f.write_str(who),
            Culprit::Dns(name) => write!(f, "DNS for {name}"),
            Culprit::Local => f.write_str("this server"),
        }
    }
}

/// What went wrong with one recipient or one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whether another attempt makes sense.
    pub class: Class,
    /// Who said or caused it.
    pub culprit: Culprit,
    /// The status for DSNs and logs.
    pub status: EnhancedStatus,
    /// The peer's own words, when it spoke.
    pub reply: Option<Reply>,
    /// One line for people; does not repeat the reply.
    pub text: Box<str>,
}

impl Failure {
    /// A failure of this server's own making.
    #[must_use]
    pub fn local(class: Class, status: EnhancedStatus, text: impl Into<Box<str>>) -> Failure {
        Failure { class, culprit: Culprit::Local, status, reply: None, text: text.into() }
    }

    /// A failure on the way to `host`: worth another attempt.
    #[must_use]
    pub fn network(
        host: impl Into<Box<str>>,
        status: EnhancedStatus,
        text: impl Into<Box<str>>,
    ) -> Failure {
        Failure {
            class: Class::Transient,
            culprit: Culprit::Network(host.into()),
            status,
            reply: None,
            text: text.into(),
        }
    }

    /// What the peer `host` answered to `command`; a reply that is neither 4yz nor 5yz counts as
    /// transient, because the peer broke the protocol and may recover.
    #[must_use]
    pub fn peer(host: impl Into<Box<str>>, reply: Reply, command: &str) -> Failure {
        let class = if reply.is_permanent() { Class::Permanent } else { Class::Transient };
        let fallback = if class == Class::Permanent { 5 } else { 4 };
        // RFC 3463 §2: the reply code wins where the peer's enhanced class contradicts it.
        let status = reply
            .enhanced
            .filter(|e| e.class == fallback)
            .unwrap_or(EnhancedStatus::new(fallback, 0, 0));
        Failure {
            class,
            culprit: Culprit::Peer(host.into()),
            status,
            text: format!("in reply to {command}").into(),
            reply: Some(reply),
        }
    }
}

/// `mx.example.com[192.0.2.1]:25 said: 550 5.1.1 no such user (in reply to RCPT TO)`.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reply {
            Some(reply) => write!(f, "{} said: {reply} ({})", self.culprit, self.text),
            None => write!(f, "{}: {}", self.culprit, self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_code_decides_the_class() {
        let failure = |reply| {
            let failure = Failure::peer("mx", reply, "MAIL");
            (failure.class, failure.status.to_string())
        };
        let (permanent, transient) = (Class::Permanent, Class::Transient);
        assert_eq!(failure(Reply::new(550, (5, 1, 1), "")), (permanent, "5.1.1".into()));
        assert_eq!(failure(Reply::new(550, (4, 1, 1), "")), (permanent, "5.0.0".into()));
        assert_eq!(failure(Reply::bare(554, "")), (permanent, "5.0.0".into()));
        assert_eq!(failure(Reply::new(451, (4, 7, 1), "")), (transient, "4.7.1".into()));
        assert_eq!(failure(Reply::new(421, (5, 7, 1), "")), (transient, "4.0.0".into()));
        // Neither refusal nor what was expected: the peer is confused.
        assert_eq!(failure(Reply::new(250, (2, 0, 0), "")), (transient, "4.0.0".into()));
        assert_eq!(failure(Reply::bare(354, "")), (transient, "4.0.0".into()));
    }

    #[test]
    fn failures_name_the_culprit() {
        let reply = Reply::new(550, (5, 1, 1), "no such user");
        assert_eq!(
            Failure::peer("mx.example.com[192.0.2.1]:25", reply, "RCPT TO").to_string(),
            "mx.example.com[192.0.2.1]:25 said: 550 5.1.1 no such user (in reply to RCPT TO)"
        );
        let status = EnhancedStatus::new(4, 4, 1);
        assert_eq!(Failure::network("mx:25", status, "refused").to_string(), "mx:25: refused");
        let local = Failure::local(Class::Permanent, status, "too old");
        assert_eq!(local.to_string(), "this server: too old");
        let dns = Failure { culprit: Culprit::Dns("a.example".into()), ..local };
        assert_eq!(dns.to_string(), "DNS for a.example: too old");
    }
}
