//! Names of users.

/// Bytes of a user's name; RFC 4616 §2 asks for 255.
pub const USER_BYTES_MAX: usize = 255;

/// A name that may be looked up and logged. `None`: it is none.
#[must_use]
pub fn user_of(bytes: &[u8]) -> Option<String> {
    let user = std::str::from_utf8(bytes).ok()?;
    let is_name =
        !user.is_empty() && user.len() <= USER_BYTES_MAX && !user.chars().any(char::is_control);
    is_name.then(|| user.to_owned())
}
