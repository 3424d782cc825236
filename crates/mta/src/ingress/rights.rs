//! What the rights of a session rest on: they hold as long as the configuration and the tables grant them.
//!
//! MAIL asks for them anew after a reload, after a change of a table, and from time to time for the sake of
//! tables that are asked elsewhere ([`LOGIN_CHECK_INTERVAL`]).

use crate::login_failures::LoginSubject;
use crate::seams::LoginServer;
use auth::password::Password;
use auth::sasl::bearer::Token;
use config::{HostPort, Listener};
use mail::Mono;
use std::net::IpAddr;
use std::time::Duration;

/// A login is looked up again at the first MAIL after this time, although nothing is known to have changed:
/// servers don't notify of a password that is another one now.
pub const LOGIN_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// A password that a server has checked is shown to it again at the first MAIL after this time, and after a reload:
/// the server alone knows whether it was changed, and each check costs it a hash.
pub const PASSWORD_CHECK_INTERVAL: Duration = Duration::from_secs(600);

/// A login by a mechanism of a server's own, which has nothing that could be shown again, ends at the first MAIL after
/// this time.
pub const SERVER_LOGIN_MAX: Duration = Duration::from_secs(3_600);

/// What the rights of a session rest on.
#[derive(Debug)]
pub(super) struct Rights {
    /// What had happened when they were looked up.
    pub(super) seen: RightsVersion,
    pub(super) looked_up_at: Mono,
    pub(super) login: Option<Box<Login>>,
    /// The clients that were believed in turn when they announced the next one.
    pub(super) announcers: Vec<Announcer>,
}

/// What may change rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RightsVersion {
    /// Reloads so far.
    pub(super) reloads: u64,
    /// Changes of tables so far.
    pub(super) changes: u64,
}

/// A login and its proof.
#[derive(Debug)]
pub(super) struct Login {
    /// As the client spelled it.
    pub(super) spelled: Box<str>,
    pub(super) proof: Proof,
    pub(super) proved_at: Mono,
}

/// How a client has proved to be a user.
#[derive(Clone, Debug)]
pub(super) enum Proof {
    /// By the stored password of this entry.
    Stored(LoginSubject),
    /// By a bind as this entry of a directory, with this password; `None`: the directory has not named it.
    Entry(Option<Box<str>>, Password),
    /// By the word of this server about this password; `None`: they spoke by a mechanism of the server's.
    Server(HostPort, Option<Password>),
    Token(Token),
    Certificate,
    /// By the word of a client that is believed. Whom it named had this entry; `None`: nobody here knows him.
    Announced(Option<LoginSubject>),
}

impl Proof {
    /// Whether this server has given it.
    pub(super) fn is_of(&self, server: &LoginServer) -> bool {
        match (self, server) {
            (Proof::Entry(..), LoginServer::Directory(_)) => true,
            (Proof::Server(at, _), LoginServer::Dovecot(asked)) => at == asked,
            _ => false,
        }
    }
}

/// What has become of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginValidity {
    /// It holds no more.
    Gone,
    /// What it rests on is there.
    Held,
    /// Its password was right once more.
    Proved,
}

impl LoginValidity {
    pub(super) fn held_if(holds: bool) -> LoginValidity {
        if holds { LoginValidity::Held } else { LoginValidity::Gone }
    }
}

/// A peer that was believed about whose connection it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Announcer {
    /// By a PROXY header.
    Proxy(IpAddr),
    /// In the protocol that is spoken.
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
    /// Those of a connection, which a proxy passes on perhaps.
    pub(super) fn new(seen: RightsVersion, now: Mono, proxy: Option<IpAddr>) -> Rights {
        Rights {
            seen,
            looked_up_at: now,
            login: None,
            announcers: proxy.map(Announcer::Proxy).into_iter().collect(),
        }
    }

    /// A client that is believed speaks for another one from now on, who has no login of its own.
    pub(super) fn announce(&mut self, by: IpAddr) {
        self.login = None;
        self.announcers.push(Announcer::Client(by));
    }

    pub(super) fn log_in(&mut self, spelled: &str, proof: Proof, now: Mono) {
        self.looked_up_at = now;
        self.login = Some(Box::new(Login { spelled: spelled.into(), proof, proved_at: now }));
    }

    /// The password was right once more.
    pub(super) fn note_proved(&mut self, now: Mono) {
        if let Some(login) = &mut self.login {
            login.proved_at = now;
        }
    }
}
