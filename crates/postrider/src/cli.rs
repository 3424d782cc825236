//! The command line: one table from which the parser, the help, the man pages and the shell
//! completions are made.

mod dkim;
mod queue;
mod shaping;
mod table;
mod tls;
mod x400;

pub(crate) use dkim::{DkimArgs, DkimCheckArgs, DkimCommand, DkimNewArgs, KeyKind};
pub(crate) use queue::QueueArgs;
pub(crate) use shaping::{ClassifyArgs, LiftArgs, ShapingArgs, ShapingCommand};
pub(crate) use table::{BuildArgs, FlushArgs, Format, GetArgs, TableArgs, TableCommand};
pub(crate) use tls::{AuthArgs, AuthCheckArgs, AuthCommand, TlsArgs, TlsCheckArgs, TlsCommand};
pub(crate) use x400::{
    X400AddressArgs, X400Args, X400Command, X400DecodeArgs, X400PeerArgs, X400PeersArgs,
    X400PingArgs,
};

use clap::{Args, Parser, Subcommand, ValueHint};
use mail::{Domain, Mailbox};
use std::net::IpAddr;
use std::path::PathBuf;

/// Exit codes, as the help states them.
pub(crate) mod exit {
    /// The command found what it looks for to be wrong, or could not be carried out.
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
  postrider config default > my.toml       start from that default, or from examples/
  postrider check --config my.toml         what is wrong with it, and where
  postrider explain you@example.org --config my.toml
                                           what would happen to mail for this recipient
  postrider serve --config my.toml

While it runs:
  postrider queue list --config my.toml    what waits
  postrider queue why ID --config my.toml  what this message waits for, and until when
  postrider reload --config my.toml        take up a changed file

Exit codes:
  0  done
  1  not done, or (spool verify) damage was found
  2  the command line or the configuration is wrong
  3  no server answers at the control socket";

/// Postrider, a mail switch.
///
/// It accepts messages over SMTP, makes each one durable before it says 250, decides by recipient
/// where it goes, and delivers it: relayed to given hosts, to the hosts that DNS names, or kept
/// in Maildirs. What can't be delivered now is tried again; what can't be delivered at all is
/// reported to its sender.
#[derive(Debug, Parser)]
#[command(name = "postrider", version, after_long_help = FIRST_STEPS, after_help = EXIT_CODES)]
#[command(propagate_version = false, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server
    ///
    /// Runs in the foreground; the console log goes to standard error.
    ///
    /// SIGTERM and SIGINT stop it: transactions that are running may finish within 5 seconds, the
    /// rest get 421, and the queue stays on disk for the next start. SIGHUP makes it read its
    /// configuration again; if the file has mistakes, the old configuration stays and the log says
    /// why.
    Serve(ServeArgs),
    /// Check a configuration file
    ///
    /// Reads a configuration file as `serve` would and shows all that is wrong with it, each mistake
    /// with file, line and column. Warnings (what is hardly meant, such as an open relay) do not fail
    /// the check.
    ///
    /// With --dns the DNS is asked for what mailbox providers ask of those who send: that each address that mail
    /// goes from has a name that leads back to it, and says that name; and of each domain that a [[signer]] names
    /// that SPF passes for these addresses, that the records of its keys are right, that there is a DMARC policy
    /// with which a signature is aligned, and that replies have somewhere to go. What is wrong is shown with the
    /// record that would be right.
    Check(CheckArgs),
    /// Show what would happen to a recipient, without sending anything
    ///
    /// Shows whether a recipient would be accepted and from whom, the route it takes, the channel and
    /// next hop, the queues it stands in, limits and TLS policy, and when it is tried again. Beside
    /// each stands the line of the configuration that decided it. Nothing is sent; for `mx` routes
    /// the DNS is asked.
    Explain(ExplainArgs),
    /// Look at the queue of a running server, and change it
    ///
    /// Talks to a running server over its control socket. `list`, `show` and `why` look; `retry`,
    /// `hold`, `release` and `remove` change something, and what hold, release and remove do survives
    /// a restart.
    Queue(Box<QueueArgs>),
    /// Make a running server read its configuration again
    Reload(ServerArgs),
    /// Show how a running server is
    Status(ServerArgs),
    /// Show the sources of a running server, and how far those have come that warm up
    ///
    /// For each provider, or set of hosts, that a source which warms up has sent to: the day of its warm-up, the
    /// recipients of that day and how many of them are used, and how many recipients were delivered to, or held
    /// back as blocked or rate limited, of those that were tried.
    Sources(ServerArgs),
    /// Look at a spool on disk
    Spool(SpoolArgs),
    /// Say what a peer's refusal means
    ///
    /// Shows the class and the kind of a reply, as they stand in events and metrics, and the line of the
    /// rules that says so: of the files that the configuration names, or of those that are built in.
    Classify(ClassifyArgs),
    /// What rules of shaping do at present
    Shaping(ShapingArgs),
    /// Lookup tables
    Table(TableArgs),
    /// Who sends
    Auth(AuthArgs),
    /// Keys that sign mail (DKIM)
    Dkim(DkimArgs),
    /// How connections to next hops are encrypted
    Tls(TlsArgs),
    /// Peers of X.400, addresses and what is sent there
    X400(X400Args),
    /// The configuration's reference, schema and default
    Config(ConfigArgs),
    /// Print shell completions
    ///
    /// Prints completions for a shell on standard output.
    Completions(CompletionsArgs),
    /// Write man pages
    ///
    /// Writes one man page for the program and one for each of its commands.
    Man(ManArgs),
}

/// `--config`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigFile {
    /// The configuration file. Without it: the built-in default (see `postrider config default`).
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
    /// The file.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// How many shards run, for experiments. Without it: `shards` in the configuration, else one
    /// per CPU core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) shards: Option<u16>,
}

/// `postrider check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  the file is right
  1  the file is right, and the DNS is not
  2  the file is not, or it can't be read

Examples:
  postrider check --config /etc/postrider.toml
  postrider check --dns --config /etc/postrider.toml
  postrider check --config new.toml && mv new.toml /etc/postrider.toml && postrider reload \\
      --config /etc/postrider.toml")]
pub(crate) struct CheckArgs {
    /// The file.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Ask the DNS about addresses, domains and keys of those who send.
    #[arg(long)]
    pub(crate) dns: bool,
    /// A domain of authors that the file does not name, as it is in a table, say, or below another one; more
    /// than once for several.
    #[arg(long, value_name = "DOMAIN", requires = "dns", value_parser = parse_domain)]
    pub(crate) domain: Vec<String>,
    /// Print mistakes and warnings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postrider explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --client the recipient is judged as if a stranger had sent it; with the address of one of
your own machines you see what they may do.

Examples:
  postrider explain someone@example.org --config /etc/postrider.toml
  postrider explain someone@example.org --client 10.0.0.7 --config /etc/postrider.toml
  postrider explain postmaster --json")]
#[derive(Clone)]
pub(crate) struct ExplainArgs {
    /// The recipient's address, or `postmaster`.
    #[arg(value_name = "RCPT", value_parser = parse_mailbox, value_hint = ValueHint::EmailAddress)]
    pub(crate) recipient: Mailbox,
    /// The sender's address. Without it: the null sender of reports, `<>`.
    #[arg(long, value_name = "ADDR", value_parser = parse_mailbox)]
    #[arg(value_hint = ValueHint::EmailAddress)]
    pub(crate) from: Option<Mailbox>,
    /// The client's IP address. Without it: a stranger.
    #[arg(long, value_name = "IP")]
    pub(crate) client: Option<IpAddr>,
    /// The name that the client gives itself, for access rules. Without it: none.
    #[arg(long, value_name = "NAME")]
    pub(crate) helo: Option<String>,
    /// The listener it comes through, by name. Without it: the first one.
    #[arg(long, value_name = "NAME")]
    pub(crate) listener: Option<String>,
    /// Do not ask the DNS, nor any table.
    #[arg(long)]
    pub(crate) offline: bool,
    /// The file.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a running server is reached.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServerArgs {
    /// The server's configuration file, which says where its control socket is. Without it: the
    /// built-in default.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// The control socket itself, instead of the configuration file.
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "config")]
    pub(crate) control: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postrider spool`.
#[derive(Debug, Args)]
pub(crate) struct SpoolArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: SpoolCommand,
}

/// What to do with a spool.
#[derive(Debug, Subcommand)]
pub(crate) enum SpoolCommand {
    /// Check every record of a stopped or copied spool
    ///
    /// Reads a spool whose server is stopped, or a copy of one, and changes nothing. It checks every
    /// checksum and that every message went only through states that the design allows, and prints
    /// how many records are live, settled and damaged.
    Verify(VerifyArgs),
}

/// `postrider spool verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  no damage
  1  damage, or the spool can't be read

Examples:
  postrider spool verify /var/spool/postrider
  postrider spool verify /var/spool/postrider --json

The server must be stopped, or, for a copy, have been when it was made: what changes while it is read
looks like damage.")]
pub(crate) struct VerifyArgs {
    /// The spool directory.
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postrider config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// What to print.
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What to print about the configuration.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the JSON schema of the file, for editors
    Schema,
    /// Print the reference of every key, as Markdown
    Reference,
    /// Print the built-in default, a start for a file of your own
    Default,
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
    /// The directory to write to; it is made if it is missing.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
}

/// A name for the DNS, in ASCII.
fn parse_domain(text: &str) -> Result<String, String> {
    Domain::dns_name(text).ok_or_else(|| "not a domain".to_owned())
}

fn parse_mailbox(text: &str) -> Result<Mailbox, String> {
    let bare = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')).unwrap_or(text);
    Mailbox::parse_any(bare).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_table_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_documented_forms_are_understood() {
        for line in [
            "serve",
            "serve --config FILE --shards 2",
            "check --config FILE",
            "check --dns --domain example.org --domain example.net --json",
            "explain a@example.org",
            "explain <a@example.org> --from b@example.net --config FILE",
            "explain postmaster --client 192.0.2.1 --listener relay --offline --json",
            "auth check FILE --config FILE",
            "auth check FILE --client-ip 192.0.2.1 --helo a.test --from b@example.net --json",
            "dkim new example.org s1 --out FILE --algorithm ed25519",
            "dkim check example.org --config FILE --json",
            "queue list --json",
            "queue list --domain example.org --sender <> --state held --limit 5",
            "queue show 0001000000000001",
            "queue why 0001000000000001 --json",
            "queue retry 0001000000000001",
            "queue retry --domain example.org",
            "queue hold --domain example.org --reason later",
            "queue release --all",
            "queue remove --sender a@example.org --control /run/x.sock",
            "spool verify /var/spool/postrider --json",
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
            "config default",
            "completions bash",
            "man --out DIR",
        ] {
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
