//! What the kernel says of a process.

use std::fs::read_to_string;

/// Resident memory in bytes.
///
/// # Errors
/// When it has ended.
pub(super) fn resident_bytes(pid: u32) -> Result<u64, String> {
    let text = read(pid, "status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    kilobytes.map(|kb: u64| kb * 1024).ok_or_else(|| format!("/proc/{pid}/status: no VmRSS"))
}

/// CPU time so far, in milliseconds.
///
/// # Errors
/// When it has ended.
pub(super) fn cpu_ms(pid: u32) -> Result<u64, String> {
    let text = read(pid, "stat")?;
    // proc(5): the second field is the name in brackets; utime is the 14th, stime the 15th.
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: Vec<u64> =
        after_name.split_whitespace().skip(11).take(2).flat_map(str::parse).collect();
    let &[user, system] = ticks.as_slice() else {
        return Err(format!("/proc/{pid}/stat: {text:?}"));
    };
    Ok((user + system) * 1000 / rustix::param::clock_ticks_per_second())
}

/// Open files.
///
/// # Errors
/// When it has ended.
pub(super) fn open_files(pid: u32) -> Result<usize, String> {
    let path = format!("/proc/{pid}/fd");
    Ok(std::fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?.count())
}

fn read(pid: u32, what: &str) -> Result<String, String> {
    let path = format!("/proc/{pid}/{what}");
    read_to_string(&path).map_err(|error| format!("{path}: {error}"))
}
