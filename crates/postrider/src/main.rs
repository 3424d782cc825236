//! Postrider, a mail switch.

// Floor 3 is where sockets are opened, clocks are read and threads are started.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod account;
mod acme;
mod admin;
mod advisers;
mod alerts;
mod beside_spool;
mod certificates;
mod cli;
mod commands;
mod commit_thread;
mod console;
mod control_socket;
mod crypto;
mod daily_reports;
mod descriptors;
mod dmarc_reports;
mod effects;
mod event_log;
mod file_content;
mod file_disk;
mod file_lock;
mod file_stamp;
mod file_watch;
mod greylist;
mod handed_sockets;
mod history;
mod https;
mod kept_file;
mod kept_from_start;
mod kept_open;
mod kept_records;
mod kept_secret;
mod known_clients;
mod limited_listener;
mod limited_work;
mod log_set;
mod logins;
mod logs;
mod mta_sts;
mod mutex;
mod named_keys;
mod node;
mod node_metrics;
mod notify;
mod offline_log;
mod orders;
mod own_mailbox;
mod panic;
mod peer_tls;
mod pem;
mod poisoned;
#[cfg(test)]
mod pool_measure;
mod postfix_queue;
mod privileges;
mod problems;
mod rate_limits;
mod record_file;
mod reload;
mod replacement;
mod reply_classes;
mod revoked_logins;
mod sealed_text;
mod secret_place;
mod secrets;
mod sections;
mod sendmail;
mod services;
mod shard_thread;
mod signing_keys;
mod socket_file;
mod spool_backup;
mod suspensions;
mod system_user;
mod tables;
mod terminal;
mod tls_reports;
mod tokens;
mod under_way;
mod warmup;
mod world;

use clap::Parser;
use cli::Command;
use std::process::ExitCode;
use world::programs;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next();
    if let Some(name) = sendmail::by_name(name.as_deref()) {
        return sendmail::run(name, words);
    }
    if programs::is_starter(name.as_deref()) {
        return programs::serve_starter();
    }
    match cli::Cli::parse().command {
        Command::Serve(args) => commands::serve::run(args.file.config.as_deref(), args.shards),
        Command::Check(args) => commands::check::check(&args),
        Command::Init(args) => commands::init::run(&args),
        Command::Migrate(args) => commands::migrate::run(&args),
        Command::Explain(args) => commands::explain::explain(&args),
        Command::Config(args) => commands::reference::config(&args),
        Command::Completions(args) => commands::reference::completions(&args),
        Command::Man(args) => commands::man::run(&args),
        Command::Search(args) => commands::history::search(&args),
        Command::Trace(args) => commands::history::trace(&args),
        Command::Events(args) => commands::history::events(&args),
        Command::Queue(args) => commands::queue::run(&args),
        Command::Login(args) => commands::login::run(&args),
        Command::Reload(server) => commands::queue::reload(&server),
        Command::Status(server) => commands::queue::status(&server),
        Command::Sendmail(args) => sendmail::run("sendmail", args.words),
        Command::Sources(server) => commands::sources::run(&server),
        Command::Spool(args) => commands::spool::run(&args),
        Command::Auth(args) => commands::auth::run(&args),
        Command::Classify(args) => commands::classify::run(&args),
        Command::Shaping(args) => commands::shaping::run(&args),
        Command::Table(args) => commands::table::run(&args),
        Command::Dkim(args) => commands::dkim::run(&args),
        Command::Tls(args) => commands::tls::run(&args),
        Command::X400(args) => commands::x400::run(&args),
    }
}
