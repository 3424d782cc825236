//! SMTP and LMTP.

mod hosts;
mod inbound;
mod outbound;
pub mod settings;

pub(crate) use inbound::{Checks, Inbound, SmtpListenerText, SubmissionText, checks_of, seal_of};
pub(crate) use outbound::Outbound;
