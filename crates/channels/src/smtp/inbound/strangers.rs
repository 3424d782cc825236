//! What a listener is told of checks that are made of strangers before their message.

mod dnsbl;
mod greylist;

pub(crate) use dnsbl::Dnsbl;
pub(super) use dnsbl::DnsblText;
pub(crate) use greylist::Greylist;
pub(super) use greylist::GreylistText;

use super::checks::{Check, ChecksText, said};
use auth::judgement::Power;
use config::{Listener, Reader, TableEntry, TableRefText};
use mta::ingress::Session;
use std::sync::Arc;

/// What is checked of strangers at a listener.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// Whom all of it does not concern.
    pub(crate) exempt: Exempt,
    pub(crate) own_domains: Power,
    pub(crate) sender_domain: Power,
    /// `None`: no list is asked.
    pub(crate) dnsbl: Option<Dnsbl>,
    /// `None`: nobody is put off.
    pub(crate) greylist: Option<Greylist>,
}

/// Tables of those whom a check does not concern.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exempt {
    pub(crate) clients: Option<Arc<TableEntry>>,
    pub(crate) recipients: Option<Arc<TableEntry>>,
}

/// Tables as they are written, of clients and of recipients.
pub(super) type ExemptText<'a> = (&'a Option<TableRefText>, &'a Option<TableRefText>);

impl Exempt {
    /// `at` is where their keys are.
    fn read(
        at: &str,
        (clients, recipients): ExemptText<'_>,
        reader: &mut Reader<'_, '_>,
    ) -> Exempt {
        let mut table = |key: &str, reference: &Option<TableRefText>| {
            let reference = reference.as_ref()?;
            reader.table(&format!("{at}.{key}.table"), &reference.table)
        };
        Exempt {
            clients: table("exempt_clients", clients),
            recipients: table("exempt_recipients", recipients),
        }
    }
}

impl Strangers {
    /// `None`: nothing is checked.
    pub(super) fn read(text: &ChecksText, reader: &mut Reader<'_, '_>) -> Option<Arc<Strangers>> {
        let exempt = (&text.exempt_clients, &text.exempt_recipients);
        let strangers = Strangers {
            exempt: Exempt::read("checks", exempt, reader),
            own_domains: text.own_domains.power(),
            sender_domain: text.sender_domain.power(),
            dnsbl: text.dnsbl.as_ref().and_then(|text| text.read(reader)),
            greylist: text.greylist.as_ref().and_then(|text| text.read(reader)),
        };
        let is_asked_for = strangers.own_domains.is_made()
            || strangers.sender_domain.is_made()
            || strangers.dnsbl.is_some()
            || strangers.greylist.is_some();
        is_asked_for.then(|| Arc::new(strangers))
    }

    /// Those that are made, for people, in their order.
    pub(super) fn explain(&self) -> Vec<String> {
        let dnsbl = self.dnsbl.as_ref().and_then(|dnsbl| {
            let zones: Vec<&str> = dnsbl.lists.iter().map(|list| &*list.zone).collect();
            said(&format!("dnsbl ({})", zones.join(" ")), dnsbl.power)
        });
        let domains =
            [said("own_domains", self.own_domains), said("sender_domain", self.sender_domain)];
        let greylist = self
            .greylist
            .as_ref()
            .map(|greylist| format!("greylist puts off for {} s", greylist.rules.delay.as_secs()));
        domains.into_iter().chain([dnsbl, greylist]).flatten().collect()
    }
}

/// Whom the checks of strangers concern: who may not relay, has not logged in, and is not exempt from
/// the limits of the listener.
pub(crate) fn is_stranger(session: &Session) -> bool {
    !session.may_relay() && !session.listener().is_exempt(session.client().address.ip())
}

/// What is checked of strangers at a listener; `None`: nothing.
pub(crate) fn strangers_of(listener: &Listener) -> Option<&Arc<Strangers>> {
    listener.protocol.of::<super::settings::SmtpListener>()?.strangers.as_ref()
}

impl Check {
    pub(super) fn power(self) -> Power {
        match self {
            Check::None => Power::None,
            Check::Mark => Power::Mark,
            Check::Hold => Power::Hold,
            Check::Reject => Power::Reject,
        }
    }
}
