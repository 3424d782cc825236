//! SMTP and LMTP.

mod hosts;
mod inbound;
mod outbound;
pub mod settings;

pub(crate) use inbound::{Inbound, SmtpListenerText, SubmissionText};
pub(crate) use outbound::Outbound;
