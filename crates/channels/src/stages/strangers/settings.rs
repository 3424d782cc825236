//! Settings of checks of unauthenticated clients before their message.

mod dnsbl;
mod greylist;

pub(crate) use dnsbl::Dnsbl;
pub(crate) use dnsbl::DnsblText;
pub(crate) use greylist::Greylist;
pub(crate) use greylist::GreylistText;

use crate::stages::action::said;
use auth::judgement::ActionLimit;
use config::{Reader, TableEntry, TableRefText};
use std::sync::Arc;

/// Checks of unauthenticated clients at a listener.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// Clients and recipients exempt from all checks.
    pub(crate) exempt: Exempt,
    pub(crate) helo_fqdn: ActionLimit,
    pub(crate) sender_fqdn: ActionLimit,
    pub(crate) multi_recipient_bounce: ActionLimit,
    pub(crate) own_domains: ActionLimit,
    pub(crate) sender_domain: ActionLimit,
    /// `None` if no list is configured.
    pub(crate) dnsbl: Option<Dnsbl>,
    /// `None` for no greylisting.
    pub(crate) greylist: Option<Greylist>,
}

/// Tables of clients and recipients exempt from a check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exempt {
    pub(crate) clients: Option<Arc<TableEntry>>,
    pub(crate) recipients: Option<Arc<TableEntry>>,
}

/// Tables of clients and of recipients, as written.
pub(super) type ExemptText<'a> = (&'a Option<TableRefText>, &'a Option<TableRefText>);

impl Exempt {
    /// Reads both tables. `at` is the path of their keys.
    pub(crate) fn read(
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
    /// Returns true if there is a check.
    pub(crate) fn is_asked_for(&self) -> bool {
        let powers = [
            self.helo_fqdn,
            self.sender_fqdn,
            self.multi_recipient_bounce,
            self.own_domains,
            self.sender_domain,
        ];
        powers.iter().any(|power| power.is_made())
            || self.dnsbl.is_some()
            || self.greylist.is_some()
    }

    /// Descriptions of the checks in use, in order, for people.
    pub(crate) fn explain(&self) -> Vec<String> {
        let dnsbl = self.dnsbl.as_ref().and_then(|dnsbl| {
            let zones: Vec<&str> = dnsbl.lists.iter().map(|list| &*list.zone).collect();
            said(&format!("dnsbl ({})", zones.join(" ")), dnsbl.power)
        });
        let forms = [
            said("helo_fqdn", self.helo_fqdn),
            said("sender_fqdn", self.sender_fqdn),
            said("own_domains", self.own_domains),
            said("sender_domain", self.sender_domain),
        ];
        let greylist = self
            .greylist
            .as_ref()
            .map(|greylist| format!("greylist defers for {} s", greylist.rules.delay.as_secs()));
        let bounce = said("multi_recipient_bounce", self.multi_recipient_bounce);
        forms.into_iter().chain([dnsbl, greylist, bounce]).flatten().collect()
    }
}
