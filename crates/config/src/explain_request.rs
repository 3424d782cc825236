//! Input of an explanation: the mail in question, and the results of lookups and of a rehearsed session.

use super::conditions::ConditionSubject;
use super::decision::FoundRoutes;
use super::explainer::NamedValues;
use mail::{Mailbox, Refusal};
use std::net::IpAddr;

/// Input of an explanation.
#[derive(Clone, Copy, Debug)]
pub struct ExplainRequest<'a> {
    /// The recipient.
    pub recipient: &'a Mailbox,
    /// The sender; `None` is `<>`.
    pub sender: Option<&'a Mailbox>,
    /// The client's listener; by default the first.
    pub listener: Option<&'a str>,
    /// The client's address; by default an unauthenticated client.
    pub client: Option<IpAddr>,
    /// The user that the client has logged in as.
    pub login: Option<&'a str>,
    /// For `mx` routes: the hosts that the lookup gave, groups of equal preference, the best first,
    /// or why there is no answer. `None`: no lookup was made.
    pub mx: Option<Result<&'a [Vec<String>], &'a str>>,
    /// Hosts with a TLS policy from a source other than the file, each with its result.
    pub tls: &'a [(String, String)],
    /// Results of table lookups for the recipient.
    pub in_tables: InTables<'a>,
    /// The rehearsed session. `None` without lookups.
    pub rehearsal: Option<&'a RehearsalSteps>,
}

/// Results of a rehearsed session for an explanation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RehearsalSteps {
    /// The recipients that replace this one, aliases expanded, each with the index of its route.
    pub members: Vec<(Mailbox, Option<usize>)>,
    /// The reason for which mail is accepted and discarded.
    pub discarded: Option<String>,
    /// The step and the stage of the refusal.
    pub refusal: Option<RefusalOrigin>,
    /// Further lookups in tables, in their order.
    pub lookups: Vec<TableLookup>,
    /// Lines that a server would log.
    pub log: Vec<String>,
    /// Checks of this listener that a rehearsal leaves out.
    pub not_asked: Vec<String>,
}

/// The step of a session that was refused, and the stage that refused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalOrigin {
    /// `connect`, `AUTH`, `MAIL` or `RCPT`.
    pub step: &'static str,
    /// The stage. `None`: routes, tables, mailboxes or the protocol.
    pub stage: Option<&'static str>,
}

/// Results of table lookups for a recipient; empty without lookups.
#[derive(Clone, Copy, Debug, Default)]
pub struct InTables<'a> {
    /// The routes found by tables and conditions.
    pub routes: FoundRoutes,
    /// Conditions of routes that were evaluated, in their order.
    pub conditions: &'a [ConditionStep],
    /// Each lookup, in their order.
    pub lookups: &'a [TableLookup],
    /// Results of access rules, up to the deciding one.
    pub access: &'a [AccessStep],
    /// The last rule refuses the recipient, or decides otherwise.
    pub is_settled_by_access: bool,
    /// The text of the alias that replaces the recipient.
    pub stands_for: Option<&'a str>,
    /// The owner of the alias: the sender of mail to its members.
    pub owner: Option<&'a Mailbox>,
    /// Values of the recipient's entry in its route's table of recipients.
    pub values: Option<&'a [NamedValues]>,
    /// Replacements by rewriting rules, in their order.
    pub rewrites: &'a [RewriteStep],
    /// The recipient after rewriting, with the index of its route. `None`: it stays, or stands for other addresses.
    pub rewritten: Option<(&'a Mailbox, Option<usize>)>,
    /// The reason for a refusal although a route accepts the recipient.
    pub refusal: Option<&'a Refusal>,
}

/// Result of a condition of a route for the mail in question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionStep {
    /// Index of the route.
    pub route: usize,
    /// The condition; `None`: all, since the route is not for this client.
    pub about: Option<ConditionSubject>,
    /// The fact and the result, for people.
    pub text: String,
}

/// Result of an access rule for a recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessStep {
    /// Its place among the rules, from 0.
    pub rule: usize,
    /// Key, table, result and consequence, for people.
    pub text: String,
}

/// Result of a rewriting rule for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteStep {
    /// Its place among the rules, from 0.
    pub rule: usize,
    /// Address, new address, kinds of addresses and table, for people.
    pub text: String,
}

/// A key that was looked up in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLookup {
    /// The table.
    pub table: String,
    /// The key, as the table wants it.
    pub key: String,
    /// Source of the answer: a file, a server.
    pub source: String,
    /// The answer, for people.
    pub answer: String,
}
