//! Rewriting of addresses (`[[rewrite]]`), as Postfix's canonical(5) and generic(5). Recipients with different content
//! get separate messages.

mod map;
mod message;
mod settings;
mod spans;

use config::{Config, StageSection as _};
use map::OwnNames;
pub(super) use map::{check_circle, check_entry};
use message::Rewriting;
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{Draft, Observer, Placed, RouteFinder, Stage, StageKind, TransactionView};
use mta::pressure::Pressures;
use mta::seams::World;
pub(crate) use settings::RewriteText;
pub(super) use settings::is_asked;
use settings::{RewriteRule, entries};
use std::rc::Rc;

/// The stage of `[[rewrite]]`.
pub(crate) struct Rewrites;

impl<W: World> StageKind<W> for Rewrites {
    fn stages(
        &self,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
        _pools: &Pressures,
    ) -> Vec<Placed> {
        let rules: Vec<RewriteRule> = entries(config)
            .filter_map(|entry| entry.settings.of::<RewriteRule>().cloned())
            .collect();
        if rules.is_empty() {
            return Vec::new();
        }
        let has_routes = rules.iter().any(|rule| !rule.routes.is_empty());
        let stage = RewriteStage {
            names: OwnNames::of(config),
            routes: has_routes.then(|| RouteFinder::new(config)),
            rules,
            world: world.clone(),
            console: Rc::clone(console),
        };
        // After milters, and before stages that sign.
        vec![Placed { line: u32::MAX - 1, stage: Rc::new(stage) }]
    }
}

struct RewriteStage<W: World> {
    rules: Vec<RewriteRule>,
    names: OwnNames,
    /// `None`: no rule has routes.
    routes: Option<RouteFinder>,
    world: W,
    console: Rc<dyn Console>,
}

impl<W: World> Stage for RewriteStage<W> {
    fn name(&self) -> &'static str {
        RewriteText::KEY
    }

    fn content<'a>(
        &'a self,
        transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        _observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        Answer::later(async move {
            let mut rewriting = Rewriting::new(self, &transaction.session, draft);
            let selection = rewriting.select(&transaction.session, draft).await?;
            let (changes, group_of) = rewriting.changes(draft, selection).await?;
            if changes.len() > 1 {
                draft.split(&group_of).await?;
            }
            for (at, changes) in changes.into_iter().enumerate() {
                let Some(part) = draft.part_mut(at) else { break };
                changes.apply(part).await?;
            }
            Ok(())
        })
    }
}
