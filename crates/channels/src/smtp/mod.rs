//! SMTP and LMTP.

mod hosts;
mod inbound;
mod outbound;
pub mod settings;
mod smarthost;
mod smarthost_login;

/// Timeout for a TLS handshake, as client and as server. A shorter command timeout takes precedence.
const HANDSHAKE_MAX: std::time::Duration = std::time::Duration::from_secs(30);

pub(crate) use inbound::{Inbound, LocalText, SmtpListenerText, SubmissionText};
pub(crate) use outbound::Outbound;
