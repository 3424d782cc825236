//! A directory that checks the passwords of users.

use super::turns::{LoginLines, place};
use crate::tables::{PasswordResult, Seed, Verifier, verifier};
use auth::sasl::Claim;
use config::TableEntry;
use lookup::{LookupError, LookupErrorKind};
use mta::answer::Later;
use mta::line::FairSemaphore;
use mta::seams::{Checked, LoginTerms};
use mta::tables::rewritten;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::timeout;

/// Maximum number of concurrent logins; further ones wait.
pub(super) const LOGINS_MAX: u64 = 1_024;

/// A handle to the directory of one table; clones share it.
#[derive(Clone)]
pub(super) struct LdapLoginServer(Arc<LdapLoginShared>);

struct LdapLoginShared {
    table: Arc<TableEntry>,
    notes: mpsc::UnboundedSender<PasswordRequest>,
    logins: Arc<FairSemaphore>,
}

/// A password to check, with the user's name in the table's form.
struct PasswordRequest {
    user: Box<str>,
    /// `None` to look up the user's entry only.
    claim: Option<Claim>,
    answer: oneshot::Sender<Result<PasswordResult, LookupError>>,
}

impl LdapLoginServer {
    /// Also returns the task to run for it.
    pub(super) fn new(table: &Arc<TableEntry>, lines: &LoginLines) -> (LdapLoginServer, Seed) {
        let (notes, taken) = mpsc::unbounded_channel();
        let logins = lines.open(LOGINS_MAX);
        let shared = LdapLoginShared { table: Arc::clone(table), notes, logins };
        let table = Arc::clone(table);
        let seed: Seed = Box::new(move || Box::pin(run(verifier(&table.settings), taken)));
        (LdapLoginServer(Arc::new(shared)), seed)
    }

    /// Returns true if it serves a table with equal settings.
    pub(super) fn is_of(&self, table: &TableEntry) -> bool {
        self.0.table.settings.is_like(&*table.settings)
    }

    /// Checks a password and returns the user's name. The time limit covers all servers tried.
    pub(super) fn check(
        &self,
        table: &TableEntry,
        claim: Claim,
        terms: LoginTerms,
    ) -> Later<'static, Result<Checked, LookupError>> {
        let called = claim.user.clone();
        let said = self.ask(table, &called, Some(claim), terms);
        Box::pin(async move {
            // A directory stores an entry under one name, however the query spells it.
            let PasswordResult { is_his, entry, user } = said.await?;
            Ok(Checked { user: is_his.then(|| user.unwrap_or(called)), entry })
        })
    }

    /// The name of a user's entry, and how it calls him.
    pub(super) fn entry(
        &self,
        table: &TableEntry,
        user: &str,
        terms: LoginTerms,
    ) -> Later<'static, Result<Checked, LookupError>> {
        let said = self.ask(table, user, None, terms);
        Box::pin(async move {
            let PasswordResult { entry, user, .. } = said.await?;
            Ok(Checked { user, entry })
        })
    }

    fn ask(
        &self,
        table: &TableEntry,
        user: &str,
        claim: Option<Claim>,
        terms: LoginTerms,
    ) -> Later<'static, Result<PasswordResult, LookupError>> {
        let (shared, user) = (Arc::clone(&self.0), rewritten(table, user).into());
        Box::pin(async move {
            let (permit, patience) = place(&shared.logins, terms).await?;
            let (answer, answered) = oneshot::channel();
            // Without a driver the reply channel is dropped, which the login observes.
            let _ = shared.notes.send(PasswordRequest { user, claim, answer });
            let said = timeout(patience, answered).await;
            drop(permit);
            match said {
                Ok(Ok(said)) => said,
                Ok(Err(_)) => {
                    Err(LookupError::new(LookupErrorKind::Unreachable, "the server is stopping"))
                }
                Err(_) => {
                    let text = format!("no answer within {patience:?}");
                    Err(LookupError::new(LookupErrorKind::Timeout, text))
                }
            }
        })
    }
}

/// Runs until every handle is dropped.
async fn run(verifier: Option<Verifier>, mut notes: mpsc::UnboundedReceiver<PasswordRequest>) {
    // The configuration takes no other table for it.
    let Some(verifier) = verifier.map(Rc::new) else { return };
    while let Some(PasswordRequest { user, claim, mut answer }) = notes.recv().await {
        let verifier = Rc::clone(&verifier);
        spawn_local(async move {
            let checked = async {
                match &claim {
                    Some(claim) => verifier.check(&user, claim.password.bytes()).await,
                    None => verifier.find(&user).await,
                }
            };
            tokio::select! {
                biased;
                // The login was abandoned.
                () = answer.closed() => {}
                said = checked => { let _ = answer.send(said); }
            }
        });
    }
}
