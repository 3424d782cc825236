//! Which addresses a domain sends from: the Sender Policy Framework (RFC 7208).

mod evaluation;
mod expansion;
mod record;

pub use evaluation::{EXCHANGES_MAX, LOOKUPS_MAX, VOID_LOOKUPS_MAX, check};

use crate::records::Unanswered;
use std::net::IpAddr;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// The reverse-path; `None` is `<>`, and then the name in EHLO is what is asked about.
    pub sender: Option<Sender<'a>>,
    /// The client's name in EHLO.
    pub helo: &'a str,
    /// Our own name.
    pub receiver: &'a str,
    /// Seconds since 1970.
    pub now: u64,
}

/// A reverse-path, its domain in ASCII.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    pub local: &'a str,
    pub domain: &'a str,
}

/// RFC 7208 §2.6, by the names of RFC 8601 §2.7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is no policy to be found.
    None,
    Neutral,
    Pass,
    Fail,
    SoftFail,
    TempError,
    /// A limit of our own cut the check short ([`crate::records::Unanswered::OurLimit`]).
    CutShort,
    PermError,
}

impl Verdict {
    pub(crate) fn of(unanswered: &Unanswered) -> Verdict {
        if unanswered.is_our_limit() { Verdict::CutShort } else { Verdict::TempError }
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::None => "none",
            Verdict::Neutral => "neutral",
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::SoftFail => "softfail",
            Verdict::TempError | Verdict::CutShort => "temperror",
            Verdict::PermError => "permerror",
        }
    }
}

/// Who was asked about (RFC 7208 §2.3, §2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The name in EHLO, as there is no sender.
    Helo,
    MailFrom,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Verdict,
    pub identity: Identity,
    /// The domain that was asked about.
    pub domain: String,
    /// What led there: the term that matched, or what is wrong.
    pub reason: String,
    /// What the domain has to say of a failure (RFC 7208 §6.2), in printable ASCII.
    pub explanation: Option<String>,
}

impl Outcome {
    /// Of a client that nothing is known of.
    pub(crate) fn unknown() -> Outcome {
        Outcome {
            verdict: Verdict::None,
            identity: Identity::Helo,
            domain: String::new(),
            reason: "the client is not known".into(),
            explanation: None,
        }
    }
}
