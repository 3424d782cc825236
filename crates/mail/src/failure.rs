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
        Failure {
            class,
            culprit: Culprit::Peer(host.into()),
            status: status_of(&reply, class, command),
            text: format!("in reply to {}", words_for(command)).into(),
            reply: Some(reply),
        }
    }

    /// Whether what it says may be about a recipient, and so is nobody else's business: a peer's
    /// reply to anything but the opening of the session.
    #[must_use]
    pub fn may_name_a_recipient(&self) -> bool {
        const OPENING: [&str; 5] = ["the connection", "EHLO", "HELO", "LHLO", "STARTTLS"];
        let words = self.text.strip_prefix("in reply to ").unwrap_or("");
        self.reply.is_some() && !OPENING.iter().any(|command| words.starts_with(command))
    }

    /// Whether the peer refused one recipient, rather than the transaction: what greylisting does
    /// says nothing of the host.
    #[must_use]
    pub fn is_of_recipient(&self) -> bool {
        self.reply.is_some()
            && self.text.strip_prefix("in reply to ").is_some_and(|words| words.starts_with(RCPT))
    }

    /// Reads what [`fmt::Display`] wrote, perhaps cut at its end: what the spool remembers of the
    /// last attempt. The failure was one that left the recipient queued.
    #[must_use]
    pub fn from_text(text: &str) -> Failure {
        if let Some((who, said)) = text.split_once(" said: ")
            && let Some((reply, rest)) = parse_reply(said)
        {
            let (words, behind) = match rest.rsplit_once(" (in reply to ") {
                Some((words, behind)) => {
                    (words, format!("in reply to {}", behind.trim_end_matches(')')))
                }
                None => (rest, "in its reply".to_owned()),
            };
            let reply = Reply { text: words.to_owned().into(), ..reply };
            return Failure {
                class: Class::Transient,
                culprit: Culprit::Peer(who.into()),
                status: status_of(&reply, Class::Transient, ""),
                text: behind.into(),
                reply: Some(reply),
            };
        }
        let (who, what) = text.split_once(": ").unwrap_or(("", text));
        let culprit = match who.strip_prefix("DNS for ") {
            Some(name) => Culprit::Dns(name.into()),
            None if who.is_empty() || who == "this server" => Culprit::Local,
            None => Culprit::Network(who.into()),
        };
        let status = EnhancedStatus::new(4, 4, if culprit == Culprit::Local { 7 } else { 1 });
        Failure { class: Class::Transient, culprit, status, reply: None, text: what.into() }
    }
}

/// The command that names a recipient, as the client calls it.
const RCPT: &str = "RCPT TO";

/// The status of a failed recipient (RFC 3463 §2): the reply code wins where the peer's enhanced
/// class contradicts it. Of a peer that knows no enhanced codes a refused recipient is taken for
/// one that isn't there, which is what these codes mean for RCPT (RFC 5321 §4.2.3), and what list
/// managers look for.
fn status_of(reply: &Reply, class: Class, command: &str) -> EnhancedStatus {
    let fallback = if class == Class::Permanent { 5 } else { 4 };
    let unknown_user = command == RCPT && matches!(reply.code, 550 | 551 | 553);
    match reply.enhanced {
        Some(status) if status.class == fallback => status,
        None if unknown_user => EnhancedStatus::new(5, 1, 1),
        _ => EnhancedStatus::new(fallback, 0, 0),
    }
}

/// A command as reports name it: in the words of Postfix, which programs that read reports know.
fn words_for(command: &str) -> String {
    match command {
        "BDAT" | "the final dot" => "end of DATA command".to_owned(),
        "MAIL FROM" | "RCPT TO" | "DATA" | "EHLO" | "HELO" | "LHLO" | "STARTTLS" | "RSET"
        | "QUIT" => format!("{command} command"),
        other => other.to_owned(),
    }
}

/// Code and status at the start of a reply that was written in one line, and what follows.
fn parse_reply(text: &str) -> Option<(Reply, &str)> {
    let (code, rest) = text.split_at_checked(3)?;
    let code = code.parse().ok().filter(|code| (200..600).contains(code))?;
    let rest = rest.trim_start();
    let (enhanced, rest) = match EnhancedStatus::parse_prefix(rest) {
        Some((status, rest)) => (Some(status), rest),
        None => (None, rest),
    };
    Some((Reply { code, enhanced, text: "".into() }, rest))
}

/// `mx.example.com[192.0.2.1]:25 said: 550 5.1.1 no such user (in reply to RCPT TO command)`.
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
    fn a_bare_refusal_of_a_recipient_is_an_unknown_user() {
        let status = |code, command| Failure::peer("mx", Reply::bare(code, "no"), command).status;
        for code in [550, 551, 553] {
            assert_eq!(status(code, "RCPT TO"), EnhancedStatus::new(5, 1, 1), "{code}");
            assert_eq!(status(code, "MAIL FROM"), EnhancedStatus::new(5, 0, 0), "{code}");
        }
        assert_eq!(status(552, "RCPT TO"), EnhancedStatus::new(5, 0, 0));
        assert_eq!(status(450, "RCPT TO"), EnhancedStatus::new(4, 0, 0));
        let said = Failure::peer("mx", Reply::new(550, (5, 7, 1), "no"), "RCPT TO");
        assert_eq!(said.status, EnhancedStatus::new(5, 7, 1), "who says more is believed");
    }

    #[test]
    fn a_refused_recipient_is_told_from_a_refused_transaction() {
        let of_recipient = |command| {
            let failure = Failure::peer("mx", Reply::new(450, (4, 2, 0), "later"), command);
            let kept = Failure::from_text(&failure.to_string());
            assert_eq!(kept.is_of_recipient(), failure.is_of_recipient(), "{command}");
            failure.is_of_recipient()
        };
        assert!(of_recipient("RCPT TO"));
        assert!(!of_recipient("MAIL FROM") && !of_recipient("DATA") && !of_recipient("BDAT"));
    }

    #[test]
    fn commands_are_named_in_words_that_others_know() {
        let text = |command| Failure::peer("mx", Reply::bare(554, "no"), command).text;
        assert_eq!(&*text("RCPT TO"), "in reply to RCPT TO command");
        assert_eq!(&*text("BDAT"), "in reply to end of DATA command");
        assert_eq!(&*text("the final dot"), "in reply to end of DATA command");
        assert_eq!(&*text("the connection"), "in reply to the connection");
    }

    #[test]
    fn only_the_opening_of_a_session_concerns_everybody() {
        let about =
            |command| Failure::peer("mx", Reply::bare(421, "no"), command).may_name_a_recipient();
        for command in ["the connection", "EHLO", "HELO", "LHLO", "STARTTLS"] {
            assert!(!about(command), "{command}");
        }
        for command in ["MAIL FROM", "RCPT TO", "DATA", "BDAT", "the final dot"] {
            assert!(about(command), "{command}");
        }
        let status = EnhancedStatus::new(4, 4, 1);
        assert!(!Failure::network("mx:25", status, "refused").may_name_a_recipient());
    }

    #[test]
    fn what_was_written_is_read_back() {
        let status = EnhancedStatus::new(4, 4, 1);
        for failure in [
            Failure::peer(
                "mx[192.0.2.1]:25",
                Reply::new(450, (4, 2, 0), "later (not now)"),
                "RCPT TO",
            ),
            Failure::peer("mx", Reply::bare(451, "a: b"), "BDAT"),
            Failure::network("mx:25", status, "connection refused"),
            Failure { culprit: Culprit::Dns("a.b".into()), ..Failure::network("", status, "x: y") },
            Failure::local(Class::Transient, EnhancedStatus::new(4, 4, 7), "no room"),
        ] {
            assert_eq!(Failure::from_text(&failure.to_string()), failure);
        }
        // The spool cuts long ones.
        let cut = Failure::from_text("mx said: 450 4.2.0 a very lo");
        assert_eq!(cut.reply, Some(Reply::new(450, (4, 2, 0), "a very lo")));
        assert_eq!(&*Failure::from_text("").text, "");
    }

    #[test]
    fn failures_name_the_culprit() {
        let reply = Reply::new(550, (5, 1, 1), "no such user");
        assert_eq!(
            Failure::peer("mx.example.com[192.0.2.1]:25", reply, "RCPT TO").to_string(),
            "mx.example.com[192.0.2.1]:25 said: 550 5.1.1 no such user (in reply to RCPT TO command)"
        );
        let status = EnhancedStatus::new(4, 4, 1);
        assert_eq!(Failure::network("mx:25", status, "refused").to_string(), "mx:25: refused");
        let local = Failure::local(Class::Permanent, status, "too old");
        assert_eq!(local.to_string(), "this server: too old");
        let dns = Failure { culprit: Culprit::Dns("a.example".into()), ..local };
        assert_eq!(dns.to_string(), "DNS for a.example: too old");
    }
}
