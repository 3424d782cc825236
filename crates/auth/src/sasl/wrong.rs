//! What a server gets wrong when a client of ours logs in.

use std::fmt;

/// What a server has said that the mechanism does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It asks for more than there is, or for the same again.
    Unexpected,
    /// What it says is not what the mechanism has.
    Form,
    /// Its nonce is not made of ours: somebody answers with what another was told.
    Nonce,
    /// The password would have to be hashed too seldom (RFC 7677 §4), or so often that it takes seconds.
    Iterations,
    /// It does not know the password either.
    Signature,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wrong::Unexpected => "asks for more than the mechanism has",
            Wrong::Form => "says what the mechanism does not have",
            Wrong::Nonce => "answers with a nonce that is not made of ours",
            Wrong::Iterations => "asks for a number of iterations that is out of bounds",
            Wrong::Signature => "has not proved that it knows the password",
        })
    }
}
