//! Dovecot's authentication server: one connection that all logins share, opened when it is needed and
//! again when it was lost.

mod link;

use super::turns::{LoginLines, place};
use crate::tables::{Seed, TableServer};
use crate::world::clock::seed_of;
use auth::dovecot::{self, Answer as Said, Login};
use auth::sasl::Claim;
use config::HostPort;
use link::{DovecotCommand, DovecotDriver};
use lookup::{LookupError, LookupErrorKind};
use mta::answer::{Answer, Later};
use mta::line::{FairSemaphore, Permit};
use mta::seams::{Checked, Conversation, LoginReply, LoginTerms};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

/// Maximum number of concurrent logins; further ones wait.
pub(super) const LOGINS_MAX: u64 = 1_024;

/// Timeout of a client for the first list of mechanisms.
const OFFER_MAX: Duration = Duration::from_secs(1);

/// The offered mechanisms, as far as known.
#[derive(Clone, Debug)]
pub(super) enum Offer {
    /// No answer yet.
    Unknown,
    /// The server could not be reached.
    Unreachable,
    /// The last list of mechanisms.
    Known(Arc<[Box<str>]>),
}

/// A handle to one server; clones share it.
#[derive(Clone)]
pub(super) struct Dovecot(Arc<DovecotShared>);

struct DovecotShared {
    notes: mpsc::UnboundedSender<DovecotCommand>,
    offer: watch::Receiver<Offer>,
    next_id: AtomicU32,
    logins: Arc<FairSemaphore>,
}

impl Dovecot {
    /// Also returns the task to run for it, which connects at once.
    pub(super) fn new(at: &HostPort, lines: &LoginLines) -> (Dovecot, Seed) {
        let (notes, taken) = mpsc::unbounded_channel();
        let (offered, offer) = watch::channel(Offer::Unknown);
        // Connect before the first login.
        let _ = notes.send(DovecotCommand::Connect);
        let shared = DovecotShared {
            notes,
            offer,
            next_id: AtomicU32::new(1),
            logins: lines.open(LOGINS_MAX),
        };
        let server = TableServer::at(at.clone());
        let driver = DovecotDriver::new(server, taken, offered);
        let seed: Seed = Box::new(move || Box::pin(driver.run()));
        (Dovecot(Arc::new(shared)), seed)
    }

    /// The mechanisms that it offers, or offered last.
    pub(super) fn offered(&self) -> Answer<'static, Option<Arc<[Box<str>]>>> {
        let known = |offer: &Offer| match offer {
            Offer::Known(mechanisms) => Some(Arc::clone(mechanisms)),
            Offer::Unknown | Offer::Unreachable => None,
        };
        let offer = self.0.offer.borrow().clone();
        match offer {
            Offer::Known(mechanisms) => Answer::Now(Some(mechanisms)),
            Offer::Unreachable => {
                // Connect now, for the next caller.
                let _ = self.0.notes.send(DovecotCommand::Connect);
                Answer::Now(None)
            }
            Offer::Unknown => {
                let mut offer = self.0.offer.clone();
                Answer::later(async move {
                    let said = offer.wait_for(|offer| !matches!(offer, Offer::Unknown));
                    let said = timeout(OFFER_MAX, said).await;
                    said.ok().and_then(Result::ok).as_deref().and_then(known)
                })
            }
        }
    }

    /// Checks a password and returns the user's name.
    pub(super) fn check(
        &self,
        claim: &Claim,
        terms: LoginTerms,
    ) -> Later<'static, Result<Checked, LookupError>> {
        let begun = self.begin("PLAIN", Some(claim.plain().as_slice()), terms);
        Box::pin(async move {
            match begun.await? {
                LoginReply::Accepted(user) => {
                    Ok(Checked { entry: Some(user.clone()), user: Some(user) })
                }
                LoginReply::Refused(entry) => Ok(Checked { user: None, entry }),
                LoginReply::Challenge(..) | LoginReply::TooLong => Err(LookupError::new(
                    LookupErrorKind::Wrong,
                    "it requires more than a password",
                )),
            }
        })
    }

    /// Begins a login.
    pub(super) fn begin(
        &self,
        mechanism: &'static str,
        initial: Option<&[u8]>,
        terms: LoginTerms,
    ) -> Later<'static, Result<LoginReply, LookupError>> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let LoginTerms { remote, local, .. } = terms;
        let line = match (Login { id, mechanism, initial, remote, local }).line() {
            Ok(line) => line,
            Err(dovecot::TooLong) => return Box::pin(async { Ok(LoginReply::TooLong) }),
        };
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let (permit, patience) = place(&shared.logins, terms).await?;
            let talk = DovecotLogin { shared, id, patience, is_open: true, _permit: permit };
            Box::new(talk).say(line, true).await
        })
    }
}

/// A process number that distinguishes this connection from those of other clients, and from our previous one, which
/// the server may still consider open.
fn process() -> u32 {
    u32::try_from(seed_of(0) % (1 << 31)).unwrap_or(1)
}

/// One login.
struct DovecotLogin {
    shared: Arc<DovecotShared>,
    id: u32,
    /// Timeout of a step.
    patience: Duration,
    /// The server has it in mind.
    is_open: bool,
    _permit: Permit,
}

impl DovecotLogin {
    async fn say(
        mut self: Box<Self>,
        line: String,
        is_first: bool,
    ) -> Result<LoginReply, LookupError> {
        let (answer, answered) = oneshot::channel();
        let note = DovecotCommand::Say { id: self.id, line, is_first, answer };
        // Without a driver the reply channel is dropped, which the login observes.
        let _ = self.shared.notes.send(note);
        let wait = self.patience;
        let said = match timeout(wait, answered).await {
            Ok(said) => said.unwrap_or_else(|_| {
                Err(LookupError::new(LookupErrorKind::Unreachable, "the server is stopping"))
            }),
            Err(_) => {
                let _ =
                    self.shared.notes.send(DovecotCommand::Silent { id: self.id, waited: wait });
                Err(LookupError::new(
                    LookupErrorKind::Timeout,
                    format!("no answer within {wait:?}"),
                ))
            }
        };
        self.is_open = matches!(said, Ok(Said::Continue(_)));
        match said? {
            Said::Continue(challenge) => Ok(LoginReply::Challenge(challenge, self)),
            Said::Accepted(user) => Ok(LoginReply::Accepted(user)),
            Said::Refused(user) => Ok(LoginReply::Refused(user)),
            Said::Unavailable => Err(LookupError::new(LookupErrorKind::Wrong, "temporary failure")),
        }
    }
}

impl Conversation for DovecotLogin {
    fn go_on(
        self: Box<Self>,
        response: Vec<u8>,
    ) -> Later<'static, Result<LoginReply, LookupError>> {
        match dovecot::response(self.id, &response) {
            Ok(line) => Box::pin(self.say(line, false)),
            Err(dovecot::TooLong) => Box::pin(async { Ok(LoginReply::TooLong) }),
        }
    }
}

impl Drop for DovecotLogin {
    fn drop(&mut self) {
        if self.is_open {
            let _ = self.shared.notes.send(DovecotCommand::Cancel(self.id));
        }
    }
}

#[cfg(test)]
mod tests;
