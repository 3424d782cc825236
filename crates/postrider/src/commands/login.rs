//! `postrider login`.

use super::asking;
use super::running::{Action, CommandContext};
use crate::cli::{LoginArgs, LoginCommand, ServerArgs};
use crate::node::Node;
use crate::orders::{Order, told};
use crate::terminal::clean;
use crate::world::clock::wall_now;
use comfy_table::{Table, presets};
use mail::Wall;
use mta::commands::{LoginAllow, LoginBlocked, LoginList, LoginRevoke, LoginUnblock, NodeAnswer};
use mta::control::{BlockedItem, ControlResponse, LimitCount, LoginItem, Revocation};
use mta::rate_limits::{LimitBy, Unit};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Runs the subcommand.
pub(crate) fn run(args: &LoginArgs) -> ExitCode {
    match &args.command {
        LoginCommand::List(server) => list(server),
        LoginCommand::Revoke(args) => {
            let request = LoginRevoke { login: args.login.clone(), reason: args.reason.clone() };
            asking::print(&args.server, &request.into(), asking::done)
        }
        LoginCommand::Allow(args) => {
            let request = LoginAllow { login: args.login.clone() };
            asking::print(&args.server, &request.into(), asking::done)
        }
        LoginCommand::Blocked(server) => blocked(server),
        LoginCommand::Unblock(args) => {
            let request = LoginUnblock { address: args.address };
            asking::print(&args.server, &request.into(), asking::done)
        }
    }
}

fn list(server: &ServerArgs) -> ExitCode {
    asking::print(server, &LoginList {}.into(), |responses| {
        let items = responses.iter().filter_map(|response| match response {
            ControlResponse::Login(item) => Some(&**item),
            _ => None,
        });
        listed(items)
    })
}

fn blocked(server: &ServerArgs) -> ExitCode {
    asking::print(server, &LoginBlocked {}.into(), |responses| {
        let items = responses.iter().filter_map(|response| match response {
            ControlResponse::Blocked(item) => {
                Some(format!("{}  until {}\n", item.address, item.until))
            }
            _ => None,
        });
        let text: String = items.collect();
        if text.is_empty() { "No client is blocked.\n".to_owned() } else { text }
    })
}

impl Action for LoginList {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        let items = logins(server.node, wall_now()).into_values();
        answer.items(items.map(|item| ControlResponse::Login(Box::new(item))));
    }
}

impl Action for LoginRevoke {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        let LoginRevoke { login, reason } = self;
        server.give(Order::Revoke(Revocation { login, reason, since: wall_now() }), answer);
    }
}

impl Action for LoginAllow {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        server.give(Order::Allow(self.login), answer);
    }
}

impl Action for LoginBlocked {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        let (node, now) = (server.node, wall_now());
        let blocked = node.shared().blocked_clients(node.started.elapsed());
        answer.items(blocked.into_iter().map(|(address, left)| {
            ControlResponse::Blocked(Box::new(BlockedItem { address, until: now.after(left) }))
        }));
    }
}

impl Action for LoginUnblock {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        let address = self.address;
        match server.node.shared().unblock_client(address) {
            true => {
                let text = format!("failed logins of client {address} forgotten");
                answer.told(told(Ok(text), server.console));
            }
            false => answer.not_found(format!("client {address} has no failed logins")),
        }
    }
}

/// The logins in use, limited or revoked, by name without case.
fn logins(node: &Node, now: Wall) -> BTreeMap<String, LoginItem> {
    let (registry, limiter) = (&node.shared().logins, &node.shared().rate_limits);
    let mut items: BTreeMap<String, LoginItem> = BTreeMap::new();
    let item =
        |items: &mut BTreeMap<String, LoginItem>, login: &str, change: &dyn Fn(&mut LoginItem)| {
            let new = || LoginItem { login: login.to_owned(), ..LoginItem::default() };
            change(items.entry(login.to_lowercase()).or_insert_with(new));
        };
    for (login, sessions) in registry.in_use() {
        item(&mut items, &login, &|item| item.sessions = sessions);
    }
    for (reached, _) in limiter.reached(now) {
        if reached.limit.by == LimitBy::Login {
            item(&mut items, &reached.value, &|item| item.limited_since = Some(reached.since));
        }
    }
    for revocation in registry.revoked() {
        item(&mut items, &revocation.login, &|item| item.revoked = Some(revocation.clone()));
    }
    for item in items.values_mut() {
        let used = limiter.usage(LimitBy::Login, &item.login, now).into_iter();
        let counts = used.filter(|usage| usage.count > 0).map(|usage| LimitCount {
            unit: usage.unit.as_str().to_owned(),
            period_s: usage.period_s,
            count: usage.count,
        });
        item.counts = counts.collect();
    }
    items
}

/// A table of logins.
fn listed<'a>(items: impl Iterator<Item = &'a LoginItem>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["LOGIN", "SESSIONS", "MESSAGES", "RECIPIENTS", "STATE"]);
    let mut count = 0;
    for item in items {
        count += 1;
        table.add_row([
            clean(&item.login),
            item.sessions.to_string(),
            counts(item, Unit::Messages),
            counts(item, Unit::Recipients),
            state(item),
        ]);
    }
    match count {
        0 => "No login is in use, limited or revoked.\n".to_owned(),
        _ => format!("{}\n", table.trim_fmt()),
    }
}

/// `12/h 30/d`.
fn counts(item: &LoginItem, unit: Unit) -> String {
    let of_unit = item.counts.iter().filter(|count| count.unit == unit.as_str());
    let period = |seconds| match seconds {
        60 => "m",
        3_600 => "h",
        _ => "d",
    };
    let words = of_unit.map(|count| format!("{}/{}", count.count, period(count.period_s)));
    words.collect::<Vec<_>>().join(" ")
}

fn state(item: &LoginItem) -> String {
    if let Some(Revocation { reason, since, .. }) = &item.revoked {
        let reason = if reason.is_empty() { String::new() } else { format!(": {}", clean(reason)) };
        return format!("revoked since {since}{reason}");
    }
    item.limited_since.map_or_else(String::new, |since| format!("limit reached at {since}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_listed_with_counts_and_state() {
        let revoked = Revocation {
            login: "jo".to_owned(),
            reason: "stolen\u{1b}".to_owned(),
            since: Wall(0),
        };
        let count = |unit: Unit, period_s, count| LimitCount {
            unit: unit.as_str().to_owned(),
            period_s,
            count,
        };
        let jo = LoginItem {
            login: "jo".to_owned(),
            sessions: 2,
            counts: vec![
                count(Unit::Messages, 3_600, 200),
                count(Unit::Recipients, 86_400, 900),
                count(Unit::Recipients, 3_600, 300),
            ],
            limited_since: Some(Wall(5)),
            revoked: Some(revoked),
        };
        let shown = listed([&jo].into_iter());
        let row = shown.lines().nth(1).expect("a row");
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[..5], ["jo", "2", "200/h", "900/d", "300/h"]);
        assert!(row.contains("revoked since 1970-01-01T00:00:00") && !row.contains('\u{1b}'));
        let limited = LoginItem { revoked: None, ..jo };
        assert!(listed([&limited].into_iter()).contains("limit reached at 1970-"));
        assert_eq!(listed([].into_iter()), "No login is in use, limited or revoked.\n");
    }
}
