//! What a listener is told of checks (`checks`).

use super::check::{Check, said};
use super::strangers::{DnsblText, Exempt, GreylistText, Strangers};
use auth::judgement::Powers;
use config::{Explainer, Reader, TableRefText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How much each check of who sends may do. The DNS decides nothing by its silence: what gets no answer
/// is `temperror`, and the message is taken, unless `temporary` says otherwise.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ChecksText {
    /// Whether the client's address has a name in the DNS that leads back to it (RFC 1912 §2.1, `iprev`
    /// in RFC 8601). A client without is refused at RCPT (550 5.7.25), or its mail held; its mail to
    /// `<postmaster>` is taken.
    client_name: Check,
    /// Whether the domain of the sender (or of EHLO, where there is no sender) lets the client send
    /// for it (RFC 7208). Only `fail` is held or refused (550 5.7.23): forwarded mail fails often.
    spf: Check,
    /// Whether a signature is good (RFC 6376). A message that is signed, and not once well, is held or
    /// refused (550 5.7.20); mail that is not signed passes.
    dkim: Check,
    /// Whether one of both is good for the author's domain, and what that asks for if not (RFC 7489).
    /// Where it asks for `reject` the message is refused (550 5.7.1), where for `quarantine` held,
    /// both only as far as this allows. From with several domains is treated as if they had asked for
    /// `reject`.
    dmarc: Check,
    /// Whether the chain of those who passed the message on is whole (RFC 8617). One that is broken is
    /// held or refused (550 5.7.29).
    arc: Check,
    /// What becomes of a message that a check could have held or refused, had the DNS answered.
    temporary: Temporary,
    /// Whether a stranger names a sender of a domain of ours (550 5.7.1): this server's name, or a domain
    /// that a route names, but for those of `mx` routes. Whoever may send from there relays or logs in.
    pub(super) own_domains: Check,
    /// Whether mail to the sender could go anywhere: its domain has MX or addresses. 550 5.1.8 if it does
    /// not exist, 550 5.7.27 if it takes no mail (RFC 7505), 450 4.4.3 if the DNS does not say. No sender
    /// at all is right.
    pub(super) sender_domain: Check,
    /// Lists in the DNS that are asked about the client (RFC 5782): `["zen.example"]`, or a table. Who is
    /// on one is refused (550 5.7.1), unless the table says otherwise. A list that does not answer counts
    /// for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dnsbl: Option<DnsblText>,
    /// Whether strangers that come for the first time are put off (450 4.7.1): `true`, or a table that says
    /// how. A mail server comes again, most programs that send spam do not. Who it is, is told by network,
    /// sender and recipient; who has come again is remembered, in a file of the first spool directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) greylist: Option<GreylistText>,
    /// The table of clients, by address or network, whom the checks before the message do not concern:
    /// `own_domains`, `sender_domain`, `dnsbl`, `greylist`. What it has for them is all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exempt_clients: Option<TableRefText>,
    /// The same for recipients, by address or domain. A `postmaster` never needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exempt_recipients: Option<TableRefText>,
}

/// What becomes of a message about which the DNS said nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Temporary {
    /// It is taken.
    #[default]
    Accept,
    /// It is put off: with 450 4.7.25 for the client's name, with 451 4.7.24 for SPF, with 451 4.4.3 for the
    /// others.
    Defer,
}

impl Checks {
    /// Those that are made, and how much each may do.
    pub(super) fn explain(&self, strangers: Option<&Strangers>, explainer: &mut Explainer<'_>) {
        let Powers { client_name, spf, dkim, dmarc, arc, .. } = self.powers;
        let made = [
            ("client_name", client_name),
            ("spf", spf),
            ("dkim", dkim),
            ("dmarc", dmarc),
            ("arc", arc),
        ];
        let made = made.into_iter().filter_map(|(check, power)| said(check, power));
        let before = strangers.map(Strangers::explain).unwrap_or_default();
        let made: Vec<String> = before.into_iter().chain(made).collect();
        if !made.is_empty() {
            explainer.own_key("checks", made.join(", "));
        }
    }
}

/// What is checked, and how much that may do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checks {
    pub(crate) powers: Powers,
}

impl ChecksText {
    /// What is checked of strangers; `None`: nothing.
    pub(super) fn read_strangers(&self, reader: &mut Reader<'_, '_>) -> Option<Arc<Strangers>> {
        let exempt = (&self.exempt_clients, &self.exempt_recipients);
        let strangers = Strangers {
            exempt: Exempt::read("checks", exempt, reader),
            own_domains: self.own_domains.power(),
            sender_domain: self.sender_domain.power(),
            dnsbl: self.dnsbl.as_ref().and_then(|text| text.read(reader)),
            greylist: self.greylist.as_ref().and_then(|text| text.read(reader)),
        };
        let is_asked_for = strangers.own_domains.is_made()
            || strangers.sender_domain.is_made()
            || strangers.dnsbl.is_some()
            || strangers.greylist.is_some();
        is_asked_for.then(|| Arc::new(strangers))
    }

    pub(super) fn read(&self) -> Checks {
        Checks {
            powers: Powers {
                client_name: self.client_name.power(),
                spf: self.spf.power(),
                dkim: self.dkim.power(),
                dmarc: self.dmarc.power(),
                arc: self.arc.power(),
                defers: self.temporary == Temporary::Defer,
            },
        }
    }
}
