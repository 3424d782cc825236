//! SMTP and LMTP.

mod hosts;
mod inbound;
mod outbound;
pub mod settings;
mod smarthost;
mod smarthost_login;

/// How long a TLS handshake may take, in either direction; less where a command has less.
const HANDSHAKE_MAX: std::time::Duration = std::time::Duration::from_secs(30);

pub(crate) use inbound::{Inbound, SmtpListenerText, SubmissionText};
pub(crate) use outbound::Outbound;
