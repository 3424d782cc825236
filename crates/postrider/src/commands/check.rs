//! `postrider check`.

#[cfg(test)]
mod against_serve;
mod dns;

use super::load::{self, LoadError, LoadedConfig};
use crate::acme::Authority;
use crate::cli::{CheckArgs, exit};
use crate::console::ConsoleLog;
use crate::privileges::{Unreachable, open_to_others, reach_of};
use crate::problems::missing_roots;
use crate::services::FileServices;
use crate::world::clock::{Start, wall_now};
use crate::world::programs;
use config::{Certificate, Config, ConfigErrors, Problem};
use dns::{Finding, Severity};
pub(super) use dns::{SendingAddress, txt};
use mta::console::Level;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Reads a configuration and prints its errors.
pub(crate) fn check(args: &CheckArgs) -> ExitCode {
    let colour = std::io::stderr().is_terminal();
    let file = match load::find(args.file.config.as_deref()) {
        Ok(file) => file,
        Err(error) => return load::shown(&error),
    };
    let (loaded, mut warnings) = match load::read(file.as_deref()) {
        Ok(read) => match prepared(read) {
            Ok((config, warnings)) => (Ok(config), warnings),
            Err(mistakes) => (Err(mistakes), Warnings::default()),
        },
        Err(LoadError::Wrong(errors)) => (Err(errors), Warnings::default()),
        Err(unreadable) => {
            eprint!("{}", unreadable.render(colour));
            return ExitCode::from(exit::USAGE);
        }
    };
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
    // `serve` creates the directories of the built-in configuration.
    if let (Ok(config), Some(_)) = (&loaded, &file) {
        warnings.others.extend(open_to_others(config, file.as_deref()));
        warnings.others.extend(missing_roots(config));
        warnings.others.extend(programs::missing(config));
    }
    let unreachable = match unreachable(args, &loaded, file.as_deref()) {
        Ok(unreachable) => unreachable,
        Err(code) => return code,
    };
    let found = Findings { dns: found, unreachable };
    match args.json {
        true => super::print(&format!("{:#}\n", json_of(&loaded, &warnings, &found))),
        false => show(&loaded, &warnings, (&found, args.user.as_deref()), colour),
    }
    let Findings { dns: found, unreachable } = found;
    if unreachable.is_some_and(|all| !all.is_empty()) {
        return ExitCode::from(exit::FAILED);
    }
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    match (loaded.is_ok(), found.iter().flatten().any(is_error)) {
        (false, _) => ExitCode::from(exit::USAGE),
        (true, true) => ExitCode::from(exit::FAILED),
        (true, false) => ExitCode::SUCCESS,
    }
}

/// Files out of reach of the user that the command line names. Comes last: this process becomes the user.
fn unreachable(
    args: &CheckArgs,
    loaded: &Result<Arc<Config>, ConfigErrors>,
    file: Option<&Path>,
) -> Result<Option<Vec<Unreachable>>, ExitCode> {
    let (Ok(config), Some(user)) = (loaded, &args.user) else { return Ok(None) };
    reach_of(user, config, file).map(Some).map_err(|why| {
        eprintln!("postrider: {why}");
        ExitCode::from(exit::USAGE)
    })
}

/// Results of the checks that the command line asks for.
struct Findings {
    dns: Option<Vec<Finding>>,
    /// Files out of reach of a user.
    unreachable: Option<Vec<Unreachable>>,
}

/// Warnings about a configuration.
#[derive(Debug, Default)]
struct Warnings {
    /// With a place in its file, in that order.
    placed: Vec<Problem>,
    /// A sentence each.
    others: Vec<String>,
}

/// Reads the files that the configuration names, as a start does. Also returns the warnings about it and them.
///
/// # Errors
/// Returns all errors that would prevent a start.
fn prepared(read: LoadedConfig) -> Result<(Arc<Config>, Warnings), ConfigErrors> {
    let quiet = Arc::new(ConsoleLog::stderr(Level::Error));
    let files = FileServices::new(Start::now(), &quiet);
    let config = files.services().prepare_all(read, &|_| (), true)?.adopt();
    let of_certificates = files.certificates.warnings(&config, wall_now());
    let mut placed = [config.warnings.clone(), of_certificates].concat();
    placed.sort_by_key(|problem| problem.span.start);
    let warnings = Warnings { placed, others: files.tables.warnings(&config) };
    Ok((config, warnings))
}

fn json_of(
    loaded: &Result<Arc<Config>, ConfigErrors>,
    warnings: &Warnings,
    found: &Findings,
) -> Value {
    let mut list: Vec<_> = match loaded {
        Ok(config) => {
            let file = config.file_name();
            warnings.placed.iter().map(|problem| as_json(file, problem)).collect()
        }
        Err(errors) => {
            let of_files = errors.files();
            let all =
                of_files.flat_map(|(file, all)| all.iter().map(move |one| as_json(file, one)));
            all.collect()
        }
    };
    let sentences = warnings.others.iter();
    list.extend(sentences.map(|why| json!({ "severity": "warning", "message": why })));
    let mut all = json!({ "valid": loaded.is_ok(), "problems": list });
    if let Some(found) = &found.dns {
        all["dns"] = json!(found);
    }
    if let Some(files) = &found.unreachable {
        all["unreachable"] = json!(files);
    }
    all
}

fn show(
    loaded: &Result<Arc<Config>, ConfigErrors>,
    warnings: &Warnings,
    (found, user): (&Findings, Option<&str>),
    colour: bool,
) {
    let config = match loaded {
        Ok(config) => config,
        Err(errors) => {
            eprint!("{}", errors.render(colour));
            return;
        }
    };
    eprint!("{}", config.render(&warnings.placed, colour));
    warnings.others.iter().for_each(|why| eprintln!("warning: {why}"));
    // Line 0 is the route that is added for the postmaster.
    let routes = config.routes.iter().filter(|route| route.line > 0).count();
    super::print(&format!(
        "{}: OK ({}, {})\n",
        config.file_name(),
        counted(config.listeners.len(), "listener"),
        counted(routes, "route"),
    ));
    super::print(&ordered(config));
    if let (Some(files), Some(user)) = (&found.unreachable, user) {
        for Unreachable { path, what, why } in files {
            super::print(&format!("{user} cannot {what} {}: {why}\n", path.display()));
        }
        super::print(&format!("{} out of reach of {user}\n", counted(files.len(), "file")));
    }
    if let Some(found) = &found.dns {
        let lines: String = found.iter().map(ToString::to_string).collect();
        let count = |severity| found.iter().filter(|finding| finding.severity == severity).count();
        let errors = counted(count(Severity::Error), "error");
        let warnings = counted(count(Severity::Warn), "warning");
        super::print(&format!("{lines}{errors}, {warnings}\n"));
    }
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
        format!("certificate for {names} from {directory}, {challenge} on {at}, stored in {file}\n")
    };
    let all = config.certificates.iter().filter(|certificate| certificate.ordered.is_some());
    all.map(line).collect()
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn as_json(file: &str, problem: &Problem) -> Value {
    json!({
        "severity": if problem.fatal { "error" } else { "warning" },
        "file": file,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "help": problem.help,
    })
}
