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

/// Keys of a `[[listener]]` for sender checks.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct CheckKeys {
    /// Checks of clients that may not relay: `helo_fqdn`, `sender_fqdn`, `own_domains`, `sender_domain`, `dnsbl`,
    /// `greylist` and `multi_recipient_bounce` before the message, `client_name`, `spf`, `dkim`, `dmarc` and `arc` for
    /// it. Most are `"none"` (the default), `"mark"` (record the result in Authentication-Results), `"hold"` (also hold
    /// a message that fails) or `"reject"` (also reject it). `temporary` is the action if the DNS gave no answer for a
    /// check that could have held or rejected the message: `"accept"` (the default) or `"defer"`. See `docs/checks.md`.
    checks: Option<ChecksText>,
    /// Add an ARC seal (RFC 8617) to messages checked with `arc`, so that later servers can rely on the results: `{
    /// domain = "example.org", selector = "s2026", key = "FILE" }`. See `docs/checks.md`.
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
        let users = [Takes::MailOfUsers, Takes::LocalMail];
        if checks.is_some() && reader.takes().is_some_and(|takes| users.contains(&takes)) {
            let help = "checks are for mail of unauthenticated clients, on a listener with kind = \
             \"smtp\"";
            reader.error("checks", "authenticated clients are not checked", help);
        }
        let made = checks.as_ref().map(ChecksText::read).unwrap_or_default();
        let strangers = checks.and_then(|text| text.read_strangers(reader));
        if seal.is_some() && !made.powers.asked().arc {
            let help = "a seal records their results: add arc = \"mark\" to `checks`";
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

/// Action of each sender check. A check without an answer from the DNS has the result `temperror`, and the message is
/// accepted unless `temporary` is `"defer"`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ChecksText {
    /// Reverse DNS: the client's address must have a name that resolves back to it (RFC 1912 §2.1, `iprev` in RFC
    /// 8601). A client without one is rejected at RCPT (550 5.7.25), or its mail held. Mail to `<postmaster>` is
    /// accepted.
    client_name: Check,
    /// SPF (RFC 7208) of the sender's domain, or of the EHLO name if the sender is empty. Only `fail` is held or
    /// rejected (550 5.7.23); forwarded mail often fails.
    spf: Check,
    /// DKIM signatures (RFC 6376). A signed message without a valid signature is held or rejected (550 5.7.20).
    /// Unsigned mail passes.
    dkim: Check,
    /// DMARC (RFC 7489): SPF or DKIM must pass for the author's domain. If both fail, its policy applies as far as this
    /// key allows: `reject` rejects the message (550 5.7.1), `quarantine` holds it. A From field with several domains
    /// counts as if their policy were `reject`.
    dmarc: Check,
    /// The ARC chain (RFC 8617). A message with a broken chain is held or rejected (550 5.7.29).
    arc: Check,
    /// Action if the DNS gave no answer for a check that could have held or rejected the message.
    temporary: Temporary,
    /// The name in EHLO must be fully qualified, or an address literal (RFC 5321 §4.1.4): 504 5.5.2, or 501 5.5.2 for
    /// brackets without an address.
    helo_fqdn: Check,
    /// The sender's domain must be fully qualified, or an address literal: 504 5.5.2. An empty sender passes.
    sender_fqdn: Check,
    /// A message with the empty sender must have one recipient only: 550 5.5.3 to DATA.
    multi_recipient_bounce: Check,
    /// Forged local senders (550 5.7.1): the sender's domain is this server's name, or one that a route names, except
    /// for `mx` routes. Real users of these domains log in, or may relay.
    own_domains: Check,
    /// The sender's domain must accept mail, that is, have MX or address records. The replies are 550 5.1.8 if it does
    /// not exist, 550 5.7.27 if it has a null MX (RFC 7505), and 450 4.4.3 if the DNS gives no answer. An empty sender
    /// passes.
    sender_domain: Check,
    /// DNS block lists (RFC 5782) for the client: `["zen.example"]`, or a table. A listed client is rejected (550
    /// 5.7.1), unless the table sets another action. A list that does not answer is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    dnsbl: Option<DnsblText>,
    /// Greylisting: `true`, or a table of settings. An unknown combination of client network, sender and recipient is
    /// deferred (450 4.7.1). Mail servers retry; most spam programs do not. Successful retries are remembered in a file
    /// in the first spool directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    greylist: Option<GreylistText>,
    /// Table of clients, by address or network, that are exempt from the checks before the message: `helo_fqdn`,
    /// `sender_fqdn`, `own_domains`, `sender_domain`, `dnsbl`, `greylist`, `multi_recipient_bounce`. The values of the
    /// entries are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    exempt_clients: Option<TableRefText>,
    /// The same for recipients, by address or domain. The bare `<postmaster>` is always exempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    exempt_recipients: Option<TableRefText>,
}

/// Action for a message if the DNS gave no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Temporary {
    /// Accept it.
    #[default]
    Accept,
    /// Defer it: with 450 4.7.25 for the client's name, 451 4.7.24 for SPF, and 451 4.4.3 for the remaining checks.
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
            helo_fqdn: self.helo_fqdn.power(),
            sender_fqdn: self.sender_fqdn.power(),
            multi_recipient_bounce: self.multi_recipient_bounce.power(),
            own_domains: self.own_domains.power(),
            sender_domain: self.sender_domain.power(),
            dnsbl: self.dnsbl.as_ref().and_then(|text| text.read(reader)),
            greylist: self.greylist.as_ref().and_then(|text| text.read(reader)),
        };
        strangers.is_asked_for().then(|| Arc::new(strangers))
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
