//! How a client of a session logs in.

use super::session::Session;
use super::submission::{MECHANISMS, Submission};
use auth::sasl::{Exchange, Failure, Mechanism, Step};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use mail::{Refusal, Reply};
use mta::ingress::Attempt;
use mta::seams::World;
use smtp::server::{LoginAnswer, LoginSaid, Need};
use std::sync::Arc;

/// What is not what the mechanism has.
const BAD_FORM: &str = "This is not what the mechanism has here";

/// An exchange that is under way.
#[derive(Debug, Default)]
pub(super) struct Dialogue {
    exchange: Option<Box<Exchange>>,
    mechanism: Option<Mechanism>,
    /// From the moment at which the client has said who it is, if the exchange goes on behind that.
    attempt: Option<Attempt>,
    /// Who the client said to be last, until that is refused.
    user: Option<Box<str>>,
}

impl Dialogue {
    /// Who the client said to be; not told twice.
    pub(super) fn take_user(&mut self) -> Option<Box<str>> {
        self.user.take()
    }
}

impl<W: World> Session<W> {
    /// Answers what was said in an exchange.
    pub(super) async fn answer_login(&mut self, said: LoginSaid) -> Need {
        // What was refused before has no user.
        self.account_refusals();
        let answer = self.log_in(said).await;
        self.machine.answer_login(self.entrance.now(), answer);
        self.account_refusals();
        // Who got in is the session's from here on.
        self.dialogue.user = None;
        self.resume()
    }

    /// What the client is answered.
    async fn log_in(&mut self, said: LoginSaid) -> LoginAnswer {
        let submission = self.settings.submission.as_ref().map(Arc::clone);
        let Some(submission) = submission else { return refused(501, (5, 5, 2), BAD_FORM) };
        self.dialogue.user = None;
        let (mut exchange, step) = match said {
            LoginSaid::Begin { mechanism, initial } => {
                self.dialogue.attempt = None;
                self.dialogue.mechanism = known(mechanism);
                let mut exchange = Box::new(self.exchange(mechanism));
                let step = exchange.start(initial.as_deref());
                (exchange, step)
            }
            LoginSaid::Response(response) => {
                let exchange = self.dialogue.exchange.take();
                let Some(mut exchange) = exchange else { return refused(501, (5, 5, 2), BAD_FORM) };
                let step = exchange.handle_response(&response);
                (exchange, step)
            }
        };
        match self.follow(&submission, &mut exchange, step).await {
            Ok(answer) => {
                if let (LoginAnswer::Accepted, Some(by)) = (&answer, self.dialogue.mechanism) {
                    self.entrance.note_mechanism(by.name());
                }
                self.dialogue.exchange = Some(exchange);
                answer
            }
            Err(refusal) => LoginAnswer::Refused(Reply::from(refusal)),
        }
    }

    fn exchange(&self, name: &str) -> Exchange {
        let nonce = || STANDARD_NO_PAD.encode(self.entrance.secret());
        Exchange::new(known(name).unwrap_or(Mechanism::Plain), nonce)
    }

    /// Does what a step asks for.
    async fn follow(
        &mut self,
        submission: &Submission,
        exchange: &mut Exchange,
        step: Step,
    ) -> Result<LoginAnswer, Refusal> {
        let logins = &submission.logins;
        Ok(match step {
            Step::Challenge(challenge) => LoginAnswer::Challenge(challenge),
            Step::Check(claim) => {
                self.dialogue.user = Some(claim.user.as_str().into());
                self.entrance.log_in_with(logins, claim).await?;
                LoginAnswer::Accepted
            }
            Step::Keys(user) => {
                self.dialogue.user = Some(user.as_str().into());
                self.dialogue.attempt = Some(self.entrance.begin_login(logins, &user)?);
                let keys = self.entrance.scram_keys(logins, &user).await?;
                match exchange.handle_keys(keys) {
                    Step::Challenge(challenge) => LoginAnswer::Challenge(challenge),
                    _ => refused(501, (5, 5, 2), BAD_FORM),
                }
            }
            Step::Proved(_) => match self.dialogue.attempt.take() {
                Some(attempt) => {
                    self.entrance.logged_in(&attempt);
                    LoginAnswer::Accepted
                }
                None => refused(501, (5, 5, 2), BAD_FORM),
            },
            Step::Failed(Failure::Proof) => match self.dialogue.attempt.take() {
                Some(attempt) => {
                    self.dialogue.user = Some(attempt.user().into());
                    return Err(self.entrance.login_failed(logins, &attempt).await);
                }
                None => refused(501, (5, 5, 2), BAD_FORM),
            },
            Step::Failed(Failure::OtherIdentity) => {
                refused(535, (5, 7, 8), "Nobody acts for another user here")
            }
            Step::Failed(Failure::Form) => refused(501, (5, 5, 2), BAD_FORM),
        })
    }
}

fn known(name: &str) -> Option<Mechanism> {
    MECHANISMS.iter().find(|mechanism| mechanism.name() == name).copied()
}

fn refused(code: u16, status: (u8, u16, u16), text: &'static str) -> LoginAnswer {
    LoginAnswer::Refused(Reply::new(code, status, text))
}
