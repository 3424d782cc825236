//! `postrider check`.

use super::load::{self, LoadError};
use crate::cli::{CheckArgs, exit};
use crate::reply_classes;
use config::{Certificate, Config, Problem};
use serde_json::json;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Reads a configuration and shows what is wrong with it.
pub(crate) fn check(args: &CheckArgs) -> ExitCode {
    let colour = std::io::stderr().is_terminal();
    let loaded = match load::config(args.file.config.as_deref()) {
        Ok(config) => match reply_classes::read_with_rules(&config) {
            Ok(_) => Ok(config),
            Err(mistakes) => return of_replies(args, &mistakes),
        },
        Err(LoadError::Wrong(errors)) => Err(errors),
        Err(unreadable) => {
            eprint!("{}", unreadable.render(colour));
            return ExitCode::from(exit::USAGE);
        }
    };
    let (problems, right) = match &loaded {
        Ok(config) => (config.warnings.as_slice(), true),
        Err(errors) => (errors.problems(), false),
    };
    if args.json {
        let list: Vec<_> = problems.iter().map(as_json).collect();
        super::print(&format!("{:#}\n", json!({ "valid": right, "problems": list })));
    } else {
        match &loaded {
            Ok(config) => {
                eprint!("{}", config.render_warnings(colour));
                // Line 0 is the route that is added for the postmaster.
                let routes = config.routes.iter().filter(|route| route.line > 0).count();
                super::print(&format!(
                    "{}: right ({}, {})\n",
                    config.file_name(),
                    counted(config.listeners.len(), "listener"),
                    counted(routes, "route"),
                ));
                super::print(&ordered(config));
            }
            Err(errors) => eprint!("{}", errors.render(colour)),
        }
    }
    if right { ExitCode::SUCCESS } else { ExitCode::from(exit::USAGE) }
}

/// The file is right, and one that it names is not.
fn of_replies(args: &CheckArgs, mistakes: &[String]) -> ExitCode {
    if args.json {
        let as_json = |mistake: &String| json!({ "severity": "error", "message": mistake });
        let list: Vec<_> = mistakes.iter().map(as_json).collect();
        super::print(&format!("{:#}\n", json!({ "valid": false, "problems": list })));
    } else {
        mistakes.iter().for_each(|mistake| eprintln!("{mistake}"));
    }
    ExitCode::from(exit::USAGE)
}

/// A line for each certificate that is ordered.
fn ordered(config: &Config) -> String {
    let Some(acme) = &config.acme else { return String::new() };
    let line = |certificate: &Certificate| {
        let names: Vec<String> = certificate.names.iter().map(ToString::to_string).collect();
        let at = match acme.address {
            Some(address) => address.to_string(),
            None => format!("port {}", acme.challenge.port()),
        };
        let (file, challenge) = (certificate.chain.display(), acme.challenge.as_str());
        let (names, directory) = (names.join(", "), &acme.directory);
        format!("certificate for {names} from {directory}, {challenge} on {at}, kept in {file}\n")
    };
    let all = config.certificates.iter().filter(|certificate| certificate.ordered.is_some());
    all.map(line).collect()
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn as_json(problem: &Problem) -> serde_json::Value {
    json!({
        "severity": if problem.fatal { "error" } else { "warning" },
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "help": problem.help,
    })
}
