//! Answers from a directory: Debian's slapd, and servers that misbehave.

mod admin;
mod amounts;
mod config;
mod cost;
mod directory;
mod following;
mod peer;
mod peers;
mod slapd;
mod slapd_answers;
mod slapd_failures;
mod snapshots;

use super::backend::LdapBackend;
use super::{LdapSettings, LdapText};
use ::config::Config;
use lookup::{Backend as _, Entry, LookupError, LookupErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

type Answer = Result<Option<Entry>, LookupError>;

/// A file with a table whose `ldap` is this.
fn file(ldap: &str) -> String {
    format!(
        "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {{}}\n[[table]]\n\
         name = \"users\"\nldap = {{ {ldap} }}\n"
    )
}

fn parse(ldap: &str) -> Config {
    let schema = channels::sections().table::<LdapText>();
    schema.parse(&file(ldap), "f.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// The keys of a table that is asked for descriptions.
fn keys(servers: &[&str], filter: &str, more: &str) -> String {
    let servers = servers.iter().map(|url| format!("{url:?}")).collect::<Vec<_>>().join(", ");
    let base = if more.contains("base = ") { "" } else { "base = \"dc=example,dc=test\", " };
    format!(
        "servers = [{servers}], {base}filter = {filter:?}, attributes = [\"description\"]{}{more}",
        if more.is_empty() { "" } else { ", " }
    )
}

/// A directory that is asked by these servers; `more` are keys beyond the usual ones.
fn backend(servers: &[&str], filter: &str, more: &str) -> LdapBackend {
    let config = parse(&keys(servers, filter, more));
    let table = config.tables.first().expect("a table");
    assert!(table.is_remote);
    let settings: &LdapSettings = table.settings.of().expect("settings of ours");
    LdapBackend::new(Arc::new(settings.clone()))
}

async fn ask(backend: &LdapBackend, key: &str) -> Answer {
    let keys = [Box::from(key)];
    let mut answers = backend.fetch(&keys).await;
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

/// The answer as one text; `-`: the table doesn't have the key; trouble with its kind before it.
async fn text(backend: &LdapBackend, key: &str) -> String {
    match ask(backend, key).await {
        Ok(Some(entry)) => entry.text.into(),
        Ok(None) => "-".to_owned(),
        Err(LookupError { kind, text }) => format!("{kind:?}: {text}"),
    }
}

/// Runs a test as the tables' thread would. None takes longer than ten minutes.
fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    // In a box: the runtime is compiled once, not for each test.
    let test: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(test);
    let limited = async { tokio::time::timeout(Duration::from_secs(600), test).await };
    LocalSet::new().block_on(&runtime, limited).expect("the test ends");
}

/// Asks until the answer is this one, which it must become soon.
async fn becomes(backend: &LdapBackend, key: &str, wanted: &str) {
    for _ in 0..200 {
        if text(backend, key).await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{key}: {} and not {wanted}", text(backend, key).await);
}

fn kind(answer: &Answer) -> Option<LookupErrorKind> {
    answer.as_ref().err().map(|trouble| trouble.kind)
}
