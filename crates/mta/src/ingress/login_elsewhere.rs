//! Logins that a server decides, which knows users and what they have to prove.

use super::decisions::{Grace, decided};
use super::login::Logins;
use super::login_attempt::Attempt;
use super::{Entrance, refusals};
use crate::answer::{Answer, Later};
use crate::seams::{Checked, Conversation, Heard, Introspection, LoginServer, LoginTerms, World};
use auth::sasl::Claim;
use auth::sasl::bearer::Presented;
use lookup::Trouble;
use mail::Refusal;
use std::sync::Arc;

/// What comes of a step of a login.
#[derive(Debug)]
pub enum Elsewhere {
    /// The client is told this, and its answer is given to [`Entrance::go_on_elsewhere`].
    Challenge(Vec<u8>, Box<dyn Conversation>),
    /// The client is logged in.
    LoggedIn,
}

impl<W: World> Entrance<W> {
    /// The mechanisms that a server offers, in capitals; `None`: nobody knows, or any may be offered for
    /// it.
    pub async fn offered_elsewhere(&self, server: &LoginServer) -> Option<Arc<[Box<str>]>> {
        let services = &self.ingress.services;
        let offered = services.world.authenticators().offered(server);
        let offered = offered.then(|offered| Answer::Now(Ok(offered)));
        decided(services, offered, Grace::None).await.ok().flatten()
    }

    /// Has a server speak with the client by a mechanism that it has.
    ///
    /// # Errors
    /// It refuses (535), or does not know now (454).
    pub async fn begin_elsewhere(
        &mut self,
        logins: &Logins,
        server: &LoginServer,
        attempt: &mut Attempt,
        mechanism: &'static str,
        initial: Option<Vec<u8>>,
        terms: LoginTerms,
    ) -> Result<Elsewhere, Refusal> {
        let services = &self.ingress.services;
        let heard = services.world.authenticators().begin(server, mechanism, initial, terms);
        self.follow(logins, attempt, heard).await
    }

    /// Goes on with what the client answered.
    ///
    /// # Errors
    /// As [`Entrance::begin_elsewhere`] has them.
    pub async fn go_on_elsewhere(
        &mut self,
        logins: &Logins,
        attempt: &mut Attempt,
        conversation: Box<dyn Conversation>,
        response: Vec<u8>,
    ) -> Result<Elsewhere, Refusal> {
        self.follow(logins, attempt, conversation.go_on(response)).await
    }

    async fn follow(
        &mut self,
        logins: &Logins,
        attempt: &mut Attempt,
        heard: Later<'static, Result<Heard, Trouble>>,
    ) -> Result<Elsewhere, Refusal> {
        let heard = self.heard(heard).await.inspect_err(|_| attempt.forgive())?;
        match heard {
            Heard::Challenge(text, conversation) => Ok(Elsewhere::Challenge(text, conversation)),
            Heard::Accepted(user) => {
                self.may_tell(logins, attempt, Some(&user), true)?;
                attempt.forgive();
                self.logged_in(&user);
                Ok(Elsewhere::LoggedIn)
            }
            Heard::Refused(user) => {
                self.may_tell(logins, attempt, user.as_deref(), false)?;
                attempt.user = attempt.user.take().or(user.map(Box::from));
                Err(self.login_failed(logins, attempt).await)
            }
            Heard::TooLong => {
                attempt.forgive();
                Err(refusals::LOGIN_TOO_LONG)
            }
        }
    }

    /// Logs in whose token this is. `false`: nobody's, or another user's than it is said to be.
    ///
    /// # Errors
    /// Nobody knows now (454).
    pub async fn log_in_by_token(
        &mut self,
        server: &Arc<Introspection>,
        presented: Presented,
        terms: LoginTerms,
    ) -> Result<bool, Refusal> {
        let Presented { user: named, token } = presented;
        let services = &self.ingress.services;
        let heard = services.world.authenticators().whose(server, token, terms);
        let user = self.heard(heard).await?;
        // The token says who it is; what the client says may not be another.
        let is_his = |user: &String| named.is_none_or(|named| named.eq_ignore_ascii_case(user));
        let Some(user) = user.filter(is_his) else { return Ok(false) };
        self.logged_in(&user);
        Ok(true)
    }

    /// The user whose password this is, if it is, by what a server says.
    pub(super) async fn check_elsewhere(
        &self,
        logins: &Logins,
        server: &LoginServer,
        claim: Claim,
        terms: LoginTerms,
        attempt: &mut Attempt,
    ) -> Result<Option<String>, Refusal> {
        let checked = self.ingress.services.world.authenticators().check(server, claim, terms);
        let Checked { user, entry } = self.heard(checked).await?;
        self.may_tell(logins, attempt, entry.as_deref(), user.is_some())?;
        Ok(user)
    }

    /// Waits for what a server says.
    async fn heard<T: 'static>(
        &self,
        heard: Later<'static, Result<T, Trouble>>,
    ) -> Result<T, Refusal> {
        let services = &self.ingress.services;
        let heard = Answer::later(async move { Ok(heard.await) });
        match decided(services, heard, Grace::None).await? {
            Ok(heard) => Ok(heard),
            Err(trouble) => {
                services.console.warn("logins", format_args!("nobody can log in: {trouble}"));
                Err(self.login_deferred())
            }
        }
    }
}
