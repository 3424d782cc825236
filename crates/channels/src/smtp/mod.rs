//! SMTP and LMTP.

mod hosts;
mod inbound;
mod outbound;
pub mod settings;

pub(crate) use inbound::{
    Checks, Dnsbl, Exempt, Greylist, Inbound, Milter, OnFailure, SmtpListenerText, Strangers,
    SubmissionText, checks_of, is_stranger, milters_of, seal_of, strangers_of,
};
pub(crate) use outbound::Outbound;
