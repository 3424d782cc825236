//! Servers that know users: how all shards reach them. Their drivers live on the thread of the tables'
//! drivers, one for each server, from the first login on.

mod directory;
mod dovecot;
mod introspection;
pub(crate) mod servers;
mod turns;

use crate::mutex::lock;
use crate::tables::{Registry, ShardTables};
use auth::sasl::Claim;
use auth::sasl::bearer::Token;
use config::{HostPort, TableEntry};
use directory::LdapLoginServer;
use dovecot::Dovecot;
use introspection::Introspector;
use lookup::{LookupError, LookupErrorKind};
use mta::answer::{Answer, Later};
use mta::seams::{Authenticators, Checked, Introspection, LoginReply, LoginServer, LoginTerms};
use servers::LoginServers;
use std::sync::Arc;

impl LoginServers {
    fn dovecot(&self, registry: &Registry, at: &HostPort) -> Result<Dovecot, LookupError> {
        let mut all = lock(&self.dovecots);
        if let Some(known) = all.get(at) {
            return Ok(known.clone());
        }
        let (dovecot, seed) = Dovecot::new(at, &self.lines);
        registry.run(seed).map_err(no_thread)?;
        all.insert(at.clone(), dovecot.clone());
        Ok(dovecot)
    }

    /// Replaces the server's client if a reload changed the table's settings.
    fn directory(
        &self,
        registry: &Registry,
        table: &Arc<TableEntry>,
    ) -> Result<LdapLoginServer, LookupError> {
        let mut all = lock(&self.directories);
        if let Some(known) = all.get(&table.name).filter(|known| known.is_of(table)) {
            return Ok(known.clone());
        }
        let (directory, seed) = LdapLoginServer::new(table, &self.lines);
        registry.run(seed).map_err(no_thread)?;
        all.insert(Arc::clone(&table.name), directory.clone());
        Ok(directory)
    }

    fn introspector(&self, settings: &Arc<Introspection>) -> Introspector {
        let mut all = lock(&self.introspectors);
        let place = (settings.at.authority.clone(), settings.at.path.clone());
        if let Some(known) = all.get(&place).filter(|known| known.is_of(settings)) {
            return known.clone();
        }
        let introspector = Introspector::new(settings, &self.lines);
        all.insert(place, introspector.clone());
        introspector
    }
}

fn no_thread(why: String) -> LookupError {
    LookupError::new(LookupErrorKind::Unreachable, why)
}

impl Authenticators for ShardTables {
    fn offered(&self, server: &LoginServer) -> Answer<'static, Option<Arc<[Box<str>]>>> {
        match server {
            LoginServer::Dovecot(at) => match self.registry().logins.dovecot(self.registry(), at) {
                Ok(dovecot) => dovecot.offered(),
                Err(_) => Answer::Now(None),
            },
            LoginServer::Directory(_) => Answer::Now(None),
        }
    }

    fn check(
        &self,
        server: &LoginServer,
        claim: Claim,
        terms: LoginTerms,
    ) -> Later<'static, Result<Checked, LookupError>> {
        let (registry, name) = (self.registry(), server.to_string());
        let checked = match server {
            LoginServer::Dovecot(at) => {
                let dovecot = registry.logins.dovecot(registry, at);
                dovecot.map(|dovecot| dovecot.check(&claim, terms))
            }
            LoginServer::Directory(table) => {
                let directory = registry.logins.directory(registry, table);
                directory.map(|directory| directory.check(table, claim, terms))
            }
        };
        Box::pin(async move { checked?.await.map_err(|trouble| named(&name, &trouble)) })
    }

    fn entry(
        &self,
        server: &LoginServer,
        user: String,
        terms: LoginTerms,
    ) -> Later<'static, Result<Checked, LookupError>> {
        let LoginServer::Directory(table) = server else {
            let text = format!("{server} returns no entries");
            return Box::pin(async move { Err(LookupError::new(LookupErrorKind::Wrong, text)) });
        };
        let (registry, name) = (self.registry(), server.to_string());
        let directory = registry.logins.directory(registry, table);
        let entry = directory.map(|directory| directory.entry(table, &user, terms));
        Box::pin(async move { entry?.await.map_err(|trouble| named(&name, &trouble)) })
    }

    fn whose(
        &self,
        server: &Arc<Introspection>,
        token: Token,
        terms: LoginTerms,
    ) -> Later<'static, Result<Option<String>, LookupError>> {
        let introspector = self.registry().logins.introspector(server);
        let name = format!("introspection at {}", server.at.authority);
        Box::pin(async move {
            let said = introspector.check(token, terms).await;
            said.map_err(|trouble| named(&name, &trouble))
        })
    }

    fn begin(
        &self,
        server: &LoginServer,
        mechanism: &'static str,
        initial: Option<Vec<u8>>,
        terms: LoginTerms,
    ) -> Later<'static, Result<LoginReply, LookupError>> {
        let LoginServer::Dovecot(at) = server else {
            let text = format!("{server} has no mechanism");
            return Box::pin(async move { Err(LookupError::new(LookupErrorKind::Wrong, text)) });
        };
        let (registry, name) = (self.registry(), server.to_string());
        let dovecot = registry.logins.dovecot(registry, at);
        let begun = dovecot.map(|dovecot| dovecot.begin(mechanism, initial.as_deref(), terms));
        Box::pin(async move { begun?.await.map_err(|trouble| named(&name, &trouble)) })
    }
}

/// Trouble with the server's name before it.
fn named(server: &str, trouble: &LookupError) -> LookupError {
    LookupError::new(trouble.kind, format!("{server}: {trouble}"))
}
