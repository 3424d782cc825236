//! `postrider spool import`.

use crate::cli::{ImportArgs, ImportCommand, ImportPostfixArgs, exit};
use crate::commands::load;
use crate::postfix_queue::{self, ImportReport};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Instant;

/// Files named on standard error at most; JSON has all.
const NAMED_MAX: usize = 100;

/// Runs the subcommand.
pub(super) fn run(args: &ImportArgs) -> ExitCode {
    match &args.command {
        ImportCommand::Postfix(args) => of_postfix(args),
    }
}

fn of_postfix(args: &ImportPostfixArgs) -> ExitCode {
    let config = match load::load(args.config.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let began = Instant::now();
    let report = match postfix_queue::import(&config, &args.dir, args.copied) {
        Ok(report) => report,
        Err(why) => {
            eprintln!("postrider: {why}");
            return ExitCode::from(exit::FAILED);
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    if args.json {
        crate::commands::print(&json(&report, seconds));
    } else {
        eprint!("{}", problems(&report));
        crate::commands::print(&text(&report, seconds));
    }
    let is_whole = report.left.is_empty() && report.lost.is_empty();
    if is_whole { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) }
}

fn text(report: &ImportReport, seconds: f64) -> String {
    let ImportReport { messages, recipients, held, finished, lost, left, aside } = report;
    let mut out = format!(
        "imported:  {messages} messages, {recipients} recipients in {seconds:.1} s; files are in {}\n",
        aside.display()
    );
    if *finished > 0 {
        let _ = writeln!(out, "finished:  {finished} messages of an earlier run");
    }
    if *held > 0 {
        let _ = writeln!(
            out,
            "held:      {held} messages (`postrider queue list --state held` when the server runs)"
        );
    }
    if !lost.is_empty() {
        let _ = writeln!(out, "uncertain: {} messages, which stay on hold here", lost.len());
    }
    if !left.is_empty() {
        let _ = writeln!(out, "left:      {} files, which stay there", left.len());
    }
    out
}

/// A line for each file and message that needs the operator.
fn problems(report: &ImportReport) -> String {
    let mut out = String::new();
    for file in report.left.iter().take(NAMED_MAX) {
        let _ = writeln!(out, "{}: {}", file.path.display(), file.why);
    }
    if report.left.len() > NAMED_MAX {
        let _ =
            writeln!(out, "… and {} more files; --json names all", report.left.len() - NAMED_MAX);
    }
    for id in report.lost.iter().take(NAMED_MAX) {
        let _ = writeln!(
            out,
            "{id}: it is on hold here, and its file is neither in Postfix's queue nor aside: if \
             Postfix has not delivered it, release it with `postrider queue release {id}`"
        );
    }
    out
}

fn json(report: &ImportReport, seconds: f64) -> String {
    let left = report.left.iter().map(
        |file| serde_json::json!({ "path": file.path.display().to_string(), "reason": file.why }),
    );
    let value = serde_json::json!({
        "messages": report.messages,
        "recipients": report.recipients,
        "held": report.held,
        "finished": report.finished,
        "uncertain": report.lost.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "left": left.collect::<Vec<_>>(),
        "moved_to": report.aside.display().to_string(),
        "seconds": seconds,
    });
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postfix_queue::LeftFile;

    #[test]
    fn report_names_what_needs_the_operator() {
        let left = |n: usize| LeftFile { path: format!("/q/{n}").into(), why: "why".to_owned() };
        let report = ImportReport {
            messages: 7,
            left: (0..NAMED_MAX + 2).map(left).collect(),
            lost: vec![mail::MessageId(0x2a)],
            ..ImportReport::default()
        };
        let named = problems(&report);
        assert!(
            named.starts_with("/q/0: why\n") && named.contains("… and 2 more files"),
            "{named}"
        );
        assert!(named.contains("000000000000002a: it is on hold here"), "{named}");
        let text = text(&report, 1.0);
        assert!(text.starts_with("imported:  7 messages, 0 recipients in 1.0 s"), "{text}");
        assert!(!text.contains("held:") && text.contains("left:      102 files"), "{text}");
    }
}
