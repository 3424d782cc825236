//! Login servers, for users that are in no table.

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

/// A server that authenticates users.
#[derive(Clone, Debug)]
pub enum LoginServer {
    /// A Dovecot server, which runs its own SASL mechanisms with the client.
    Dovecot(HostPort),
    /// A directory in which this table finds users: it checks a password by an LDAP bind.
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

/// An OAuth 2.0 introspection server (RFC 7662).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introspection {
    pub at: WebPlace,
    /// Client id of the request; the secret is the first line of the file.
    pub client_id: Box<str>,
    pub secret_file: PathBuf,
    /// The claim that has the user's name.
    pub user_claim: Box<str>,
    /// The required scope.
    pub scope: Option<Box<str>>,
    /// Trusted certificate authorities; `None`: the system's roots.
    pub ca_file: Option<PathBuf>,
}

/// Parameters of a request about a login.
#[derive(Clone, Copy, Debug)]
pub struct LoginTerms {
    /// The client's address.
    pub remote: SocketAddr,
    /// The local address.
    pub local: Option<SocketAddr>,
    /// Timeout for an answer.
    pub patience: Duration,
    /// The client may relay, or logged in lately: unknown clients leave it part of the turns.
    pub is_known: bool,
}

/// A server's response to a step of a login.
pub enum LoginReply {
    /// A challenge for the client; the conversation continues with the client's response.
    Challenge(Vec<u8>, Box<dyn Conversation>),
    /// The client is authenticated as this user.
    Accepted(String),
    /// Rejected; with the claimed user, if the server knows it.
    Refused(Option<String>),
    /// The client's response is longer than the server accepts.
    TooLong,
}

/// The result of a password check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The server's name of the authenticated user. `None` if the password is wrong; for a lookup without a password,
    /// if the server has no name for the user.
    pub user: Option<String>,
    /// The server's entry of this user in canonical spelling, if there is one and the server returns it.
    pub entry: Option<String>,
}

/// A login in several steps. Dropping it cancels the login.
pub trait Conversation {
    /// Continues with the client's response to a challenge.
    fn go_on(self: Box<Self>, response: Vec<u8>)
    -> Later<'static, Result<LoginReply, LookupError>>;
}

/// Keeps its content out of logs.
impl fmt::Debug for dyn Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conversation")
    }
}

/// Access to login servers. All answers have deadlines.
pub trait Authenticators {
    /// The mechanisms that a server offers, in capitals; `None` if they are not known yet, or if any may be offered.
    fn offered(&self, server: &LoginServer) -> Answer<'static, Option<Arc<[Box<str>]>>>;

    /// Checks a password, and returns the server's name of the user.
    fn check(
        &self,
        server: &LoginServer,
        claim: Claim,
        terms: LoginTerms,
    ) -> Later<'static, Result<Checked, LookupError>>;

    /// The directory's entry of a user, for logins authenticated by other means, and its name for the user.
    fn entry(
        &self,
        _server: &LoginServer,
        _user: String,
        _terms: LoginTerms,
    ) -> Later<'static, Result<Checked, LookupError>> {
        Box::pin(async { Err(nobody()) })
    }

    /// The user of a token. `None` if the token is invalid or does not have the scope.
    fn whose(
        &self,
        server: &Arc<Introspection>,
        token: Token,
        terms: LoginTerms,
    ) -> Later<'static, Result<Option<String>, LookupError>>;

    /// Begins a SASL exchange between the server and the client.
    fn begin(
        &self,
        server: &LoginServer,
        mechanism: &'static str,
        initial: Option<Vec<u8>>,
        terms: LoginTerms,
    ) -> Later<'static, Result<LoginReply, LookupError>>;
}

/// Has no login servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAuthenticators;

fn nobody() -> LookupError {
    LookupError::new(LookupErrorKind::Unreachable, "no authentication servers configured")
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
