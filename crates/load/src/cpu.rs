//! What a process has used, as a command.

use crate::proc::{Memory, Usage};
use crate::stop::{CommandError, Outcome};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;

/// Print CPU time and memory of a process as JSON.
///
/// The difference of `cpu_seconds` before and after a run, divided by the number of messages, is the
/// cost of one message. The resolution is 1/100 s.
#[derive(clap::Args, Clone, Debug)]
pub struct CpuOptions {
    /// Process id
    #[arg(long)]
    pub pid: u32,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct CpuUsage {
    pid: u32,
    /// In user space, all threads, also those that ended.
    user_seconds: f64,
    system_seconds: f64,
    cpu_seconds: f64,
    rss_bytes: u64,
    rss_peak_bytes: u64,
    thread_count: u64,
}

/// The command.
pub fn run(options: &CpuOptions) -> Outcome {
    let pid = options.pid;
    let failed = |error| CommandError::new(format!("process {pid}: {error}"));
    let usage = Usage::of_one(pid).map_err(failed)?;
    let Memory { rss_bytes, rss_peak_bytes, thread_count } = Memory::of(pid).map_err(failed)?;
    let shown = CpuUsage {
        pid,
        user_seconds: usage.user_seconds,
        system_seconds: usage.system_seconds,
        cpu_seconds: usage.cpu_seconds(),
        rss_bytes,
        rss_peak_bytes,
        thread_count,
    };
    println!("{}", serde_json::json!(shown));
    Ok(ExitCode::SUCCESS)
}

/// What this thread has used of a processor.
#[must_use]
pub fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
