//! Renews the rights of a session after a reload, a table change or a time limit.

use super::decisions::{Grace, decided};
use super::login::{LoginSource, Logins};
use super::protocol::Handler;
use super::rights::{
    LOGIN_CHECK_INTERVAL, Login, LoginValidity, PASSWORD_CHECK_INTERVAL, Proof, RightsVersion,
    SERVER_LOGIN_MAX,
};
use super::{Connection, Ingress, refusals};
use crate::answer::Answer;
use crate::console::Quoted;
use crate::seams::{Introspection, LoginServer, LoginTerms, Net, Tables as _, World};
use crate::tables;
use auth::password::Password;
use auth::sasl::Claim;
use auth::sasl::bearer::Token;
use config::{Listener, TableEntry, Takes};
use lookup::{Entry, Requester};
use mail::Refusal;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

impl<W: World> Ingress<W> {
    /// The current versions of configuration and tables.
    pub(super) fn seen(&self) -> RightsVersion {
        let changes = self.services.world.tables(Requester::Ours).changes();
        RightsVersion { reloads: self.reloads.get(), changes }
    }
}

impl<W: World> Connection<W> {
    /// Returns true if [`Connection::renew`] is due.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        let (rights, seen) = (&self.rights, self.ingress.seen());
        rights.seen.reloads != seen.reloads
            || rights.login.is_some()
                && (rights.seen != seen
                    || self.now().since(rights.looked_up_at) >= LOGIN_CHECK_INTERVAL)
    }

    /// Adopts the listener's active configuration, and returns its current handler, which has the login sources.
    ///
    /// # Errors
    /// The configuration no longer contains the listener.
    pub fn follow(&mut self) -> Result<Rc<dyn Handler<W>>, Refusal> {
        let rules = self.ingress.rules(self.count.socket);
        let rules =
            rules.filter(|rules| !rules.is_withdrawn()).ok_or(refusals::WITHDRAWN.closing())?;
        let handler = rules.handler.clone().ok_or(refusals::WITHDRAWN.closing())?;
        self.count.follow(&rules.listener);
        Ok(handler)
    }

    /// Checks the session's rights again with the active configuration, after [`Connection::follow`].
    ///
    /// # Errors
    /// The session's identity is no longer valid and the session ends, or the check is not possible now (454).
    pub async fn renew(
        &mut self,
        stream: Option<&<W::Net as Net>::Stream>,
        logins: Option<&Logins>,
        terms: LoginTerms,
    ) -> Result<(), Refusal> {
        let listener = self.count.listener();
        let seen = self.ingress.seen();
        if !self.rights.announcers.iter().all(|one| one.is_believed(&listener)) {
            return Err(self.withdrawn("the proxy is no longer trusted"));
        }
        let could_relay = self.session.may_relay();
        let mut may_relay = listener.relay_network(self.session.client().address.ip()).is_some();
        self.session.follow(&listener, may_relay);
        self.renew_certificate(stream, &listener).await?;
        may_relay |= self.session.may_relay();
        if self.session.client().login.is_some() {
            match self.standing_of_login(logins, terms).await? {
                LoginValidity::Gone => {
                    return Err(self.withdrawn("the login is no longer valid"));
                }
                LoginValidity::Held => {}
                LoginValidity::Proved => self.rights.note_proved(self.now()),
            }
            may_relay = true;
        }
        self.session.follow(&listener, may_relay);
        self.count.set_may_relay(may_relay);
        (self.rights.seen, self.rights.looked_up_at) = (seen, self.now());
        if could_relay && !may_relay {
            self.become_stranger().await?;
        }
        Ok(())
    }

    /// Checks the certificate again with the active authorities and tables.
    async fn renew_certificate(
        &mut self,
        stream: Option<&<W::Net as Net>::Stream>,
        listener: &Listener,
    ) -> Result<(), Refusal> {
        let was_certified = self.session.forget_certificate();
        let (Some(asked), Some(stream)) = (&listener.client_certificates, stream) else {
            return Ok(());
        };
        if self.session.client().tls.is_none() {
            return Ok(());
        }
        match self.ingress.services.world.net().certificate(stream, asked) {
            Some(shown) => self.recognise(asked, &shown).await,
            None if asked.required && was_certified => {
                return Err(self.withdrawn("the certificate is no longer valid"));
            }
            None => {}
        }
        Ok(())
    }

    /// The client lost its relay right: runs the connect checks that were skipped for it.
    async fn become_stranger(&mut self) -> Result<(), Refusal> {
        self.session.forget_attached();
        let stages = self.ingress.stages(self.count.socket);
        for stage in &*stages {
            decided(&self.ingress.services, stage.connect(&self.session), Grace::None).await?;
        }
        Ok(())
    }

    /// Checks if the login is still valid.
    async fn standing_of_login(
        &self,
        logins: Option<&Logins>,
        terms: LoginTerms,
    ) -> Result<LoginValidity, Refusal> {
        let client = self.session.client();
        let (Some(login), Some(user)) = (&self.rights.login, &client.login) else {
            return Ok(LoginValidity::Held);
        };
        let Login { spelled, proof, .. } = &**login;
        if matches!(proof, Proof::Socket) {
            // The user id of a process stays. Another protocol may not know it.
            let listener = self.count.listener();
            return Ok(LoginValidity::held_if(listener.takes == Takes::LocalMail));
        }
        let Some(logins) = logins else { return Ok(LoginValidity::Gone) };
        let holds = match (proof, &logins.source) {
            (Proof::Stored(entry), LoginSource::Table(table)) => {
                let kept = self.stored(table, spelled).await?;
                kept.is_his && kept.stamp == *entry && kept.name == **user
            }
            (
                Proof::Entry(_, password) | Proof::Server(_, Some(password)),
                LoginSource::Server(server),
            ) if proof.is_of(server) && self.is_password_due(login) => {
                return self.show_again(server, password, login, user, terms).await;
            }
            (Proof::Entry(entry, _), LoginSource::Server(server)) if proof.is_of(server) => {
                let found = self.entry_elsewhere(server, spelled, terms).await?.entry;
                found.is_some() && found.as_deref() == entry.as_deref()
            }
            (Proof::Server(_, password), LoginSource::Server(server)) => {
                proof.is_of(server)
                    && (password.is_some() || self.now().since(login.proved_at) < SERVER_LOGIN_MAX)
            }
            (Proof::Token(token), _) => match &logins.tokens {
                Some(server) => self.is_token_of(server, token, user, terms).await?,
                None => false,
            },
            (Proof::Certificate, _) => client.certified.as_ref() == Some(user),
            // An announced user without an entry needs none now.
            (Proof::Announced(entry), _) => {
                let (name, found) = self.announced_as(logins, spelled, terms).await?;
                name == **user && (entry.is_none() || found == *entry)
            }
            (Proof::Stored(_) | Proof::Entry(..) | Proof::Server(..) | Proof::Socket, _) => false,
        };
        Ok(LoginValidity::held_if(holds))
    }

    /// Returns true if the server must check the password again, by age or after a reload.
    fn is_password_due(&self, login: &Login) -> bool {
        self.rights.seen.reloads != self.ingress.seen().reloads
            || self.now().since(login.proved_at) >= PASSWORD_CHECK_INTERVAL
    }

    /// Has the server check a known password again. A failure is a changed password, not a guess, and does not count as
    /// a failed login.
    async fn show_again(
        &self,
        server: &LoginServer,
        password: &Password,
        login: &Login,
        user: &str,
        terms: LoginTerms,
    ) -> Result<LoginValidity, Refusal> {
        let claim = Claim { user: login.spelled.to_string(), password: password.clone() };
        let authenticators = self.ingress.services.world.authenticators();
        let found = self.heard(authenticators.check(server, claim, terms)).await?;
        let is_same = match &login.proof {
            Proof::Entry(entry, _) => found.entry.as_deref() == entry.as_deref(),
            _ => found.user.as_deref() == Some(user),
        };
        Ok(if found.user.is_some() && is_same {
            LoginValidity::Proved
        } else {
            LoginValidity::Gone
        })
    }

    async fn is_token_of(
        &self,
        server: &Arc<Introspection>,
        token: &Token,
        user: &str,
        terms: LoginTerms,
    ) -> Result<bool, Refusal> {
        let authenticators = self.ingress.services.world.authenticators();
        let whose = self.heard(authenticators.whose(server, token.clone(), terms)).await?;
        Ok(whose.as_deref() == Some(user))
    }

    /// Logs the lost right and returns the refusal that ends the session. The client may connect again.
    fn withdrawn(&self, why: &str) -> Refusal {
        let services = &self.ingress.services;
        let client = self.session.client();
        let (address, listener) = (client.address, &client.listener);
        let user = Quoted(client.login.as_deref().unwrap_or_default());
        services.console.warn(
            "rights",
            format_args!("session ended: {why} client={address} listener={listener} user={user}"),
        );
        refusals::RIGHTS_CHANGED.closing()
    }

    /// A user's canonical name, whatever spelling the client used: the `user` field of the entry, otherwise the lookup
    /// key. Case, spaces, Unicode forms and accents matter only if the table has another user without them.
    pub(super) async fn name_of(
        &self,
        table: &Arc<TableEntry>,
        user: &str,
        entry: &Entry,
    ) -> Result<String, Refusal> {
        if let Some(name) = entry.field(USER_NAME).map(str::trim).filter(|name| !name.is_empty()) {
            return Ok(name.to_owned());
        }
        let key = tables::rewritten(table, user).into_owned();
        let services = &self.ingress.services;
        let mut asked: Vec<Cow<'_, str>> = vec![user.into()];
        for spelled in [lookup::plainest(user), lookup::prepared(user), lookup::fold(user)] {
            if spelled.is_empty() || asked.contains(&spelled) {
                continue;
            }
            let found = tables::find(&services.world.tables(self.asker()), table, &spelled);
            let found = found.then(|found| Answer::Now(Ok(found)));
            let found = decided(services, found, Grace::None).await?;
            let found = found.map_err(|trouble| self.nobody_knows(&trouble))?;
            if found.is_some_and(|other| *other == *entry) {
                return Ok(tables::rewritten(table, &spelled).into_owned());
            }
            asked.push(spelled);
        }
        Ok(key)
    }
}

/// The field with the user's canonical name.
const USER_NAME: &str = "user";
