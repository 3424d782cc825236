//! SCRAM-SHA-256 (RFC 5802, RFC 7677), both sides.

use super::{LoginFailure, ServerMessageError, user_of};
use crate::digest::{hmac_sha256 as hmac, sha256};
use crate::password::scram_keys::{
    ITERATIONS_MAX, ITERATIONS_MIN, Keys, SALT_BYTES_MAX, Salted, ScramKey,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// Bytes of a client's nonce.
const NONCE_BYTES_MAX: usize = 256;

/// Channel binding, by which a client detects a man in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Channel binding was not offered.
    Unbound,
    /// SCRAM-SHA-256-PLUS was offered, and the client has chosen the mechanism without it.
    Declined,
    /// SCRAM-SHA-256-PLUS was chosen, with the exported TLS value (`tls-exporter`, RFC 9266).
    Bound([u8; 32]),
}

/// The clients' name of the binding (RFC 9266 §2).
const BINDING: &str = "p=tls-exporter";

/// The client's first message (RFC 5802 §7: client-first-message).
#[derive(Debug)]
pub(super) struct First {
    /// The header, for example `n,,`, and the exported channel value: the last message repeats both (RFC 5802 §7:
    /// cbind-input).
    binding: Vec<u8>,
    /// The signed part of the message.
    bare: String,
    user: String,
    nonce: String,
}

/// The server's first message, and the rest of the exchange.
#[derive(Debug)]
pub(super) struct ServerFirst {
    pub(super) text: String,
    pub(super) challenged: Challenged,
}

/// An exchange that awaits the client's proof.
#[derive(Debug)]
pub(super) struct Challenged {
    first: First,
    text: String,
    nonce: String,
    keys: Keys,
}

/// An authenticated client, and the server's own proof.
#[derive(Debug)]
pub(super) struct Proved {
    pub(super) user: String,
    pub(super) server_final: String,
}

impl First {
    pub(super) fn parse(message: &[u8], channel: &Channel) -> Result<First, LoginFailure> {
        let text = std::str::from_utf8(message).map_err(|_| LoginFailure::Form)?;
        let mut fields = text.splitn(3, ',');
        let (Some(binding), Some(identity), Some(bare)) =
            (fields.next(), fields.next(), fields.next())
        else {
            return Err(LoginFailure::Form);
        };
        // RFC 5802 §6: `y` means that the client supports channel binding, and believes that this server does not. If
        // it was offered, a third party removed the offer.
        let exported: &[u8] = match (binding, channel) {
            ("n", Channel::Unbound | Channel::Declined) | ("y", Channel::Unbound) => &[],
            ("y", Channel::Declined) => return Err(LoginFailure::Channel),
            (BINDING, Channel::Bound(exported)) => exported,
            // RFC 5929's bindings for older TLS are not offered.
            _ => return Err(LoginFailure::Form),
        };
        let mut fields = bare.split(',');
        let name =
            fields.next().and_then(|field| field.strip_prefix("n=")).ok_or(LoginFailure::Form)?;
        let nonce =
            fields.next().and_then(|field| field.strip_prefix("r=")).ok_or(LoginFailure::Form)?;
        let user = unescaped(name).and_then(|name| user_of(name.as_bytes()));
        let user = user.ok_or(LoginFailure::Form)?;
        if !is_nonce(nonce) || nonce.len() > NONCE_BYTES_MAX {
            return Err(LoginFailure::Form);
        }
        match identity.strip_prefix("a=").map(unescaped) {
            None if identity.is_empty() => {}
            Some(Some(identity)) if identity == user => {}
            Some(Some(_)) => return Err(LoginFailure::OtherIdentity),
            _ => return Err(LoginFailure::Form),
        }
        let header = text.get(..text.len() - bare.len()).unwrap_or_default();
        let binding = [header.as_bytes(), exported].concat();
        Ok(First { binding, bare: bare.to_owned(), user, nonce: nonce.to_owned() })
    }

    pub(super) fn user(&self) -> &str {
        &self.user
    }

    /// Requests the proof; `nonce` is the server's.
    pub(super) fn challenge(self, nonce: &str, keys: Keys) -> ServerFirst {
        let nonce = [&*self.nonce, nonce].concat();
        let salt = STANDARD.encode(&keys.salted.salt);
        let text = format!("r={nonce},s={salt},i={}", keys.salted.iterations);
        ServerFirst {
            text: text.clone(),
            challenged: Challenged { first: self, text, nonce, keys },
        }
    }
}

impl Challenged {
    /// The client's last message (RFC 5802 §7: client-final-message).
    pub(super) fn handle_final(self, message: &[u8]) -> Result<Proved, LoginFailure> {
        let text = std::str::from_utf8(message).map_err(|_| LoginFailure::Form)?;
        // The proof is the last field, and the text before it is signed.
        let (signed, proof) = text.rsplit_once(",p=").ok_or(LoginFailure::Form)?;
        let mut fields = signed.split(',');
        let binding = fields.next().and_then(|field| field.strip_prefix("c="));
        let nonce = fields.next().and_then(|field| field.strip_prefix("r="));
        let binding = binding.and_then(|binding| STANDARD.decode(binding).ok());
        let proof: Option<ScramKey> = STANDARD.decode(proof).ok().and_then(|p| p.try_into().ok());
        let (Some(binding), Some(nonce), Some(mut proof)) = (binding, nonce, proof) else {
            return Err(LoginFailure::Form);
        };
        if nonce != self.nonce {
            return Err(LoginFailure::Form);
        }
        if binding != self.first.binding {
            return Err(LoginFailure::Channel);
        }
        // RFC 5802 §3: AuthMessage.
        let parts: [&[u8]; 5] =
            [self.first.bare.as_bytes(), b",", self.text.as_bytes(), b",", signed.as_bytes()];
        let signature = hmac(&self.keys.stored, &parts);
        proof.iter_mut().zip(signature).for_each(|(key, byte)| *key ^= byte);
        if verify_slices_are_equal(&sha256(&proof), &self.keys.stored).is_err() {
            return Err(LoginFailure::Proof);
        }
        let server_final = format!("v={}", STANDARD.encode(hmac(&self.keys.server, &parts)));
        Ok(Proved { user: self.first.user, server_final })
    }
}

/// A client after its first message.
#[derive(Debug)]
pub(super) struct ClientFirst {
    bare: String,
    nonce: String,
}

/// A client that has proved itself, and waits for the server to do so.
#[derive(Debug)]
pub(super) struct ClientFinal {
    signature: ScramKey,
}

/// RFC 5801 §4: no channel binding, and no other identity.
const GS2_HEADER: &str = "n,,";

impl ClientFirst {
    pub(super) fn new(user: &str, nonce: String) -> ClientFirst {
        ClientFirst { bare: format!("n={},r={nonce}", escaped(user)), nonce }
    }

    /// RFC 5802 §7: client-first-message.
    pub(super) fn text(&self) -> String {
        format!("{GS2_HEADER}{}", self.bare)
    }

    /// Answers the server's first message with the proof (client-final-message).
    ///
    /// # Errors
    /// It is none, or not an answer to us.
    pub(super) fn handle_challenge(
        self,
        challenge: &[u8],
        password: &[u8],
    ) -> Result<(String, ClientFinal), ServerMessageError> {
        let text = std::str::from_utf8(challenge).map_err(|_| ServerMessageError::Form)?;
        let mut fields = text.split(',');
        // `m=` first is an extension that must be understood, and none is.
        let mut field = |name: &str| {
            fields.next().and_then(|field| field.strip_prefix(name)).ok_or(ServerMessageError::Form)
        };
        let (nonce, salt, iterations) = (field("r=")?, field("s=")?, field("i=")?);
        let is_ours = nonce.strip_prefix(&*self.nonce).is_some_and(is_nonce);
        if !is_ours || nonce.len() > 2 * NONCE_BYTES_MAX {
            return Err(ServerMessageError::Nonce);
        }
        let salt = STANDARD.decode(salt).map_err(|_| ServerMessageError::Form)?;
        if !(1..=SALT_BYTES_MAX).contains(&salt.len()) {
            return Err(ServerMessageError::Form);
        }
        let iterations: u32 = iterations.parse().map_err(|_| ServerMessageError::Form)?;
        if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
            return Err(ServerMessageError::Iterations);
        }
        let salted = Salted { salt: salt.into(), iterations }.salted_password(password);
        let client_key = Zeroizing::new(hmac(&*salted, &[b"Client Key"]));
        let stored = sha256(&*client_key);
        let signed = format!("c={},r={nonce}", STANDARD.encode(GS2_HEADER));
        // RFC 5802 §3: AuthMessage.
        let parts: [&[u8]; 5] =
            [self.bare.as_bytes(), b",", text.as_bytes(), b",", signed.as_bytes()];
        let mut proof = hmac(&stored, &parts);
        proof.iter_mut().zip(*client_key).for_each(|(byte, key)| *byte ^= key);
        let signature = hmac(&hmac(&*salted, &[b"Server Key"]), &parts);
        Ok((format!("{signed},p={}", STANDARD.encode(proof)), ClientFinal { signature }))
    }
}

impl ClientFinal {
    /// Checks the server's last message.
    ///
    /// # Errors
    /// Returns an error if it proves nothing.
    pub(super) fn check(&self, message: &[u8]) -> Result<(), ServerMessageError> {
        let signature = message.strip_prefix(b"v=").and_then(|v| STANDARD.decode(v).ok());
        let is_right =
            signature.is_some_and(|found| verify_slices_are_equal(&found, &self.signature).is_ok());
        if is_right { Ok(()) } else { Err(ServerMessageError::Signature) }
    }
}

/// RFC 5802 §5.1: a name in which commas and equals signs have no meaning.
pub(super) fn escaped(name: &str) -> String {
    name.replace('=', "=3D").replace(',', "=2C")
}

/// RFC 5802 §5.1: `=2C` and `=3D` stand for a comma and an equals sign, and no other `=` does.
pub(super) fn unescaped(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        if let Some(rest) = part.strip_prefix("2C") {
            out.push(',');
            out.push_str(rest);
        } else {
            out.push('=');
            out.push_str(part.strip_prefix("3D")?);
        }
    }
    Some(out)
}

/// RFC 5802 §7: `printable`, which is all but the comma.
fn is_nonce(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}
