//! `postrider check`.

mod dns;

use super::load::{self, LoadError};
use crate::acme::Authority;
use crate::cli::{CheckArgs, exit};
use crate::problems::missing_roots;
use crate::reply_classes;
use crate::tables;
use config::{Certificate, Config, ConfigErrors, Problem};
use dns::{Finding, Severity};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::process::ExitCode;

/// Reads a configuration and shows what is wrong with it.
pub(crate) fn check(args: &CheckArgs) -> ExitCode {
    let colour = std::io::stderr().is_terminal();
    let loaded = match load::config(args.file.config.as_deref()) {
        Ok(config) => match reply_classes::read_with_rules(&config) {
            Ok(_) => Ok(config),
            Err(mistakes) => return of_files(args, &mistakes),
        },
        Err(LoadError::Wrong(errors)) => Err(errors),
        Err(unreadable) => {
            eprint!("{}", unreadable.render(colour));
            return ExitCode::from(exit::USAGE);
        }
    };
    let looked = loaded.as_ref().map(tables::look_at).unwrap_or_default();
    if !looked.mistakes.is_empty() {
        return of_files(args, &looked.mistakes);
    }
    let found = match &loaded {
        Ok(config) if args.dns => match dns::lint(config, &args.domain) {
            Ok(found) => Some(found),
            Err(why) => {
                eprintln!("postrider: {why}");
                return ExitCode::from(exit::FAILED);
            }
        },
        _ => None,
    };
    let mut warnings = looked.warnings;
    // `serve` makes those of the built-in configuration.
    if let (Ok(config), Some(_)) = (&loaded, &args.file.config) {
        warnings.extend(missing_roots(config));
    }
    match args.json {
        true => super::print(&format!("{:#}\n", json_of(&loaded, &warnings, found.as_deref()))),
        false => show(&loaded, &warnings, (found.as_deref(), colour)),
    }
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    match (loaded.is_ok(), found.iter().flatten().any(is_error)) {
        (false, _) => ExitCode::from(exit::USAGE),
        (true, true) => ExitCode::from(exit::FAILED),
        (true, false) => ExitCode::SUCCESS,
    }
}

fn json_of(
    loaded: &Result<Config, ConfigErrors>,
    warnings: &[String],
    found: Option<&[Finding]>,
) -> Value {
    let problems = match loaded {
        Ok(config) => config.warnings.as_slice(),
        Err(errors) => errors.problems(),
    };
    let mut list: Vec<_> = problems.iter().map(as_json).collect();
    list.extend(warnings.iter().map(|why| json!({ "severity": "warning", "message": why })));
    let mut all = json!({ "valid": loaded.is_ok(), "problems": list });
    if let Some(found) = found {
        all["dns"] = json!(found);
    }
    all
}

fn show(
    loaded: &Result<Config, ConfigErrors>,
    warnings: &[String],
    (found, colour): (Option<&[Finding]>, bool),
) {
    let config = match loaded {
        Ok(config) => config,
        Err(errors) => {
            eprint!("{}", errors.render(colour));
            return;
        }
    };
    eprint!("{}", config.render_warnings(colour));
    warnings.iter().for_each(|why| eprintln!("warning: {why}"));
    // Line 0 is the route that is added for the postmaster.
    let routes = config.routes.iter().filter(|route| route.line > 0).count();
    super::print(&format!(
        "{}: right ({}, {})\n",
        config.file_name(),
        counted(config.listeners.len(), "listener"),
        counted(routes, "route"),
    ));
    super::print(&ordered(config));
    if let Some(found) = found {
        let lines: String = found.iter().map(ToString::to_string).collect();
        let count = |severity| found.iter().filter(|finding| finding.severity == severity).count();
        let errors = counted(count(Severity::Error), "error");
        let warnings = counted(count(Severity::Warn), "warning");
        super::print(&format!("{lines}{errors}, {warnings}\n"));
    }
}

/// The file is right, and others that it names are not, or what its tables have.
fn of_files(args: &CheckArgs, mistakes: &[String]) -> ExitCode {
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
    let Some(acme) = config.of::<Authority>() else { return String::new() };
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

fn as_json(problem: &Problem) -> Value {
    json!({
        "severity": if problem.fatal { "error" } else { "warning" },
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "help": problem.help,
    })
}
