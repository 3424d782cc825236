//! Who may say what of mail: a module for each scheme. What time it is, what is in files and what the
//! DNS says comes in as values.

pub mod password;
pub mod sasl;
pub mod srs;
