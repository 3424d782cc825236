//! How often somebody may be wrong about who he is: an attempt takes room for a failure before anything
//! is checked, so that guesses that are under way together are no more than may fail.

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

/// While others of the same client, or as the same user, are under way who could all fail, a login waits
/// so long for what becomes of them: many may come at once, as long as they are right.
const LINE_MAX: Duration = Duration::from_secs(10);

/// Wrong names and passwords within an hour with which MTAs of one client network bind, as logins of submission.
const WRONG_BINDS_PER_HOUR: u32 = 60;
/// Those for one name.
const WRONG_BINDS_PER_HOUR_OF_NAME: u32 = 120;
/// Those for one name from an address that the configuration names for it. Who can guess there reads the password as well,
/// which crosses the network in clear; so a bound suffices that a peer's own mistakes don't reach.
const WRONG_BINDS_PER_HOUR_OF_PLACE: u32 = 600;

/// A login that is being tried. Dropped without an answer it counts as a failure.
#[derive(Debug)]
pub struct Attempt {
    /// `None`: the mechanism is a server's, which alone can read who that is.
    pub(super) user: Option<Box<str>>,
    pub(super) began: Mono,
    charge: Option<Charge>,
    client: LoginSubject,
    /// By the key that is looked up.
    key: Option<LoginSubject>,
    /// Whom the client turns out to be once it proves that it knows the keys of SCRAM.
    pub(super) known: Option<(String, Proof)>,
    /// The client was this user lately: failures from elsewhere are not its own.
    is_own: bool,
}

impl Attempt {
    /// As whom, if that is known.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// It was no failure: the client is who it says to be, or nobody knows.
    pub fn forgive(&mut self) {
        if let Some(charge) = self.charge.take() {
            charge.forgive();
        }
    }

    /// Where a password of it waits to be hashed.
    pub(super) fn lane(&self, known: &KnownClients, now: Mono) -> Lane {
        if self.key.is_some_and(|user| known.knows(user, self.client)) {
            return Lane::Known;
        }
        match &self.charge {
            Some(charge) if charge.follows_failures(now) => Lane::Suspect,
            _ => Lane::Stranger,
        }
    }

    /// It was one.
    fn fail(&mut self, now: Mono) {
        if let Some(charge) = self.charge.take() {
            charge.keep(now);
        }
    }
}

impl Logins {
    /// By what a user is looked up.
    pub(super) fn key_of<'a>(&self, user: &'a str) -> Cow<'a, str> {
        match &self.source {
            LoginSource::Table(table) | LoginSource::Server(LoginServer::Directory(table)) => {
                tables::rewritten(&table.rewrite, user)
            }
            LoginSource::Server(LoginServer::Dovecot(_)) | LoginSource::Nobody => user.into(),
        }
    }
}

impl<W: World> Connection<W> {
    /// Whether this client may try to log in at all.
    ///
    /// # Errors
    /// It failed too often.
    pub fn admit_logins(&self, logins: &Logins) -> Result<(), Refusal> {
        let (services, ip) = (&self.ingress.services, self.session.client().address.ip());
        let limit = (LoginSubject::client(ip), logins.failures_per_hour);
        if services.shared.login_failures.is_exhausted(limit, services.now()) {
            services.metrics.logins_deferred.inc();
            return Err(refusals::LOGINS_OF_CLIENT);
        }
        Ok(())
    }

    /// A login as `user` begins, if it is known who that is.
    ///
    /// # Errors
    /// Client or user failed too often, or others are under way who could.
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

    /// An MTA shows a name and a password: takes the room of a guess. `None`: too many were wrong, of this client, or, of
    /// one that was never right, for this name. An address that is the peer's own (`is_its_place`) has a count by itself:
    /// no guesses of neighbours, or at this name from elsewhere, keep out whoever is right there.
    #[must_use]
    pub fn begin_bind(&self, name: &str, is_its_place: bool) -> Option<Attempt> {
        let services = &self.ingress.services;
        let address = self.session.client().address.ip().to_canonical();
        let client = LoginSubject::client(address);
        // No login has a blank in front.
        let key = LoginSubject::entry(&format!(" p1 {name}"));
        let (now, shared) = (services.now(), &services.shared);
        let mut of = vec![];
        if is_its_place {
            let place = LoginSubject::entry(&format!(" p1 {address} {name}"));
            of.push((place, WRONG_BINDS_PER_HOUR_OF_PLACE));
        } else {
            of.push((client, WRONG_BINDS_PER_HOUR));
            // Strangers can't lock out who comes from where it was right before.
            if !shared.known_clients.knows(key, client) {
                of.push((key, WRONG_BINDS_PER_HOUR_OF_NAME));
            }
        }
        let charge = shared.login_failures.begin(&of, now).ok()?;
        let user = Some(Box::from(name));
        let (charge, key) = (Some(charge), Some(key));
        Some(Attempt { user, began: now, charge, client, key, known: None, is_own: false })
    }

    /// It was wrong.
    pub fn bind_failed(&self, attempt: &mut Attempt) {
        self.ingress.services.metrics.login_failures.inc();
        self.note_failure(attempt);
    }

    /// The client has proved by a password to be the user: from now on it is known as his.
    pub fn note_proof(&self, attempt: &mut Attempt) {
        attempt.forgive();
        if let Some(user) = attempt.key {
            let services = &self.ingress.services;
            services.shared.known_clients.note(user, attempt.client, services.now());
        }
    }

    /// The client has failed to.
    pub(super) fn note_failure(&self, attempt: &mut Attempt) {
        let services = &self.ingress.services;
        attempt.fail(services.now());
        if let Some(user) = attempt.key {
            services.shared.known_clients.forget(user, attempt.client);
        }
    }

    /// The source of logins knows the user as this, however he was spelled: what he may fail is counted
    /// so, too.
    ///
    /// # Errors
    /// Too many have failed so, or could.
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

    /// Whether a server's verdict may be told: it alone knows which of its users it was about.
    ///
    /// # Errors
    /// That one failed too often, by whatever names: nobody learns whether this one was right.
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
