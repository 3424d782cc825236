//! A client that speaks for another one.

use super::Connection;
use super::limits::ClientCount;
use super::login::{LoginSource, Logins};
use super::rights::Proof;
use super::session::Session;
use crate::login_failures::Who;
use crate::seams::{LoginServer, LoginTerms, World};
use auth::iprev;
use mail::Refusal;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

impl<W: World> Connection<W> {
    /// Whoever speaks from now on is this client, as one says who is believed: nothing holds that was
    /// decided about the one before, whose transactions the protocol has dropped. Whether it may proceed is asked of
    /// [`Connection::admit`] next. Its name need not be looked up if it is said.
    pub fn announce(&mut self, address: SocketAddr, name: Option<iprev::Outcome>) {
        let before = Arc::clone(self.session.client());
        let listener = Arc::clone(self.session.listener());
        let count = ClientCount::new(&self.ingress, self.count.socket, &listener, address.ip());
        // The one that is dropped here gives its place back.
        self.count = Rc::new(count);
        self.rights.announce(before.address.ip());
        let proxy = Some(before.proxy.unwrap_or(before.address.ip()));
        let nothing = self.ingress.router.nothing();
        let (may_relay, metrics) = (self.count.may_relay(), &self.ingress.services.metrics);
        self.session = Session::new(address, proxy, &listener, may_relay, nothing, metrics);
        if let Some(name) = name {
            self.session.note_name(name);
        }
        if let Some(encryption) = before.tls {
            self.session.note_encrypted(encryption);
        }
    }

    /// The client is this user, as one says who is believed. The name is that by which the user is known
    /// here; who is not need not be.
    ///
    /// # Errors
    /// Nobody knows now (454).
    pub async fn note_login(
        &mut self,
        logins: &Logins,
        user: &str,
        terms: LoginTerms,
    ) -> Result<(), Refusal> {
        let (name, entry) = self.announced_as(logins, user, terms).await?;
        self.take_for_user(&name);
        self.rights.log_in(user, Proof::Announced(entry), self.now());
        Ok(())
    }

    /// The name by which an announced user is known here, and his entry, if he has one.
    pub(super) async fn announced_as(
        &self,
        logins: &Logins,
        user: &str,
        terms: LoginTerms,
    ) -> Result<(String, Option<Who>), Refusal> {
        let key = || lookup::prepared(&logins.key_of(user)).into_owned();
        Ok(match &logins.source {
            LoginSource::Table(table) => {
                let kept = self.stored(table, user).await?;
                if kept.is_his { (kept.name, Some(kept.stamp)) } else { (key(), None) }
            }
            LoginSource::Server(server @ LoginServer::Directory(_)) => {
                let found = self.entry_elsewhere(server, user, terms).await?;
                let entry = found.entry.as_deref().map(Who::entry);
                (self.name_elsewhere(logins, server, user, found, terms).await?, entry)
            }
            LoginSource::Server(LoginServer::Dovecot(_)) | LoginSource::Nobody => (key(), None),
        })
    }
}
