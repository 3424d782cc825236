//! What a listener is told of checks (`checks`).

use auth::judgement::{Power, Powers};
use config::Explainer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
}

/// What a check may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Check {
    /// It is not made.
    #[default]
    None,
    /// What comes of it stands in Authentication-Results, events and metrics.
    Mark,
    /// The same, and a message that fails waits for an operator.
    Hold,
    /// The same, and a message that fails is refused.
    Reject,
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
    pub(super) fn explain(&self, explainer: &mut Explainer<'_>) {
        let Powers { client_name, spf, dkim, dmarc, arc, .. } = self.powers;
        let made = [
            ("client_name", client_name),
            ("spf", spf),
            ("dkim", dkim),
            ("dmarc", dmarc),
            ("arc", arc),
        ];
        let made = made.into_iter().filter_map(|(check, power)| match power {
            Power::None => None,
            Power::Mark => Some(format!("{check} marks")),
            Power::Hold => Some(format!("{check} holds")),
            Power::Reject => Some(format!("{check} refuses")),
        });
        let made: Vec<String> = made.collect();
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
    pub(super) fn read(&self) -> Checks {
        let power = |check| match check {
            Check::None => Power::None,
            Check::Mark => Power::Mark,
            Check::Hold => Power::Hold,
            Check::Reject => Power::Reject,
        };
        Checks {
            powers: Powers {
                client_name: power(self.client_name),
                spf: power(self.spf),
                dkim: power(self.dkim),
                dmarc: power(self.dmarc),
                arc: power(self.arc),
                defers: self.temporary == Temporary::Defer,
            },
        }
    }
}
