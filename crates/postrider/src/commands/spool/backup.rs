//! `postrider spool backup` and `postrider spool restore`.

use crate::cli::{BackupArgs, RestoreArgs, ServerArgs, exit};
use crate::commands::{asking, load};
use crate::spool_backup::{self, BackupReport, RESTORED, RestoreReport};
use config::Config;
use mta::commands::SpoolSnapshot;
use mta::control::ControlResponse;
use mta::event::EventSettings;
use std::process::ExitCode;

/// Backs up the spool of a running server.
pub(super) fn back_up(args: &BackupArgs) -> ExitCode {
    match try_back_up(args) {
        Ok(report) => {
            crate::commands::print(&backup_text(&report, args));
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

fn try_back_up(args: &BackupArgs) -> Result<BackupReport, ExitCode> {
    let config = load::load(args.config.as_deref())?;
    let server = ServerArgs { config: args.config.clone(), control: None, json: args.json };
    let mut refused = None;
    asking::ask(&server, &SpoolSnapshot {}.into(), |response| {
        if let ControlResponse::Error { code, text } = response {
            refused = Some((code, text));
        }
        Ok(())
    })?;
    if let Some((code, text)) = refused {
        return Err(asking::refused(code, &text));
    }
    let done = copied(&config, args);
    for log in &config.spool.paths {
        if let Err(error) = spool_backup::remove_staged(log) {
            let at = log.display();
            eprintln!("postrider: cannot remove the links of the backup in {at}: {error}");
        }
    }
    done.map_err(|why| {
        eprintln!("postrider: {why}; there is no new backup, an earlier one is still whole");
        ExitCode::from(exit::FAILED)
    })
}

fn copied(config: &Config, args: &BackupArgs) -> Result<BackupReport, String> {
    let events = config.of::<EventSettings>().map(|events| events.file.path.as_path());
    spool_backup::back_up(&config.spool.paths, events, crate::commands::VERSION, &args.dir)
}

fn backup_text(report: &BackupReport, args: &BackupArgs) -> String {
    let BackupReport { files, new_files, linked, copied_bytes, state_files } = report;
    if args.json {
        let value = serde_json::json!({
            "files": files,
            "new_files": new_files,
            "linked": linked,
            "copied_bytes": copied_bytes,
            "state_files": state_files,
        });
        return format!("{value:#}\n");
    }
    format!(
        "backed up to {}: {files} files of the spool ({new_files} new, {linked} linked), \
         {state_files} state files, {} MiB copied\n",
        args.dir.display(),
        copied_bytes >> 20
    )
}

/// Restores a backup.
pub(super) fn restore(args: &RestoreArgs) -> ExitCode {
    let config = match load::load(args.config.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    match spool_backup::restore(&config, &args.dir) {
        Ok(report) => {
            crate::commands::print(&restore_text(&report, args.json));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("postrider: {why}");
            ExitCode::from(exit::FAILED)
        }
    }
}

fn restore_text(report: &RestoreReport, is_json: bool) -> String {
    let RestoreReport { taken_at, messages, held_before } = report;
    if is_json {
        let value = serde_json::json!({
            "taken_at": taken_at.to_string(),
            "messages": messages,
            "held_before": held_before,
        });
        return format!("{value:#}\n");
    }
    let restored = RESTORED.trim_end().trim_end_matches(" of");
    format!(
        "restored the backup of {taken_at}: {messages} messages, all on hold ({held_before} were \
         before)\nRelease mail that was not delivered since, once the server runs:\n  postrider \
         queue release --failure '{restored}' --not-in EVENTS\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_mail_is_released_by_the_printed_command() {
        let report = RestoreReport { taken_at: mail::Wall(0), messages: 3, held_before: 1 };
        let text = restore_text(&report, false);
        assert!(
            text.contains("1970-01-01T00:00:00.000Z: 3 messages, all on hold (1 were"),
            "{text}"
        );
        assert!(text.contains("release --failure 'restored from the backup' --not-in"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&restore_text(&report, true)).unwrap();
        assert_eq!(json["messages"], 3);
    }
}
