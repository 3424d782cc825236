//! Failures of delivery attempts, in the terms of a postmaster.

use crate::{EnhancedStatus, Reply, Step};
use std::fmt;

/// Says if a retry may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Worth another attempt (4yz).
    Transient,
    /// Final (5yz).
    Permanent,
}

/// The party that caused a failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Culprit {
    /// A reply of this peer, given by host name and address: `mx.example.com[192.0.2.1]:25`.
    Peer(Box<str>),
    /// The connection to the peer: refused, reset, timed out.
    Network(Box<str>),
    /// The DNS; the text is the queried name.
    Dns(Box<str>),
    /// A rule of this server: a limit, a policy or an operator.
    Local,
    /// The message, which cannot be converted for its destination.
    Conversion(Unconverted),
}

/// X.400's reason why a message was not converted (X.411 §8.3.1.2.1.12): more detailed than a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unconverted {
    /// The reason.
    pub reason: u32,
    /// The diagnostic.
    pub diagnostic: Option<u32>,
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Culprit::Peer(who) | Culprit::Network(who) => f.write_str(who),
            Culprit::Dns(name) => write!(f, "DNS for {name}"),
            Culprit::Local | Culprit::Conversion(_) => f.write_str("this server"),
        }
    }
}

/// A failure of one recipient or one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Says if another attempt makes sense.
    pub class: Class,
    /// The party that reported or caused it.
    pub culprit: Culprit,
    /// The status for DSNs and logs.
    pub status: EnhancedStatus,
    /// The peer's reply, if any.
    pub reply: Option<Reply>,
    /// The reply without text that the peer repeated from this server's commands. Decisions based on the reply's text
    /// use this.
    pub heard: Option<Box<Reply>>,
    /// The step that the reply belongs to, if known.
    pub step: Option<Step>,
    /// One line of human-readable text, without the reply.
    pub text: Box<str>,
}

impl Failure {
    /// A failure caused by this server.
    #[must_use]
    pub fn local(class: Class, status: EnhancedStatus, text: impl Into<Box<str>>) -> Failure {
        Failure {
            class,
            culprit: Culprit::Local,
            status,
            reply: None,
            heard: None,
            step: None,
            text: text.into(),
        }
    }

    /// The failure of a message that cannot be converted, now or later.
    #[must_use]
    pub fn not_converted(
        why: Unconverted,
        status: EnhancedStatus,
        text: impl Into<Box<str>>,
    ) -> Failure {
        let failure = Failure::local(Class::Permanent, status, text);
        Failure { culprit: Culprit::Conversion(why), ..failure }
    }

    /// A network failure towards `host`: worth another attempt.
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
            heard: None,
            step: None,
            text: text.into(),
        }
    }

    /// A failure of a DNS lookup of `name`, or a result that prevents delivery.
    #[must_use]
    pub fn dns(
        class: Class,
        name: &str,
        status: EnhancedStatus,
        text: impl Into<Box<str>>,
    ) -> Failure {
        Failure { culprit: Culprit::Dns(name.into()), ..Failure::local(class, status, text) }
    }

    /// The reply of peer `host` at this step. A reply that is neither 4yz nor 5yz counts as transient, because the peer
    /// broke the protocol and may recover.
    #[must_use]
    pub fn peer(host: impl Into<Box<str>>, reply: Reply, step: Step) -> Failure {
        let class = if reply.is_permanent() { Class::Permanent } else { Class::Transient };
        Failure {
            class,
            culprit: Culprit::Peer(host.into()),
            status: status_of(&reply, class, Some(step)),
            text: step.in_report().into(),
            reply: Some(reply),
            heard: None,
            step: Some(step),
        }
    }

    /// The same failure as transient, with a new text.
    #[must_use]
    pub fn for_now(self, text: impl Into<Box<str>>) -> Failure {
        let status = EnhancedStatus { class: 4, ..self.status };
        Failure { class: Class::Transient, status, text: text.into(), ..self }
    }

    /// The peer's reply without repeated text.
    #[must_use]
    pub fn heard(&self) -> Option<&Reply> {
        self.reply.as_ref().map(|reply| self.heard.as_deref().unwrap_or(reply))
    }

    /// Returns true if the reply may be about a recipient, so that it must not be shown to other senders. This is true
    /// for a reply to any step but the opening of the session.
    #[must_use]
    pub fn may_name_a_recipient(&self) -> bool {
        self.reply.is_some() && !self.step.is_some_and(Step::opens_session)
    }

    /// Returns true if the peer refused one recipient rather than the transaction: greylisting, for example, is no
    /// evidence about the host.
    #[must_use]
    pub fn is_of_recipient(&self) -> bool {
        self.step == Some(Step::RcptTo)
    }

    /// Parses the output of [`fmt::Display`], possibly cut at its end, as stored by the spool for the last attempt. The
    /// failure was one that left the recipient queued.
    #[must_use]
    pub fn from_text(text: &str) -> Failure {
        if let Some((who, said)) = text.split_once(" said: ")
            && let Some((reply, rest)) = parse_reply(said)
        {
            // After the peer's text, which may have its own parentheses.
            let (words, behind) = rest.rsplit_once(" (").unwrap_or((rest, ""));
            let text = behind.trim_end_matches(')');
            let step = Step::of_report(text);
            let (words, text) = if step.is_some() { (words, text) } else { (rest, "in its reply") };
            let reply = Reply { text: words.to_owned().into(), ..reply };
            return Failure {
                class: Class::Transient,
                culprit: Culprit::Peer(who.into()),
                status: status_of(&reply, Class::Transient, None),
                text: text.into(),
                reply: Some(reply),
                heard: None,
                step,
            };
        }
        let (who, what) = text.split_once(": ").unwrap_or(("", text));
        let culprit = match who.strip_prefix("DNS for ") {
            Some(name) => Culprit::Dns(name.into()),
            None if who.is_empty() || who == "this server" => Culprit::Local,
            None => Culprit::Network(who.into()),
        };
        let status = EnhancedStatus::new(4, 4, if culprit == Culprit::Local { 7 } else { 1 });
        Failure {
            class: Class::Transient,
            culprit,
            status,
            reply: None,
            heard: None,
            step: None,
            text: what.into(),
        }
    }
}

/// The status of a failed recipient (RFC 3463 §2): the reply code takes precedence over a contradicting enhanced class.
/// If the peer has no enhanced codes, a refused recipient counts as an unknown one. These codes mean that for RCPT (RFC
/// 5321 §4.2.3), and list managers look for it.
fn status_of(reply: &Reply, class: Class, step: Option<Step>) -> EnhancedStatus {
    let fallback = if class == Class::Permanent { 5 } else { 4 };
    let unknown_user = step == Some(Step::RcptTo) && matches!(reply.code, 550 | 551 | 553);
    match reply.enhanced {
        Some(status) if status.class == fallback => status,
        None if unknown_user => EnhancedStatus::new(5, 1, 1),
        _ => EnhancedStatus::new(fallback, 0, 0),
    }
}

/// Code and status at the start of a reply written in one line, and the text after them.
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
            let failure = Failure::peer("mx", reply, Step::MailFrom);
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
        let status = |code, step| Failure::peer("mx", Reply::bare(code, "no"), step).status;
        for code in [550, 551, 553] {
            assert_eq!(status(code, Step::RcptTo), EnhancedStatus::new(5, 1, 1), "{code}");
            assert_eq!(status(code, Step::MailFrom), EnhancedStatus::new(5, 0, 0), "{code}");
        }
        assert_eq!(status(552, Step::RcptTo), EnhancedStatus::new(5, 0, 0));
        assert_eq!(status(450, Step::RcptTo), EnhancedStatus::new(4, 0, 0));
        let said = Failure::peer("mx", Reply::new(550, (5, 7, 1), "no"), Step::RcptTo);
        assert_eq!(said.status, EnhancedStatus::new(5, 7, 1), "who says more is believed");
    }

    #[test]
    fn a_refused_recipient_is_told_from_a_refused_transaction() {
        let of_recipient = |step| {
            let failure = Failure::peer("mx", Reply::new(450, (4, 2, 0), "later"), step);
            let kept = Failure::from_text(&failure.to_string());
            assert_eq!(kept.is_of_recipient(), failure.is_of_recipient(), "{step}");
            failure.is_of_recipient()
        };
        assert!(of_recipient(Step::RcptTo));
        for step in [Step::MailFrom, Step::Data, Step::Bdat] {
            assert!(!of_recipient(step), "{step}");
        }
    }

    #[test]
    fn commands_are_named_in_words_that_others_know() {
        let text = |step| Failure::peer("mx", Reply::bare(554, "no"), step).text;
        assert_eq!(&*text(Step::RcptTo), "in reply to RCPT TO command");
        assert_eq!(&*text(Step::Bdat), "in reply to end of DATA command");
        assert_eq!(&*text(Step::FinalDot), "in reply to end of DATA command");
        assert_eq!(&*text(Step::Connect), "as its greeting");
    }

    #[test]
    fn only_the_opening_of_a_session_concerns_everybody() {
        let about = |step| {
            let failure = Failure::peer("mx", Reply::bare(421, "no"), step);
            let kept = Failure::from_text(&failure.to_string());
            assert_eq!(kept.may_name_a_recipient(), failure.may_name_a_recipient(), "{step}");
            failure.may_name_a_recipient()
        };
        for step in [Step::Connect, Step::Ehlo, Step::Helo, Step::Lhlo, Step::StartTls] {
            assert!(!about(step), "{step}");
        }
        for step in [Step::MailFrom, Step::RcptTo, Step::Data, Step::Bdat, Step::FinalDot] {
            assert!(about(step), "{step}");
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
                Step::RcptTo,
            ),
            Failure::peer("mx", Reply::bare(451, "a: b"), Step::FinalDot),
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
            Failure::peer("mx.example.com[192.0.2.1]:25", reply, Step::RcptTo).to_string(),
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
