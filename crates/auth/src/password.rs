//! Stored passwords, and the check of a given one.
//!
//! A stored password is one text, as printed by `doveadm pw` and `mkpasswd`. It is `{SCHEME}` and its data, or a form
//! of crypt(3) (`$6$…`), which includes its name. Text without a scheme is not a password: a table of other data must
//! not allow logins.

mod argon2id;
mod scheme;
pub mod scram_keys;

use argon2id::Argon2Hash;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use scheme::Scheme;
pub use scheme::Unusable;
use scram_keys::{Keys, Salted};
use sha_crypt::{PasswordVerifier as _, ShaCrypt};
use std::fmt;
use zeroize::Zeroizing;

/// Maximum length of a password, so that a client cannot choose the cost of hashing (SHA-crypt's grows with the square
/// of the length).
pub const PASSWORD_BYTES_MAX: usize = 1_024;
/// A longer one is never hashed: it is none of those that are stored here. SHA-crypt takes nine times as long
/// for the longest password as for a short one, and bcrypt reads 72 octets.
pub const HASHED_BYTES_MAX: usize = 256;
/// Rounds of a SHA-crypt hash; about two seconds.
pub const CRYPT_ROUNDS_MAX: u32 = 5_000_000;
/// Cost of a bcrypt hash, the logarithm of its rounds; about five seconds.
pub const BCRYPT_COST_MAX: u32 = 16;

/// A given password. It is never shown, and overwritten when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Zeroizing<Box<[u8]>>);

impl Password {
    /// `None`: it is empty, or longer than [`PASSWORD_BYTES_MAX`].
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Password> {
        let fits = (1..=PASSWORD_BYTES_MAX).contains(&bytes.len());
        fits.then(|| Password(Zeroizing::new(bytes.into())))
    }

    /// Returns true if it may be hashed; otherwise it fails against every hash.
    #[must_use]
    pub fn is_hashed(&self) -> bool {
        self.0.len() <= HASHED_BYTES_MAX
    }

    /// For a server that checks it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Nobody is shown it.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// A password as it is stored.
#[derive(Clone)]
pub struct Stored(PasswordScheme);

#[derive(Clone)]
enum PasswordScheme {
    Plain(Password),
    Argon2(Argon2Hash),
    Bcrypt(Box<str>),
    ShaCrypt(Box<str>),
    Scram(Keys),
}

/// Nobody is shown it.
impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stored")
    }
}

impl Stored {
    /// Parses it.
    ///
    /// # Errors
    /// Returns the error, without the text itself.
    pub fn parse(text: &str) -> Result<Stored, Unusable> {
        let (scheme, rest) = scheme::of(text.trim_ascii())?;
        let form = match scheme {
            Scheme::Plain => {
                PasswordScheme::Plain(Password::new(rest.as_bytes()).ok_or(Unusable::Form)?)
            }
            Scheme::Argon2 => PasswordScheme::Argon2(Argon2Hash::parse(rest)?),
            Scheme::Bcrypt => PasswordScheme::Bcrypt(bcrypt_hash(rest)?),
            Scheme::ShaCrypt => PasswordScheme::ShaCrypt(crypt_hash(rest)?),
            Scheme::Scram => PasswordScheme::Scram(Keys::parse(rest).ok_or(Unusable::Form)?),
        };
        Ok(Stored(form))
    }

    /// A stored password for unknown users, so that checking takes equally long. It is a hash of the kind of `doveadm
    /// pw -s ARGON2ID` without a known password.
    #[must_use]
    pub fn of_nobody() -> Stored {
        Stored(PasswordScheme::Argon2(Argon2Hash::of_nobody()))
    }

    /// Returns true if its text is unique even among equal passwords.
    #[must_use]
    pub fn is_salted(&self) -> bool {
        !matches!(self.0, PasswordScheme::Plain(_))
    }

    /// Returns true if the password matches. Slow by design, whatever the result.
    #[must_use]
    pub fn is(&self, password: &Password) -> bool {
        match &self.0 {
            PasswordScheme::Plain(stored) => {
                verify_slices_are_equal(stored.bytes(), password.bytes()).is_ok()
            }
            PasswordScheme::Argon2(hash) => hash.is_of(password),
            PasswordScheme::Bcrypt(hash) => bcrypt::verify(password.bytes(), hash).unwrap_or(false),
            PasswordScheme::ShaCrypt(hash) => {
                ShaCrypt::default().verify_password(password.bytes(), &**hash).is_ok()
            }
            PasswordScheme::Scram(keys) => keys.are_of(password),
        }
    }

    /// The keys for SCRAM-SHA-256: stored, or of a stored password with this salt. `None`: a hash of
    /// another kind has none. Takes as long as [`Stored::is`].
    #[must_use]
    pub fn scram_keys(&self, salted: &Salted) -> Option<Keys> {
        match &self.0 {
            PasswordScheme::Scram(keys) => Some(keys.clone()),
            PasswordScheme::Plain(password) => Some(salted.keys_of(password)),
            PasswordScheme::Argon2(_) | PasswordScheme::Bcrypt(_) | PasswordScheme::ShaCrypt(_) => {
                None
            }
        }
    }
}

fn bcrypt_hash(text: &str) -> Result<Box<str>, Unusable> {
    let cost = text.get(4..6).and_then(|cost| cost.parse::<u32>().ok()).ok_or(Unusable::Form)?;
    if cost > BCRYPT_COST_MAX {
        return Err(Unusable::Cost);
    }
    // Only trying reveals an invalid hash: no cheaper parser reads the whole text.
    let is_form = text.len() == 60 && text.parse::<bcrypt::HashParts>().is_ok();
    if is_form { Ok(text.into()) } else { Err(Unusable::Form) }
}

/// `$5$` or `$6$`, perhaps rounds, salt and hash.
fn crypt_hash(text: &str) -> Result<Box<str>, Unusable> {
    let hash_len = if text.starts_with("$5$") { 43 } else { 86 };
    let mut fields = text.get(3..).unwrap_or_default().split('$');
    let mut salt = fields.next();
    if let Some(rounds) = salt.and_then(|field| field.strip_prefix("rounds=")) {
        let rounds: u32 = rounds.parse().map_err(|_| Unusable::Form)?;
        if rounds > CRYPT_ROUNDS_MAX {
            return Err(Unusable::Cost);
        }
        if rounds < sha_crypt::Params::ROUNDS_MIN {
            return Err(Unusable::Form);
        }
        salt = fields.next();
    }
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/');
    let salt = salt.filter(|salt| salt.bytes().all(is_digit));
    let hash = fields.next().filter(|hash| hash.len() == hash_len && hash.bytes().all(is_digit));
    match (salt, hash, fields.next()) {
        (Some(_), Some(_), None) => Ok(text.into()),
        _ => Err(Unusable::Form),
    }
}

#[cfg(test)]
mod tests;
