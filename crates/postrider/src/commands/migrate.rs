//! `postrider migrate`: the configuration of another mail server as this server's, with a report.

mod new_config;
mod postfix;
mod report;

use super::init::new_files::{self, Access, NewFile};
use crate::cli::{MigrateArgs, MigrateCommand, PostfixArgs, exit};
use postfix::{Migrated, Surroundings, migrate};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// The file of the configuration.
const CONFIGURATION: &str = "postrider.toml";

/// Runs `postrider migrate`.
pub(crate) fn run(args: &MigrateArgs) -> ExitCode {
    let MigrateCommand::Postfix(args) = &args.command;
    match of_postfix(args) {
        Ok(code) => code,
        Err(errors) => {
            for error in errors {
                eprintln!("postrider: {error}");
            }
            ExitCode::from(exit::USAGE)
        }
    }
}

/// Writes the files, and prints the report.
fn of_postfix(args: &PostfixArgs) -> Result<ExitCode, Vec<String>> {
    let one = |error: String| vec![error];
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|error| one(format!("{}: {error}", path.display())))
    };
    let (dir, out) = (absolute(&args.dir)?, absolute(&args.out)?);
    let target = out.join(CONFIGURATION);
    new_files::refuse_existing(&target).map_err(one)?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let around = Surroundings { out: &out, accounts: &args.passwd, host: &host };
    let migrated = migrate(&dir, &around)?;
    let written = write(&migrated, &dir, &out).map_err(one)?;
    match args.json {
        true => {
            let all = json!({
                "files": written,
                "accepts_more": migrated.report.is_open(),
                "report": migrated.report.json(),
            });
            super::print(&format!("{all:#}\n"));
        }
        false => {
            let files: String = written.iter().map(|path| format!("wrote {path}\n")).collect();
            super::print(&format!("{}{files}", migrated.report.text()));
        }
    }
    Ok(match migrated.report.is_open() {
        true => ExitCode::from(exit::FAILED),
        false => ExitCode::SUCCESS,
    })
}

/// Writes the configuration and the files beside it, and returns their paths.
fn write(migrated: &Migrated, dir: &Path, out: &Path) -> Result<Vec<String>, String> {
    let heading = format!(
        "# Made from {} by `postrider migrate postfix`.\n# `postrider check --config FILE` reads it as the server would.\n",
        dir.display()
    );
    let made = migrated.config.files.iter().map(|file| NewFile {
        path: out.join(&file.name),
        access: if file.is_secret { Access::Server } else { Access::All },
        content: file.content.clone(),
    });
    let mut files: Vec<NewFile> = made.collect();
    // The last one, so that it exists only if all files do.
    files.push(NewFile {
        path: out.join(CONFIGURATION),
        access: Access::All,
        content: migrated.config.text(&heading),
    });
    let written = new_files::write_all(&[(out.to_owned(), Access::All)], &files, None)?;
    Ok(written.iter().map(|path| path.display().to_string()).collect())
}
