//! Who knows users, where no table does.

use crate::answer::{Answer, Later};
use auth::sasl::Claim;
use auth::sasl::bearer::Token;
use config::{HostPort, TableEntry, WebPlace};
use lookup::{LookupError, LookupErrorKind};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A server that knows users, and that they are who they say to be.
#[derive(Clone, Debug)]
pub enum LoginServer {
    /// Dovecot's, which speaks with clients by mechanisms of its own.
    Dovecot(HostPort),
    /// A directory in which this table finds users: it has an entry's password checked by a bind.
    Directory(Arc<TableEntry>),
}

/// For people.
impl fmt::Display for LoginServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoginServer::Dovecot(at) => write!(f, "Dovecot at {at}"),
            LoginServer::Directory(table) => write!(f, "the directory of table {}", table.name),
        }
    }
}

/// An OAuth 2.0 server that says whose a token is (RFC 7662).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introspection {
    pub at: WebPlace,
    /// As whom it is asked, with the first line of the file.
    pub client_id: Box<str>,
    pub secret_file: PathBuf,
    /// Which part of an answer has the user's name.
    pub user_claim: Box<str>,
    /// What a token must be good for.
    pub scope: Option<Box<str>>,
    /// Those whose certificates are trusted; `None`: the machine's roots.
    pub ca_file: Option<PathBuf>,
}

/// How a server is asked about a login.
#[derive(Clone, Copy, Debug)]
pub struct LoginTerms {
    /// Where the client is.
    pub remote: SocketAddr,
    /// Where it came to.
    pub local: Option<SocketAddr>,
    /// An answer is waited for so long.
    pub patience: Duration,
    /// The client may relay, or was a user lately: others leave it some turns.
    pub is_known: bool,
}

/// What a server made of a step of a login.
pub enum LoginReply {
    /// The client is told this; what it answers goes on with the conversation.
    Challenge(Vec<u8>, Box<dyn Conversation>),
    /// The client is this user.
    Accepted(String),
    /// It is not; the user that it said to be, if the server knows.
    Refused(Option<String>),
    /// What the client said is more than the server takes.
    TooLong,
}

/// What a server made of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// How it calls the user whose password it is. `None`: it is not his; where none was shown: it has no name
    /// for him.
    pub user: Option<String>,
    /// Which of its users that was about, however he was spelled, if there is one and it says so.
    pub entry: Option<String>,
}

/// A login that a server is asked about in several steps. Dropped, it is given up.
pub trait Conversation {
    /// The client's answer to a challenge.
    fn go_on(self: Box<Self>, response: Vec<u8>)
    -> Later<'static, Result<LoginReply, LookupError>>;
}

/// Shown in nobody's log.
impl fmt::Debug for dyn Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conversation")
    }
}

/// The way to such servers. All answers have deadlines.
pub trait Authenticators {
    /// The mechanisms that a server offers, in capitals; `None`: it has not said so yet, or any may be
    /// offered for it.
    fn offered(&self, server: &LoginServer) -> Answer<'static, Option<Arc<[Box<str>]>>>;

    /// Whether a password is the user's, and how the server calls him.
    fn check(
        &self,
        server: &LoginServer,
        claim: Claim,
        terms: LoginTerms,
    ) -> Later<'static, Result<Checked, LookupError>>;

    /// The entry that a directory has of a user, for logins that were proved before, and how it calls him.
    fn entry(
        &self,
        _server: &LoginServer,
        _user: String,
        _terms: LoginTerms,
    ) -> Later<'static, Result<Checked, LookupError>> {
        Box::pin(async { Err(nobody()) })
    }

    /// Whose a token is. `None`: nobody's, or it is not good for this.
    fn whose(
        &self,
        server: &Arc<Introspection>,
        token: Token,
        terms: LoginTerms,
    ) -> Later<'static, Result<Option<String>, LookupError>>;

    /// Has the server speak with the client.
    fn begin(
        &self,
        server: &LoginServer,
        mechanism: &'static str,
        initial: Option<Vec<u8>>,
        terms: LoginTerms,
    ) -> Later<'static, Result<LoginReply, LookupError>>;
}

/// A world without such servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAuthenticators;

fn nobody() -> LookupError {
    LookupError::new(LookupErrorKind::Unreachable, "there are no servers here")
}

impl Authenticators for NoAuthenticators {
    fn offered(&self, _: &LoginServer) -> Answer<'static, Option<Arc<[Box<str>]>>> {
        Answer::Now(None)
    }

    fn check(
        &self,
        _: &LoginServer,
        _: Claim,
        _: LoginTerms,
    ) -> Later<'static, Result<Checked, LookupError>> {
        Box::pin(async { Err(nobody()) })
    }

    fn whose(
        &self,
        _: &Arc<Introspection>,
        _: Token,
        _: LoginTerms,
    ) -> Later<'static, Result<Option<String>, LookupError>> {
        Box::pin(async { Err(nobody()) })
    }

    fn begin(
        &self,
        _: &LoginServer,
        _: &'static str,
        _: Option<Vec<u8>>,
        _: LoginTerms,
    ) -> Later<'static, Result<LoginReply, LookupError>> {
        Box::pin(async { Err(nobody()) })
    }
}
