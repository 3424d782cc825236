//! The mail to which a section applies by its other keys.

use super::{Condition, ConditionSubject, ConditionValues, Conditions};
use crate::patterns::AddressPatterns;
use std::sync::Arc;

/// Time of the evaluation, which decides the known facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionTime {
    /// At MAIL: neither recipients nor the content are known.
    Mail,
    /// At RCPT, and again for queued mail.
    Recipient,
    /// After the content.
    Content,
}

/// The mail to which a section with `when` applies. Conditions that no mail of the section meets are errors.
#[derive(Clone, Debug)]
pub struct ConditionScope {
    pub(crate) time: ConditionTime,
    /// Treatment of its messages, for people. `None`: messages of listeners for other than internet mail are included.
    pub(crate) internet_only: Option<&'static str>,
    /// The conditions that other keys of the section make, by key.
    pub(crate) own: Vec<(&'static str, Condition)>,
    /// The routes of its recipients, by name; empty: all.
    pub(crate) routes: Vec<String>,
}

impl ConditionScope {
    /// All mail.
    #[must_use]
    pub fn new(time: ConditionTime) -> ConditionScope {
        ConditionScope { time, internet_only: None, own: Vec::new(), routes: Vec::new() }
    }

    /// Internet mail only, which is, for example, "copied".
    #[must_use]
    pub fn internet_only(self, does: &'static str) -> ConditionScope {
        ConditionScope { internet_only: Some(does), ..self }
    }

    /// Mail of these listeners or logins only, by the names in `key`; empty: all.
    #[must_use]
    pub fn names(
        self,
        key: &'static str,
        about: ConditionSubject,
        names: &[String],
    ) -> ConditionScope {
        let values = names.iter().map(|name| name.as_str().into()).collect();
        self.with((!names.is_empty()).then_some((key, about, ConditionValues::Names(values))))
    }

    /// Mail from these senders only, by the patterns in `key`; empty: all.
    #[must_use]
    pub fn senders(self, key: &'static str, patterns: &AddressPatterns) -> ConditionScope {
        let values = ConditionValues::Addresses { null: false, patterns: patterns.clone() };
        let about = ConditionSubject::Sender;
        self.with((!patterns.is_empty()).then_some((key, about, values)))
    }

    /// Mail to recipients of these routes only; empty: all.
    #[must_use]
    pub fn routes(self, names: &[String]) -> ConditionScope {
        ConditionScope { routes: names.to_vec(), ..self }
    }

    fn with(
        mut self,
        own: Option<(&'static str, ConditionSubject, ConditionValues)>,
    ) -> ConditionScope {
        self.own.extend(own.map(|(key, about, values)| (key, Condition { about, values })));
        self
    }
}

/// Conditions of a section, for the review of the whole file.
#[derive(Debug)]
pub(crate) struct ScopedConditions {
    /// Path of the conditions.
    pub(crate) at: String,
    pub(crate) scope: ConditionScope,
    pub(crate) when: Arc<Conditions>,
}

impl ScopedConditions {
    /// Each condition about this fact: that of `when`, and those of other keys.
    pub(crate) fn about(&self, subject: ConditionSubject) -> impl Iterator<Item = &Condition> {
        let own = self.scope.own.iter().map(|(_, condition)| condition);
        self.when.each().iter().chain(own).filter(move |one| one.about == subject)
    }
}
