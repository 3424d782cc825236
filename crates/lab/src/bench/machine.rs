//! The machine: what it is, how busy it is, how fast its disk syncs.

use super::report::{DiskLatency, Machine, Mark, Severity};
use load::proc::{self, Busy};
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Syncs that are timed.
const SYNCS: usize = 100;
/// The file they overwrite.
const PROBE_BYTES: usize = 1 << 20;
const BLOCK_BYTES: usize = 4096;

/// How long is looked at what others do on the machine.
const BUSY_LOOK: Duration = Duration::from_millis(500);
/// With more of it in use by others, figures are doubtful.
const BUSY_PERCENT_MAX: f64 = 15.0;

/// Describes the machine and the file system below `directory`.
pub(super) fn describe(directory: &Path) -> Machine {
    let uname = rustix::system::uname();
    let part = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let mut machine = Machine {
        cpu_model: proc::cpu_model().unwrap_or_else(|| "unknown".to_owned()),
        cores: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        memory_bytes: proc::memory_bytes().unwrap_or(0),
        kernel: format!(
            "{} {} {}",
            part(uname.sysname()),
            part(uname.release()),
            part(uname.version())
        ),
        spool_directory: directory.display().to_string(),
        load_before: proc::load_average().unwrap_or(0.0),
        busy_before_percent: busy_percent(),
        ..Machine::default()
    };
    // Not with procfs, which forgets the order of the options: people are to recognize them.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(mount) = find_mount(&mounts, directory) {
        machine.spool_file_system = mount.file_system;
        machine.spool_device = mount.device;
        machine.spool_mount_options = mount.options;
    }
    machine
}

/// How busy the machine is now. The load average would still know of the run before this one.
fn busy_percent() -> f64 {
    let before = Busy::now();
    std::thread::sleep(BUSY_LOOK);
    Busy::now().percent_since(before)
}

/// Bytes that everybody has written to the device below `directory` since the machine was started;
/// `None` where the kernel doesn't tell.
pub(super) fn device_written_bytes(directory: &Path) -> Option<u64> {
    let device = std::fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    // The seventh figure is sectors of 512 bytes, whatever the device has.
    Some(stat.split_ascii_whitespace().nth(6)?.parse::<u64>().ok()? * 512)
}

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    file_system: String,
    device: String,
    options: String,
}

/// The mount that a directory is on, from the text of proc_pid_mountinfo(5).
fn find_mount(mountinfo: &str, directory: &Path) -> Option<Mount> {
    let mut best: Option<(usize, Mount)> = None;
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (&[_, _, _, _, at, options, ..], &[file_system, device, ..]) = (&*left, &*right) else {
            continue;
        };
        // A space in the path is written as \040.
        let at = at.replace("\\040", " ");
        // The later of two at the same place hides the earlier.
        if directory.starts_with(&at) && best.as_ref().is_none_or(|(length, _)| at.len() >= *length)
        {
            let [file_system, device, options] = [file_system, device, options].map(str::to_owned);
            best = Some((at.len(), Mount { file_system, device, options }));
        }
    }
    best.map(|(_, mount)| mount)
}

/// What the machine makes doubtful or worthless.
pub(super) fn judge(machine: &Machine) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut mark = |severity, text| marks.push(Mark { severity, text });
    let file_system = machine.spool_file_system.as_str();
    if ["tmpfs", "ramfs", "overlay", "overlayfs", "aufs"].contains(&file_system) {
        mark(
            Severity::Invalid,
            format!(
                "the spools are on {file_system} ({}): a sync there reaches no disk, or not this one",
                machine.spool_directory
            ),
        );
    }
    if file_system.is_empty() {
        mark(Severity::Doubtful, "the file system of the spools is unknown".to_owned());
    }
    let busy = machine.busy_before_percent;
    if busy > BUSY_PERCENT_MAX {
        mark(
            Severity::Doubtful,
            format!("other programs used {busy:.0} % of this machine before the run"),
        );
    }
    if cfg!(debug_assertions) {
        mark(Severity::Doubtful, "this is a debug build".to_owned());
    }
    marks
}

/// Times small overwrites with fdatasync, as a spool's commits are.
pub(super) fn probe_disk(directory: &Path) -> std::io::Result<DiskLatency> {
    let path = directory.join("probe");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
    file.write_all_at(&vec![0; PROBE_BYTES], 0)?;
    file.sync_all()?;
    let mut times = Vec::with_capacity(SYNCS);
    for n in 0..SYNCS {
        let begun = Instant::now();
        file.write_all_at(&[n as u8 + 1; BLOCK_BYTES], (n * BLOCK_BYTES % PROBE_BYTES) as u64)?;
        file.sync_data()?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    std::fs::remove_file(&path)?;
    times.sort_by(f64::total_cmp);
    Ok(DiskLatency {
        count: SYNCS as u32,
        p50_us: times[SYNCS / 2],
        p90_us: times[SYNCS * 9 / 10],
        max_us: times[SYNCS - 1],
    })
}

/// Space that the files below a directory take; what disappears meanwhile doesn't count.
pub(super) fn disk_used_bytes(directory: &Path) -> u64 {
    let mut sum = 0;
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                directories.push(entry.path());
            } else {
                sum += metadata.blocks() * 512;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::{Mount, find_mount, judge, probe_disk};
    use crate::bench::report::{Machine, Severity};
    use std::path::Path;

    const MOUNTS: &str = "\
        22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        30 22 0:26 / /dev/shm rw,nosuid - tmpfs tmpfs rw\n\
        31 22 0:27 / /srv/with\\040space rw master:1 - xfs /dev/vdb rw\n\
        32 22 0:28 / /srv rw - tmpfs first rw\n\
        33 32 0:29 / /srv rw - tmpfs second rw\n";

    #[test]
    fn the_longest_mount_point_is_the_one_and_the_last_on_top() {
        let device = |path: &str| find_mount(MOUNTS, Path::new(path)).map(|mount| mount.device);
        assert_eq!(device("/home/x").as_deref(), Some("/dev/vda"));
        assert_eq!(device("/dev/shm/x").as_deref(), Some("tmpfs"));
        assert_eq!(device("/dev/shmx").as_deref(), Some("/dev/vda"));
        assert_eq!(device("/srv/with space/x").as_deref(), Some("/dev/vdb"));
        assert_eq!(device("/srv/x").as_deref(), Some("second"));
        let mount = find_mount(MOUNTS, Path::new("/x"));
        let [file_system, device, options] = ["ext4", "/dev/vda", "rw,relatime"].map(str::to_owned);
        assert_eq!(mount, Some(Mount { file_system, device, options }));
    }

    #[test]
    fn a_spool_in_memory_is_invalid() {
        let on = |name: &str| {
            let machine =
                Machine { spool_file_system: name.to_owned(), cores: 2, ..Machine::default() };
            judge(&machine).iter().any(|mark| mark.severity == Severity::Invalid)
        };
        assert!(on("tmpfs") && on("overlay"));
        assert!(!on("ext4") && !on("xfs"));
    }

    #[test]
    fn the_probe_leaves_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let latency = probe_disk(directory.path()).expect("a disk");
        assert!(latency.p50_us > 0.0 && latency.max_us >= latency.p90_us);
        assert_eq!(std::fs::read_dir(directory.path()).expect("readable").count(), 0);
    }
}
