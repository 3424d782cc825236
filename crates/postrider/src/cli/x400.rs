//! `postrider x400`: peers of X.400, and what they send.

use super::{ConfigFile, ServerArgs};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// `postrider x400`.
#[derive(Debug, Args)]
pub(crate) struct X400Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: X400Command,
}

/// What to do about X.400.
#[derive(Debug, Subcommand)]
pub(crate) enum X400Command {
    /// List the peers of a configuration, and the routes that lead to each
    Peers(X400PeersArgs),
    /// Open an association to a peer, and release it
    ///
    /// Connects to the peer's hosts in their order, shows it our name and password, and tells what it answers. No
    /// message is transferred, and no running server is asked.
    Ping(X400PingArgs),
    /// Hold what goes to a peer
    ///
    /// Suspends the routes that lead to it in a running server, until `start`, also over a restart. What comes
    /// from the peer is accepted as before.
    Stop(X400PeerArgs),
    /// Let what goes to a peer go on
    Start(X400PeerArgs),
    /// Show the forms of an O/R address, and the route it takes
    ///
    /// Also what stands for it in internet mail, and of an address of internet mail the O/R address that stands for it, as
    /// MIXER maps them (RFC 2156) without tables.
    Address(X400AddressArgs),
    /// Show what an MTS-APDU (a message, probe or report) in a file says
    Decode(X400DecodeArgs),
}

/// `postrider x400 peers`.
#[derive(Debug, Args)]
pub(crate) struct X400PeersArgs {
    /// The configuration.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Show it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postrider x400 ping`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  the peer took the association, and released it
  1  it did not; why is told
  2  the command line or the configuration is wrong

Example:
  postrider x400 ping hub --config /etc/postrider.toml")]
pub(crate) struct X400PingArgs {
    /// The peer's name in the configuration.
    pub(crate) peer: String,
    /// The configuration.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
}

/// `postrider x400 stop` and `start`.
#[derive(Debug, Args)]
pub(crate) struct X400PeerArgs {
    /// The peer's name in the configuration.
    pub(crate) peer: String,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `postrider x400 address`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  postrider x400 address 'G=Carol; S=Sender; O=Gamma; P=TestC; C=GB'")]
pub(crate) struct X400AddressArgs {
    /// The address, as `/S=…/C=gb/` or `S=…; C=gb`, or one of internet mail.
    pub(crate) text: String,
    /// The configuration, for the route.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
}

/// `postrider x400 decode`.
#[derive(Debug, Args)]
pub(crate) struct X400DecodeArgs {
    /// The file, with the octets of one APDU.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}
