//! `postrider sources`: the progress of warm-up.

use crate::cli::ServerArgs;
use crate::commands::asking;
use crate::commands::running::{Action, CommandContext};
use crate::terminal::clean;
use comfy_table::{Table, presets};
use mta::commands::{NodeAnswer, Sources};
use mta::control::{ControlResponse, SourceItem, WarmupItem};
use std::process::ExitCode;

/// Runs it.
pub(crate) fn run(server: &ServerArgs) -> ExitCode {
    asking::print(server, &Sources {}.into(), |responses| {
        let items = responses.iter().filter_map(|response| match response {
            ControlResponse::Source(item) => Some(&**item),
            _ => None,
        });
        listed(items)
    })
}

impl Action for Sources {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        let sources = server.node.sources().into_iter();
        answer.items(sources.map(|source| ControlResponse::Source(Box::new(source))));
    }
}

fn listed<'a>(items: impl Iterator<Item = &'a SourceItem>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["SOURCE", "TOWARDS", "DAY", "DATE", "USED", "DELIVERED", "HELD BACK"]);
    let mut rest = String::new();
    for item in items {
        let name = clean(&item.name);
        for course in &item.courses {
            table.add_row(row(&name, course));
        }
        if item.courses.is_empty() {
            let state = if item.warms_up { "(nothing sent yet)" } else { "(no warm-up)" };
            table.add_row([&*name, state]);
        }
        let left_out = item.courses_count.saturating_sub(item.courses.len() as u64);
        if left_out > 0 {
            rest.push_str(&format!("{name}: {left_out} more\n"));
        }
    }
    format!("{table}\n{rest}")
}

fn row(name: &str, course: &WarmupItem) -> [String; 7] {
    let WarmupItem { stage, stages, used, tried, delivered, held, .. } = course;
    let (day, used) = match course.count {
        Some(count) => (format!("{stage}/{stages}"), format!("{used}/{count}")),
        None => ("warm".to_owned(), String::new()),
    };
    let of = |part: &u32| format!("{part}/{tried}");
    let towards = clean(&course.towards);
    [name.to_owned(), towards, day, course.date.clone(), used, of(delivered), of(held)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_that_warm_up_are_told_from_others() {
        let course = |towards: &str, count| WarmupItem {
            towards: towards.to_owned(),
            stage: 2,
            stages: 4,
            count,
            date: "2026-12-02".to_owned(),
            used: 12,
            tried: 11,
            delivered: 10,
            held: 1,
        };
        let warming = SourceItem {
            name: "ip-1".to_owned(),
            warms_up: true,
            courses: vec![course("google", Some(100)), course("ya\u{1b}hoo", None)],
            courses_count: 5,
        };
        let new = SourceItem { name: "ip-2".into(), warms_up: true, ..SourceItem::default() };
        let old = SourceItem { name: "ip-3".into(), ..SourceItem::default() };
        let text = listed([&warming, &new, &old].into_iter());
        let words: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["ip-1", "google", "2/4", "2026-12-02", "12/100", "10/11", "1/11"]);
        assert_eq!(words[2][2..4], ["warm", "2026-12-02"]);
        assert_eq!(words[3], ["ip-2", "(nothing", "sent", "yet)"]);
        assert_eq!(words[4], ["ip-3", "(no", "warm-up)"]);
        assert_eq!(words[5], ["ip-1:", "3", "more"]);
        assert!(!text.contains('\u{1b}'));
    }
}
