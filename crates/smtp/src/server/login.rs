//! AUTH (RFC 4954): carries the messages of a SASL mechanism without interpreting them.

use super::counts::CommandCounts;
use super::line::{LineInput, LineRules};
use super::replies;
use super::replies::About;
use super::session::{Greeting, PendingNeed, Phase, ServerSession};
use super::{LoginSaid, Need};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail::{Mono, Reply};

/// Length of a line in an exchange with its CRLF (RFC 4954 §4); 500 5.5.6 if longer.
pub const LOGIN_LINE_BYTES_MAX: usize = 12_288;

/// The driver's answer to a client message in an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginAnswer {
    /// The next challenge of the exchange.
    Challenge(Vec<u8>),
    /// The client is authenticated.
    Accepted,
    /// The client is not authenticated; 535 counts as a failed login.
    Refused(Reply),
}

impl ServerSession {
    /// `AUTH mechanism [initial-response]`.
    pub(super) fn auth(&mut self, argument: &str) -> Result<Option<Need>, Reply> {
        if self.config.logins.is_none() {
            return Err(replies::unimplemented());
        }
        if !matches!(self.greeting, Greeting::Ehlo | Greeting::Lhlo) {
            return Err(replies::sequence("Send EHLO first"));
        }
        if self.transaction.is_some() {
            return Err(replies::sequence("AUTH not allowed during a mail transaction"));
        }
        if self.is_logged_in {
            return Err(replies::sequence("Already authenticated"));
        }
        let (name, initial) = match argument.split_once([' ', '\t']) {
            Some((name, initial)) => (name, Some(initial.trim_start_matches([' ', '\t']))),
            None => (argument, None),
        };
        if name.is_empty() || initial.is_some_and(|initial| initial.contains([' ', '\t'])) {
            return Err(replies::argument("Syntax: AUTH mechanism [initial-response]"));
        }
        if !self.tls {
            return Err(Reply::new(
                538,
                (5, 7, 11),
                "Encryption required for requested authentication mechanism",
            ));
        }
        let mut offered = self.offered_mechanisms().iter();
        let Some(&mechanism) = offered.find(|known| known.eq_ignore_ascii_case(name)) else {
            return Err(Reply::new(504, (5, 5, 4), "Unrecognized authentication type"));
        };
        let initial = match initial {
            None => None,
            // RFC 4954 §4: an empty initial response.
            Some("=") => Some(Vec::new()),
            Some(text) => Some(STANDARD.decode(text).map_err(|_| undecodable())?),
        };
        self.phase = Phase::Answer(PendingNeed::Login);
        Ok(Some(Need::Login(LoginSaid::Begin { mechanism, initial })))
    }

    /// End of the time for logging in, if a login is required and pending.
    pub(super) fn login_deadline(&self) -> Mono {
        match &self.config.logins {
            Some(rules) if !self.is_logged_in => self.client_since + rules.timeout,
            _ => Mono::NEVER,
        }
    }

    /// The client's line within an exchange.
    pub(super) fn take_response(&mut self, now: Mono, rest: &mut &[u8]) -> Option<Need> {
        let rules = LineRules { bytes_max: LOGIN_LINE_BYTES_MAX, takes_lf: self.config.takes_lf() };
        let refusal = match self.lines.take(rest, rules) {
            LineInput::Incomplete => return Some(Need::Input),
            LineInput::TooLong { .. } => {
                Reply::new(500, (5, 5, 6), "Authentication exchange line is too long")
            }
            LineInput::Complete(line) if *line == *b"*" => Reply::new(501, (5, 7, 0), "Cancelled"),
            LineInput::Complete(line) => match STANDARD.decode(&*line) {
                Ok(response) => {
                    self.phase = Phase::Answer(PendingNeed::Login);
                    return Some(Need::Login(LoginSaid::Response(response)));
                }
                Err(_) => undecodable(),
            },
        };
        self.wait_for_command(now);
        self.refuse(About::step("AUTH"), &refusal);
        None
    }

    /// The answer to [`Need::Login`].
    pub fn answer_login(&mut self, now: Mono, answer: LoginAnswer) {
        if self.take_awaited(now, |awaited| awaited == PendingNeed::Login).is_none() {
            return;
        }
        match answer {
            LoginAnswer::Challenge(challenge) => {
                self.output.extend_from_slice(b"334 ");
                self.output.extend_from_slice(STANDARD.encode(challenge).as_bytes());
                self.output.extend_from_slice(b"\r\n");
                self.phase = Phase::Response;
            }
            LoginAnswer::Accepted => {
                self.is_logged_in = true;
                self.login_failures = 0;
                self.output.extend_from_slice(replies::LOGGED_IN);
            }
            LoginAnswer::Refused(reply) => self.refuse_login(&reply),
        }
    }

    fn refuse_login(&mut self, reply: &Reply) {
        let about = About::step("AUTH");
        self.login_failures = self.login_failures.saturating_add(u32::from(reply.code == 535));
        let max = self.config.logins.as_ref().map_or(0, |rules| rules.failures_max);
        if reply.code == 535 && self.login_failures >= max {
            self.count(CommandCounts::note_errors);
            self.end(about, (4, 7, 0), "Too many authentication failures");
        } else {
            self.refuse(about, reply);
        }
    }

    /// Restricts the offered mechanisms, among those of the rules.
    pub fn offer_logins(&mut self, is_offered: impl Fn(&str) -> bool) {
        if let Some(rules) = &self.config.logins {
            let offered = rules.mechanisms.iter().copied().filter(|name| is_offered(name));
            self.mechanisms = Some(offered.collect());
        }
    }

    /// Returns true if a mechanism may be used now.
    #[must_use]
    pub fn offers_login(&self, name: &str) -> bool {
        self.offered_mechanisms().contains(&name)
    }

    /// Mechanisms that may be used now.
    pub(super) fn offered_mechanisms(&self) -> &[&'static str] {
        match &self.config.logins {
            Some(rules) if self.tls && !self.is_logged_in => {
                self.mechanisms.as_deref().unwrap_or(&rules.mechanisms)
            }
            _ => &[],
        }
    }

    /// Checks that the client may send in its current login state.
    ///
    /// # Errors
    /// 530 if a login is required.
    pub(super) fn check_logged_in(&self) -> Result<(), Reply> {
        if self.config.logins.is_none() || self.is_logged_in {
            return Ok(());
        }
        // RFC 3207 §4, RFC 4954 §6.
        let text = if self.tls {
            "Authentication required"
        } else {
            "Must issue a STARTTLS command first"
        };
        Err(Reply::new(530, (5, 7, 0), text))
    }
}

fn undecodable() -> Reply {
    Reply::new(501, (5, 5, 2), "Cannot decode base64")
}
