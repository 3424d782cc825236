//! Shares one expansion of a large list among all sessions that name it at the same time.

use super::super::members::is_list;
use super::super::refusals;
use super::{Expansion, RecipientTables, Turns};
use crate::line::{self, FairKey};
use crate::routing::expansions::{Expanded, ExpansionResult};
use crate::seams::{Spawn as _, Time as _, World};
use crate::tables::{FoundAddress, FoundBy};
use crate::watched::Watched;
use config::TagDelimiters;
use lookup::Requester;
use mail::Mailbox;
use std::rc::Rc;
use std::sync::Arc;

impl<W: World> RecipientTables<W> {
    /// The members of a list. A task expands it for all sessions that name it in the meantime, and it goes on if the
    /// first session ends. The other sessions wait and start no expansion.
    pub(super) async fn members_together(
        self,
        key: (usize, Mailbox),
        found: FoundAddress,
    ) -> ExpansionResult {
        let active = Rc::clone(&self.active);
        let mut awaited = match active.expansions.under_way(&key, &found.entry) {
            Some(awaited) => awaited,
            None => {
                let begun = active.expansions.begin(&key, &found.entry);
                let (awaited, spawn) = (begun.follow(), self.world.spawn().clone());
                spawn.spawn(Box::pin(self.for_all(key, found, begun)));
                awaited
            }
        };
        let outcome = awaited.wait_for(Option::is_some).await;
        // Closed early only when the shard ends.
        outcome.ok().flatten().unwrap_or(Err(refusals::STOPPING))
    }

    /// Expands a list with its own position in the fair queue, and caches the result.
    async fn for_all(
        self,
        key: (usize, Mailbox),
        found: FoundAddress,
        begun: Watched<Option<ExpansionResult>>,
    ) {
        let who = FairKey::new(0, 0).of(line::Owner::named("list", key.1.as_str()));
        let turns = Turns { who, asker: Requester::Ours, ..self.turns.clone() };
        let tables = self.world.tables(turns.asker);
        let list = RecipientTables { turns, tables, debt: None, ..self };
        let (entry, now) = (Arc::clone(&found.entry), list.world.time().now());
        let outcome = list.members_of_alias(key.clone(), found).await;
        let expansions = &list.active.expansions;
        if let Err(refusal) = &outcome
            && *refusal == refusals::BAD_ALIAS
        {
            expansions.keep_refused(key.clone(), Arc::clone(&entry), refusal.clone(), now);
        }
        expansions.end(&key, &entry);
        begun.set(Some(outcome));
    }

    /// The members of an alias, cached if they are many.
    pub(super) async fn members_of_alias(
        &self,
        key: (usize, Mailbox),
        found: FoundAddress,
    ) -> ExpansionResult {
        let (of, now) = (key.1.clone(), self.world.time().now());
        let (entry, mut expansion) = (Arc::clone(&found.entry), Expansion::default());
        expansion.has_owners = true;
        self.open(&mut expansion, &self.route, of.clone(), found, None, 1).await?;
        self.walk(&mut expansion, &of).await?;
        // The expansion of owners may need a permit too: holding one while waiting for another would deadlock.
        expansion.place = None;
        let owners = self.owners(&expansion.members).await?;
        let members: Rc<[Expanded]> = expansion.into_members(&owners);
        self.active.expansions.keep(key, entry, &members, now);
        Ok(members)
    }
}

/// The address and entry by which a list is expanded. The tag is dropped, so that a list named with a thousand tags is
/// expanded once.
pub(super) fn without_tag(
    of: Mailbox,
    found: FoundAddress,
    tags: &TagDelimiters,
) -> (Mailbox, FoundAddress) {
    if found.by != FoundBy::WithoutTag || !is_list(&found.entry) {
        return (of, found);
    }
    let user = tags.split(of.local()).map_or(of.local(), |(user, ..)| user);
    match Mailbox::parse(&format!("{user}@{}", of.domain_str()), true) {
        Ok(untagged) => (untagged, FoundAddress { by: FoundBy::Address, ..found }),
        Err(_) => (of, found),
    }
}
