//! `postrider shaping`.

use super::asking;
use super::running::{Action, CommandContext};
use crate::cli::{LiftArgs, ServerArgs, ShapingArgs, ShapingCommand};
use crate::orders::Order;
use crate::terminal::clean;
use crate::world::clock::wall_now;
use comfy_table::{Table, presets};
use config::quantity::write_duration;
use config::shaping::QUARTERS;
use mail::Wall;
use mta::commands::{NodeAnswer, ShapingLift, ShapingList};
use mta::control::{ControlResponse, Effect};
use std::process::ExitCode;
use std::time::Duration;

/// Runs the subcommand.
pub(crate) fn run(args: &ShapingArgs) -> ExitCode {
    match &args.command {
        ShapingCommand::List(server) => list(server),
        ShapingCommand::Lift(args) => lift(args),
    }
}

fn list(server: &ServerArgs) -> ExitCode {
    asking::print(server, &ShapingList {}.into(), |responses| {
        let effects = responses.iter().filter_map(|response| match response {
            ControlResponse::Effect(effect) => Some(&**effect),
            _ => None,
        });
        listed(effects, wall_now())
    })
}

fn lift(args: &LiftArgs) -> ExitCode {
    asking::print(&args.server, &ShapingLift { lift: args.lift() }.into(), asking::done)
}

impl Action for ShapingList {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        let effects = server.node.effects().into_iter();
        answer.items(effects.map(|effect| ControlResponse::Effect(Box::new(effect))));
    }
}

impl Action for ShapingLift {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        server.give(Order::Lift(self.lift), answer);
    }
}

/// A table of effects, each with the peer's reply in a line below it.
fn listed<'a>(effects: impl Iterator<Item = &'a Effect>, now: Wall) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["RULE", "LINE", "FOR", "DOES", "STEP", "ENDS", "SAID"]);
    let mut count = 0;
    for effect in effects {
        count += 1;
        let does = match effect.returned {
            0 => effect.action.to_string(),
            quarters => format!("{}, {quarters}/{QUARTERS} returned", effect.action),
        };
        table.add_row([
            clean(&effect.rule),
            clean(&effect.place),
            clean(&effect.whom()),
            does,
            effect.step.to_string(),
            ends(effect, now),
            clean(&format!("{}: {}", effect.peer, effect.reply)),
        ]);
    }
    match count {
        0 => "No shaping rule is in effect.\n".to_owned(),
        _ => format!("{}\n", table.trim_fmt()),
    }
}

/// Time until the effect is fully over: `in 29m`, to the second.
fn ends(effect: &Effect, now: Wall) -> String {
    let left = Duration::from_secs(effect.over_at().since(now).as_secs());
    let until = effect.deliveries_left.map(|left| format!(", or {left} deliveries"));
    format!("in {}{}", write_duration(left), until.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::shaping::Action;

    #[test]
    fn effects_are_listed_with_their_lines_and_ends() {
        let mut effect = Effect {
            rule: "slow".to_owned(),
            place: "a.toml:7".to_owned(),
            action: Action::Backoff,
            provider: Some("big".to_owned()),
            next_hop: None,
            source: Some("ip-1".to_owned()),
            tenant: None,
            campaign: None,
            peer: "mx.big.test".to_owned(),
            reply: "421 4.7.0 \u{1b}slow down".to_owned(),
            began: Wall(0),
            renewed: Wall(0),
            until: Wall(1_200_000),
            lasts_ms: 1_200_000,
            step: 2,
            returned: 0,
            deliveries_left: Some(7),
        };
        let shown = listed([&effect].into_iter(), Wall(60_400));
        let row = shown.lines().nth(1).expect("a row");
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            words[..8],
            ["slow", "a.toml:7", "provider", "big", "from", "ip-1", "backoff", "2"]
        );
        // 20 minutes and three quarters of that.
        assert!(row.contains("in 33m59s, or 7 deliveries"), "{row}");
        assert!(row.contains("mx.big.test: 421 4.7.0") && !row.contains('\u{1b}'), "{row}");
        effect.returned = 1;
        let shown = listed([&effect].into_iter(), Wall(1_200_000));
        assert!(shown.contains("backoff, 1/4 returned") && shown.contains("in 15m"), "{shown}");
        assert_eq!(listed([].into_iter(), Wall(0)), "No shaping rule is in effect.\n");
    }
}
