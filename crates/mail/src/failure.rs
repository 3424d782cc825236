//! Why an attempt did not succeed, in the terms a postmaster asks in.

use crate::{EnhancedStatus, Reply, Step};
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
    /// The message, which is none in the world that it goes to.
    Conversion(Unconverted),
}

/// Why a message was not converted, as X.400 has it (X.411 §8.3.1.2.1.12): more than a status can express.
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

/// What went wrong with one recipient or one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whether another attempt makes sense.
    pub class: Class,
    /// Who said or caused it.
    pub culprit: Culprit,
    /// The status for DSNs and logs.
    pub status: EnhancedStatus,
    /// What the peer said, when it spoke.
    pub reply: Option<Reply>,
    /// The same without what this server had said to it, where it repeats some of that: what is made of its
    /// words is made of these.
    pub heard: Option<Box<Reply>>,
    /// What that reply answered, as far as it is known.
    pub step: Option<Step>,
    /// One line for people; does not repeat the reply.
    pub text: Box<str>,
}

impl Failure {
    /// A failure of this server's own making.
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

    /// A message that can't be converted, now or later.
    #[must_use]
    pub fn not_converted(
        why: Unconverted,
        status: EnhancedStatus,
        text: impl Into<Box<str>>,
    ) -> Failure {
        let failure = Failure::local(Class::Permanent, status, text);
        Failure { culprit: Culprit::Conversion(why), ..failure }
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
            heard: None,
            step: None,
            text: text.into(),
        }
    }

    /// What the DNS says of `name`, or fails to say.
    #[must_use]
    pub fn dns(
        class: Class,
        name: &str,
        status: EnhancedStatus,
        text: impl Into<Box<str>>,
    ) -> Failure {
        Failure { culprit: Culprit::Dns(name.into()), ..Failure::local(class, status, text) }
    }

    /// What the peer `host` answered at this step; a reply that is neither 4yz nor 5yz counts as
    /// transient, because the peer broke the protocol and may recover.
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

    /// The same in other words, and worth another attempt.
    #[must_use]
    pub fn for_now(self, text: impl Into<Box<str>>) -> Failure {
        let status = EnhancedStatus { class: 4, ..self.status };
        Failure { class: Class::Transient, status, text: text.into(), ..self }
    }

    /// The peer's own words.
    #[must_use]
    pub fn heard(&self) -> Option<&Reply> {
        self.reply.as_ref().map(|reply| self.heard.as_deref().unwrap_or(reply))
    }

    /// Whether what it says may be about a recipient, and so is nobody else's business: a peer's
    /// reply to anything but the opening of the session.
    #[must_use]
    pub fn may_name_a_recipient(&self) -> bool {
        self.reply.is_some() && !self.step.is_some_and(Step::opens_session)
    }

    /// Whether the peer refused one recipient, rather than the transaction: what greylisting does
    /// says nothing of the host.
    #[must_use]
    pub fn is_of_recipient(&self) -> bool {
        self.step == Some(Step::RcptTo)
    }

    /// Reads what [`fmt::Display`] wrote, perhaps cut at its end: what the spool remembers of the
    /// last attempt. The failure was one that left the recipient queued.
    #[must_use]
    pub fn from_text(text: &str) -> Failure {
        if let Some((who, said)) = text.split_once(" said: ")
            && let Some((reply, rest)) = parse_reply(said)
        {
            // Behind the peer's words, which may have parentheses of their own.
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

/// The status of a failed recipient (RFC 3463 §2): the reply code wins where the peer's enhanced
/// class contradicts it. Of a peer that knows no enhanced codes a refused recipient is taken for
/// one that isn't there, which is what these codes mean for RCPT (RFC 5321 §4.2.3), and what list
/// managers look for.
fn status_of(reply: &Reply, class: Class, step: Option<Step>) -> EnhancedStatus {
    let fallback = if class == Class::Permanent { 5 } else { 4 };
    let unknown_user = step == Some(Step::RcptTo) && matches!(reply.code, 550 | 551 | 553);
    match reply.enhanced {
        Some(status) if status.class == fallback => status,
        None if unknown_user => EnhancedStatus::new(5, 1, 1),
        _ => EnhancedStatus::new(fallback, 0, 0),
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
