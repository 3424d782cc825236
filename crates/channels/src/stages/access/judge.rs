//! Checks the entries of tables for access rules when the table is read, before mail arrives.

use super::{AccessText, Rule, rules};
use crate::stages::action::Action;
use crate::stages::header_checks::{check_entry, lines_of};
use crate::stages::is_for_listener;
use crate::stages::keys::By;
use crate::stages::rewrite;
use config::{Config, Listener, TableEntry};
use lookup::EntryText;
use std::sync::Arc;

/// Checks the entries of one table for the rules that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryJudge {
    rules: Vec<Asking>,
    /// Header checks compare header fields, or body lines, with the table.
    lines: [bool; 2],
    /// Rules for rewriting look up addresses.
    is_of_addresses: bool,
}

/// A rule that uses the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asking {
    by: By,
    parent_domains: bool,
    /// The rule's listener for other than internet mail, if it has one.
    foreign: Option<NativeListener>,
}

/// A listener for messages other than internet mail.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NativeListener {
    listener: Arc<str>,
    /// The rule has no listener for internet mail.
    is_alone: bool,
    /// Names of peers that are looked up there.
    peers: Vec<Box<str>>,
}

/// The judge of this table's entries. `None` if neither access rules, header checks nor rewriting look in the table,
/// directly or as part of another table.
#[must_use]
pub fn entry_judge(config: &Config, table: &TableEntry) -> Option<EntryJudge> {
    let asking = rules(config).filter(|rule| rule.table.has(table));
    let rules: Vec<Asking> = asking.map(|rule| Asking::of(config, rule)).collect();
    let lines = lines_of(config, table);
    let is_of_addresses = rewrite::is_asked(config, table);
    let is_any = !rules.is_empty() || lines != [false; 2] || is_of_addresses;
    is_any.then_some(EntryJudge { rules, lines, is_of_addresses })
}

impl Asking {
    fn of(config: &Config, rule: &Rule) -> Asking {
        let AccessText { listeners, parent_domains, .. } = &rule.text;
        let is_its = |listener: &&Arc<Listener>| is_for_listener(listeners, &listener.name);
        let asking = || config.listeners.iter().filter(is_its);
        let foreign = asking().find(|it| !it.takes_internet_mail());
        let foreign = foreign.map(|listener| NativeListener {
            listener: Arc::clone(&listener.name),
            is_alone: !asking().any(|it| it.takes_internet_mail()),
            peers: listener.protocol.client_names().into_iter().map(Box::from).collect(),
        });
        Asking { by: rule.by, parent_domains: *parent_domains, foreign }
    }

    /// The listener for other than internet mail that looks up the entry. A pattern may be meant for internet mail
    /// only. If the rule also holds at listeners for internet mail, that is unknown before the pattern matches.
    fn foreign_for(&self, key: Option<&str>) -> Option<&Arc<str>> {
        let foreign = self.foreign.as_ref()?;
        let (peers, parents) = (&foreign.peers, self.parent_domains);
        let is_foreign = || key.is_some_and(|key| self.by.is_foreign(key, peers, parents));
        (foreign.is_alone || is_foreign()).then_some(&foreign.listener)
    }
}

impl EntryJudge {
    /// Checks that the rules can perform an entry's action.
    ///
    /// # Errors
    /// The reason for which they can't.
    pub fn judge(&self, entry: &EntryText<'_>) -> Result<(), String> {
        check_entry(entry, self.lines)?;
        if self.is_of_addresses {
            rewrite::check_entry(entry)?;
        }
        if self.rules.is_empty() {
            return Ok(());
        }
        let Some(action) = Action::of_entry(entry)? else { return Ok(()) };
        let Some(word) = action.word_of_mail() else { return Ok(()) };
        let foreign = self.rules.iter().find_map(|rule| rule.foreign_for(entry.key));
        foreign.map_or(Ok(()), |listener| {
            Err(format!(
                "{word} is an action for internet mail only, but listener \"{listener}\" is for \
                 X.400"
            ))
        })
    }

    /// Returns true if entries refer to each other: then [`EntryJudge::check_circle`] finds circles.
    #[must_use]
    pub fn follows_entries(&self) -> bool {
        self.is_of_addresses
    }

    /// Checks that the entry of a key does not lead back to it. `find` is the text of a key.
    ///
    /// # Errors
    /// It leads in a circle.
    pub fn check_circle(
        &self,
        key: &str,
        find: &dyn Fn(&str) -> Option<Box<str>>,
    ) -> Result<(), String> {
        rewrite::check_circle(key, find)
    }
}
