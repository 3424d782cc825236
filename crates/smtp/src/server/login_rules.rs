//! What is asked of logins.

use std::time::Duration;

/// What a session asks of logins. Without one nobody may send, and none is possible in clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRules {
    /// What is offered once the connection is encrypted.
    pub mechanisms: Vec<&'static str>,
    /// Failed logins in one session, 421 4.7.0 at the last one.
    pub failures_max: u32,
    /// From the start to the login, 421 4.4.2 beyond it, whatever else is said meanwhile.
    pub timeout: Duration,
}
