//! SMTP and LMTP.

mod outbound;
pub mod settings;

pub(crate) use outbound::Outbound;
