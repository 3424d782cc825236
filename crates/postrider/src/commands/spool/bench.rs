//! `postrider spool bench`: the time that a disk takes to write and sync, as the spool needs it.

use crate::cli::{SpoolBenchArgs, exit};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// The directory of the files that are written, one for each writer.
const FILES: &str = "postrider-bench.tmp";
/// Size of a file, which is written from end to end, again and again.
const FILE_BYTES: u64 = 8 << 20;
/// A lone message, and a batch under load.
const SIZES: [usize; 2] = [4 << 10, 64 << 10];
/// Writers at once: one log, and the logs of several `paths` on one disk.
const WRITERS: [usize; 2] = [1, 4];
/// Syncs faster than this are no work of a disk without a cache that survives a power loss.
const CACHED_MICROS: u64 = 100;
/// Syncs slower than this delay each reply noticeably.
const SLOW_MICROS: u64 = 20_000;

/// Runs the subcommand.
pub(super) fn run(args: &SpoolBenchArgs) -> ExitCode {
    let path = args.dir.join(FILES);
    if path.exists() {
        let at = path.display();
        eprintln!("postrider: {at} exists: wait for the other measurement, or remove it");
        return ExitCode::from(exit::FAILED);
    }
    let measured = measure(&path, Duration::from_secs(args.seconds.into()));
    let _ = fs::remove_dir_all(&path);
    match measured {
        Ok(figures) => {
            let is_json = args.json;
            crate::commands::print(&if is_json { json(&figures) } else { text(&figures) });
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("postrider: cannot measure {}: {error}", args.dir.display());
            ExitCode::from(exit::FAILED)
        }
    }
}

/// Times of write and fdatasync together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SyncFigures {
    bytes: usize,
    writers: usize,
    /// Of all writers.
    per_second: u64,
    median_micros: u64,
    /// Of 100 syncs, 99 are as fast.
    p99_micros: u64,
    longest_micros: u64,
}

impl SyncFigures {
    /// The figures of these times, at least one.
    fn of(bytes: usize, writers: usize, took: Duration, mut times: Vec<Duration>) -> SyncFigures {
        times.sort_unstable();
        let micros = |at: usize| {
            let time = times.get(at.min(times.len().saturating_sub(1)));
            time.map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
        };
        let count = times.len();
        let per_second = (count as f64 / took.as_secs_f64().max(f64::EPSILON)) as u64;
        SyncFigures {
            bytes,
            writers,
            per_second,
            median_micros: micros(count / 2),
            p99_micros: micros(count * 99 / 100),
            longest_micros: micros(count),
        }
    }
}

/// Measures each size with each number of writers, in a new directory.
fn measure(path: &Path, time: Duration) -> io::Result<Vec<SyncFigures>> {
    fs::create_dir(path)?;
    let writers_max = WRITERS.into_iter().max().unwrap_or(1);
    let files = (0..writers_max).map(|writer| make(&path.join(writer.to_string())));
    let files = files.collect::<io::Result<Vec<File>>>()?;
    let mut figures = Vec::new();
    for writers in WRITERS {
        for bytes in SIZES {
            figures.push(measure_one(files.get(..writers).unwrap_or(&files), bytes, time)?);
        }
    }
    Ok(figures)
}

/// Makes a file like a recycled segment: written before, so that a sync writes data only.
fn make(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    let zeros = vec![0; 1 << 20];
    for offset in (0..FILE_BYTES).step_by(zeros.len()) {
        file.write_all_at(&zeros, offset)?;
    }
    file.sync_all()?;
    Ok(file)
}

fn measure_one(files: &[File], bytes: usize, time: Duration) -> io::Result<SyncFigures> {
    let began = Instant::now();
    let times = thread::scope(|scope| {
        let start = |file| scope.spawn(move || write_and_sync(file, bytes, time));
        let threads: Vec<_> = files.iter().map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread ended early")))
        };
        threads.into_iter().map(join).collect::<io::Result<Vec<Vec<Duration>>>>()
    })?;
    Ok(SyncFigures::of(bytes, files.len(), began.elapsed(), times.concat()))
}

/// Writes and syncs for this time, at least once.
fn write_and_sync(file: &File, bytes: usize, time: Duration) -> io::Result<Vec<Duration>> {
    let data: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    let (began, mut times, mut at) = (Instant::now(), Vec::new(), 0);
    loop {
        let one = Instant::now();
        file.write_all_at(&data, at)?;
        file.sync_data()?;
        times.push(one.elapsed());
        if began.elapsed() >= time {
            return Ok(times);
        }
        at = (at + bytes as u64) % FILE_BYTES;
    }
}

fn text(figures: &[SyncFigures]) -> String {
    let mut out = String::from("write and fdatasync, in milliseconds\n");
    let _ = writeln!(out, "writers  octets  median      p99  longest   per second");
    let millis = |micros: u64| format!("{}.{:02}", micros / 1_000, micros % 1_000 / 10);
    for one in figures {
        let (median, p99) = (millis(one.median_micros), millis(one.p99_micros));
        let longest = millis(one.longest_micros);
        let SyncFigures { bytes, writers, per_second, .. } = one;
        let _ = writeln!(
            out,
            "{writers:7} {bytes:7} {median:>7} {p99:>8} {longest:>8} {per_second:>12}"
        );
    }
    let _ = writeln!(out, "\n{}", meaning(figures).join("\n"));
    out
}

/// Sentences about the figures.
fn meaning(figures: &[SyncFigures]) -> Vec<String> {
    let Some(lone) = figures.first() else { return Vec::new() };
    let (median, p99) = (lone.median_micros, lone.p99_micros);
    let mut out = vec![format!(
        "A client waits about {}.{:02} ms for the disk after each message; messages that arrive \
         together share a sync.",
        median / 1_000,
        median % 1_000 / 10
    )];
    if median < CACHED_MICROS {
        out.push(
            "This is faster than flash memory writes: a cache answers. It must have a battery or \
             capacitors, or a power loss loses accepted mail; on tmpfs everything is lost."
                .to_owned(),
        );
    }
    if median > SLOW_MICROS {
        out.push(
            "This is slow for a mail server. A disk with power-loss protection, or a controller \
             with a protected write cache, is 10 to 100 times as fast."
                .to_owned(),
        );
    }
    if p99 > median.saturating_mul(20) && p99 > SLOW_MICROS {
        out.push(
            "Some syncs take far longer than most: another program writes to this disk, or its \
             volume has a limit of operations per second."
                .to_owned(),
        );
    }
    let speed = |writers: usize| {
        let of = |one: &&SyncFigures| one.writers == writers && one.bytes == lone.bytes;
        figures.iter().find(of).map_or(0, |one| one.per_second)
    };
    let most = WRITERS.into_iter().max().unwrap_or(1);
    if speed(most) >= speed(1).saturating_mul(2) {
        out.push(
            "Several writers sync more often than one: a further directory in `paths` on this \
             disk raises the rate of messages."
                .to_owned(),
        );
    }
    out.push("The limits and their reasons: docs/disks.md.".to_owned());
    out
}

fn json(figures: &[SyncFigures]) -> String {
    let rows = figures.iter().map(|one| {
        serde_json::json!({
            "writers": one.writers,
            "bytes": one.bytes,
            "per_second": one.per_second,
            "median_us": one.median_micros,
            "p99_us": one.p99_micros,
            "longest_us": one.longest_micros,
        })
    });
    let value = serde_json::json!({
        "measurements": rows.collect::<Vec<_>>(),
        "meaning": meaning(figures),
    });
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(median_micros: u64, p99_micros: u64, per_second: [u64; 2]) -> Vec<SyncFigures> {
        let of = |writers, per_second| SyncFigures {
            bytes: SIZES[0],
            writers,
            per_second,
            median_micros,
            p99_micros,
            longest_micros: p99_micros,
        };
        vec![of(WRITERS[0], per_second[0]), of(WRITERS[1], per_second[1])]
    }

    #[test]
    fn figures_are_those_of_the_sorted_times() {
        let times = (1..=200).rev().map(Duration::from_micros).collect();
        let figures = SyncFigures::of(4096, 1, Duration::from_secs(2), times);
        let SyncFigures { per_second, median_micros, p99_micros, longest_micros, .. } = figures;
        assert_eq!((per_second, median_micros, p99_micros, longest_micros), (100, 101, 199, 200));
        let one = SyncFigures::of(4096, 1, Duration::from_secs(1), vec![Duration::from_micros(7)]);
        assert_eq!((one.median_micros, one.p99_micros, one.longest_micros), (7, 7, 7));
    }

    #[test]
    fn meaning_depends_on_the_figures() {
        let says = |figures: &[SyncFigures], text: &str| {
            meaning(figures).iter().any(|line| line.contains(text))
        };
        let good = figures(1_200, 3_000, [800, 900]);
        for other in ["a cache answers", "slow for a mail server", "far longer", "Several writers"]
        {
            assert!(!says(&good, other), "{other}");
        }
        assert!(says(&good, "about 1.20 ms"));
        assert!(says(&figures(CACHED_MICROS - 1, 99, [1, 1]), "a cache answers"));
        assert!(!says(&figures(CACHED_MICROS, 100, [1, 1]), "a cache answers"));
        assert!(says(&figures(SLOW_MICROS + 1, 30_000, [1, 1]), "slow for a mail server"));
        assert!(says(&figures(1_000, SLOW_MICROS + 1, [1, 1]), "far longer"));
        assert!(says(&figures(1_000, 3_000, [400, 800]), "Several writers"));
        assert!(meaning(&[]).is_empty());
    }

    #[test]
    fn file_is_written_measured_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILES);
        let figures = measure(&path, Duration::from_millis(5)).unwrap();
        assert_eq!(figures.len(), SIZES.len() * WRITERS.len());
        assert!(figures.iter().all(|one| one.per_second > 0 && one.longest_micros > 0));
        let text = text(&figures);
        assert_eq!(text.lines().nth(1).unwrap().split_whitespace().count(), 7, "{text}");
        let json: serde_json::Value = serde_json::from_str(&json(&figures)).unwrap();
        assert_eq!(json["measurements"].as_array().unwrap().len(), 4);
        assert!(measure(&path, Duration::ZERO).is_err(), "it is another one's");
        assert!(measure(&directory.path().join("none/files"), Duration::ZERO).is_err());
    }
}
