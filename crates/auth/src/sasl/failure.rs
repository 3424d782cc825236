//! How logins fail.

/// Why an exchange ends without a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// What came is not what the mechanism has.
    Form,
    /// The client wants to act for another user than the one that it proves to be.
    OtherIdentity,
    /// It does not know the password.
    Proof,
    /// It speaks through another channel than ours, or was told that none can be bound: somebody sits in
    /// between (RFC 5802 §6).
    Channel,
}
