//! Channels, listener protocols, stages and tables: all code that talks to peers. Each kind is a file or folder, and a
//! line in the lists below.

mod discard;
mod held_memory;
mod local;
mod logins;
mod maildir;
mod originate;
mod pipe;
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
    AccessDryRun, AccessQuestion, EntryJudge, RewriteDryRun, SigningName, SigningScope,
    asks_for_greylisting, consult_access, consult_rewriting, entry_judge, lookups_at_once,
    milter_connections, rehearsed_stages, unrehearsed,
};
pub use tables::{DatabaseFile, LocalTable, local};
pub use x400::{
    GatewayTables, PASSWORD_BYTES_MAX, X400, X400Gateway, X400Mode, X400Peer, association_failure,
    initiator_settings, is_peer, routes_to, x400_as_mail, x400_gateway,
};

use config::{Config, Schema};
use mta::delivery::Channels;
use mta::ingress::StageKinds;
use mta::seams::{Keeping, ProgramAccount, World};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

/// Sections and keys of the configuration that this crate and the crates below it define.
#[must_use]
pub fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(sections);
    &SCHEMA
}

/// The same schema by value, for crates that add sections.
#[must_use]
pub fn sections() -> Schema {
    protocols::keys(stages::keys(mta::sections()).section::<X400>())
        .channel::<settings::SmtpText>()
        .channel::<settings::LmtpText>()
        .channel::<settings::MxText>()
        .channel::<maildir::MaildirText>()
        .channel::<pipe::PipeText>()
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

/// User, group and mode of mailbox files on this machine, as one route sets them.
#[derive(Debug)]
pub struct RouteKeeping<'a> {
    pub route: &'a config::Route,
    /// Settings of the route itself.
    pub keeping: &'a Keeping,
    /// The key, as written, that takes user or group from recipients' entries.
    pub by_entry: Option<String>,
}

/// User, group and mode of mailbox files, for each route of `config` with mailboxes on this machine.
pub fn keepings(config: &Config) -> impl Iterator<Item = RouteKeeping<'_>> {
    config.routes.iter().filter_map(|route| {
        let (keeping, by_entry) = route.channel.of::<maildir::Maildir>()?.keeping();
        Some(RouteKeeping { route: route.as_ref(), keeping, by_entry })
    })
}

/// The program of a `pipe` route.
#[derive(Debug)]
pub struct RouteProgram<'c> {
    pub route: &'c config::Route,
    /// The user and group that it runs as.
    pub account: &'c ProgramAccount,
    /// The parts of each argument, the program first. `None` is a placeholder.
    pub pattern: Vec<Vec<Option<String>>>,
}

/// The program of each `pipe` route, with its user and group.
pub fn route_programs(config: &Config) -> impl Iterator<Item = RouteProgram<'_>> {
    config.routes.iter().filter_map(|route| {
        let pipe = route.channel.of::<pipe::Pipe>()?;
        Some(RouteProgram { route, account: pipe.account(), pattern: pipe.pattern() })
    })
}

/// The program of each `pipe` route, with the route's name.
pub fn programs(config: &Config) -> impl Iterator<Item = (&str, &Path)> {
    config.routes.iter().filter_map(|route| {
        let pipe = route.channel.of::<pipe::Pipe>()?;
        Some((&*route.name, Path::new(pipe.program())))
    })
}

/// Directories that must exist for mailboxes on this machine, each with the name of its route.
pub fn mailbox_roots(config: &Config) -> impl Iterator<Item = (&str, &Path)> {
    config.routes.iter().filter_map(|route| {
        let maildir = route.channel.of::<maildir::Maildir>()?;
        Some((&*route.name, maildir.required_directory()))
    })
}

/// All files with signing keys that the configuration names.
pub fn key_files(config: &Config) -> impl Iterator<Item = &Arc<KeyFile>> {
    let seals =
        config.listeners.iter().filter_map(|listener| stages::CheckRules::seal_at(listener));
    let signers = config.stages.iter().filter_map(|entry| entry.settings.of::<stages::Signer>());
    seals.map(|seal| &seal.key).chain(signers.flat_map(stages::Signer::files))
}

/// Keys that sign for authors of this domain, and names of the tables that hold further keys.
#[must_use]
pub fn signing_names<'c>(config: &'c Config, author: &str) -> (Vec<SigningName<'c>>, Vec<&'c str>) {
    let signers = || config.stages.iter().filter_map(|entry| entry.settings.of::<stages::Signer>());
    let tables = signers().filter_map(|signer| signer.table(author)).map(|table| &*table.name);
    (signers().flat_map(|signer| signer.names(author)).collect(), tables.collect())
}

/// Author domains and keys of each signer, as far as the configuration lists them.
pub fn signing_scopes(config: &Config) -> impl Iterator<Item = SigningScope<'_>> {
    let signers = config.stages.iter().filter_map(|entry| entry.settings.of::<stages::Signer>());
    signers.map(stages::Signer::scope)
}

/// Signing domains (d=) for authors of this domain, without duplicates. A table of keys counts only if it has the
/// domain.
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

/// All channels, for one shard.
#[must_use]
pub fn channels<W: World>() -> Channels<W> {
    vec![
        Rc::new(smtp::Outbound::SMTP),
        Rc::new(smtp::Outbound::LMTP),
        Rc::new(smtp::Outbound::MX),
        Rc::new(maildir::Maildirs),
        Rc::new(pipe::Programs),
        Rc::new(discard::Discard),
        Rc::new(x400::Outbound),
    ]
}
