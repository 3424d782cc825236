//! `postrider spool`.

mod backup;
mod bench;
mod import;

use crate::cli::{SpoolArgs, SpoolCommand, VerifyArgs, exit};
use crate::file_disk::FileDisk;
use spool::VerifyReport;
use std::path::Path;
use std::process::ExitCode;

/// Runs the subcommand.
pub(crate) fn run(args: &SpoolArgs) -> ExitCode {
    match &args.command {
        SpoolCommand::Verify(args) => verify(args),
        SpoolCommand::Import(args) => import::run(args),
        SpoolCommand::Bench(args) => bench::run(args),
        SpoolCommand::Backup(args) => backup::back_up(args),
        SpoolCommand::Restore(args) => backup::restore(args),
    }
}

fn verify(args: &VerifyArgs) -> ExitCode {
    let report = match read(&args.path) {
        Ok(report) => report,
        Err(text) => {
            eprintln!("postrider: {text}");
            return ExitCode::from(exit::FAILED);
        }
    };
    super::print(&if args.json { json(&report) } else { text(&args.path, &report) });
    if report.damaged_count > 0 { ExitCode::from(exit::FAILED) } else { ExitCode::SUCCESS }
}

/// Verifies a log without a running writer.
fn read(path: &Path) -> Result<VerifyReport, String> {
    let disk = FileDisk::read_only(path)
        .map_err(|error| format!("cannot open the spool {}: {error}", path.display()))?;
    spool::verify(&disk).map_err(|error| format!("{}: {error}", path.display()))
}

fn text(path: &Path, report: &VerifyReport) -> String {
    let mut out = format!(
        "{}: {} records in {} segments\n\
         live:    {} messages, {} open recipients\n\
         settled: {} messages\n\
         damaged: {}\n\
         torn:    {} batches at the end that were never acknowledged\n",
        path.display(),
        report.records_count,
        report.segments_count,
        report.live_count,
        report.open_recipients_count,
        report.settled_count,
        report.damaged_count,
        report.torn_count,
    );
    if report.quarantined_count > 0 {
        out.push_str(&format!("set aside by an earlier start: {}\n", report.quarantined_count));
    }
    if report.copied_count > 0 {
        out.push_str(&format!(
            "copied by compaction, old segment still there: {}\n",
            report.copied_count
        ));
    }
    if report.orphan_blobs_count > 0 {
        out.push_str(&format!("orphan blobs: {}\n", report.orphan_blobs_count));
    }
    for damage in &report.damage {
        out.push_str(&format!("damage: {damage}\n"));
    }
    out
}

fn json(report: &VerifyReport) -> String {
    let damage: Vec<_> = report
        .damage
        .iter()
        .map(|damage| {
            serde_json::json!({
                "file": &*damage.file,
                "offset": damage.offset,
                "bytes": damage.bytes,
                "what": &*damage.what,
            })
        })
        .collect();
    let value = serde_json::json!({
        "segments": report.segments_count,
        "records": report.records_count,
        "live_messages": report.live_count,
        "open_recipients": report.open_recipients_count,
        "settled_messages": report.settled_count,
        "damaged": report.damaged_count,
        "copied_messages": report.copied_count,
        "torn_batches": report.torn_count,
        "quarantined_segments": report.quarantined_count,
        "orphan_blobs": report.orphan_blobs_count,
        "damage": damage,
    });
    format!("{value:#}\n")
}
