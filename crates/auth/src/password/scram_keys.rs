//! Stored keys of SCRAM-SHA-256 (RFC 5802 §3, RFC 7677).

use super::Password;
use crate::digest::{hmac_sha256 as hmac, sha256};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::pbkdf2;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::num::NonZeroU32;
use zeroize::Zeroizing;

/// RFC 7677 §4: the minimum.
pub const ITERATIONS_MIN: u32 = 4_096;
/// Limits the cost of deriving keys from a password to about two seconds.
pub const ITERATIONS_MAX: u32 = 5_000_000;
/// Bytes of a salt.
pub const SALT_BYTES_MAX: usize = 256;

pub(crate) type ScramKey = [u8; 32];

/// The public parameters of a salt, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SaltForm {
    /// From [`ITERATIONS_MIN`] to [`ITERATIONS_MAX`].
    pub iterations: u32,
    /// Its length, up to [`SALT_BYTES_MAX`].
    pub bytes: usize,
}

impl Default for SaltForm {
    /// As `doveadm pw` makes them.
    fn default() -> SaltForm {
        SaltForm { iterations: ITERATIONS_MIN, bytes: 16 }
    }
}

/// Salt and iterations for a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salted {
    pub(crate) salt: Box<[u8]>,
    pub(crate) iterations: u32,
}

impl Salted {
    /// A constant salt per user, derived from `secret`. Repeated attempts thus do not reveal that no keys are stored
    /// for a user (RFC 5802 §9), and the salt cannot be predicted without the secret.
    #[must_use]
    pub fn for_user(secret: &[u8], user: &str, form: SaltForm) -> Salted {
        let blocks = 0..form.bytes.div_ceil(size_of::<ScramKey>()) as u64;
        let block = |nth: u64| hmac(secret, &[&b"salt"[..], &nth.to_be_bytes(), user.as_bytes()]);
        let mut salt: Vec<u8> = blocks.flat_map(block).collect();
        salt.truncate(form.bytes);
        Salted { salt: salt.into(), iterations: form.iterations }
    }

    /// The stored form of a password, as `doveadm pw -s SCRAM-SHA-256` prints it.
    #[must_use]
    pub fn stored(&self, password: &Password) -> String {
        let Keys { salted, stored, server } = self.keys_of(password);
        let [salt, stored, server] =
            [&*salted.salt, &stored[..], &server[..]].map(|bytes| STANDARD.encode(bytes));
        format!("{{SCRAM-SHA-256}}{},{salt},{stored},{server}", salted.iterations)
    }

    /// The keys of a password.
    #[must_use]
    pub(crate) fn keys_of(&self, password: &Password) -> Keys {
        let salted = self.salted_password(password.bytes());
        let client_key = hmac(&*salted, &[b"Client Key"]);
        Keys {
            salted: self.clone(),
            stored: sha256(&client_key),
            server: hmac(&*salted, &[b"Server Key"]),
        }
    }

    /// The client's proof of the password.
    #[cfg(test)]
    pub(crate) fn proof(&self, password: &Password, message: &str) -> ScramKey {
        let salted = self.salted_password(password.bytes());
        let client_key = hmac(&*salted, &[b"Client Key"]);
        let mut proof = hmac(&sha256(&client_key), &[message]);
        proof.iter_mut().zip(client_key).for_each(|(byte, key)| *byte ^= key);
        proof
    }

    /// RFC 5802 §2.2: Hi is PBKDF2 of one block (RFC 8018 §5.2).
    pub(crate) fn salted_password(&self, password: &[u8]) -> Zeroizing<ScramKey> {
        let mut salted = Zeroizing::new(ScramKey::default());
        let iterations = NonZeroU32::new(self.iterations).unwrap_or(NonZeroU32::MIN);
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, iterations, &self.salt, password, &mut *salted);
        salted
    }

    /// Keys that no password is known to have; making them takes as long as from a password.
    #[must_use]
    pub fn keys_of_nobody(&self, secret: &[u8]) -> Keys {
        let stored = hmac(secret, &[&b"nobody"[..], &self.salt]);
        Keys { salted: self.clone(), stored, server: stored }
    }
}

/// Stored keys of a user: they reveal neither the password nor allow a login as a client.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    pub(crate) salted: Salted,
    pub(crate) stored: ScramKey,
    pub(crate) server: ScramKey,
}

/// Nobody is shown them.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    /// Parameters of the salt.
    #[must_use]
    pub fn form(&self) -> SaltForm {
        SaltForm { iterations: self.salted.iterations, bytes: self.salted.salt.len() }
    }

    /// As Dovecot writes them: `4096,SALT,STOREDKEY,SERVERKEY`, the last three in base64.
    #[must_use]
    pub fn parse(text: &str) -> Option<Keys> {
        let mut fields = text.split(',');
        let iterations: u32 = fields.next()?.parse().ok()?;
        let salt = STANDARD.decode(fields.next()?).ok()?;
        let mut key =
            || -> Option<ScramKey> { STANDARD.decode(fields.next()?).ok()?.try_into().ok() };
        let (stored, server) = (key()?, key()?);
        let is_form = (ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations)
            && (1..=SALT_BYTES_MAX).contains(&salt.len())
            && fields.next().is_none();
        let salted = Salted { salt: salt.into(), iterations };
        is_form.then_some(Keys { salted, stored, server })
    }

    /// Returns true if they were derived from this password.
    pub(crate) fn are_of(&self, password: &Password) -> bool {
        verify_slices_are_equal(&self.salted.keys_of(password).stored, &self.stored).is_ok()
    }
}
