//! Logins decided by an external server (Dovecot, LDAP, token introspection).

use super::decisions::{Grace, decided};
use super::login::{LoginSource, Logins};
use super::login_attempt::Attempt;
use super::rights::Proof;
use super::{Connection, refusals};
use crate::answer::{Answer, Later};
use crate::seams::{
    Checked, Conversation, Introspection, LoginReply, LoginServer, LoginTerms, World,
};
use auth::sasl::Claim;
use auth::sasl::bearer::Presented;
use lookup::LookupError;
use mail::Refusal;
use std::sync::Arc;

/// The result of a login step.
#[derive(Debug)]
pub enum Elsewhere {
    /// A challenge for the client. Its response goes to [`Connection::go_on_elsewhere`].
    Challenge(Vec<u8>, Box<dyn Conversation>),
    /// The client is logged in.
    LoggedIn,
}

impl<W: World> Connection<W> {
    /// The mechanisms that a server offers, in capitals. `None` if unknown, or if the server does not restrict them.
    pub async fn offered_elsewhere(&self, server: &LoginServer) -> Option<Arc<[Box<str>]>> {
        let services = &self.ingress.services;
        let offered = services.world.authenticators().offered(server);
        let offered = offered.then(|offered| Answer::Now(Ok(offered)));
        decided(services, offered, Grace::None).await.ok().flatten()
    }

    /// Begins a SASL exchange between client and server.
    ///
    /// # Errors
    /// The server rejects the login (535), or is not available (454).
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
        self.follow_dialogue(logins, attempt, heard).await
    }

    /// Continues the exchange with the client's response.
    ///
    /// # Errors
    /// As for [`Connection::begin_elsewhere`].
    pub async fn go_on_elsewhere(
        &mut self,
        logins: &Logins,
        attempt: &mut Attempt,
        conversation: Box<dyn Conversation>,
        response: Vec<u8>,
    ) -> Result<Elsewhere, Refusal> {
        self.follow_dialogue(logins, attempt, conversation.go_on(response)).await
    }

    async fn follow_dialogue(
        &mut self,
        logins: &Logins,
        attempt: &mut Attempt,
        heard: Later<'static, Result<LoginReply, LookupError>>,
    ) -> Result<Elsewhere, Refusal> {
        let heard = self.heard(heard).await.inspect_err(|_| attempt.forgive())?;
        match heard {
            LoginReply::Challenge(text, conversation) => {
                Ok(Elsewhere::Challenge(text, conversation))
            }
            LoginReply::Accepted(user) => {
                self.may_tell(logins, attempt, Some(&user), true)?;
                attempt.forgive();
                let LoginSource::Server(LoginServer::Dovecot(at)) = &logins.source else {
                    return Err(self.login_deferred());
                };
                self.logged_in(&user, &user, Proof::Server(at.clone(), None))?;
                Ok(Elsewhere::LoggedIn)
            }
            LoginReply::Refused(user) => {
                self.may_tell(logins, attempt, user.as_deref(), false)?;
                attempt.user = attempt.user.take().or(user.map(Box::from));
                Err(self.login_failed(logins, attempt).await)
            }
            LoginReply::TooLong => {
                attempt.forgive();
                Err(refusals::LOGIN_TOO_LONG)
            }
        }
    }

    /// Logs in by a bearer token. Returns false if the token is invalid or belongs to another user than the client
    /// named.
    ///
    /// # Errors
    /// The server is not available (454).
    pub async fn log_in_by_token(
        &mut self,
        server: &Arc<Introspection>,
        presented: Presented,
        terms: LoginTerms,
    ) -> Result<bool, Refusal> {
        let Presented { user: named, token } = presented;
        let services = &self.ingress.services;
        let heard = services.world.authenticators().whose(server, token.clone(), terms);
        let user = self.heard(heard).await?;
        // The token determines the user, and the client's name must match.
        let is_his = |user: &String| named.is_none_or(|named| named.eq_ignore_ascii_case(user));
        let Some(user) = user.filter(is_his) else { return Ok(false) };
        self.logged_in(&user, &user, Proof::Token(token))?;
        Ok(true)
    }

    /// Looks up a user's entry in a directory.
    pub(super) async fn entry_elsewhere(
        &self,
        server: &LoginServer,
        user: &str,
        terms: LoginTerms,
    ) -> Result<Checked, Refusal> {
        let authenticators = self.ingress.services.world.authenticators();
        self.heard(authenticators.entry(server, user.to_owned(), terms)).await
    }

    /// The canonical name of a user found in a directory by `spelled`: the `uid` of the entry, if the directory names
    /// it by one. Otherwise it is the lookup key, in the simplest spelling that finds the same entry.
    pub(super) async fn name_elsewhere(
        &self,
        logins: &Logins,
        server: &LoginServer,
        spelled: &str,
        found: Checked,
        terms: LoginTerms,
    ) -> Result<String, Refusal> {
        let named = found.entry.as_deref().and_then(uid_of).or(found.user.as_deref());
        if let Some(name) = named {
            return Ok(lookup::prepared(name).into_owned());
        }
        let key = logins.key_of(spelled);
        let (plainest, prepared) = (lookup::plainest(&key), lookup::prepared(&key));
        if plainest != prepared && found.entry.is_some() {
            let other = self.entry_elsewhere(server, &plainest, terms).await?;
            if other.entry == found.entry {
                return Ok(plainest.into_owned());
            }
        }
        Ok(prepared.into_owned())
    }

    /// Checks a password against a server. Returns the user's canonical name if it is right.
    pub(super) async fn check_elsewhere(
        &self,
        logins: &Logins,
        server: &LoginServer,
        claim: Claim,
        terms: LoginTerms,
        attempt: &mut Attempt,
    ) -> Result<Option<(String, Proof)>, Refusal> {
        let (spelled, password) = (claim.user.clone(), claim.password.clone());
        let checked = self.ingress.services.world.authenticators().check(server, claim, terms);
        let Checked { user, entry } = self.heard(checked).await?;
        self.may_tell(logins, attempt, entry.as_deref(), user.is_some())?;
        let Some(user) = user else { return Ok(None) };
        Ok(Some(match server {
            LoginServer::Dovecot(at) => (user, Proof::Server(at.clone(), Some(password))),
            LoginServer::Directory(_) => {
                // A name equal to the question is not a canonical name from the directory.
                let user = Some(user).filter(|user| *user != spelled);
                let found = Checked { user, entry: entry.clone() };
                let name = self.name_elsewhere(logins, server, &spelled, found, terms).await?;
                (name, Proof::Entry(entry.map(Box::from), password))
            }
        }))
    }

    /// Waits for a server's answer.
    pub(super) async fn heard<T: 'static>(
        &self,
        heard: Later<'static, Result<T, LookupError>>,
    ) -> Result<T, Refusal> {
        let services = &self.ingress.services;
        let heard = Answer::later(async move { Ok(heard.await) });
        match decided(services, heard, Grace::None).await? {
            Ok(heard) => Ok(heard),
            Err(trouble) => Err(self.nobody_knows(&trouble)),
        }
    }
}

/// The `uid` in the first RDN of a distinguished name, if it has one.
fn uid_of(dn: &str) -> Option<&str> {
    // Values with escapes (RFC 4514 §2.4) are ignored.
    let first = dn.split(',').next().filter(|first| !first.contains(['\\', '"', '#']))?;
    let values = first.split('+').filter_map(|part| part.split_once('='));
    let mut uids = values.filter(|(attribute, _)| attribute.trim().eq_ignore_ascii_case("uid"));
    uids.next().map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_named_by_its_uid() {
        for dn in [
            "uid=Jo,ou=people,dc=x,dc=test",
            "UID = Jo + cn=Jo,dc=x",
            "cn=Jo Smith+uid=Jo,ou=people",
            "cn=Jo Smith+ Uid =Jo",
        ] {
            assert_eq!(uid_of(dn), Some("Jo"), "{dn}");
        }
        for other in ["cn=Jo Smith,dc=x", "uid=j\\,o,dc=x", "uid=,dc=x", "cn=x,uid=jo", ""] {
            assert_eq!(uid_of(other), None, "{other}");
        }
    }
}
