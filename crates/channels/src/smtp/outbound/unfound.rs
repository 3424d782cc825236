//! Hosts that the DNS has no address for, or gives no answer about.

use mail::{Class, Culprit, EnhancedStatus, Failure};
use mta::routing::hosts::Host;

/// A host that a route or an MX names should exist: it may yet appear.
pub(super) fn no_address(host: &Host) -> Failure {
    of_dns(host, EnhancedStatus::new(4, 4, 4), "the host has no address".to_owned())
}

/// What the DNS says of a host, or fails to say.
pub(super) fn of_dns(host: &Host, status: EnhancedStatus, text: String) -> Failure {
    Failure {
        class: Class::Transient,
        culprit: Culprit::Dns(Box::from(&*host.name)),
        status,
        reply: None,
        heard: None,
        step: None,
        text: text.into(),
    }
}
