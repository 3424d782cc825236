//! Rewriting of addresses (`[[rewrite]]`), as Postfix's canonical(5) and generic(5). Recipients with different content
//! get separate messages.

mod dry_run;
mod map;
mod message;
mod settings;
mod spans;

use config::{Config, MailFacts, StageEntry, StageSection as _};
pub use dry_run::{RewriteDryRun, consult_rewriting};
use lookup::LookupError;
use map::OwnNames;
pub(super) use map::{check_circle, check_entry};
use message::Rewriting;
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{
    Draft, Observer, Placed, RouteFinder, Stage, StageKind, TransactionView, all_hold,
};
use mta::pressure::Pressures;
use mta::seams::{Tables, World};
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
        let Some(rules) = RewriteRules::of(config) else { return Vec::new() };
        let stage = RewriteStage { rules, world: world.clone(), console: Rc::clone(console) };
        // After milters, and before stages that sign.
        vec![Placed { line: u32::MAX - 1, stage: Rc::new(stage) }]
    }
}

/// The rules of a configuration, with its names and routes.
struct RewriteRules {
    all: Vec<RewriteRule>,
    names: OwnNames,
    /// `None`: no rule has routes.
    routes: Option<RouteFinder>,
}

impl RewriteRules {
    /// `None` without rules.
    fn of(config: &Config) -> Option<RewriteRules> {
        let settings = |entry: &StageEntry| entry.settings.of::<RewriteRule>().cloned();
        let all: Vec<RewriteRule> = entries(config).filter_map(settings).collect();
        if all.is_empty() {
            return None;
        }
        let has_routes = all.iter().any(|rule| !rule.routes.is_empty());
        let routes = has_routes.then(|| RouteFinder::new(config));
        Some(RewriteRules { all, names: OwnNames::of(config), routes })
    }

    /// Returns true if a rule applies to the recipient in `facts`.
    async fn is_for<T: Tables + Clone>(
        &self,
        rule: &RewriteRule,
        tables: &T,
        facts: &MailFacts<'_>,
        may_relay: bool,
    ) -> Result<bool, LookupError> {
        if let Some(when) = &rule.when
            && !all_hold(tables, when, facts).get().await?
        {
            return Ok(false);
        }
        let Some(routes) = self.routes.as_ref().filter(|_| !rule.routes.is_empty()) else {
            return Ok(true);
        };
        let route = routes.find(tables, facts, may_relay).await?;
        Ok(route.is_some_and(|route| rule.routes.iter().any(|name| *name == *route.name)))
    }
}

struct RewriteStage<W: World> {
    rules: RewriteRules,
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
