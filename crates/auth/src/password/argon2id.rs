//! Argon2 hashes (RFC 9106), in the form of the PHC: `$argon2id$v=19$m=65536,t=3,p=1$SALT$HASH`.

use super::{Password, Unusable};
use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Memory that a hash may take, in KiB: each thread that checks passwords may hold as much.
const MEMORY_KIB_MAX: u32 = 256 * 1024;
/// Passes over that memory.
const PASSES_MAX: u32 = 64;
const LANES_MAX: u32 = 16;
/// Bytes of a hash (RFC 9106 §3.1 allows 4 GiB).
const HASH_BYTES: std::ops::RangeInclusive<usize> = 16..=128;
const SALT_BYTES: std::ops::RangeInclusive<usize> = 8..=128;

/// A hash with its parameters.
#[derive(Clone)]
pub(super) struct Argon2Hash {
    algorithm: Algorithm,
    version: Version,
    params: Params,
    salt: Box<[u8]>,
    hash: Box<[u8]>,
}

impl Argon2Hash {
    pub(super) fn parse(text: &str) -> Result<Argon2Hash, Unusable> {
        let mut fields = text.split('$').skip(1);
        let algorithm = match fields.next() {
            Some("argon2id") => Algorithm::Argon2id,
            Some("argon2i") => Algorithm::Argon2i,
            Some("argon2d") => Algorithm::Argon2d,
            _ => return Err(Unusable::Form),
        };
        let mut field = fields.next();
        let version = match field.and_then(|field| field.strip_prefix("v=")) {
            Some("19") => Version::V0x13,
            Some("16") => Version::V0x10,
            Some(_) => return Err(Unusable::Form),
            // Those of the first version don't name it.
            None => Version::V0x10,
        };
        if field.is_some_and(|field| field.starts_with("v=")) {
            field = fields.next();
        }
        let [memory_kib, passes, lanes] = costs(field.unwrap_or_default())?;
        let salt = binary(fields.next(), SALT_BYTES)?;
        let hash = binary(fields.next(), HASH_BYTES)?;
        if fields.next().is_some() {
            return Err(Unusable::Form);
        }
        let params = Params::new(memory_kib, passes, lanes, Some(hash.len()));
        let params = params.map_err(|_| Unusable::Form)?;
        Ok(Argon2Hash { algorithm, version, params, salt, hash })
    }

    /// RFC 9106 §4's second choice: 64 MiB, three passes.
    pub(super) fn of_nobody() -> Argon2Hash {
        Argon2Hash {
            algorithm: Algorithm::Argon2id,
            version: Version::V0x13,
            params: Params::new(64 * 1024, 3, 1, Some(32)).unwrap_or_default(),
            salt: Box::from(*b"an unknown user's"),
            hash: Box::from([0; 32]),
        }
    }

    pub(super) fn is_of(&self, password: &Password) -> bool {
        let mut made = vec![0; self.hash.len()];
        let maker = Argon2::new(self.algorithm, self.version, self.params.clone());
        maker.hash_password_into(password.bytes(), &self.salt, &mut made).is_ok()
            && verify_slices_are_equal(&made, &self.hash).is_ok()
    }
}

/// `m=65536,t=3,p=1`.
fn costs(text: &str) -> Result<[u32; 3], Unusable> {
    let mut found = [0; 3];
    let mut fields = text.split(',');
    for ((name, max), cost) in
        [("m=", MEMORY_KIB_MAX), ("t=", PASSES_MAX), ("p=", LANES_MAX)].into_iter().zip(&mut found)
    {
        let number = fields.next().and_then(|field| field.strip_prefix(name)).unwrap_or_default();
        *cost = number.parse().map_err(|_| Unusable::Form)?;
        if *cost > max {
            return Err(Unusable::Cost);
        }
    }
    if fields.next().is_some() { Err(Unusable::Form) } else { Ok(found) }
}

fn binary(
    field: Option<&str>,
    lengths: std::ops::RangeInclusive<usize>,
) -> Result<Box<[u8]>, Unusable> {
    let bytes = STANDARD_NO_PAD.decode(field.unwrap_or_default()).map_err(|_| Unusable::Form)?;
    if lengths.contains(&bytes.len()) { Ok(bytes.into()) } else { Err(Unusable::Form) }
}
