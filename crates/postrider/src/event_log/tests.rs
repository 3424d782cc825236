//! The event log against a real directory, and against a disk that is full.

use super::*;
use crate::kept_secret::SPOOL_SALT;
use mail::{MessageId, Wall};
use mta::event::EventMessage;
use std::fs;
use std::path::Path;
use std::time::Instant;

fn options(directory: &Path) -> EventFile {
    EventFile {
        path: directory.join("events.jsonl"),
        rotate_bytes: None,
        rotate_after: None,
        keep_files: None,
        waiting_max: 100_000,
    }
}

fn released(n: u64) -> Event {
    Event {
        at: Wall(1_795_255_872_345 + n),
        message: Some(EventMessage {
            id: MessageId(n),
            position: Some(Position::new(0, n)),
            envelope: None,
            received_at: Wall(0),
            body_bytes: 1,
            labels: None,
        }),
        recipients: Recipients::new(),
        kind: Kind::Released,
    }
}

/// Numbers of all who count.
struct Counted(Vec<Arc<EventMetrics>>);

impl Counted {
    fn sum(&self, of: impl Fn(&EventMetrics) -> u64) -> u64 {
        self.0.iter().map(|one| of(one)).sum()
    }

    fn emitted(&self) -> u64 {
        self.sum(|one| one.emitted.get())
    }

    fn dropped(&self) -> u64 {
        self.sum(|one| one.dropped.get())
    }

    fn lag(&self) -> u64 {
        self.sum(|one| u64::try_from(one.lag.get()).unwrap())
    }

    fn write_failures(&self) -> u64 {
        self.sum(|one| one.write_failures.get())
    }
}

fn start(options: &EventFile, shards: usize) -> (EventLog, Counted) {
    let metrics: Vec<Arc<EventMetrics>> = (0..=shards).map(|_| Arc::default()).collect();
    let log = EventLog::start(options, &metrics, Box::new(|text| eprintln!("{text}"))).unwrap();
    (log, Counted(metrics))
}

fn open(options: EventFile, now: Wall) -> LogFile {
    let mut file = LogFile::new(options, now);
    file.open(now).unwrap();
    file
}

fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What is wrong with it, as a line of text.
fn problem(log: &EventLog) -> Option<String> {
    let problems = mta::problems::Problems::default();
    problems.register(log.writing());
    problems.ask(ClockReading::default()).pop().map(|one| crate::problems::sentence(&one))
}

#[test]
fn every_event_of_every_shard_is_written_once() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (log, metrics) = start(&options, 4);
    let shards: Vec<_> = (0..4)
        .map(|shard| {
            let queue = log.queue(shard).unwrap();
            thread::spawn(move || {
                for n in 0..5_000 {
                    queue.emit(released(n * 4 + shard as u64));
                    if n % 1_000 == 0 {
                        thread::sleep(Duration::from_millis(15));
                    }
                }
            })
        })
        .collect();
    for shard in shards {
        shard.join().unwrap();
    }
    assert_eq!(log.finish(false), 0);
    let text = fs::read_to_string(&options.path).unwrap();
    let mut ids: Vec<String> =
        lines(&text).iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    let expected: Vec<String> = (0..20_000).map(|n| MessageId(n).to_string()).collect();
    assert_eq!(ids, expected);
    assert_eq!(metrics.emitted(), 20_000);
    assert_eq!(metrics.sum(|one| one.written_bytes.get()), text.len() as u64);
    assert_eq!((metrics.dropped(), metrics.lag()), (0, 0));
}

#[test]
fn a_single_event_reaches_the_file_without_a_further_one() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (log, _) = start(&options, 1);
    let queue = log.queue(0).unwrap();
    for n in 0..20 {
        queue.emit(released(n));
        let begun = Instant::now();
        // The writer makes it.
        while lines(&fs::read_to_string(&options.path).unwrap_or_default()).len() as u64 <= n {
            assert!(begun.elapsed() < Duration::from_secs(5), "event {n} stays in the queue");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn files_are_rotated_by_size_and_only_the_newest_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let bystander = directory.path().join("events.jsonl.orig");
    fs::write(&bystander, "mine").unwrap();
    let options =
        EventFile { rotate_bytes: Some(4_096), keep_files: Some(2), ..options(directory.path()) };
    let mut file = open(options.clone(), Wall(0));
    for n in 0..40_u64 {
        let mut text = vec![b'x'; 1_023];
        text.push(b'\n');
        file.write(&mut text, Wall(1_795_255_872_345 + n)).unwrap();
    }
    let mut sizes: Vec<u64> = Vec::new();
    for entry in fs::read_dir(directory.path()).unwrap() {
        sizes.push(entry.unwrap().metadata().unwrap().len());
    }
    sizes.sort_unstable();
    assert_eq!(sizes, [4, 4_096, 4_096, 4_096]);
    assert_eq!(fs::read_to_string(bystander).unwrap(), "mine");
}

#[test]
fn files_are_rotated_by_age_also_across_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        EventFile { rotate_after: Some(Duration::from_secs(60)), ..options(directory.path()) };
    let begun = Wall(1_795_255_872_345);
    let mut text = Vec::new();
    json::write_lines(&released(0), &mut text);
    open(options.clone(), begun).write(&mut text, begun).unwrap();
    let mut file = open(options, begun.after(Duration::from_secs(59)));
    for (age, files) in [(59, 1), (60, 2), (61, 2)] {
        let mut text = b"{}\n".to_vec();
        file.write(&mut text, begun.after(Duration::from_secs(age))).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), files, "after {age} s");
    }
}

#[test]
fn a_line_that_a_crash_cut_is_ended_before_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    fs::write(&options.path, "{\"time\":\"2026").unwrap();
    let mut file = open(options.clone(), Wall(0));
    file.write(&mut b"{}\n".to_vec(), Wall(0)).unwrap();
    assert_eq!(fs::read_to_string(&options.path).unwrap(), "{\"time\":\"2026\n{}\n");
}

#[test]
fn a_file_that_someone_moved_away_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let mut file = open(options.clone(), Wall(0));
    file.write(&mut b"1\n".to_vec(), Wall(0)).unwrap();
    fs::rename(&options.path, directory.path().join("moved")).unwrap();
    file.write(&mut b"2\n".to_vec(), Wall(2_000)).unwrap();
    assert_eq!(fs::read_to_string(directory.path().join("moved")).unwrap(), "1\n");
    assert_eq!(fs::read_to_string(&options.path).unwrap(), "2\n");
}

#[test]
fn on_a_full_disk_mail_goes_on_and_what_is_lost_is_counted_and_named() {
    // Every write to /dev/full fails with ENOSPC, for root too.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let options = EventFile { waiting_max: 100, ..options(directory.path()) };
    let (log, metrics) = start(&options, 1);
    let queue = log.queue(0).unwrap();
    let begun = Instant::now();
    queue.emit(released(0));
    while metrics.write_failures() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(5));
        thread::sleep(Duration::from_millis(1));
    }
    for n in 1..=500 {
        queue.emit(released(n));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "emit must not wait for the disk");
    // Space comes back.
    fs::remove_file(&path).unwrap();
    while metrics.dropped() == 0 || metrics.lag() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(10));
    }
    log.finish(false);
    let seen = lines(&fs::read_to_string(&path).unwrap());
    let lost: Vec<_> = seen.iter().filter(|line| line["event"] == "lost").collect();
    assert_eq!(lost.len(), 1);
    assert_eq!((&lost[0]["count"], &lost[0]["sequence"]), (&400.into(), &101.into()));
    assert_eq!(seen.len(), 102);
    assert_eq!(metrics.emitted(), 501);
}

/// Waits until writing has failed; when that wait began.
fn wait_for_failure(metrics: &Counted) -> Instant {
    let begun = Instant::now();
    while metrics.write_failures() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(1));
    }
    begun
}

#[test]
fn a_file_that_can_not_be_opened_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path());
    // Its directory is none.
    options.path = directory.path().join("disk/events.jsonl");
    fs::write(directory.path().join("disk"), "in its place").unwrap();
    let (log, metrics) = start(&options, 1);
    log.queue(0).unwrap().emit(released(0));
    let begun = wait_for_failure(&metrics);
    assert!(problem(&log).unwrap().contains("cannot write"));
    assert_eq!((metrics.emitted(), metrics.lag()), (1, 1));
    fs::remove_file(directory.path().join("disk")).unwrap();
    fs::create_dir(directory.path().join("disk")).unwrap();
    while metrics.lag() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(problem(&log), None);
    assert_eq!(log.finish(false), 0);
    assert_eq!(lines(&fs::read_to_string(&options.path).unwrap()).len(), 1);
}

#[test]
fn a_directory_is_made_beside_a_spool_and_nowhere_else() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path());
    options.path = directory.path().join("events/events.jsonl");
    // Its disk may not be mounted: what was written here would be hidden later.
    let (log, metrics) = start(&options, 1);
    log.queue(0).unwrap().emit(released(0));
    let begun = wait_for_failure(&metrics);
    assert!(problem(&log).unwrap().contains("cannot write"));
    assert!(!directory.path().join("events").exists());
    fs::create_dir(directory.path().join("spool")).unwrap();
    fs::write(directory.path().join("spool").join(SPOOL_SALT), "12345678").unwrap();
    while metrics.lag() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(log.finish(false), 0);
    assert_eq!(lines(&fs::read_to_string(&options.path).unwrap()).len(), 1);
}

#[test]
fn a_disk_that_hangs_shows_and_holds_up_no_stop() {
    let directory = tempfile::tempdir().unwrap();
    let options = EventFile { waiting_max: 5, ..options(directory.path()) };
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &options.path, fifo, mode, 0).unwrap();
    // A pipe that nobody reads takes 64 KiB, then nothing.
    let (log, metrics) = start(&options, 1);
    let queue = log.queue(0).unwrap();
    let begun = Instant::now();
    let mut n = 0;
    while problem(&log).is_none() {
        assert!(begun.elapsed() < Duration::from_secs(90));
        queue.emit(released(n));
        n += 1;
        thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..10 {
        queue.emit(released(n));
        n += 1;
    }
    assert_eq!(metrics.emitted(), n);
    assert!(metrics.dropped() >= 5, "{}", metrics.dropped());
    assert!(problem(&log).unwrap().contains("has not responded for"));
    let lag = metrics.lag();
    let stopped = Instant::now();
    assert_eq!((log.finish(false), lag > 0), (lag, true));
    assert!(stopped.elapsed() < STOP_PATIENCE * 3, "{:?}", stopped.elapsed());
}
