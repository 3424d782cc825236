//! The command line: one clap table from which the parser, the help, the man pages and the shell completions are
//! generated.

mod dkim;
mod history;
mod init;
mod login;
mod queue;
mod shaping;
mod spool;
mod table;
mod tls;
mod x400;

pub(crate) use dkim::{DkimArgs, DkimCheckArgs, DkimCommand, DkimNewArgs, KeyKind};
pub(crate) use history::{EventsArgs, HistoryArgs, SearchArgs, TraceArgs};
pub(crate) use init::{InitArgs, MigrateArgs, MigrateCommand, PostfixArgs, ServerKind, parse_user};
pub(crate) use login::{LoginArgs, LoginCommand};
pub(crate) use queue::QueueArgs;
pub(crate) use shaping::{ClassifyArgs, LiftArgs, ShapingArgs, ShapingCommand};
pub(crate) use spool::{
    BackupArgs, ImportArgs, ImportCommand, ImportPostfixArgs, RestoreArgs, SpoolArgs,
    SpoolBenchArgs, SpoolCommand, VerifyArgs,
};
pub(crate) use table::{BuildArgs, FlushArgs, Format, GetArgs, TableArgs, TableCommand};
pub(crate) use tls::{AuthArgs, AuthCheckArgs, AuthCommand, TlsArgs, TlsCheckArgs, TlsCommand};
pub(crate) use x400::{
    X400AddressArgs, X400Args, X400Command, X400DecodeArgs, X400PeerArgs, X400PeersArgs,
    X400PingArgs,
};

use clap::{Args, Parser, Subcommand, ValueHint};
use mail::{Domain, Mailbox};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

/// Exit codes, as documented in the help.
pub(crate) mod exit {
    /// The command found an error in its subject, or could not be carried out.
    pub(crate) const FAILED: u8 = 1;
    /// The command line or the configuration is wrong.
    pub(crate) const USAGE: u8 = 2;
    /// No server answers at the control socket.
    pub(crate) const NOT_RUNNING: u8 = 3;
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  not done, or (spool verify) damage was found
  2  the command line or the configuration is wrong
  3  no server answers at the control socket";

const FIRST_STEPS: &str = "\
First steps:
  postrider serve                          a safe default: listens on 127.0.0.1:2525, keeps
                                           all mail under ./postrider-data, relays nothing
  postrider init example.org               a whole mail host, relay or sender for a domain
  postrider config default > my.toml       start from that default, or from examples/
  postrider check --config my.toml         its errors, with their places
  postrider explain you@example.org --config my.toml
                                           the handling of mail for this recipient
  postrider serve --config my.toml

While it runs:
  postrider search to:you@example.org      messages by their addresses, delivered ones too
  postrider queue list --config my.toml    the queued messages
  postrider queue why ID --config my.toml  the cause and end of the wait of a message
  postrider reload --config my.toml        load a changed file

Exit codes:
  0  done
  1  not done, or (spool verify) damage was found
  2  the command line or the configuration is wrong
  3  no server answers at the control socket";

/// Postrider, a mail switch.
///
/// Accepts messages over SMTP and commits each one to disk before it replies 250. Routes select by recipient where a
/// message goes: to configured hosts, to the MX hosts of its domain, or into Maildirs. A recipient that cannot be
/// delivered now is retried; a permanent failure is reported to the sender in a bounce.
#[derive(Debug, Parser)]
#[command(name = "postrider", version, after_long_help = FIRST_STEPS, after_help = EXIT_CODES)]
#[command(propagate_version = false, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands of `postrider`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server
    ///
    /// Runs in the foreground and logs to standard error.
    ///
    /// SIGTERM and SIGINT stop the server. Transactions in progress may finish within 5 seconds, and all other sessions
    /// get a 421 reply. The queue stays on disk for the next start. SIGHUP reloads the configuration. If the new file
    /// has errors, the old configuration stays in force and the errors are logged.
    Serve(ServeArgs),
    /// Check a configuration file
    ///
    /// Reads a configuration file as `serve` would and prints every error with file, line and column. Warnings, for
    /// example about an open relay, do not fail the check.
    ///
    /// With --dns, also checks the DNS records that mailbox providers require from senders. For each source address: a
    /// PTR record, a name that resolves back to the address, and an EHLO name equal to it. For each domain of a
    /// [[signer]]: SPF passes for these addresses, the DKIM key records are correct, a DMARC policy exists and a
    /// signature aligns with it, and the domain accepts mail (replies and reports). Each finding comes with the correct
    /// record.
    Check(CheckArgs),
    /// Create the configuration of a new server
    ///
    /// Writes a whole configuration for a domain, with a signing key, tables of users and secrets, into a directory. An
    /// existing file is never overwritten. On a terminal, at most five prompts replace missing flags. Prints the DNS
    /// records to publish, and checks the configuration; with --dns, the DNS as well.
    Init(Box<InitArgs>),
    /// Translate the configuration of another mail server
    Migrate(MigrateArgs),
    /// Show how a recipient would be handled, without sending anything
    ///
    /// Prints the clients from which the recipient would be accepted, its route, channel, next hop, queues, limits, TLS
    /// policy and retry times. Each is shown with the line of the configuration that decides it. Nothing is sent; for
    /// `mx` routes the DNS is queried.
    Explain(ExplainArgs),
    /// Search messages by sender, recipient, time and more
    ///
    /// Searches the event log, with rotated files, and the queue of the running server. Prints a line per recipient with
    /// its present state, the newest last: delivered, deferred, failed, queued or rejected at intake. Without a running
    /// server, only the event log is searched.
    Search(SearchArgs),
    /// Show the history and the present state of one message
    ///
    /// Prints every event of the message in order, and the condition that it waits for if it is queued.
    Trace(TraceArgs),
    /// Print or follow the event log
    ///
    /// Prints the events that match all terms, from the oldest file on. With --follow, waits for further events, also after
    /// the file is rotated.
    Events(EventsArgs),
    /// Inspect and change the queue of a running server
    ///
    /// Connects to the control socket of a running server. `list`, `summary`, `show` and `why` only read; the other
    /// commands change the queue. The effects of `hold`, `release`, `remove`, `fail`, `move`, `suspend` and `resume`
    /// survive a restart.
    Queue(Box<QueueArgs>),
    /// List, revoke and allow logins of a running server, and unblock clients
    Login(LoginArgs),
    /// Reload the configuration of a running server
    Reload(ServerArgs),
    /// Show the state and the problems of a running server
    Status(ServerArgs),
    /// Show the sources of a running server, and the progress of their warm-up
    ///
    /// Prints a line per source in warm-up and provider (or set of hosts). USED shows the used part of the limit of the
    /// day. DELIVERED and HELD BACK show how many of the attempted recipients were delivered, or refused as blocked or
    /// rate limited.
    Sources(ServerArgs),
    /// Send a message from standard input, as sendmail(1) does
    ///
    /// Takes the options of Postfix's sendmail(1), and its exit codes (sysexits.h). A link to this program named
    /// `sendmail`, `mailq` or `newaliases` is that command. See docs/sendmail.md.
    #[command(disable_help_flag = true)]
    Sendmail(SendmailArgs),
    /// Inspect, back up and restore the spool, measure its disk, import the queue of Postfix
    Spool(SpoolArgs),
    /// Classify a refusal of a peer
    ///
    /// Prints the class and the kind of a reply, as in events and metrics. Also prints the matching rule, with its line
    /// in the files of the configuration or in the built-in rules.
    Classify(ClassifyArgs),
    /// Inspect and lift the effects of shaping rules
    Shaping(ShapingArgs),
    /// Build databases for lookup tables; inspect and flush tables of a running server
    Table(TableArgs),
    /// Check the authentication of a message (SPF, DKIM, DMARC, ARC)
    Auth(AuthArgs),
    /// Create and check DKIM keys
    Dkim(DkimArgs),
    /// Check the TLS policy and records of a domain
    Tls(TlsArgs),
    /// Inspect, test, stop and start X.400 peers; convert and decode X.400 data
    X400(X400Args),
    /// Print the configuration reference, schema or default
    Config(ConfigArgs),
    /// Print shell completions
    ///
    /// Prints completions for a shell on standard output.
    Completions(CompletionsArgs),
    /// Write man pages
    ///
    /// Writes man pages for the program and each of its commands, sendmail(1) and postrider.toml(5).
    Man(ManArgs),
}

/// `--config`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigFile {
    /// The configuration file. Default: $POSTRIDER_CONFIG, then /etc/postrider/postrider.toml, then ./postrider.toml if only
    /// the caller may change it, then the built-in configuration (see `postrider config default`). An empty
    /// $POSTRIDER_CONFIG is the built-in one.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
}

/// `postrider serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  postrider serve
  postrider serve --config /etc/postrider.toml")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Number of shards, for experiments. Default: `shards` in the configuration, else one per CPU core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) shards: Option<u16>,
}

/// `postrider check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  the file is correct
  1  the file is correct, but the DNS is not
  2  the file has errors or cannot be read

Examples:
  postrider check --config /etc/postrider.toml
  postrider check --dns --config /etc/postrider.toml
  postrider check --config new.toml && mv new.toml /etc/postrider.toml && postrider reload \\
      --config /etc/postrider.toml")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Check the DNS records of source addresses, domains and DKIM keys.
    #[arg(long)]
    pub(crate) dns: bool,
    /// An additional domain to check with --dns that the configuration does not name, for example one from a table or a
    /// subdomain. May be repeated.
    #[arg(long, value_name = "DOMAIN", requires = "dns", value_parser = parse_domain)]
    pub(crate) domain: Vec<String>,
    /// Name each file that USER could not read or write as the server's user. Needs root, or the own name.
    #[arg(long = "as", value_name = "USER", value_hint = ValueHint::Username)]
    pub(crate) user: Option<String>,
    /// Print errors and warnings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postrider explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --client the client is an unauthenticated one; with the address of a local machine the
answer shows its rights.

Examples:
  postrider explain someone@example.org --config /etc/postrider.toml
  postrider explain someone@example.org --client 10.0.0.7 --config /etc/postrider.toml
  postrider explain postmaster --json")]
#[derive(Clone)]
pub(crate) struct ExplainArgs {
    /// The recipient's address, or `postmaster`.
    #[arg(value_name = "RCPT", value_parser = parse_mailbox, value_hint = ValueHint::EmailAddress)]
    pub(crate) recipient: Mailbox,
    /// The sender's address. Default: the null sender, `<>`.
    #[arg(long, value_name = "ADDR", value_parser = parse_sender, default_value = "<>")]
    #[arg(hide_default_value = true, value_hint = ValueHint::EmailAddress)]
    pub(crate) from: Sender,
    /// The client's IP address. Default: an unauthenticated client.
    #[arg(long, value_name = "IP")]
    pub(crate) client: Option<IpAddr>,
    /// The client's HELO or EHLO name, for access rules. Default: none.
    #[arg(long, value_name = "NAME")]
    pub(crate) helo: Option<String>,
    /// The user that the client has logged in as. Default: none.
    #[arg(long, value_name = "USER")]
    pub(crate) login: Option<String>,
    /// The name of the listener. Default: the first one, or with --login the first one with logins.
    #[arg(long, value_name = "NAME")]
    pub(crate) listener: Option<String>,
    /// Query neither the DNS nor any table.
    #[arg(long)]
    pub(crate) offline: bool,
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The control socket of a running server.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServerArgs {
    /// The server's configuration file, which determines the path of the control socket. Default: as for `postrider
    /// serve`.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// The path of the control socket, instead of a configuration file.
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "config")]
    pub(crate) control: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postrider sendmail`.
#[derive(Debug, Args)]
pub(crate) struct SendmailArgs {
    /// Options of sendmail(1), and recipients.
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// `postrider config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// Commands of `postrider config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the JSON schema of the configuration file, for editors
    Schema,
    /// Print the reference of every key, as Markdown
    Reference(ReferenceArgs),
    /// Print the built-in configuration, a starting point for your own file
    Default,
}

/// `postrider config reference`.
#[derive(Debug, Args)]
pub(crate) struct ReferenceArgs {
    /// Write an index, config.md, and a page for each area below this directory instead
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
}

/// `postrider completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  postrider completions bash > /etc/bash_completion.d/postrider
  postrider completions zsh > \"${fpath[1]}/_postrider\"
  postrider completions fish > ~/.config/fish/completions/postrider.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `postrider man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  postrider man --out /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The output directory; created if missing.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
}

/// Parses a domain name to its ASCII form for DNS queries.
pub(crate) fn parse_domain(text: &str) -> Result<String, String> {
    Domain::dns_name(text).ok_or_else(|| "not a domain".to_owned())
}

/// A sender's address; `None` for the null sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sender(pub(crate) Option<Mailbox>);

/// Parses a sender with or without angle brackets; `<>` is the null sender.
fn parse_sender(text: &str) -> Result<Sender, String> {
    if text.is_empty() || text == "<>" {
        return Ok(Sender(None));
    }
    parse_mailbox(text).map(|mailbox| Sender(Some(mailbox)))
}

fn parse_mailbox(text: &str) -> Result<Mailbox, String> {
    let bare = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')).unwrap_or(text);
    Mailbox::parse_any(bare).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Command lines that must be understood.
    const FORMS: &[&str] = &[
        "serve",
        "serve --config FILE --shards 2",
        "check --config FILE",
        "check --dns --domain example.org --domain example.net --json",
        "init example.org",
        "init example.org --kind mail-host --hostname mx.example.org --user jo --acme --dns",
        "init example.org --kind sender --tls-chain FILE --tls-key FILE --address 192.0.2.1",
        "init example.org --kind relay --smarthost HOST:465 --smarthost-user NAME --out DIR",
        "explain a@example.org",
        "explain <a@example.org> --from b@example.net --config FILE",
        "explain a@example.org --from <>",
        "auth check FILE --client-ip 192.0.2.1 --from <>",
        "explain postmaster --client 192.0.2.1 --listener relay --offline --json",
        "explain a@example.org --from b@example.net --login shop",
        "auth check FILE --config FILE",
        "auth check FILE --client-ip 192.0.2.1 --helo a.test --from b@example.net --json",
        "dkim new example.org s1 --out FILE --algorithm ed25519",
        "dkim check example.org --config FILE --json",
        "search to:ann@example.org since:2d --limit 5 --json",
        "search ann@example.org --config FILE",
        "search status:deferred --events events.jsonl",
        "trace 0001000000000001 --json",
        "trace 0001000000000001 --events events.jsonl",
        "events --follow to:example.org --json",
        "events status:refused --config FILE",
        "queue list --json",
        "queue list --domain example.org --sender <> --state held --limit 5",
        "queue show 0001000000000001",
        "queue why 0001000000000001 --json",
        "queue retry 0001000000000001",
        "queue retry --domain example.org",
        "queue hold --domain example.org --reason later",
        "queue release --all",
        "queue remove --sender a@example.org --control /run/x.sock",
        "queue hold --login jo --reason stolen",
        "login list --json",
        "login revoke jo --reason stolen --config FILE",
        "login allow jo",
        "login blocked --config FILE",
        "login unblock 2001:db8::1",
        "spool verify /var/spool/postrider --json",
        "sendmail -t -oi -f a@example.org",
        "classify 550 --provider google --config FILE --json",
        "classify - --mx mx.example.org",
        "queue fail --class unknown_recipient",
        "shaping list --config FILE --json",
        "shaping lift unusual-rate --provider google --source ip-1",
        "shaping lift --provider google",
        "shaping lift --all --control SOCKET",
        "table list --config FILE --json",
        "table get users jo@example.org",
        "table flush users --control SOCKET",
        "table build --from users.txt --to users.db",
        "table build --format tsv --from - --to users.db --keep-case --json",
        "reload --config FILE",
        "status --json",
        "sources --json",
        "config schema",
        "config reference",
        "config reference --out DIR",
        "config default",
        "completions bash",
        "man --out DIR",
    ];

    #[test]
    fn the_table_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_documented_forms_are_understood() {
        for line in FORMS {
            let words = std::iter::once("postrider").chain(line.split(' '));
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn what_could_be_misunderstood_is_refused() {
        for line in [
            "serve --shards 0",
            "check --domain example.org",
            "check --dns --domain a..b",
            "explain nobody@",
            "queue remove",
            "queue remove --all --domain example.org",
            "queue remove 0001000000000001 --all",
            "queue retry xyz",
            "queue hold",
            "queue list --class nonsense",
            "classify",
            "classify 550 --mx h --provider p",
            "queue list --limit 0",
            "queue list --control /s --config f",
            "queue show",
            "shaping",
            "shaping lift",
            "shaping lift unusual-rate --all",
            "table build --from users.txt",
            "table build --from users.txt --to users.db --format csv",
            "frobnicate",
        ] {
            let words = std::iter::once("postrider").chain(line.split(' '));
            let error = Cli::try_parse_from(words).expect_err(line);
            assert_eq!(error.exit_code(), i32::from(exit::USAGE), "{line}");
        }
    }

    #[test]
    fn every_command_is_described() {
        fn walk(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands() {
                let path = format!("{path} {}", sub.get_name());
                assert!(sub.get_about().is_some(), "{path}");
                for arg in sub.get_arguments() {
                    assert!(arg.get_help().is_some(), "{path} {}", arg.get_id());
                }
                walk(sub, &path);
            }
        }
        walk(&Cli::command(), "postrider");
    }
}
