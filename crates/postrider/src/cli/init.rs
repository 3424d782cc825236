//! Arguments of `postrider init` and `postrider migrate`.

use super::parse_domain;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use config::IpNet;
use std::net::IpAddr;
use std::path::PathBuf;

/// `postrider init`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 1 means that a file exists or the DNS is not correct; 2, an error in the command line or configuration.

Examples:
  postrider init example.org
  postrider init example.org --kind mail-host --hostname mx.example.org --user jo --acme
  postrider init app1.example.org --kind local --hostname app1.example.org")]
pub(crate) struct InitArgs {
    /// The mail domain.
    #[arg(value_name = "DOMAIN", value_parser = parse_domain)]
    pub(crate) domain: String,
    /// The kind of server.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<ServerKind>,
    /// The server's name: that of the PTR record of its address.
    #[arg(long, value_name = "NAME", value_parser = parse_domain)]
    pub(crate) hostname: Option<String>,
    /// The first user, without the domain. Its password is created and printed.
    #[arg(long, value_name = "NAME", value_parser = parse_user)]
    pub(crate) user: Option<String>,
    /// Order certificates from Let's Encrypt, and agree to its terms of service. It connects to port 80.
    #[arg(long, conflicts_with_all = ["tls_chain", "tls_key"])]
    pub(crate) acme: bool,
    /// The PEM file with the server's certificate and its intermediate certificates.
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = ValueHint::FilePath)]
    pub(crate) tls_chain: Option<PathBuf>,
    /// The PEM file with the key of the certificate.
    #[arg(long, value_name = "FILE", requires = "tls_chain", value_hint = ValueHint::FilePath)]
    pub(crate) tls_key: Option<PathBuf>,
    /// The smarthost of a relay; without a port, 587.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) smarthost: Option<String>,
    /// The user name at the smarthost. Default: no login.
    #[arg(long, value_name = "NAME", requires = "smarthost")]
    pub(crate) smarthost_user: Option<String>,
    /// The file with the password for the smarthost as its only line.
    #[arg(long, value_name = "FILE", requires = "smarthost_user")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) smarthost_password_file: Option<PathBuf>,
    /// A network of machines that may use the relay, besides this machine. May be repeated.
    #[arg(long, value_name = "NETWORK")]
    pub(crate) relay_from: Vec<IpNet>,
    /// A public address of this server, for the DNS records. May be repeated. Default: the address of the default
    /// route, if it is public.
    #[arg(long, value_name = "IP")]
    pub(crate) address: Vec<IpAddr>,
    /// The directory of the configuration; created if missing.
    #[arg(short, long, value_name = "DIR", default_value = "/etc/postrider")]
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// The spool directory; created if missing.
    #[arg(long, value_name = "DIR", default_value = "/var/spool/postrider")]
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) spool: PathBuf,
    /// The directory of the mailboxes; created if missing.
    #[arg(long, value_name = "DIR", default_value = "/srv/mail", value_hint = ValueHint::DirPath)]
    pub(crate) mail: PathBuf,
    /// The Unix socket of a `local` listener, for sendmail(1). Its directory must exist when the server starts. Default:
    /// none; with --kind local, /run/postrider/submit.sock.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
    /// The user that the server becomes after its start (key `user`): owner of secrets, spool and mailboxes. Default:
    /// `postrider`, if root runs this command and the user exists.
    #[arg(long, value_name = "USER")]
    pub(crate) owner: Option<String>,
    /// Check the DNS records at the end, as `postrider check --dns` does.
    #[arg(long)]
    pub(crate) dns: bool,
}

/// `postrider migrate`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(subcommand)]
    pub(crate) command: MigrateCommand,
}

/// Commands of `postrider migrate`.
#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Translate the configuration of Postfix
    ///
    /// Reads main.cf, master.cf and the files that they name; Postfix need not be installed. Writes `postrider.toml`, and
    /// files for tables with another format, into a directory. Tables in a format of this server stay where they are. An
    /// existing file is never overwritten.
    ///
    /// Prints a row for each setting: carried, carried differently or not carried, with file, line, reason and remedy.
    Postfix(PostfixArgs),
}

/// `postrider migrate postfix`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  done
  1  done, but mail would be accepted that Postfix refuses; the report begins with the cause
  2  a file cannot be read, or exists; nothing is written

Examples:
  postrider migrate postfix
  postrider migrate postfix --dir /mnt/old/etc/postfix --out /etc/postrider --json")]
pub(crate) struct PostfixArgs {
    /// The directory with main.cf and master.cf.
    #[arg(long, value_name = "DIR", default_value = "/etc/postfix", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// The directory of the new configuration; created if missing.
    #[arg(short, long, value_name = "DIR", default_value = "/etc/postrider")]
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// The file with the accounts that receive local mail.
    #[arg(long, value_name = "FILE", default_value = "/etc/passwd", value_hint = ValueHint::FilePath)]
    pub(crate) passwd: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The kind of a new server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerKind {
    /// Receives mail for the domain into Maildirs; its users send by it.
    MailHost,
    /// Passes mail of this machine, and of its network, to a smarthost.
    Relay,
    /// Sends mail of applications to the MX hosts of its recipients.
    Sender,
    /// Sends mail of programs on this machine, and keeps mail to its own name in Maildirs. Takes none from other machines.
    Local,
}

/// Parses the local part of a user's address, as it appears in tables.
pub(crate) fn parse_user(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let is_name = !text.is_empty()
        && text.len() <= 64
        && !text.starts_with(['.', '-'])
        && !text.ends_with('.')
        && !text.contains("..")
        && text.bytes().all(is_plain);
    match is_name {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("use letters, digits, `.`, `-` and `_`, without the domain".to_owned()),
    }
}
