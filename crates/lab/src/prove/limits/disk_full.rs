//! The disk is full to the last byte while mail is queued.

use super::client::try_message;
use super::{Findings, LimitsOptions, config};
use crate::prove::relay::Relay;
use crate::stand::Result;
use crate::stand::system::run_words;
use load::file::{self, FileError};
use load::ledger::Audit;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file system of the spool.
const SIZE: &str = "size=48M";
/// A message that fills it.
const BODY_BYTES: &str = "4000";
/// Messages whose sender wants to hear of their delivery, and more of them than may be delivered
/// without a record of it.
const WITH_REPORTS: u64 = 40;
const UNSETTLED_MAX: &str = "unsettled_max = 10";
/// Until intake takes mail again.
const ROOM_MAX: Duration = Duration::from_secs(30);

/// A file system in memory; the namespace's end unmounts it as well.
#[derive(Debug)]
struct Tmpfs {
    path: PathBuf,
    ballast: Option<File>,
}

impl Tmpfs {
    fn mount(path: &Path) -> Result<Tmpfs> {
        std::fs::create_dir(path).map_err(FileError::at(path))?;
        let at = path.display().to_string();
        run_words("mount", &["-t", "tmpfs", "-o", SIZE, "postrider-lab", &at])?;
        let ballast = file::create(&path.join("ballast"))?;
        Ok(Tmpfs { path: path.to_owned(), ballast: Some(ballast) })
    }

    /// Takes what is free, to the last byte.
    fn fill(&mut self) {
        let piece = vec![0; 64 * 1024];
        if let Some(ballast) = &mut self.ballast {
            while let Ok(1..) = ballast.write(&piece) {}
        }
    }

    fn make_room(&mut self) -> Result<()> {
        self.ballast = None;
        let path = self.path.join("ballast");
        Ok(std::fs::remove_file(&path).map_err(FileError::at(&path))?)
    }

    fn free_bytes(&self) -> u64 {
        rustix::fs::statvfs(&self.path).map(|space| space.f_bavail * space.f_frsize).unwrap_or(0)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = run_words("umount", &["--lazy", &self.path.display().to_string()]);
    }
}

pub(super) fn examine(
    options: &LimitsOptions,
    relay: &mut Relay,
    findings: &mut Findings,
) -> Result<Audit> {
    let mount = relay.directory().join("disk");
    let mut disk = Tmpfs::mount(&mount)?;
    relay.spool = mount.join("spool");
    relay.configure(&config(relay, UNSETTLED_MAX, ""))?;
    relay.start()?;
    relay.wait_listening()?;
    // There is no sink yet: all of it stays in the queue.
    for _ in 0..WITH_REPORTS {
        let said = try_message(&relay.address, "sender@source.test", "NOTIFY=SUCCESS")?;
        findings.expect(said.starts_with("250"), || format!("before: {said}"));
    }
    let report = relay.send(options.messages, &["--body-bytes", BODY_BYTES])?;
    findings.note("queued with free space", report["acked"].clone());
    disk.fill();
    findings.note("free bytes", disk.free_bytes());
    let full = relay.send(options.messages * 4, &["--body-bytes", BODY_BYTES])?;
    findings.note("queued without free space", full["acked"].clone());
    findings.note("refused without free space", full["refused_by_reply"].clone());
    let refused = full["refused"].as_u64().unwrap_or(0);
    let at_content = full["refused_by_reply"]["content 452"].as_u64().unwrap_or(0)
        + full["refused_by_reply"]["DATA 452"].as_u64().unwrap_or(0);
    findings.expect(refused > 0 && refused == at_content, || {
        format!("a full disk was answered with {}", full["refused_by_reply"])
    });
    let said = probe(relay)?;
    findings.expect(said.starts_with("452 4.3.1"), || format!("a full disk was answered {said}"));
    findings.note("reply", said);

    let acked = relay.audit()?.acked_recipients;
    relay.stand.start_sink(&["--no-dsn"])?;
    let drained = drain_while_full(relay, &mut disk, acked, findings)?;
    findings.expect(drained >= acked, || format!("only {drained} of {acked} left a full disk"));

    disk.make_room()?;
    let begun = Instant::now();
    let mut said = probe(relay)?;
    while !said.starts_with("250") && begun.elapsed() < ROOM_MAX {
        std::thread::sleep(Duration::from_millis(20));
        said = probe(relay)?;
    }
    findings.note("seconds to 250 with free space", begun.elapsed().as_secs_f64());
    findings.expect(said.starts_with("250"), || format!("reply with free space again: {said}"));
    let after = relay.send(options.messages, &[])?;
    findings
        .expect(after["acked"] == options.messages, || format!("with free space again: {after}"));
    wait_reports(relay, findings)?;
    findings.account(relay, 0)
}

/// Hands in a message that nobody is told about; what is answered.
fn probe(relay: &Relay) -> Result<String> {
    try_message(&relay.address, "", "")
}

/// Reports that found no room are sent when there is some.
fn wait_reports(relay: &mut Relay, findings: &mut Findings) -> Result<()> {
    let begun = Instant::now();
    // Neither these messages nor their reports, nor the probes, carry an id of the ledger.
    let due = WITH_REPORTS * 2;
    while relay.audit()?.unidentified_arrivals < due && begun.elapsed() < ROOM_MAX {
        relay.stand.check_running()?;
        std::thread::sleep(Duration::from_millis(50));
    }
    let arrived = relay.audit()?.unidentified_arrivals;
    findings.expect(arrived >= due, || format!("only {arrived} of {due} messages and reports"));
    Ok(())
}

/// Takes every byte that the draining queue frees; gives how much was delivered meanwhile.
fn drain_while_full(
    relay: &mut Relay,
    disk: &mut Tmpfs,
    acked: u64,
    findings: &mut Findings,
) -> Result<u64> {
    let begun = Instant::now();
    let (mut arrived, mut last) = (0, Instant::now());
    let mut taken = 0;
    while arrived < acked && last.elapsed() < ROOM_MAX {
        disk.fill();
        taken += u64::from(probe(relay)?.starts_with("250"));
        let now = relay.audit()?.arrivals;
        if now > arrived {
            (arrived, last) = (now, Instant::now());
        }
        relay.stand.check_running()?;
    }
    findings.note("delivered without free space", arrived);
    findings.note("seconds to deliver them", begun.elapsed().as_secs_f64());
    // A segment that is freed in the middle may well be used before the ballast takes its place.
    findings.note("accepted while draining", taken);
    Ok(arrived)
}
