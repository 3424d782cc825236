//! Lists of rules, and their state while they are evaluated for one recipient.

use crate::stages::action::ActionEffect;
use crate::stages::keys::{By, KeyPart};
use mail::{Refusal, RefusalClass};
use mta::ingress::Resolved;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A list of rules, as one of Postfix's `smtpd_client_restrictions`, `smtpd_helo_restrictions`,
/// `smtpd_sender_restrictions` and `smtpd_recipient_restrictions`. An OK ends one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RuleList {
    /// `smtpd_client_restrictions`.
    Client,
    /// `smtpd_helo_restrictions`.
    Helo,
    /// `smtpd_sender_restrictions`.
    Sender,
    /// `smtpd_recipient_restrictions`.
    Recipient,
}

/// Number of lists.
const LISTS: usize = 4;

impl RuleList {
    /// The usual list of a rule: the last part of its key that a client sends.
    pub(super) fn of(by: By) -> RuleList {
        match by.last_part() {
            KeyPart::Client => RuleList::Client,
            KeyPart::Helo => RuleList::Helo,
            KeyPart::Sender => RuleList::Sender,
            KeyPart::Recipient => RuleList::Recipient,
        }
    }
}

impl fmt::Display for RuleList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleList::Client => "client",
            RuleList::Helo => "helo",
            RuleList::Sender => "sender",
            RuleList::Recipient => "recipient",
        })
    }
}

/// The final result of all rules: the recipient's resolution, `None` if no rule decides, or a refusal.
pub(super) type Ruled = Result<Option<Resolved>, Refusal>;

/// State of all lists, as Postfix's smtpd(8) keeps it.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// Lists that an OK has ended.
    ended: [bool; LISTS],
    /// Of the first `DEFER_IF_PERMIT`. It applies to all lists.
    if_permitted: Option<Refusal>,
    /// Of the first `DEFER_IF_REJECT` of each list.
    if_rejected: [Option<Refusal>; LISTS],
    /// Of the last `REDIRECT`.
    redirected: Option<Resolved>,
}

impl Course {
    /// Returns true if the further rules of a list are skipped.
    pub(super) fn has_ended(&self, list: RuleList) -> bool {
        self.ended.get(list as usize).copied().unwrap_or(false)
    }

    /// Applies the result of a rule. Returns the final result if no further rule is evaluated.
    pub(super) fn apply(
        &mut self,
        list: RuleList,
        effect: Result<ActionEffect, Refusal>,
    ) -> Option<Ruled> {
        let at = list as usize;
        match effect {
            Ok(ActionEffect::Open) => {}
            Ok(ActionEffect::Permitted) => self.end(at),
            Ok(ActionEffect::DeferredIfPermitted(refusal)) => {
                self.if_permitted.get_or_insert(refusal);
                self.end_if_decided(at);
            }
            Ok(ActionEffect::DeferredIfRejected(refusal)) => {
                if let Some(first) = self.if_rejected.get_mut(at) {
                    first.get_or_insert(refusal);
                }
                self.end_if_decided(at);
            }
            // A discarded message passes no further list.
            Ok(ActionEffect::Settled(dropped @ Resolved::Dropped(_))) => {
                return Some(self.if_permitted.take().map_or(Ok(Some(dropped)), Err));
            }
            Ok(ActionEffect::Settled(redirected)) => self.redirected = Some(redirected),
            Err(refusal) => return Some(Err(self.softened(at, refusal))),
        }
        None
    }

    fn end(&mut self, at: usize) {
        self.ended.get_mut(at).into_iter().for_each(|ended| *ended = true);
    }

    /// With both deferrals pending no rule of the list changes the result: Postfix skips its rest.
    fn end_if_decided(&mut self, at: usize) {
        if self.if_permitted.is_some() && self.if_rejected.get(at).is_some_and(Option::is_some) {
            self.end(at);
        }
    }

    /// A refusal by a rule. `DEFER_IF_REJECT` turns a permanent one into a deferral.
    fn softened(&mut self, at: usize, refusal: Refusal) -> Refusal {
        let is_permanent = refusal.class == RefusalClass::Permanent;
        let deferral = self.if_rejected.get_mut(at).filter(|_| is_permanent);
        deferral.and_then(Option::take).unwrap_or(refusal)
    }

    /// The result after the last rule.
    pub(super) fn finish(self) -> Ruled {
        self.if_permitted.map_or(Ok(self.redirected), Err)
    }
}
