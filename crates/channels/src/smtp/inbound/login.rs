//! Login of a client in an SMTP session (AUTH, RFC 4954).

use super::Can;
use super::session::SmtpSession;
use super::settings::Submission;
use crate::logins::{Speaker, is_offered, speaker};
use auth::sasl::bearer::Presented;
use auth::sasl::scram::Channel;
use auth::sasl::{self, Exchange, ExchangeStep, LoginFailure, Mechanism};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use mail::{Refusal, Reply};
use mta::ingress::{Attempt, Elsewhere, LoginSource};
use mta::seams::{Conversation, LoginServer, LoginTerms, Stream as _, World};
use smtp::server::{LoginAnswer, LoginSaid, Need, ServerConfig};
use std::sync::Arc;

/// Reply to a message that the mechanism does not have.
const BAD_FORM: &str = "Malformed authentication exchange";

/// State of the SASL exchange of a session.
#[derive(Debug, Default)]
pub(super) struct SaslExchange {
    /// The mechanism of the last exchange.
    mechanism: Option<&'static str>,
    under_way: Option<UnderWay>,
    /// Set once the client has named its user, if the exchange continues after that.
    attempt: Option<Attempt>,
    /// The user last named by the client, until a login for it is refused.
    user: Option<Box<str>>,
}

/// The party that gets the client's next response.
#[derive(Debug)]
enum UnderWay {
    Here(Box<Exchange>),
    There(Box<dyn Conversation>),
}

impl SaslExchange {
    /// The mechanism of the last exchange.
    pub(super) fn mechanism(&self) -> Option<&'static str> {
        self.mechanism
    }

    /// The user named by the client. Returned once only.
    pub(super) fn take_user(&mut self) -> Option<Box<str>> {
        self.user.take()
    }
}

impl<W: World> SmtpSession<W> {
    /// Answers a client's message in an exchange.
    pub(super) async fn answer_login(&mut self, said: LoginSaid) -> Need {
        // Earlier refusals have no user.
        self.account_refusals();
        let answer = self.log_in(said).await;
        self.machine.answer_login(self.connection.now(), answer);
        self.account_refusals();
        // A user that has logged in is recorded by the session from here on.
        self.dialogue.user = None;
        self.resume()
    }

    /// The server settings for this client, as it is known now.
    pub(super) fn server(&self) -> Arc<ServerConfig> {
        let (connection, now) = (&self.connection, self.connection.wall());
        let require_tls = connection.may_require_tls();
        let can = Can { encrypt: connection.can_encrypt(), require_tls };
        self.settings.server(connection.session().may_relay(), can, now)
    }

    /// Offers the mechanisms that can be used on this connection, once it is encrypted.
    pub(super) async fn offer_logins(&mut self) {
        let Some(submission) = self.settings.submission.as_ref().map(Arc::clone) else { return };
        let source = &submission.logins.source;
        let offered = match source {
            LoginSource::Server(server) => self.connection.offered_elsewhere(server).await,
            LoginSource::Table(_) | LoginSource::Nobody => None,
        };
        let is_known = self.connection.certified_user().is_some();
        let is_bindable = self.channel_binding().is_some();
        self.machine.offer_logins(|name| match speaker(name, &submission.logins) {
            // RFC 4422 appendix A.1: the certificate must identify a user.
            Some(Speaker::Here(Mechanism::External)) => is_known,
            Some(Speaker::Here(Mechanism::ScramSha256Plus)) => is_bindable,
            Some(_) => offered.as_deref().is_none_or(|offered| is_offered(name, offered)),
            None => false,
        });
    }

    /// The answer to the client's message.
    async fn log_in(&mut self, said: LoginSaid) -> LoginAnswer {
        let submission = self.settings.submission.as_ref().map(Arc::clone);
        let Some(submission) = submission else { return bad_form() };
        self.dialogue.user = None;
        let answered = match said {
            LoginSaid::Begin { mechanism, initial } => {
                self.dialogue.attempt = None;
                self.dialogue.mechanism = Some(mechanism);
                self.dialogue.under_way = None;
                match speaker(mechanism, &submission.logins) {
                    Some(Speaker::Here(mechanism)) => {
                        let mut exchange = Box::new(self.exchange(mechanism));
                        let step = exchange.start(initial.as_deref());
                        self.go_on(&submission, exchange, step).await
                    }
                    Some(Speaker::There(server)) => {
                        self.begin_elsewhere(&submission, server, mechanism, initial).await
                    }
                    None => Ok(bad_form()),
                }
            }
            LoginSaid::Response(response) => match self.dialogue.under_way.take() {
                Some(UnderWay::Here(mut exchange)) => {
                    let step = exchange.handle_response(&response);
                    self.go_on(&submission, exchange, step).await
                }
                Some(UnderWay::There(conversation)) => {
                    self.go_on_elsewhere(&submission, conversation, response).await
                }
                None => Ok(bad_form()),
            },
        };
        if let (Ok(LoginAnswer::Accepted), Some(mechanism)) = (&answered, self.dialogue.mechanism) {
            self.connection.note_mechanism(mechanism);
        }
        answered.unwrap_or_else(|refusal| LoginAnswer::Refused(Reply::from(refusal)))
    }

    fn exchange(&self, mechanism: Mechanism) -> Exchange {
        let channel = match (mechanism, self.channel_binding()) {
            (Mechanism::ScramSha256Plus, Some(exported)) => Channel::Bound(exported),
            // A mechanism that is not offered can't be started.
            _ if self.machine.offers_login(Mechanism::ScramSha256Plus.name()) => Channel::Declined,
            _ => Channel::Unbound,
        };
        Exchange::new(mechanism, channel, || STANDARD_NO_PAD.encode(self.connection.secret()))
    }

    fn channel_binding(&self) -> Option<[u8; 32]> {
        self.stream.as_ref().and_then(|stream| stream.channel_binding())
    }

    pub(super) fn terms(&self, submission: &Submission) -> LoginTerms {
        let local = self.stream.as_ref().and_then(|stream| stream.local_addr().ok());
        let remote = self.connection.session().client().address;
        let (patience, is_known) = (submission.logins.patience, self.connection.is_known());
        LoginTerms { remote, local, patience, is_known }
    }

    async fn go_on(
        &mut self,
        submission: &Submission,
        mut exchange: Box<Exchange>,
        step: ExchangeStep,
    ) -> Result<LoginAnswer, Refusal> {
        let answer = self.follow(submission, &mut exchange, step).await?;
        self.dialogue.under_way = Some(UnderWay::Here(exchange));
        Ok(answer)
    }

    async fn begin_elsewhere(
        &mut self,
        submission: &Submission,
        server: &LoginServer,
        mechanism: &'static str,
        initial: Option<Vec<u8>>,
    ) -> Result<LoginAnswer, Refusal> {
        let logins = &submission.logins;
        // If the first message names the user, that user's limits apply from the beginning.
        let user = initial.as_deref().and_then(|first| sasl::claimed_user(mechanism, first));
        self.dialogue.user = user.as_deref().map(Box::from);
        let mut attempt = self.connection.begin_login(logins, user.as_deref()).await?;
        let terms = self.terms(submission);
        let begun = self.connection.begin_elsewhere(
            logins,
            server,
            &mut attempt,
            mechanism,
            initial,
            terms,
        );
        let heard = begun.await;
        self.heard(attempt, heard)
    }

    async fn go_on_elsewhere(
        &mut self,
        submission: &Submission,
        conversation: Box<dyn Conversation>,
        response: Vec<u8>,
    ) -> Result<LoginAnswer, Refusal> {
        let Some(mut attempt) = self.dialogue.attempt.take() else { return Ok(bad_form()) };
        let logins = &submission.logins;
        let gone_on = self.connection.go_on_elsewhere(logins, &mut attempt, conversation, response);
        let heard = gone_on.await;
        self.heard(attempt, heard)
    }

    fn heard(
        &mut self,
        attempt: Attempt,
        heard: Result<Elsewhere, Refusal>,
    ) -> Result<LoginAnswer, Refusal> {
        self.dialogue.user = attempt.user().map(Box::from);
        Ok(match heard? {
            Elsewhere::Challenge(challenge, conversation) => {
                self.dialogue.under_way = Some(UnderWay::There(conversation));
                self.dialogue.attempt = Some(attempt);
                LoginAnswer::Challenge(challenge)
            }
            Elsewhere::LoggedIn => LoginAnswer::Accepted,
        })
    }

    /// Carries out a step of the exchange.
    async fn follow(
        &mut self,
        submission: &Submission,
        exchange: &mut Exchange,
        step: ExchangeStep,
    ) -> Result<LoginAnswer, Refusal> {
        let logins = &submission.logins;
        Ok(match step {
            ExchangeStep::Challenge(challenge) => LoginAnswer::Challenge(challenge),
            ExchangeStep::Check(claim) => {
                self.dialogue.user = Some(claim.user.as_str().into());
                let terms = self.terms(submission);
                self.connection.log_in_with(logins, claim, terms).await?;
                LoginAnswer::Accepted
            }
            ExchangeStep::Keys(user) => {
                self.dialogue.user = Some(user.as_str().into());
                let mut attempt = self.connection.begin_login(logins, Some(&user)).await?;
                let keys = self.connection.scram_keys(logins, &user, &mut attempt).await;
                // A failed lookup is not the client's failure.
                let keys = keys.inspect_err(|_| attempt.forgive())?;
                self.dialogue.attempt = Some(attempt);
                match exchange.handle_keys(keys) {
                    ExchangeStep::Challenge(challenge) => LoginAnswer::Challenge(challenge),
                    _ => bad_form(),
                }
            }
            ExchangeStep::Proved(_) => match self.dialogue.attempt.take() {
                Some(mut attempt) => {
                    self.connection.proved(&mut attempt)?;
                    LoginAnswer::Accepted
                }
                None => bad_form(),
            },
            ExchangeStep::Token(presented) => {
                self.take_token(submission, exchange, presented).await?
            }
            ExchangeStep::External(named) => self.take_certificate(named)?,
            ExchangeStep::Failed(LoginFailure::Proof) => match self.dialogue.attempt.take() {
                Some(mut attempt) => {
                    self.dialogue.user = attempt.user().map(Box::from);
                    return Err(self.connection.login_failed(logins, &mut attempt).await);
                }
                None => bad_form(),
            },
            ExchangeStep::Failed(LoginFailure::OtherIdentity) => other_identity(),
            ExchangeStep::Failed(LoginFailure::Channel) => {
                refused(535, (5, 7, 8), "TLS channel binding does not match")
            }
            ExchangeStep::Failed(LoginFailure::Form) => bad_form(),
        })
    }

    /// Logs in the user of the client's certificate, if that is the identity that the client claims.
    fn take_certificate(&mut self, named: Option<String>) -> Result<LoginAnswer, Refusal> {
        let known = self.connection.certified_user().map(str::to_owned);
        let is_his =
            |user: &String| named.is_none_or(|named| lookup::fold(&named) == lookup::fold(user));
        Ok(match known.filter(is_his) {
            Some(user) => {
                self.dialogue.user = Some(user.as_str().into());
                self.connection.proved_by_certificate(&user)?;
                LoginAnswer::Accepted
            }
            None => other_identity(),
        })
    }

    /// Logs in the user of the token, or has the exchange refuse an invalid token.
    async fn take_token(
        &mut self,
        submission: &Submission,
        exchange: &mut Exchange,
        presented: Presented,
    ) -> Result<LoginAnswer, Refusal> {
        let logins = &submission.logins;
        let Some(tokens) = &logins.tokens else { return Ok(bad_form()) };
        let named = presented.user.as_deref();
        self.dialogue.user = named.map(Box::from);
        let mut attempt = self.connection.begin_login(logins, named).await?;
        let terms = self.terms(submission);
        let judged = self.connection.log_in_by_token(tokens, presented, terms).await;
        if judged.inspect_err(|_| attempt.forgive())? {
            attempt.forgive();
            return Ok(LoginAnswer::Accepted);
        }
        self.dialogue.attempt = Some(attempt);
        Ok(match exchange.refuse_token(tokens.scope.as_deref()) {
            ExchangeStep::Challenge(challenge) => LoginAnswer::Challenge(challenge),
            _ => bad_form(),
        })
    }
}

fn refused(code: u16, status: (u8, u16, u16), text: &'static str) -> LoginAnswer {
    LoginAnswer::Refused(Reply::new(code, status, text))
}

fn other_identity() -> LoginAnswer {
    refused(535, (5, 7, 8), "Authorization identity differs from authentication identity")
}

fn bad_form() -> LoginAnswer {
    refused(501, (5, 5, 2), BAD_FORM)
}
