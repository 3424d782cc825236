//! SASL, client side: authenticates this server to another one. Messages are bytes that the protocol still must encode.

pub use super::ServerMessageError;
use super::scram::{ClientFinal, ClientFirst};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of a password or a token.
pub const SECRET_BYTES_MAX: usize = 8 * 1024;

/// Mechanisms for authenticating to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// RFC 7677: the password itself is never sent, and the server proves that it knows it.
    ScramSha256,
    /// RFC 4616.
    Plain,
    /// Older than all RFCs.
    Login,
    /// RFC 7628: a token issued by a third party.
    OauthBearer,
    /// The same as Google and Microsoft have it.
    XOauth2,
}

impl Mechanism {
    /// Mechanisms for passwords, the strongest first.
    pub const OF_PASSWORDS: [Mechanism; 3] =
        [Mechanism::ScramSha256, Mechanism::Plain, Mechanism::Login];
    /// Mechanisms for tokens.
    pub const OF_TOKENS: [Mechanism; 2] = [Mechanism::OauthBearer, Mechanism::XOauth2];

    /// As it is registered and offered.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::Plain => "PLAIN",
            Mechanism::Login => "LOGIN",
            Mechanism::OauthBearer => "OAUTHBEARER",
            Mechanism::XOauth2 => "XOAUTH2",
        }
    }
}

/// User name and secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Box<str>,
    secret: Zeroizing<Vec<u8>>,
}

impl Credentials {
    /// `None` if a name or a secret is empty, too long, or has characters not allowed in any mechanism (NUL, other
    /// control characters).
    #[must_use]
    pub fn new(user: &str, secret: &[u8]) -> Option<Credentials> {
        super::user_of(user.as_bytes())?;
        let is_fit = (1..=SECRET_BYTES_MAX).contains(&secret.len())
            && !secret.iter().any(u8::is_ascii_control);
        is_fit.then(|| Credentials { user: user.into(), secret: Zeroizing::new(secret.to_vec()) })
    }
}

/// Nobody is shown the secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({:?})", self.user)
    }
}

/// One exchange.
#[derive(Debug)]
pub struct Exchange {
    credentials: Credentials,
    state: State,
}

#[derive(Debug)]
enum State {
    /// All messages were sent.
    Told,
    LoginUser,
    LoginPassword,
    ScramFirst(ClientFirst),
    ScramFinal(ClientFinal),
    /// A server that rejects a token sends the reason before it fails, and gets this response.
    Token(&'static [u8]),
}

impl Exchange {
    /// Begins an exchange, with an initial response if the mechanism is client-first. `nonce` is unguessable printable
    /// ASCII without commas; only SCRAM needs it.
    #[must_use]
    pub fn new(
        mechanism: Mechanism,
        credentials: &Credentials,
        nonce: impl FnOnce() -> String,
    ) -> (Exchange, Option<Zeroizing<Vec<u8>>>) {
        let Credentials { user, secret } = credentials;
        let (state, initial) = match mechanism {
            Mechanism::Plain => {
                (State::Told, Some([b"\0", user.as_bytes(), b"\0", secret].concat()))
            }
            Mechanism::Login => (State::LoginUser, None),
            Mechanism::ScramSha256 => {
                let first = ClientFirst::new(user, nonce());
                let text = first.text().into_bytes();
                (State::ScramFirst(first), Some(text))
            }
            Mechanism::OauthBearer => {
                // RFC 7628 §3.1: the name as in SCRAM, RFC 5801 §4.
                let name = super::scram::escaped(user);
                let begin = format!("n,a={name},\x01auth=Bearer ").into_bytes();
                (State::Token(b"\x01"), Some([&begin, &secret[..], b"\x01\x01"].concat()))
            }
            Mechanism::XOauth2 => {
                let begin = format!("user={user}\x01auth=Bearer ").into_bytes();
                (State::Token(b""), Some([&begin, &secret[..], b"\x01\x01"].concat()))
            }
        };
        let exchange = Exchange { credentials: credentials.clone(), state };
        (exchange, initial.map(Zeroizing::new))
    }

    /// The response to a challenge. With SCRAM this takes as long as hashing a password.
    ///
    /// # Errors
    /// Returns the error of an invalid challenge: cancel the exchange.
    pub fn handle_challenge(
        &mut self,
        challenge: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, ServerMessageError> {
        let secret = &self.credentials.secret;
        let (response, next) = match std::mem::replace(&mut self.state, State::Told) {
            State::Told => return Err(ServerMessageError::Unexpected),
            // Prompts are not standardised: `Username:`, `User Name\0` and similar.
            State::LoginUser if asks(challenge) == Some(LoginPrompt::Password) => {
                return Err(ServerMessageError::Form);
            }
            State::LoginUser => (self.credentials.user.as_bytes().to_vec(), State::LoginPassword),
            State::LoginPassword if asks(challenge) == Some(LoginPrompt::User) => {
                return Err(ServerMessageError::Unexpected);
            }
            State::LoginPassword => (secret.to_vec(), State::Told),
            State::ScramFirst(first) => {
                let (text, last) = first.handle_challenge(challenge, secret)?;
                (text.into_bytes(), State::ScramFinal(last))
            }
            State::ScramFinal(last) => {
                last.check(challenge)?;
                (Vec::new(), State::Told)
            }
            State::Token(answer) => (answer.to_vec(), State::Told),
        };
        self.state = next;
        Ok(Zeroizing::new(response))
    }

    /// The server accepted the login.
    ///
    /// # Errors
    /// Returns an error if the server has not proved its knowledge, or the exchange is incomplete.
    pub fn handle_success(&self) -> Result<(), ServerMessageError> {
        match self.state {
            State::Told | State::Token(_) => Ok(()),
            State::ScramFirst(_) | State::ScramFinal(_) => Err(ServerMessageError::Signature),
            State::LoginUser | State::LoginPassword => Err(ServerMessageError::Form),
        }
    }
}

/// The prompt in a challenge of LOGIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginPrompt {
    User,
    Password,
}

fn asks(challenge: &[u8]) -> Option<LoginPrompt> {
    let text = challenge.to_ascii_lowercase();
    let has = |word: &[u8]| memchr::memmem::find(&text, word).is_some();
    match (has(b"user"), has(b"pass")) {
        (true, false) => Some(LoginPrompt::User),
        (false, true) => Some(LoginPrompt::Password),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sasl::{self, ExchangeStep};

    fn credentials() -> Credentials {
        Credentials::new("user", b"pencil").unwrap()
    }

    fn begin(mechanism: Mechanism) -> (Exchange, Option<Zeroizing<Vec<u8>>>) {
        Exchange::new(mechanism, &credentials(), || "rOprNGfwEbeRWgbNEkqO".to_owned())
    }

    #[test]
    fn a_password_is_said_as_each_mechanism_has_it() {
        let (mut plain, initial) = begin(Mechanism::Plain);
        assert_eq!(&**initial.unwrap(), b"\0user\0pencil");
        assert_eq!(plain.handle_success(), Ok(()));
        assert_eq!(plain.handle_challenge(b""), Err(ServerMessageError::Unexpected));
        let (mut login, initial) = begin(Mechanism::Login);
        assert_eq!(initial, None);
        assert_eq!(login.handle_success(), Err(ServerMessageError::Form));
        assert_eq!(&**login.handle_challenge(b"User Name\0").unwrap(), b"user");
        assert_eq!(&**login.handle_challenge(b"Password\0").unwrap(), b"pencil");
        assert_eq!(login.handle_success(), Ok(()));
        assert_eq!(login.handle_challenge(b"Password:"), Err(ServerMessageError::Unexpected));
        for (first, second, wrong) in [
            ("Password:", "", ServerMessageError::Form),
            ("Username:", "Username:", ServerMessageError::Unexpected),
        ] {
            let (mut login, _) = begin(Mechanism::Login);
            let said = login.handle_challenge(first.as_bytes());
            let said = said.and_then(|_| login.handle_challenge(second.as_bytes()));
            assert_eq!(said, Err(wrong), "{first} {second}");
        }
    }

    #[test]
    fn tokens_are_said_as_each_mechanism_has_them() {
        let (mut bearer, initial) = begin(Mechanism::OauthBearer);
        assert_eq!(&**initial.unwrap(), b"n,a=user,\x01auth=Bearer pencil\x01\x01");
        assert_eq!(&**bearer.handle_challenge(b"{\"status\":\"invalid_token\"}").unwrap(), b"\x01");
        assert_eq!(bearer.handle_challenge(b"{}"), Err(ServerMessageError::Unexpected));
        let (mut xoauth2, initial) = begin(Mechanism::XOauth2);
        assert_eq!(&**initial.unwrap(), b"user=user\x01auth=Bearer pencil\x01\x01");
        assert_eq!(&**xoauth2.handle_challenge(b"{}").unwrap(), b"");
    }

    #[test]
    fn scram_is_as_its_rfc_shows_it() {
        // RFC 7677 §3.
        let (mut scram, initial) = begin(Mechanism::ScramSha256);
        assert_eq!(&**initial.unwrap(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let challenge = format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let last = scram.handle_challenge(challenge.as_bytes()).unwrap();
        let proof = "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(&**last, format!("c=biws,r={nonce},{proof}").as_bytes());
        assert_eq!(
            scram.handle_success(),
            Err(ServerMessageError::Signature),
            "it has not proved anything"
        );
        let signature = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(&**scram.handle_challenge(signature).unwrap(), b"");
        assert_eq!(scram.handle_success(), Ok(()));
    }

    #[test]
    fn a_server_that_does_not_know_the_password_is_found_out() {
        for (challenge, wrong) in [
            ("r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", ServerMessageError::Nonce),
            ("r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", ServerMessageError::Nonce),
            (
                "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095",
                ServerMessageError::Iterations,
            ),
            (
                "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=5000001",
                ServerMessageError::Iterations,
            ),
            ("r=rOprNGfwEbeRWgbNEkqOx,s=,i=4096", ServerMessageError::Form),
            (
                "m=x,r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
                ServerMessageError::Form,
            ),
            ("", ServerMessageError::Form),
            ("\u{fe0f}", ServerMessageError::Form),
        ] {
            let (mut scram, _) = begin(Mechanism::ScramSha256);
            let answer = scram.handle_challenge(challenge.as_bytes());
            assert_eq!(answer, Err(wrong), "{challenge}");
        }
        for signature in ["v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=", "v=", "e=no", ""] {
            let (mut scram, _) = begin(Mechanism::ScramSha256);
            let challenge = "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
            scram.handle_challenge(challenge.as_bytes()).unwrap();
            let answer = scram.handle_challenge(signature.as_bytes());
            assert_eq!(answer, Err(ServerMessageError::Signature), "{signature}");
        }
    }

    #[test]
    fn our_own_server_takes_it() {
        for mechanism in Mechanism::OF_PASSWORDS {
            let of_server = match mechanism {
                Mechanism::Plain => sasl::Mechanism::Plain,
                Mechanism::Login => sasl::Mechanism::Login,
                _ => sasl::Mechanism::ScramSha256,
            };
            let (mut client, initial) =
                Exchange::new(mechanism, &credentials(), || "abc".to_owned());
            let mut server =
                sasl::Exchange::new(of_server, sasl::scram::Channel::Unbound, || "def".to_owned());
            let mut step = server.start(initial.as_ref().map(|bytes| &bytes[..]));
            let who = loop {
                step = match step {
                    ExchangeStep::Challenge(challenge) => {
                        let response = client.handle_challenge(&challenge).unwrap();
                        server.handle_response(&response)
                    }
                    ExchangeStep::Keys(_) => {
                        let salted = {
                            use crate::password::scram_keys::{SaltForm, Salted};
                            Salted::for_user(b"secret", "user", SaltForm::default())
                        };
                        let password = crate::password::Password::new(b"pencil").unwrap();
                        server.handle_keys(salted.keys_of(&password))
                    }
                    ExchangeStep::Check(claim) => {
                        assert!(claim.password.bytes() == b"pencil");
                        break claim.user;
                    }
                    ExchangeStep::Proved(user) => break user,
                    ExchangeStep::Failed(failure) => panic!("{mechanism:?} {failure:?}"),
                    ExchangeStep::Token(_) | ExchangeStep::External(_) => {
                        panic!("{mechanism:?} is none of these")
                    }
                };
            };
            assert_eq!((&*who, client.handle_success()), ("user", Ok(())), "{mechanism:?}");
        }
    }

    #[test]
    fn what_no_mechanism_can_say_is_no_secret() {
        assert!(Credentials::new("", b"x").is_none() && Credentials::new("x", b"").is_none());
        assert!(
            Credentials::new("a\0b", b"x").is_none() && Credentials::new("a", b"x\n").is_none()
        );
        assert!(Credentials::new("a", &vec![b'x'; SECRET_BYTES_MAX]).is_some());
        assert!(Credentials::new("a", &vec![b'x'; SECRET_BYTES_MAX + 1]).is_none());
        assert!(!format!("{:?}", credentials()).contains("pencil"));
    }
}
