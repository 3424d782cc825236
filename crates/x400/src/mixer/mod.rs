//! MIXER: mapping of messages, reports and addresses between X.400 and internet mail (RFC 2156, RFC 2157). Pure
//! functions: the input is in memory as a whole, and no longer than [`CONTENT_BYTES_MAX`].

pub mod address;
mod body_to_mail;
mod body_to_x400;
mod budget;
pub mod dsn_to_report;
pub mod entity;
mod heading_to_mail;
mod heading_to_x400;
pub mod mailbox;
pub mod mcgam;
pub mod message_id;
mod notification;
mod output;
pub mod printable;
pub mod report_to_mail;
pub mod status;
pub mod to_mail;
pub mod to_x400;
pub mod trace;
pub mod words;

pub use address::{Gateway, Reach, Use};
pub use body_to_x400::DEPTH_MAX;
pub use budget::{ALL_PARTS_MAX, ELEMENTS_MAX, ITEMS_MAX};
pub use dsn_to_report::{FromDsn, dsn_to_report};
pub use mcgam::{Mappings, TableKind};
pub use report_to_mail::report_to_mail;
pub use to_mail::{Mail, MailTo, to_mail};
pub use to_x400::{MailEnvelope, MailRecipient, to_x400};

use crate::mts::{GlobalDomain, UtcTime};
use crate::or_name::OrAddress;
use crate::reasons::Cause;
use std::fmt;

/// Octets of a message that is converted at most, on either side.
pub const CONTENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Gateway, names and time of a conversion.
#[derive(Clone, Copy, Debug)]
pub struct ConversionContext<'a> {
    /// Names and tables.
    pub gateway: &'a Gateway,
    /// Our domain in X.400.
    pub domain: &'a GlobalDomain,
    /// Our MTA.
    pub mta: &'a str,
    /// Now.
    pub now: UtcTime,
    /// Unique local part for identifiers of created messages, 32 characters at most.
    pub local_id: &'a str,
}

/// A user of either world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party<'a> {
    /// `local@domain`.
    Mail(&'a str),
    /// An O/R address.
    X400(&'a OrAddress),
}

/// The reason why a conversion failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotConverted {
    /// The cause given in a report.
    pub cause: Cause,
    /// More about it, for people.
    pub text: String,
}

impl NotConverted {
    pub(crate) fn new(cause: Cause, text: impl Into<String>) -> NotConverted {
        NotConverted { cause, text: text.into() }
    }
}

impl fmt::Display for NotConverted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.cause.non_delivery())
    }
}

impl std::error::Error for NotConverted {}

impl ConversionContext<'_> {
    fn or_address(&self, party: &Party<'_>, usage: Use) -> Option<OrAddress> {
        match party {
            Party::Mail(mail) => self.gateway.to_or_address(mail, usage),
            Party::X400(address) => Some((*address).clone()),
        }
    }

    /// The management domain of a host, by the tables.
    fn domain_of(&self, host: &str) -> Option<GlobalDomain> {
        let (levels, _) = self.gateway.mappings.of_domain(host)?;
        let mut levels = levels.iter().cloned();
        let mut next = || levels.next().flatten();
        let (country, admd, prmd) = (next()?, next(), next());
        Some(GlobalDomain { country, admd: admd.unwrap_or_else(|| " ".into()), prmd })
    }
}

#[cfg(test)]
mod tests;
