//! Arguments of `postrider x400`.

use super::{ConfigFile, ServerArgs};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// `postrider x400`.
#[derive(Debug, Args)]
pub(crate) struct X400Args {
    #[command(subcommand)]
    pub(crate) command: X400Command,
}

/// Commands of `postrider x400`.
#[derive(Debug, Subcommand)]
pub(crate) enum X400Command {
    /// List the peers of a configuration, and the routes to each
    Peers(X400PeersArgs),
    /// Open an association to a peer, and release it
    ///
    /// Connects to the peer's hosts in their order, binds with the configured name and password, and prints the
    /// response. No message is transferred, and no running server is involved.
    Ping(X400PingArgs),
    /// Suspend delivery to a peer
    ///
    /// Suspends the routes to the peer in a running server until `start`, also over a restart. Messages from the peer
    /// are still accepted.
    Stop(X400PeerArgs),
    /// Resume delivery to a peer
    Start(X400PeerArgs),
    /// Show the forms of an O/R address, and its route
    ///
    /// Also prints the internet address that represents an O/R address, or the O/R address that represents an internet
    /// address, as mapped by MIXER (RFC 2156) without tables.
    Address(X400AddressArgs),
    /// Print the contents of an MTS-APDU (a message, probe or report) in a file
    Decode(X400DecodeArgs),
}

/// `postrider x400 peers`.
#[derive(Debug, Args)]
pub(crate) struct X400PeersArgs {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postrider x400 ping`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  the peer accepted and released the association
  1  it did not; the output has the reason
  2  the command line or the configuration is wrong

Example:
  postrider x400 ping hub --config /etc/postrider.toml")]
pub(crate) struct X400PingArgs {
    /// The peer's name in the configuration.
    pub(crate) peer: String,
    #[command(flatten)]
    pub(crate) file: ConfigFile,
}

/// `postrider x400 stop` and `start`.
#[derive(Debug, Args)]
pub(crate) struct X400PeerArgs {
    /// The peer's name in the configuration.
    pub(crate) peer: String,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `postrider x400 address`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  postrider x400 address 'G=Carol; S=Sender; O=Gamma; P=TestC; C=GB'")]
pub(crate) struct X400AddressArgs {
    /// The address, as `/S=…/C=gb/` or `S=…; C=gb`, or an internet address.
    pub(crate) text: String,
    /// For the route.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
}

/// `postrider x400 decode`.
#[derive(Debug, Args)]
pub(crate) struct X400DecodeArgs {
    /// The file with the octets of one APDU.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}
