//! Rewriting of the sender and of the recipients that a message is delivered to.

use super::{LookupTrace, facts_of, new_lookups, routes_of, tenant_of};
use crate::cli::ExplainArgs;
use crate::tables::TracedTables;
use channels::consult_rewriting;
use config::{Config, Listener, MailFacts, Route};
use mail::Mailbox;
use std::sync::Arc;

/// Maximum number of members that rules are applied to: as many as are shown.
const MEMBERS_MAX: usize = 50;

impl LookupTrace {
    /// The recipient that is delivered to, with its route.
    pub(super) fn recipient_and_route<'a>(
        &'a self,
        args: &'a ExplainArgs,
        config: &'a Config,
    ) -> (&'a Mailbox, Option<&'a Arc<Route>>) {
        if let Some((rewritten, route)) = &self.rewritten {
            return (rewritten, route.and_then(|at| config.routes.get(at)));
        }
        let recipient = match args.recipient.domain_str() {
            "" => &config.postmaster.address,
            _ => &args.recipient,
        };
        let found = self.routes.found;
        let by_conditions = found.by_conditions.and_then(|at| config.routes.get(at));
        let by_conditions = by_conditions.filter(|_| !config.is_postmaster(recipient));
        let by_domain = || config.route_of(recipient, found.in_tables).map(|(_, route)| route);
        (recipient, by_conditions.or_else(by_domain))
    }
}

/// Applies the rules to the recipient, or to its members, if the server accepts it.
pub(super) async fn rewrite(
    tables: &TracedTables,
    args: &ExplainArgs,
    config: &Arc<Config>,
    listener: &Listener,
    asked: &mut LookupTrace,
) {
    let is_discarded = asked.rehearsal.as_ref().is_some_and(|done| done.discarded.is_some());
    let is_refused = asked.is_refused_by_routes
        || asked.said.refusal.is_some()
        || asked.access.refusal.is_some();
    if is_refused || is_discarded {
        return;
    }
    let is_replaced = asked.rehearsal.as_ref().is_some_and(|done| !done.members.is_empty());
    let recipients = recipients_of(asked, &args.recipient);
    let tenant = tenant_of(args, config);
    let facts = facts_of(args, listener, tenant.as_deref());
    let may_relay = args.login.is_some() || listener.lets_relay(args.client);
    for (at, (recipient, owner)) in recipients.iter().enumerate() {
        let facts = MailFacts { recipient: Some(recipient), ..facts };
        let run = consult_rewriting(tables, config, &facts, may_relay, owner.as_ref()).await;
        for step in run.steps {
            if !asked.rewrites.contains(&step) {
                asked.rewrites.push(step);
            }
        }
        let Some(new) = run.recipient else { continue };
        let Some(routed) = routes_of(tables, args, config, listener, vec![new]).await.pop() else {
            continue;
        };
        match asked.rehearsal.as_mut().and_then(|done| done.members.get_mut(at)) {
            Some(member) if is_replaced => *member = routed,
            _ => asked.rewritten = Some(routed),
        }
    }
    add_lookups(tables, asked);
}

/// The recipients that the message goes to, each with the owner of its list: the members of an alias, or the recipient
/// itself. None for an alias with unknown members.
fn recipients_of(asked: &LookupTrace, recipient: &Mailbox) -> Vec<(Mailbox, Option<Mailbox>)> {
    let members = asked.rehearsal.as_ref().map_or(&[][..], |done| &done.members);
    if members.is_empty() {
        return match asked.said.alias {
            Some(_) => Vec::new(),
            None => vec![(recipient.clone(), None)],
        };
    }
    let members = members.iter().map(|(member, _)| member.clone());
    members.zip(asked.owners.iter().cloned()).take(MEMBERS_MAX).collect()
}

/// Adds the lookups of the rules to those that are shown.
fn add_lookups(tables: &TracedTables, asked: &mut LookupTrace) {
    let known: Vec<_> = match &asked.rehearsal {
        Some(done) => asked.lookups.iter().chain(&done.lookups).cloned().collect(),
        None => asked.lookups.clone(),
    };
    let lookups = asked.rehearsal.as_mut().map_or(&mut asked.lookups, |done| &mut done.lookups);
    lookups.extend(new_lookups(tables, &known));
}
