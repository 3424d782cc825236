//! Limits for failed logins. An attempt reserves capacity for a failure before the check, so that parallel guesses
//! cannot exceed the limit.

use super::decisions::{Grace, decided_within};
use super::login::{LoginSource, Logins};
use super::rights::Proof;
use super::{Connection, refusals};
use crate::answer::Answer;
use crate::login_failures::{Charge, KnownClients, LoginSubject, Obstacle};
use crate::seams::{Lane, LoginServer, World};
use crate::tables;
use mail::{Mono, Refusal};
use std::borrow::Cow;
use std::time::Duration;

/// Time that a login waits while the limit is exhausted by pending attempts for the same client or user. Many correct
/// logins may arrive at once.
const LINE_MAX: Duration = Duration::from_secs(10);

/// Maximum failed binds per hour by peer MTAs of one client network, like logins on submission.
const WRONG_BINDS_PER_HOUR: u32 = 60;
/// Maximum failed binds per hour for one name.
const WRONG_BINDS_PER_HOUR_OF_NAME: u32 = 120;
/// Maximum failed binds per hour for one name from an address that the configuration lists for it. A host there that
/// could guess can also read the password on the network, so the limit only has to exceed a peer's own errors.
const WRONG_BINDS_PER_HOUR_OF_PLACE: u32 = 600;

/// A login attempt. It counts as a failure if dropped without a result.
#[derive(Debug)]
pub struct Attempt {
    /// `None` if only the server that decides the mechanism can read the user name.
    pub(super) user: Option<Box<str>>,
    pub(super) began: Mono,
    charge: Option<Charge>,
    client: LoginSubject,
    /// The user by the lookup key.
    key: Option<LoginSubject>,
    /// The user and proof that hold if the client proves knowledge of the SCRAM keys.
    pub(super) known: Option<(String, Proof)>,
    /// The client was this user recently, so failures from other clients do not count against it.
    is_own: bool,
}

impl Attempt {
    /// The user name, if known.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Ends the attempt without a failure: the client authenticated, or a temporary error occurred.
    pub fn forgive(&mut self) {
        if let Some(charge) = self.charge.take() {
            charge.forgive();
        }
    }

    /// The queue for hashing the password.
    pub(super) fn lane(&self, known: &KnownClients, now: Mono) -> Lane {
        if self.key.is_some_and(|user| known.knows(user, self.client)) {
            return Lane::Known;
        }
        match &self.charge {
            Some(charge) if charge.follows_failures(now) => Lane::Suspect,
            _ => Lane::Stranger,
        }
    }

    /// Counts the attempt as a failure.
    fn fail(&mut self, now: Mono) {
        if let Some(charge) = self.charge.take() {
            charge.keep(now);
        }
    }
}

impl Logins {
    /// The lookup key for a user.
    pub(super) fn key_of<'a>(&self, user: &'a str) -> Cow<'a, str> {
        match &self.source {
            LoginSource::Table(table) | LoginSource::Server(LoginServer::Directory(table)) => {
                tables::rewritten(table, user)
            }
            LoginSource::Server(LoginServer::Dovecot(_)) | LoginSource::Nobody => user.into(),
        }
    }
}

impl<W: World> Connection<W> {
    /// Checks the client's limit for failed logins before AUTH is processed.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub fn admit_logins(&self, logins: &Logins) -> Result<(), Refusal> {
        let (services, ip) = (&self.ingress.services, self.session.client().address.ip());
        let limit = (LoginSubject::client(ip), logins.failures_per_hour);
        if services.shared.login_failures.is_exhausted(limit, services.now()) {
            services.metrics.logins_deferred.inc();
            return Err(refusals::LOGINS_OF_CLIENT);
        }
        Ok(())
    }

    /// Begins a login as `user`, if the mechanism shows the user name.
    ///
    /// # Errors
    /// The client or the user failed too often, or pending attempts could exhaust the limit.
    pub async fn begin_login(
        &self,
        logins: &Logins,
        user: Option<&str>,
    ) -> Result<Attempt, Refusal> {
        let services = &self.ingress.services;
        let client = LoginSubject::client(self.session.client().address.ip());
        let key = user.map(|user| LoginSubject::user(&logins.key_of(user)));
        let clients = &services.shared.known_clients;
        let is_own = key.is_some_and(|key| clients.knows(key, client));
        let mut of = vec![(client, logins.failures_per_hour)];
        let of_user = key.map(|key| (key, logins.failures_per_hour_of_user));
        of.extend(of_user.filter(|_| !is_own));
        let began = services.now();
        let until = began + LINE_MAX;
        loop {
            let now = services.now();
            let (who, called) = match services.shared.login_failures.begin(&of, now) {
                Ok(charge) => {
                    let user = user.map(Box::from);
                    let (charge, known) = (Some(charge), None);
                    return Ok(Attempt { user, began: now, charge, client, key, known, is_own });
                }
                Err(Obstacle::Exhausted(who)) => (who, None),
                Err(Obstacle::Full(who, called)) => (who, Some(called).filter(|_| now < until)),
            };
            let Some(called) = called else {
                services.metrics.logins_deferred.inc();
                let of_client = who == client;
                return Err(if of_client {
                    refusals::LOGINS_OF_CLIENT
                } else {
                    refusals::LOGINS_OF_USER
                });
            };
            let called = Answer::later(async move {
                let _ = called.await;
                Ok(())
            });
            match decided_within(services, called, Grace::None, until.since(now)).await {
                Err(refusal) if refusal != refusals::UNDECIDED => return Err(refusal),
                _ => {}
            }
        }
    }

    /// Begins the check of a peer MTA's bind with name and password. Returns `None` if too many were wrong from this
    /// network, or for this name unless this client was right before. An address configured for the peer
    /// (`is_its_place`) has a separate count: guesses by neighbours, or at this name from other networks, cannot lock
    /// the peer out.
    #[must_use]
    pub fn begin_bind(&self, name: &str, is_its_place: bool) -> Option<Attempt> {
        let services = &self.ingress.services;
        let address = self.session.client().address.ip().to_canonical();
        let client = LoginSubject::client(address);
        // User names do not begin with a space, so the keys cannot collide.
        let key = LoginSubject::entry(&format!(" p1 {name}"));
        let (now, shared) = (services.now(), &services.shared);
        let mut of = vec![];
        if is_its_place {
            let place = LoginSubject::entry(&format!(" p1 {address} {name}"));
            of.push((place, WRONG_BINDS_PER_HOUR_OF_PLACE));
        } else {
            of.push((client, WRONG_BINDS_PER_HOUR));
            // A flood of guesses can't lock out a client that was right before.
            if !shared.known_clients.knows(key, client) {
                of.push((key, WRONG_BINDS_PER_HOUR_OF_NAME));
            }
        }
        let charge = shared.login_failures.begin(&of, now).ok()?;
        let user = Some(Box::from(name));
        let (charge, key) = (Some(charge), Some(key));
        Some(Attempt { user, began: now, charge, client, key, known: None, is_own: false })
    }

    /// Counts a failed bind.
    pub fn bind_failed(&self, attempt: &mut Attempt) {
        self.ingress.services.metrics.login_failures.inc();
        self.note_failure(attempt);
    }

    /// The client proved a password: remembers it as a client of this user.
    pub fn note_proof(&self, attempt: &mut Attempt) {
        attempt.forgive();
        if let Some(user) = attempt.key {
            let services = &self.ingress.services;
            services.shared.known_clients.note(user, attempt.client, services.now());
        }
    }

    /// The client failed: forgets it as a client of this user.
    pub(super) fn note_failure(&self, attempt: &mut Attempt) {
        let services = &self.ingress.services;
        attempt.fail(services.now());
        if let Some(user) = attempt.key {
            services.shared.known_clients.forget(user, attempt.client);
        }
    }

    /// Counts the attempt also for the canonical user of the login source, whatever spelling the client used.
    ///
    /// # Errors
    /// That user has too many failures or pending attempts.
    pub(super) fn recognise_user(
        &self,
        logins: &Logins,
        attempt: &mut Attempt,
        known: LoginSubject,
    ) -> Result<(), Refusal> {
        let Some(charge) = attempt.charge.as_mut().filter(|_| !attempt.is_own) else {
            return Ok(());
        };
        let services = &self.ingress.services;
        let extended = charge.extend((known, logins.failures_per_hour_of_user), services.now());
        extended.map_err(|_| {
            services.metrics.logins_deferred.inc();
            refusals::LOGINS_OF_USER
        })
    }

    /// Checks the failure limit of the user that a server's verdict is about, which only the server knows.
    ///
    /// # Errors
    /// That user failed too often under other spellings. The reply does not reveal if this attempt was right.
    pub(super) fn may_tell(
        &self,
        logins: &Logins,
        attempt: &mut Attempt,
        known: Option<&str>,
        is_right: bool,
    ) -> Result<(), Refusal> {
        let Some(known) = known else { return Ok(()) };
        let told = self.recognise_user(logins, attempt, LoginSubject::entry(known));
        if told.is_err() && is_right {
            attempt.forgive();
        } else if told.is_err() {
            self.note_failure(attempt);
        }
        told
    }
}
