//! The basis of a session's rights, which are valid while configuration and tables grant them.
//!
//! MAIL renews them after a reload, after a table change, and at intervals for remote tables
//! ([`LOGIN_CHECK_INTERVAL`]).

use crate::login_failures::LoginSubject;
use crate::seams::LoginServer;
use auth::password::Password;
use auth::sasl::bearer::Token;
use config::{HostPort, Listener};
use mail::Mono;
use std::net::IpAddr;
use std::time::Duration;

/// Age after which the first MAIL looks up a login again without a known change. Servers do not notify of changed
/// passwords.
pub const LOGIN_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Age after which the first MAIL has the server check a password again, as after a reload. Only the server knows of a
/// change, and each check costs it a hash.
pub const PASSWORD_CHECK_INTERVAL: Duration = Duration::from_secs(600);

/// Age after which a login by a server's mechanism ends at the first MAIL, since it can't be checked again.
pub const SERVER_LOGIN_MAX: Duration = Duration::from_secs(3_600);

/// The basis of a session's rights.
#[derive(Debug)]
pub(super) struct Rights {
    /// The versions at the last check.
    pub(super) seen: RightsVersion,
    pub(super) looked_up_at: Mono,
    pub(super) login: Option<Box<Login>>,
    /// The chain of trusted peers that announced the next client.
    pub(super) announcers: Vec<Announcer>,
}

/// Versions of all inputs that rights depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RightsVersion {
    /// Reloads so far.
    pub(super) reloads: u64,
    /// Table changes so far.
    pub(super) changes: u64,
}

/// A login and its proof.
#[derive(Debug)]
pub(super) struct Login {
    /// The user name as the client spelled it.
    pub(super) spelled: Box<str>,
    pub(super) proof: Proof,
    pub(super) proved_at: Mono,
}

/// The proof of a login.
#[derive(Clone, Debug)]
pub(super) enum Proof {
    /// The stored password of this entry.
    Stored(LoginSubject),
    /// A bind with this password as this directory entry. `None` if the directory did not name the entry.
    Entry(Option<Box<str>>, Password),
    /// The verdict of this server about this password. `None` if the login used a mechanism of the server.
    Server(HostPort, Option<Password>),
    Token(Token),
    Certificate,
    /// The user id of the process at the other end of a Unix socket.
    Socket,
    /// The announcement by a trusted client, with the user's entry. `None` if the user has no entry here.
    Announced(Option<LoginSubject>),
}

impl Proof {
    /// Returns true if the proof is from this server.
    pub(super) fn is_of(&self, server: &LoginServer) -> bool {
        match (self, server) {
            (Proof::Entry(..), LoginServer::Directory(_)) => true,
            (Proof::Server(at, _), LoginServer::Dovecot(asked)) => at == asked,
            _ => false,
        }
    }
}

/// The result of a renewed check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginValidity {
    /// The login is no longer valid.
    Gone,
    /// The basis of the login is unchanged.
    Held,
    /// The password was checked again and is right.
    Proved,
}

impl LoginValidity {
    pub(super) fn held_if(holds: bool) -> LoginValidity {
        if holds { LoginValidity::Held } else { LoginValidity::Gone }
    }
}

/// A trusted peer that announced the client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Announcer {
    /// By a PROXY header.
    Proxy(IpAddr),
    /// By the protocol itself, for example XCLIENT.
    Client(IpAddr),
}

impl Announcer {
    pub(super) fn is_believed(self, listener: &Listener) -> bool {
        match self {
            Announcer::Proxy(peer) => listener.is_proxy(peer),
            Announcer::Client(client) => listener.protocol.may_speak_for_others(client),
        }
    }
}

impl Rights {
    /// The initial rights of a connection, possibly proxied.
    pub(super) fn new(seen: RightsVersion, now: Mono, proxy: Option<IpAddr>) -> Rights {
        Rights {
            seen,
            looked_up_at: now,
            login: None,
            announcers: proxy.map(Announcer::Proxy).into_iter().collect(),
        }
    }

    /// A trusted client announces another one, which has no login.
    pub(super) fn announce(&mut self, by: IpAddr) {
        self.login = None;
        self.announcers.push(Announcer::Client(by));
    }

    pub(super) fn log_in(&mut self, spelled: &str, proof: Proof, now: Mono) {
        self.looked_up_at = now;
        self.login = Some(Box::new(Login { spelled: spelled.into(), proof, proved_at: now }));
    }

    /// Notes that the password was right again.
    pub(super) fn note_proved(&mut self, now: Mono) {
        if let Some(login) = &mut self.login {
            login.proved_at = now;
        }
    }
}
