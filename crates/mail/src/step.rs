//! The steps of a dialogue, as named in failures and reports.

use std::fmt;

/// A step of an SMTP or LMTP dialogue, to which a peer's reply belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The greeting.
    Connect,
    /// EHLO.
    Ehlo,
    /// HELO.
    Helo,
    /// LHLO (RFC 2033 §4.1).
    Lhlo,
    /// STARTTLS and its handshake.
    StartTls,
    /// AUTH and its exchange.
    Auth,
    /// MAIL.
    MailFrom,
    /// RCPT.
    RcptTo,
    /// DATA, before the content.
    Data,
    /// A chunk of the content (RFC 3030 §2).
    Bdat,
    /// The end of the content after DATA.
    FinalDot,
    /// The dot that ends an empty content, after a 354 without an accepted recipient.
    LoneDot,
    /// RSET.
    Rset,
    /// QUIT.
    Quit,
}

/// All steps; of two with equal texts the one meant by reports is first.
const ALL: [Step; 14] = [
    Step::Connect,
    Step::Ehlo,
    Step::Helo,
    Step::Lhlo,
    Step::StartTls,
    Step::Auth,
    Step::MailFrom,
    Step::RcptTo,
    Step::Data,
    Step::FinalDot,
    Step::Bdat,
    Step::LoneDot,
    Step::Rset,
    Step::Quit,
];

impl Step {
    /// Returns true if it opens the session, before any transaction.
    #[must_use]
    pub fn opens_session(self) -> bool {
        matches!(
            self,
            Step::Connect | Step::Ehlo | Step::Helo | Step::Lhlo | Step::StartTls | Step::Auth
        )
    }

    /// As operators know it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Step::Connect => "the connection",
            Step::Ehlo => "EHLO",
            Step::Helo => "HELO",
            Step::Lhlo => "LHLO",
            Step::StartTls => "STARTTLS",
            Step::Auth => "AUTH",
            Step::MailFrom => "MAIL FROM",
            Step::RcptTo => "RCPT TO",
            Step::Data => "DATA",
            Step::Bdat => "BDAT",
            Step::FinalDot => "the final dot",
            Step::LoneDot => "the lone dot",
            Step::Rset => "RSET",
            Step::Quit => "QUIT",
        }
    }

    /// The step as text in a report. The texts are those of Postfix, which programs that read reports know.
    #[must_use]
    pub fn in_report(self) -> &'static str {
        match self {
            Step::Connect => "as its greeting",
            Step::Ehlo => "in reply to EHLO command",
            Step::Helo => "in reply to HELO command",
            Step::Lhlo => "in reply to LHLO command",
            Step::StartTls => "in reply to STARTTLS command",
            Step::Auth => "in reply to AUTH command",
            Step::MailFrom => "in reply to MAIL FROM command",
            Step::RcptTo => "in reply to RCPT TO command",
            Step::Data => "in reply to DATA command",
            Step::Bdat | Step::FinalDot => "in reply to end of DATA command",
            Step::LoneDot => "in reply to the lone dot",
            Step::Rset => "in reply to RSET command",
            Step::Quit => "in reply to QUIT command",
        }
    }

    /// The step of a text from a report; it may be cut after the command.
    #[must_use]
    pub fn of_report(text: &str) -> Option<Step> {
        ALL.into_iter().find(|step| text.starts_with(step.in_report().trim_end_matches(" command")))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, Step};

    #[test]
    fn every_step_is_known_again_by_its_words() {
        for step in ALL {
            // A report tells no chunk from a dot.
            let known = if step == Step::Bdat { Step::FinalDot } else { step };
            assert_eq!(Step::of_report(step.in_report()), Some(known));
        }
        assert_eq!(Step::of_report("in reply to RCPT TO com"), Some(Step::RcptTo), "cut");
        assert_eq!(Step::of_report("in reply to RCPT"), None);
        assert_eq!(Step::of_report(""), None);
    }
}
