//! Checks credentials against tables. Passwords are hashed on other threads.

use super::decisions::{Grace, decided};
use super::login_attempt::Attempt;
use super::rights::Proof;
use super::{Connection, refusals};
use crate::answer::Answer;
use crate::console::{FAILED_LOGIN, Quoted};
use crate::login_failures::LoginSubject;
use crate::pools::PoolId;
use crate::seams::{
    Hashed, Hashing as _, Introspection, Lane, LoginServer, LoginTerms, Net, Time as _, World,
};
use crate::tables;
use auth::password::scram_keys::{Keys, SaltForm, Salted};
use auth::password::{Stored, Unusable};
use auth::sasl::Claim;
use config::TableEntry;
use lookup::{Entry, LookupError, Requester};
use mail::Refusal;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The field with the stored password in tables with named values.
const STORED_PASSWORD: &str = "password";

/// Login sources of a listener, and limits for failures.
#[derive(Clone, Debug)]
pub struct Logins {
    /// The source of users and passwords.
    pub source: LoginSource,
    /// Token introspection (RFC 7662). `None` if tokens are not accepted.
    pub tokens: Option<Arc<Introspection>>,
    /// Timeout for a server's answer.
    pub patience: Duration,
    /// Limit for failures of one client at all listeners. 0 here and below means no limit.
    pub failures_per_hour: u32,
    /// Limit for failures of one user from all clients.
    pub failures_per_hour_of_user: u32,
    /// Form of the SCRAM salts for users without a stored one. `None`: the default for plain-text passwords, and for
    /// unknown users the form most frequent in the table.
    pub salts: Option<SaltForm>,
    /// Delay of the reply to a failed login, measured from its start.
    pub failure_delay: Duration,
}

/// The source of users and passwords.
#[derive(Clone, Debug)]
pub enum LoginSource {
    /// A table from users to stored passwords.
    Table(Arc<TableEntry>),
    /// A server that checks each login.
    Server(LoginServer),
    /// No passwords: users authenticate by other means.
    Nobody,
}

/// Stored credentials of a user.
pub(super) struct StoredCredentials {
    stored: Arc<Stored>,
    /// False if the user does not exist. `stored` is then another user's, so that the check takes the same time.
    pub(super) is_his: bool,
    /// The entry found, independent of the spelling.
    entry: Option<LoginSubject>,
    /// Fingerprint of the stored password. It changes with the password.
    pub(super) stamp: LoginSubject,
    /// The user's canonical name. Empty for an unknown user.
    pub(super) name: String,
}

impl<W: World> Connection<W> {
    /// Checks a password and logs the user in.
    ///
    /// # Errors
    /// The password is wrong (535), or the check is not possible now (454).
    pub async fn log_in_with(
        &mut self,
        logins: &Logins,
        claim: Claim,
        terms: LoginTerms,
    ) -> Result<(), Refusal> {
        let mut attempt = self.begin_login(logins, Some(&claim.user)).await?;
        let checked = match &logins.source {
            LoginSource::Table(table) => {
                self.check_stored(logins, table, claim, &mut attempt).await
            }
            LoginSource::Server(server) => {
                self.check_elsewhere(logins, server, claim, terms, &mut attempt).await
            }
            LoginSource::Nobody => Ok(None),
        };
        // A temporary error is not the user's failure.
        match checked.inspect_err(|_| attempt.forgive())? {
            Some((name, proof)) => {
                self.note_proof(&mut attempt);
                self.logged_in(&name, attempt.user().unwrap_or(&name), proof)
            }
            None => Err(self.login_failed(logins, &mut attempt).await),
        }
    }

    /// Checks a password against a table. Returns the user's canonical name if it is right.
    async fn check_stored(
        &self,
        logins: &Logins,
        table: &Arc<TableEntry>,
        claim: Claim,
        attempt: &mut Attempt,
    ) -> Result<Option<(String, Proof)>, Refusal> {
        let Claim { user, password } = claim;
        let StoredCredentials { stored, is_his, entry, stamp, name } =
            self.stored(table, &user).await?;
        if let Some(entry) = entry {
            self.recognise_user(logins, attempt, entry)?;
        }
        if !password.is_hashed() || !is_his && self.hides_time(logins) {
            self.take_turn(attempt).await?;
            return Ok(None);
        }
        let work = move || {
            let is_right = stored.is(&password) && is_his;
            Hashed { answer: is_right, is_wasted: !is_right, has_failed: !is_right }
        };
        Ok(self.hash(attempt, work).await?.then_some((name, Proof::Stored(stamp))))
    }

    /// Returns true if the failure delay is long enough to hide the duration of a check.
    fn hides_time(&self, logins: &Logins) -> bool {
        let usual = self.ingress.services.world.hashing().usual_time();
        logins.failure_delay > Duration::ZERO && logins.failure_delay >= usual * 2
    }

    /// The client as requester, for fair queueing.
    pub(super) fn asker(&self) -> Requester {
        self.session.client().requester()
    }

    /// Waits as long as a password check takes, without checking one. A user without a password then costs no CPU time.
    async fn take_turn(&self, attempt: &Attempt) -> Result<(), Refusal> {
        let services = &self.ingress.services;
        let lane = attempt.lane(&services.shared.known_clients, services.now());
        let (time, hashing) = (services.world.time(), services.world.hashing());
        let (turn, usual) = (hashing.take_turn((lane, self.asker())), hashing.usual_time());
        let clock = time.clone();
        let done = Answer::later(async move {
            let turn = turn.await;
            clock.sleep_until(clock.now() + usual).await;
            Ok(turn)
        });
        decided(services, done, Grace::None).await?.map_err(|_| self.too_many_checks(lane))
    }

    fn too_many_checks(&self, lane: Lane) -> Refusal {
        let services = &self.ingress.services;
        services.metrics.password_checks_refused[lane].inc();
        services.note_turned_away(PoolId::Passwords);
        services.console.warn("logins", format_args!("too many passwords wait for verification"));
        self.login_deferred()
    }

    /// The SCRAM keys of a user. Without a user, or without usable SCRAM keys, the keys are made up and no password
    /// matches them.
    ///
    /// # Errors
    /// The lookup is not possible now (454).
    pub async fn scram_keys(
        &self,
        logins: &Logins,
        user: &str,
        attempt: &mut Attempt,
    ) -> Result<Keys, Refusal> {
        // A server does not disclose stored passwords.
        let LoginSource::Table(table) = &logins.source else { return Err(self.login_deferred()) };
        let StoredCredentials { stored, is_his, entry, stamp, name } =
            self.stored(table, user).await?;
        if let Some(entry) = entry {
            self.recognise_user(logins, attempt, entry)?;
        }
        attempt.known = Some((name, Proof::Stored(stamp)));
        let hashing = self.ingress.services.world.hashing();
        let salts = &self.ingress.services.shared.salts;
        let secret = salts.secret(|| hashing.secret());
        // Folded, because spellings of the same user must get the same salt.
        let user = lookup::fold(&logins.key_of(user)).into_owned();
        let made_up = logins.salts.unwrap_or_default();
        let nobodys = logins.salts.unwrap_or_else(|| salts.usual(&table.name));
        let keys = self.hash(attempt, move || {
            let salted = Salted::for_user(&secret, &user, made_up);
            let answer = match stored.scram_keys(&salted) {
                Some(keys) if is_his => (keys, true),
                _ => (Salted::for_user(&secret, &user, nobodys).keys_of_nobody(&secret), false),
            };
            // The client's proof follows later, so this hash is neither a success nor a failure.
            Hashed { answer, is_wasted: true, has_failed: false }
        });
        let (keys, are_his) = keys.await?;
        if are_his {
            salts.note(&table.name, keys.form());
        }
        Ok(keys)
    }

    /// The client has proved knowledge of the SCRAM keys.
    ///
    /// # Errors
    /// The login is revoked.
    pub fn proved(&mut self, attempt: &mut Attempt) -> Result<(), Refusal> {
        self.note_proof(attempt);
        match attempt.known.take() {
            Some((name, proof)) => self.logged_in(&name, attempt.user().unwrap_or(&name), proof),
            None => Ok(()),
        }
    }

    /// The client has authenticated as this user by its certificate.
    ///
    /// # Errors
    /// The login is revoked.
    pub fn proved_by_certificate(&mut self, user: &str) -> Result<(), Refusal> {
        self.logged_in(user, user, Proof::Certificate)
    }

    /// Logs in the local user at the other end of the Unix socket. Call it before [`Connection::admit`], because the
    /// limits of unauthenticated clients do not apply to users.
    ///
    /// # Errors
    /// The connection has no user, the directory of users does not answer, or the login is revoked.
    pub async fn log_in_by_socket(
        &mut self,
        stream: &<W::Net as Net>::Stream,
    ) -> Result<(), Refusal> {
        let services = Rc::clone(&self.ingress.services);
        match services.world.net().local_user(stream).await {
            Ok(Some(user)) => {
                self.session.note_uid(user.uid);
                self.logged_in(&user.name, &user.name, Proof::Socket)
            }
            Ok(None) => Err(refusals::NO_LOCAL_USER),
            Err(error) => {
                let listener = &self.session.client().listener;
                let text = format_args!("cannot look up a local user listener={listener}: {error}");
                services.console.warn("logins", text);
                Err(refusals::LOGIN_LATER.closing())
            }
        }
    }

    /// The client has authenticated as `name`, which it spelled as `spelled`.
    ///
    /// # Errors
    /// The login is revoked.
    pub(super) fn logged_in(
        &mut self,
        name: &str,
        spelled: &str,
        proof: Proof,
    ) -> Result<(), Refusal> {
        self.enter_as(name)?;
        self.ingress.services.metrics.logins.inc();
        self.rights.log_in(spelled, proof, self.now());
        Ok(())
    }

    /// Notes the SASL mechanism.
    pub fn note_mechanism(&mut self, mechanism: &'static str) {
        self.session.note_mechanism(mechanism);
    }

    /// Accounts for a failed login. Returns the refusal after the failure delay.
    pub async fn login_failed(&self, logins: &Logins, attempt: &mut Attempt) -> Refusal {
        let services = &self.ingress.services;
        services.metrics.login_failures.inc();
        let client = self.session.client();
        let (user, address, listener) = (attempt.user(), client.address, &client.listener);
        let user = Quoted(user.unwrap_or_default());
        // The client's text comes last, so that it can't imitate other fields.
        services.console.warn(
            FAILED_LOGIN,
            format_args!("login failed client={address} listener={listener} user={user}"),
        );
        self.note_failure(attempt);
        // Counted from the start of the attempt: the reply time must not depend on the duration of the check.
        let sleep = services.world.time().sleep_until(attempt.began + logins.failure_delay);
        let later = Answer::later(async move {
            sleep.await;
            Ok(())
        });
        decided(services, later, Grace::None).await.err().unwrap_or(refusals::WRONG_PASSWORD)
    }

    /// Random bytes.
    #[must_use]
    pub fn secret(&self) -> [u8; 16] {
        self.ingress.services.world.hashing().secret()
    }

    pub(super) async fn stored(
        &self,
        table: &Arc<TableEntry>,
        user: &str,
    ) -> Result<StoredCredentials, Refusal> {
        let services = &self.ingress.services;
        let tables = services.world.tables(self.asker());
        let found = tables::find(&tables, table, user);
        let found = found.then(|found| Answer::Now(Ok(found)));
        let found = match decided(services, found, Grace::None).await? {
            Ok(found) => found,
            Err(trouble) => return Err(self.nobody_knows(&trouble)),
        };
        let last = &services.shared.last_stored;
        let nobodys = || {
            let stored = Arc::clone(&last.lock().unwrap_or_else(PoisonError::into_inner));
            StoredCredentials {
                stored,
                is_his: false,
                entry: None,
                stamp: LoginSubject::entry(""),
                name: String::new(),
            }
        };
        let Some(entry) = found else { return Ok(nobodys()) };
        match Stored::parse(text_of(&entry)) {
            // A locked account gets the reply of a wrong password, after the same time.
            Err(Unusable::Locked) => Ok(nobodys()),
            Ok(stored) => {
                // Salted passwords are unique, so one can identify the entry.
                let stamp = LoginSubject::entry(text_of(&entry));
                let salted = stored.is_salted().then_some(stamp);
                let stored = Arc::new(stored);
                *last.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&stored);
                let name = self.name_of(table, user, &entry).await?;
                Ok(StoredCredentials { stored, is_his: true, entry: salted, stamp, name })
            }
            Err(why) => {
                let table = &table.name;
                let text =
                    format_args!("bad password entry of {} in table {table}: {why}", Quoted(user));
                services.console.warn("logins", text);
                Err(self.login_deferred())
            }
        }
    }

    async fn hash<T: Send + 'static>(
        &self,
        attempt: &Attempt,
        work: impl FnOnce() -> Hashed<T> + Send + 'static,
    ) -> Result<T, Refusal> {
        let services = &self.ingress.services;
        let began = services.now();
        let lane = attempt.lane(&services.shared.known_clients, began);
        let done = services.world.hashing().run((lane, self.asker()), work);
        let done = Answer::later(async move { Ok(done.await) });
        let done = decided(services, done, Grace::None).await?;
        services.metrics.password_checks[lane].observe(services.now().since(began));
        done.map_err(|_| self.too_many_checks(lane))
    }

    /// Logs that the login source failed, and defers the login.
    pub(super) fn nobody_knows(&self, trouble: &LookupError) -> Refusal {
        let console = &self.ingress.services.console;
        console.warn("logins", format_args!("authentication unavailable: {trouble}"));
        self.login_deferred()
    }

    pub(super) fn login_deferred(&self) -> Refusal {
        self.ingress.services.metrics.logins_deferred.inc();
        refusals::LOGIN_LATER
    }
}

/// The `password` field if the table has named values, else the whole text.
fn text_of(entry: &Entry) -> &str {
    entry.field(STORED_PASSWORD).unwrap_or(&entry.text)
}
