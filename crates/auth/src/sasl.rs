//! SASL (RFC 4422), server side (the client side is in [`client`]): a client's messages, as bytes decoded by the
//! protocol, and the answers. Users and their stored data are arguments.

pub mod bearer;
pub mod client;
pub mod scram;

use crate::password::Password;
use crate::password::scram_keys::Keys;
use bearer::Presented;
use scram::{Challenged, Channel, First, ServerFirst};
use std::fmt;
use zeroize::Zeroizing;

/// Mechanisms of client authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// RFC 4616.
    Plain,
    /// Older than all RFCs; Outlook has no other.
    Login,
    /// RFC 7677: the password itself is never sent.
    ScramSha256,
    /// The same, bound to the encrypted channel.
    ScramSha256Plus,
    /// RFC 7628: a token of an OAuth 2.0 server is sent.
    OauthBearer,
    /// The same as Google and Microsoft have it.
    Xoauth2,
    /// RFC 4422 appendix A: authenticated by a lower layer, with a certificate.
    External,
}

impl Mechanism {
    pub const ALL: [Mechanism; 7] = [
        Mechanism::Plain,
        Mechanism::Login,
        Mechanism::ScramSha256,
        Mechanism::ScramSha256Plus,
        Mechanism::OauthBearer,
        Mechanism::Xoauth2,
        Mechanism::External,
    ];

    /// As it is registered and offered.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::Login => "LOGIN",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha256Plus => "SCRAM-SHA-256-PLUS",
            Mechanism::OauthBearer => "OAUTHBEARER",
            Mechanism::Xoauth2 => "XOAUTH2",
            Mechanism::External => "EXTERNAL",
        }
    }
}

/// A claimed user and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub user: String,
    pub password: Password,
}

impl Claim {
    /// The message of PLAIN, for a server that checks it (RFC 4616 §2).
    #[must_use]
    pub fn plain(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([b"\0", self.user.as_bytes(), b"\0", self.password.bytes()].concat())
    }
}

/// Next step after a client's message.
#[derive(Debug)]
pub enum ExchangeStep {
    /// Send this, and pass the response to [`Exchange::handle_response`].
    Challenge(Vec<u8>),
    /// The exchange is over, if the password is the user's.
    Check(Claim),
    /// Pass this user's keys to [`Exchange::handle_keys`].
    Keys(String),
    /// The exchange is over, and the client has proved to be this user.
    Proved(String),
    /// The exchange is over if the token is valid and the user's; otherwise call [`Exchange::refuse_token`].
    Token(Presented),
    /// The exchange is over, if the lower layer has authenticated the client as this user; without a name, as any user.
    External(Option<String>),
    /// The exchange is over.
    Failed(LoginFailure),
}

/// One exchange.
#[derive(Debug)]
pub struct Exchange(State);

#[derive(Debug)]
enum State {
    Plain,
    LoginUser,
    LoginPassword(String),
    External,
    Bearer {
        is_xoauth2: bool,
    },
    /// The client was sent the reason, and acknowledges it.
    Refused,
    ScramFirst {
        nonce: String,
        channel: Channel,
    },
    ScramKeys {
        first: First,
        nonce: String,
    },
    ScramFinal(Box<Challenged>),
    /// The server's proof was sent; the client answers with an empty message.
    ScramEnd(String),
    Over,
}

impl Exchange {
    /// Begins an exchange. `nonce` is unguessable printable ASCII without commas (RFC 5802 §5.1). Only SCRAM needs it,
    /// and the channel; SCRAM-SHA-256-PLUS needs a bound one.
    #[must_use]
    pub fn new(mechanism: Mechanism, channel: Channel, nonce: impl FnOnce() -> String) -> Exchange {
        Exchange(match mechanism {
            Mechanism::Plain => State::Plain,
            Mechanism::Login => State::LoginUser,
            Mechanism::ScramSha256 | Mechanism::ScramSha256Plus => {
                State::ScramFirst { nonce: nonce(), channel }
            }
            Mechanism::OauthBearer => State::Bearer { is_xoauth2: false },
            Mechanism::Xoauth2 => State::Bearer { is_xoauth2: true },
            Mechanism::External => State::External,
        })
    }

    /// The client begins, with an initial response if it has one.
    pub fn start(&mut self, initial: Option<&[u8]>) -> ExchangeStep {
        match (initial, &self.0) {
            (Some(response), _) => self.handle_response(response),
            (None, State::LoginUser) => ExchangeStep::Challenge(b"Username:".to_vec()),
            // The other mechanisms are client-first; an empty challenge prompts the client (RFC 4954 §4).
            (None, _) => ExchangeStep::Challenge(Vec::new()),
        }
    }

    /// The client's answer to a challenge.
    pub fn handle_response(&mut self, response: &[u8]) -> ExchangeStep {
        let step = match std::mem::replace(&mut self.0, State::Over) {
            State::Plain => plain(response),
            State::LoginUser => match user_of(response) {
                Some(user) => {
                    self.0 = State::LoginPassword(user);
                    return ExchangeStep::Challenge(b"Password:".to_vec());
                }
                None => Err(LoginFailure::Form),
            },
            State::LoginPassword(user) => match Password::new(response) {
                Some(password) => Ok(ExchangeStep::Check(Claim { user, password })),
                None => Err(LoginFailure::Form),
            },
            State::Bearer { is_xoauth2 } => {
                let read = if is_xoauth2 { bearer::xoauth2 } else { bearer::oauthbearer };
                read(response).map(|presented| {
                    self.0 = State::Bearer { is_xoauth2 };
                    ExchangeStep::Token(presented)
                })
            }
            // RFC 7628 §3.2.3: whatever the response.
            State::Refused => Err(LoginFailure::Proof),
            State::External if response.is_empty() => Ok(ExchangeStep::External(None)),
            State::External => match user_of(response) {
                Some(user) => Ok(ExchangeStep::External(Some(user))),
                None => Err(LoginFailure::Form),
            },
            State::ScramFirst { nonce, channel } => First::parse(response, &channel).map(|first| {
                let user = first.user().to_owned();
                self.0 = State::ScramKeys { first, nonce };
                ExchangeStep::Keys(user)
            }),
            State::ScramFinal(challenged) => challenged.handle_final(response).map(|proved| {
                self.0 = State::ScramEnd(proved.user);
                ExchangeStep::Challenge(proved.server_final.into_bytes())
            }),
            State::ScramEnd(user) if response.is_empty() => Ok(ExchangeStep::Proved(user)),
            State::ScramKeys { .. } | State::ScramEnd(_) | State::Over => Err(LoginFailure::Form),
        };
        step.unwrap_or_else(ExchangeStep::Failed)
    }

    /// The token of [`ExchangeStep::Token`] is invalid, or not the user's. The client is sent an error with the needed
    /// scope, and responds before the login fails (RFC 7628 §3.2.2).
    pub fn refuse_token(&mut self, scope: Option<&str>) -> ExchangeStep {
        match std::mem::replace(&mut self.0, State::Refused) {
            State::Bearer { is_xoauth2 } => {
                ExchangeStep::Challenge(bearer::refusal(is_xoauth2, scope).into_bytes())
            }
            _ => ExchangeStep::Failed(LoginFailure::Form),
        }
    }

    /// The keys requested by [`ExchangeStep::Keys`]. For an unknown user pass keys without a password; the client
    /// cannot distinguish them before it has failed.
    pub fn handle_keys(&mut self, keys: Keys) -> ExchangeStep {
        match std::mem::replace(&mut self.0, State::Over) {
            State::ScramKeys { first, nonce } => {
                let ServerFirst { text, challenged } = first.challenge(&nonce, keys);
                self.0 = State::ScramFinal(Box::new(challenged));
                ExchangeStep::Challenge(text.into_bytes())
            }
            _ => ExchangeStep::Failed(LoginFailure::Form),
        }
    }
}

/// The user named in the first message of an exchange, for mechanisms handled by another server.
#[must_use]
pub fn claimed_user(mechanism: &str, initial: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(initial).ok()?;
    let name = match mechanism {
        "XOAUTH2" => text.strip_prefix("user=")?.split('\u{1}').next()?.to_owned(),
        // RFC 7628 §3.1, RFC 5802 §7: the header of GS2 (RFC 5801 §4) has the identity.
        "OAUTHBEARER" => scram::unescaped(text.split(',').nth(1)?.strip_prefix("a=")?)?,
        _ if mechanism.starts_with("SCRAM-") => {
            let name = text.split(',').nth(2)?.strip_prefix("n=")?;
            scram::unescaped(name)?
        }
        _ => return None,
    };
    user_of(name.as_bytes())
}

/// RFC 4616 §2: `[authzid] NUL authcid NUL passwd`.
fn plain(message: &[u8]) -> Result<ExchangeStep, LoginFailure> {
    let mut parts = message.splitn(3, |byte| *byte == 0);
    let (Some(identity), Some(user), Some(password)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(LoginFailure::Form);
    };
    let user = user_of(user).ok_or(LoginFailure::Form)?;
    if !identity.is_empty() && identity != user.as_bytes() {
        return Err(LoginFailure::OtherIdentity);
    }
    if password.contains(&0) {
        return Err(LoginFailure::Form);
    }
    let password = Password::new(password).ok_or(LoginFailure::Form)?;
    Ok(ExchangeStep::Check(Claim { user, password }))
}

#[cfg(test)]
mod tests;

/// The reason why an exchange ends without a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFailure {
    /// A message is invalid in the mechanism.
    Form,
    /// The client wants to act for another user than the one that it proves to be.
    OtherIdentity,
    /// It does not know the password.
    Proof,
    /// Its channel differs from this one, or it believes that binding is not offered: a man in the middle (RFC 5802
    /// §6).
    Channel,
}

/// Maximum bytes of a user name; RFC 4616 §2 requires 255.
pub const USER_BYTES_MAX: usize = 255;

/// A user name fit for lookups and logs; `None` if invalid.
#[must_use]
pub fn user_of(bytes: &[u8]) -> Option<String> {
    let user = std::str::from_utf8(bytes).ok()?;
    let is_name =
        !user.is_empty() && user.len() <= USER_BYTES_MAX && !user.chars().any(char::is_control);
    is_name.then(|| user.to_owned())
}

/// An invalid message of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerMessageError {
    /// An unexpected or repeated prompt.
    Unexpected,
    /// It is malformed.
    Form,
    /// Its nonce does not extend the client's: a replay of another exchange.
    Nonce,
    /// The password would have to be hashed too seldom (RFC 7677 §4), or so often that it takes seconds.
    Iterations,
    /// It does not know the password either.
    Signature,
}

impl fmt::Display for ServerMessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServerMessageError::Unexpected => "requests more than the mechanism has",
            ServerMessageError::Form => "sent a message that the mechanism does not have",
            ServerMessageError::Nonce => {
                "answers with a nonce that does not extend the client nonce"
            }
            ServerMessageError::Iterations => "requests an iteration count out of bounds",
            ServerMessageError::Signature => "has not proved knowledge of the password",
        })
    }
}
