//! Settings of a listener's checks (`checks`) and seals (`seal`).

use super::seal::{Seal, SealText};
use crate::stages::action::{Check, said};
use crate::stages::strangers::settings::{DnsblText, Exempt, GreylistText, Strangers};
use auth::checks::CheckSelection;
use auth::judgement::ActionLimits;
use config::{Explainer, Listener, ListenerSection, Reader, TableRefText, Takes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The keys of a `[[listener]]` about who sends.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct CheckKeys {
    /// What is checked of messages from clients that may not relay, so that senders are who they say
    /// they are: `own_domains`, `sender_domain`, `dnsbl` and `greylist` before their message, `client_name`,
    /// `spf`, `dkim`, `dmarc` and `arc` of it; most are `"none"` (the default), `"mark"` (what comes of it
    /// stands in Authentication-Results), `"hold"` (what fails waits for an operator as well) or
    /// `"reject"` (it is refused). `temporary` says what becomes of a message that could have been held or
    /// refused, had the DNS answered: `"accept"` (the default) or `"defer"`. See `docs/checks.md`.
    checks: Option<ChecksText>,
    /// Messages that `checks` with `arc` has looked at get a seal (ARC, RFC 8617), by which those who get them from here can
    /// know what the checks came to: `{ domain = "example.org", selector = "s2026", key = "FILE" }`. See
    /// `docs/checks.md`.
    seal: Option<SealText>,
}

/// Checks and seal of a listener.
#[derive(Debug)]
pub(crate) struct CheckRules {
    /// Checks of messages from clients that may not relay.
    checks: Checks,
    /// Identity for the seal of these messages.
    seal: Option<Seal>,
    /// Checks of clients that may not relay, before their messages.
    strangers: Option<Arc<Strangers>>,
}

impl ListenerSection for CheckRules {
    type Text = CheckKeys;
    type Value = CheckRules;

    fn read(text: CheckKeys, reader: &mut Reader<'_, '_>) -> Option<CheckRules> {
        let CheckKeys { checks, seal } = text;
        if checks.is_some() && reader.takes() == Some(Takes::MailOfUsers) {
            let help = "checks are for the mail of strangers, on a listener with kind = \"smtp\"";
            reader.error("checks", "nobody is checked who has logged in", help);
        }
        let made = checks.as_ref().map(ChecksText::read).unwrap_or_default();
        let strangers = checks.and_then(|text| text.read_strangers(reader));
        if seal.is_some() && !made.powers.asked().arc {
            let help = "a seal says what came of them: add arc = \"mark\" to `checks`";
            reader.error("seal", "`seal` without checks of ARC", help);
        }
        let seal = seal.and_then(|seal| seal.read(reader));
        Some(CheckRules { checks: made, seal, strangers })
    }

    fn explain_for_strangers(rules: &CheckRules, explainer: &mut Explainer<'_>) {
        rules.checks.explain(rules.strangers.as_deref(), explainer);
        rules.seal.iter().for_each(|seal| seal.explain(explainer));
    }
}

impl CheckRules {
    /// The checks of messages at a listener. `None` for none.
    pub(super) fn checks_at(listener: &Listener) -> Option<&Checks> {
        let checks = &listener.of::<CheckRules>()?.checks;
        (checks.powers.asked() != CheckSelection::default()).then_some(checks)
    }

    /// The seal for checked messages at a listener. `None` for none.
    pub(crate) fn seal_at(listener: &Listener) -> Option<&Seal> {
        listener.of::<CheckRules>()?.seal.as_ref()
    }

    /// The checks before the message at a listener. `None` for none.
    pub(crate) fn strangers_at(listener: &Listener) -> Option<&Arc<Strangers>> {
        listener.of::<CheckRules>()?.strangers.as_ref()
    }
}

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
    own_domains: Check,
    /// Whether mail to the sender could go anywhere: its domain has MX or addresses. 550 5.1.8 if it does
    /// not exist, 550 5.7.27 if it takes no mail (RFC 7505), 450 4.4.3 if the DNS does not say. No sender
    /// at all is right.
    sender_domain: Check,
    /// Lists in the DNS that are asked about the client (RFC 5782): `["zen.example"]`, or a table. Who is
    /// on one is refused (550 5.7.1), unless the table says otherwise. A list that does not answer counts
    /// for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    dnsbl: Option<DnsblText>,
    /// Whether strangers that come for the first time are put off (450 4.7.1): `true`, or a table that says
    /// how. A mail server comes again, most programs that send spam do not. Who it is, is told by network,
    /// sender and recipient; who has come again is remembered, in a file of the first spool directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    greylist: Option<GreylistText>,
    /// The table of clients, by address or network, whom the checks before the message do not concern:
    /// `own_domains`, `sender_domain`, `dnsbl`, `greylist`. What it has for them is all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    exempt_clients: Option<TableRefText>,
    /// The same for recipients, by address or domain. A `postmaster` never needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    exempt_recipients: Option<TableRefText>,
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
    /// Shows the checks in use, with their actions.
    fn explain(&self, strangers: Option<&Strangers>, explainer: &mut Explainer<'_>) {
        let ActionLimits { client_name, spf, dkim, dmarc, arc, .. } = self.powers;
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

/// The checks of messages, and the action that each may take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checks {
    pub(crate) powers: ActionLimits,
}

impl ChecksText {
    /// The checks before the message. `None` for none.
    fn read_strangers(&self, reader: &mut Reader<'_, '_>) -> Option<Arc<Strangers>> {
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

    fn read(&self) -> Checks {
        Checks {
            powers: ActionLimits {
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
