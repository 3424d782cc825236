//! `postrider table`.

mod build;
#[cfg(test)]
mod cost;
mod progress;
mod source;
#[cfg(test)]
mod tests;

use crate::cli::{FlushArgs, GetArgs, ServerArgs, TableArgs, TableCommand};
use crate::commands::asking::{self, CommandOutput};
use crate::commands::running::{Action, CommandContext};
use crate::tables::shown;
use crate::terminal::clean;
use comfy_table::{Table, presets};
use mta::commands::{NodeAnswer, TableFlush, TableGet, TableList};
use mta::control::{ControlResponse, TableAnswer, TableItem};
use std::process::ExitCode;

/// Runs the subcommand.
pub(crate) fn run(args: &TableArgs) -> ExitCode {
    match &args.command {
        TableCommand::Build(args) => build::run(args),
        TableCommand::List(server) => list(server),
        TableCommand::Get(args) => get(args),
        TableCommand::Flush(args) => flush(args),
    }
}

/// `postrider table list`.
fn list(server: &ServerArgs) -> ExitCode {
    asking::print(server, &TableList {}.into(), |responses| {
        let items = responses.iter().filter_map(|response| match response {
            ControlResponse::Table(item) => Some(&**item),
            _ => None,
        });
        listed(items)
    })
}

/// `postrider table get`.
fn get(args: &GetArgs) -> ExitCode {
    let request = TableGet { table: args.table.clone(), key: args.key.clone() }.into();
    asking::print(&args.server, &request, |responses| {
        let answer = responses.iter().find_map(|response| match response {
            ControlResponse::TableAnswer(answer) => Some(&**answer),
            _ => None,
        });
        answer.map_or(CommandOutput::default(), told)
    })
}

/// `postrider table flush`.
fn flush(args: &FlushArgs) -> ExitCode {
    let request = TableFlush { table: args.table.clone(), key: args.key.clone() }.into();
    asking::print(&args.server, &request, asking::done)
}

impl Action for TableList {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        shown::list(server.node.tables(), answer);
    }
}

impl Action for TableGet {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        shown::get(server.node.tables(), self, answer);
    }
}

impl Action for TableFlush {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        shown::flush(server.node.tables(), self, answer);
    }
}

fn listed<'a>(items: impl Iterator<Item = &'a TableItem>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["NAME", "KIND", "SOURCE", "KEYS", "STATE"]);
    for item in items {
        let keys = item.keys.map_or_else(String::new, |keys| keys.to_string());
        let well = || item.snapshot.as_ref().map_or("well".to_owned(), ToString::to_string);
        let state = item.trouble.clone().unwrap_or_else(well);
        let source = clean(&item.source);
        table.add_row([&item.name, &item.kind, &*source, &keys, &clean(&state)]);
    }
    format!("{table}\n")
}

fn told(answer: &TableAnswer) -> CommandOutput {
    let mut text = match (&answer.value, &answer.trouble) {
        (Some(value), _) => format!("{}\n", clean(value)),
        (None, Some(trouble)) => format!("lookup failed: {}\n", clean(trouble)),
        (None, None) => format!("{} does not have {}\n", answer.table, clean(&answer.key)),
    };
    for (name, values) in &answer.fields {
        text.push_str(&format!("  {name}: {}\n", clean(&values.join(", "))));
    }
    for step in &answer.steps {
        let (key, from, said) = (clean(&step.key), clean(&step.from), clean(&step.said));
        let table = &step.table;
        text.push_str(&format!("{table}, lookup of {key} at {from}: {said}\n"));
    }
    CommandOutput { text, is_found: answer.value.is_some() }
}
