//! Whatever speaks: the ways out of the mail switch, and the ways in. Each kind is a file or folder of
//! its own, and a line in each list below.

mod discard;
mod held_memory;
mod local;
mod logins;
mod maildir;
mod originate;
mod protocols;
mod smtp;
mod stages;
mod tables;
mod values;
mod x400;

pub use protocols::protocols;
pub use smtp::settings;
pub use stages::key_file::KeyFile;
pub use stages::{
    AccessDryRun, AccessQuestion, EntryJudge, SigningName, SigningScope, asks_for_greylisting,
    consult_access, entry_judge, lookups_at_once, milter_connections,
};
pub use tables::{DatabaseFile, LocalTable, local};
pub use x400::{
    GatewayTables, PASSWORD_BYTES_MAX, X400, X400Gateway, X400Mode, X400Peer, association_failure,
    initiator_settings, is_peer, routes_to, x400_as_mail, x400_gateway,
};

use config::{Config, Schema};
use mta::delivery::Channels;
use mta::ingress::StageKinds;
use mta::seams::{Keeping, World};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

/// What may stand in the configuration, as far as it is known here.
#[must_use]
pub fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(sections);
    &SCHEMA
}

/// The same, for whoever knows of more.
#[must_use]
pub fn sections() -> Schema {
    protocols::keys(stages::keys(mta::sections()).section::<X400>())
        .channel::<settings::SmtpText>()
        .channel::<settings::LmtpText>()
        .channel::<settings::MxText>()
        .channel::<maildir::MaildirText>()
        .channel::<discard::DiscardText>()
        .channel::<x400::X400RouteText>()
        .table::<tables::InlineText>()
        .table::<tables::FileText>()
        .table::<tables::CidrText>()
        .table::<tables::RegexpText>()
        .table::<tables::PcreText>()
        .table::<tables::DatabaseText>()
        .table::<tables::FirstText>()
        .table::<tables::UnionText>()
}

/// How the files of mailboxes on this machine are kept, as one route has it.
#[derive(Debug)]
pub struct RouteKeeping<'a> {
    /// The route.
    pub route: &'a config::Route,
    /// What it says itself.
    pub keeping: &'a Keeping,
    /// The key, as it is written, by which it leaves user or group to the recipients' entries.
    pub by_entry: Option<String>,
}

/// How the files of mailboxes on this machine are kept, by the routes of `config` that have some.
pub fn keepings(config: &Config) -> impl Iterator<Item = RouteKeeping<'_>> {
    config.routes.iter().filter_map(|route| {
        let (keeping, by_entry) = route.channel.of::<maildir::Maildir>()?.keeping();
        Some(RouteKeeping { route: route.as_ref(), keeping, by_entry })
    })
}

/// The directories that must be there for mailboxes on this machine, with the route that names each.
pub fn mailbox_roots(config: &Config) -> impl Iterator<Item = (&str, &Path)> {
    config.routes.iter().filter_map(|route| {
        let maildir = route.channel.of::<maildir::Maildir>()?;
        Some((&*route.name, maildir.required_directory()))
    })
}

/// All files with keys that sign mail, as a configuration names them.
pub fn key_files(config: &Config) -> impl Iterator<Item = &Arc<KeyFile>> {
    let seals =
        config.listeners.iter().filter_map(|listener| stages::CheckRules::seal_at(listener));
    let signers = config.stages.iter().filter_map(|entry| entry.settings.of::<stages::Signer>());
    seals.map(|seal| &seal.key).chain(signers.flat_map(stages::Signer::files))
}

/// The keys that sign for authors of this domain, and the names of the tables that have others.
#[must_use]
pub fn signing_names<'c>(config: &'c Config, author: &str) -> (Vec<SigningName<'c>>, Vec<&'c str>) {
    let signers = || config.stages.iter().filter_map(|entry| entry.settings.of::<stages::Signer>());
    let tables = signers().filter_map(|signer| signer.table(author)).map(|table| &*table.name);
    (signers().flat_map(|signer| signer.names(author)).collect(), tables.collect())
}

/// Whose mail each signer signs, and with which keys, as far as the configuration tells.
pub fn signing_scopes(config: &Config) -> impl Iterator<Item = SigningScope<'_>> {
    let signers = config.stages.iter().filter_map(|entry| entry.settings.of::<stages::Signer>());
    signers.map(stages::Signer::scope)
}

/// In whose names mail of authors of this domain is signed, each once; where a table has the keys, if it has
/// the domain.
#[must_use]
pub fn signing_domains(config: &Config, author: &str) -> Vec<String> {
    let signers = config.stages.iter().filter_map(|entry| entry.settings.of::<stages::Signer>());
    let mut domains = Vec::new();
    for domain in signers.filter_map(|signer| signer.domain_for(author)) {
        if !domains.contains(&domain) {
            domains.push(domain);
        }
    }
    domains
}

/// All stages, for one shard.
#[must_use]
pub fn stages<W: World>() -> StageKinds<W> {
    stages::kinds()
}

/// All ways out, for one shard.
#[must_use]
pub fn channels<W: World>() -> Channels<W> {
    vec![
        Rc::new(smtp::Outbound::SMTP),
        Rc::new(smtp::Outbound::LMTP),
        Rc::new(smtp::Outbound::MX),
        Rc::new(maildir::Maildirs),
        Rc::new(discard::Discard),
        Rc::new(x400::Outbound),
    ]
}
