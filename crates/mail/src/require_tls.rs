//! What a message asks of TLS on its way (RFC 8689).

/// Whether a message may go in clear, as far as its sender says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequireTls {
    /// Nothing is said: as policies have it.
    #[default]
    Unsaid,
    /// REQUIRETLS of MAIL (§2): only over TLS, to servers that are authenticated and promise the same.
    Yes,
    /// `TLS-Required: No` of its header (§3): what recipients' domains ask of TLS does not count.
    No,
}

impl RequireTls {
    /// Of a message whose MAIL had REQUIRETLS, or not, and whose header asks for no TLS, or not (§4.1: MAIL
    /// counts).
    #[must_use]
    pub fn of(mail: bool, header: bool) -> RequireTls {
        match (mail, header) {
            (true, _) => RequireTls::Yes,
            (false, true) => RequireTls::No,
            (false, false) => RequireTls::Unsaid,
        }
    }
}
