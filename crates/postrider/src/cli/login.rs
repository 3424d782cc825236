//! Arguments of `postrider login`.

use super::ServerArgs;
use clap::{Args, Subcommand};
use std::net::IpAddr;

/// `postrider login`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  postrider login list --config /etc/postrider.toml
  postrider login revoke jo --reason 'password stolen'
  postrider queue remove --login jo --state held
  postrider login allow jo
  postrider login unblock 192.0.2.7")]
pub(crate) struct LoginArgs {
    #[command(subcommand)]
    pub(crate) command: LoginCommand,
}

/// Commands of `postrider login`.
#[derive(Debug, Subcommand)]
pub(crate) enum LoginCommand {
    /// List logins with open sessions, with a limit reached, or revoked
    List(ServerArgs),
    /// Revoke a login: close its sessions, and refuse new ones until it is allowed again
    ///
    /// Survives restarts. New logins get 535 5.7.8, as with a wrong password. Accepted mail stays in the queue; see
    /// `queue hold --login` and `queue remove --login`.
    Revoke(RevokeArgs),
    /// Allow a revoked login again
    Allow(AllowArgs),
    /// List clients that may not log in after too many failures
    Blocked(ServerArgs),
    /// Forget the failed logins of a client
    Unblock(UnblockArgs),
}

/// `postrider login revoke`.
#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The canonical name of the user, as in events. Case makes no difference.
    #[arg(value_name = "LOGIN")]
    pub(crate) login: String,
    /// The reason, for later readers.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `postrider login allow`.
#[derive(Debug, Args)]
pub(crate) struct AllowArgs {
    /// The canonical name of the user.
    #[arg(value_name = "LOGIN")]
    pub(crate) login: String,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `postrider login unblock`.
#[derive(Debug, Args)]
pub(crate) struct UnblockArgs {
    /// The address of the client: of IPv6, its /64.
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: IpAddr,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::Parser;

    #[test]
    fn login_and_address_are_required() {
        for line in ["revoke", "allow", "unblock", "unblock jo", "revoke jo al", "list jo"] {
            let words = ["postrider", "login"].into_iter().chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }
}
