use super::*;
use crate::file_watch::FileWatch;
use serde::{Deserialize, Serialize};
use std::process::Command;
use std::thread;
use tokio::sync::mpsc;

/// Counts names.
struct Names;

#[derive(Debug, Default, Deserialize, Serialize)]
struct NameCount(u64);

impl DomainCounts for NameCount {
    type Note = String;
    const DOMAINS_MAX: usize = 10;
    const ROOM_OF_DOMAIN: usize = 10;
    const ROOM: usize = 100;

    fn domain_of(name: &String) -> &str {
        name
    }

    fn add(&mut self, _: &String, _: usize) -> bool {
        self.0 += 1;
        true
    }

    fn taken(&self) -> usize {
        1
    }
}

impl ReportKind for Names {
    const DIRECTORY: &'static str = "names";
    const ABOUT: &'static str = "names";
    const NOTES: &'static str = "names";
    type CounterCommand = String;
    type Domain = NameCount;
    type Settings = ();

    fn settings(_: &Config) -> Option<()> {
        None
    }

    fn due_after_ms(_: &ReporterSettings<()>, _: &str, _: u64) -> u64 {
        0
    }

    fn given_up_after_ms(_: &ReporterSettings<()>) -> u64 {
        0
    }

    async fn send(
        _: &Arc<DailyReporter<Names>>,
        _: &Arc<DomainReport<Names>>,
    ) -> Result<(), String> {
        Ok(())
    }
}

fn counting(spool: &Path) -> DailyCounting<Names> {
    let text = "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n";
    let config = channels::sections().parse(text, "test.toml").unwrap();
    let console = Arc::new(ConsoleLog::stderr(Level::Error));
    let watch = FileWatch::start().unwrap();
    let resolver = Resolver::following(&config.dns, &watch, &console);
    let jobs = FileJobs::at(&watch, spool);
    let kept = (&ServiceRuntime::default(), &jobs, &StateFiles::new(&console), &console);
    let counting = DailyCounting::new(Names, spool, resolver, mpsc::unbounded_channel().0, kept);
    counting.start_counting();
    counting
}

/// The counts of all days in the files: the test may run at midnight.
fn counted(spool: &Path) -> u64 {
    let directory = spool.join(Names::DIRECTORY);
    let day = |number| Day::<NameCount>::open(&directory, number).unwrap();
    let days = Day::<NameCount>::all(&directory).into_iter().map(day);
    days.flat_map(|day| day.domains().values().map(|count| count.0).collect::<Vec<_>>()).sum()
}

#[test]
fn notes_of_all_threads_are_on_disk_after_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    for round in 1..=2 {
        let counting = counting(directory.path());
        thread::scope(|scope| {
            for n in 0..4 {
                let counting = &counting;
                scope.spawn(move || {
                    (0..1_000).for_each(|_| counting.note(format!("{n}.test")));
                });
            }
        });
        counting.finish();
        assert_eq!(counted(directory.path()), round * 4_000);
        assert_eq!(counting.0.lost.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn notes_beyond_the_queue_are_left_out_on_a_hanging_disk() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join(Names::DIRECTORY);
    std::fs::create_dir(&at).unwrap();
    // The file of today, or of tomorrow at midnight, can't be opened.
    let today = number_of(wall_now());
    let pipes = [today, today + 1].map(|number| Day::<NameCount>::path(&at, number));
    assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
    let counting = counting(directory.path());
    while counting.0.counter.try_lock().is_ok() {
        thread::yield_now();
    }
    for _ in 0..WAITING_MAX + 3 {
        counting.note("a.test".to_owned());
    }
    // The job may have taken one before it opened the file.
    let lost = counting.0.lost.load(Ordering::Relaxed);
    assert!((2..=3).contains(&lost), "{lost}");
    // The file that it opens is none of counts: it begins anew.
    let open = |pipe| std::fs::File::options().read(true).write(true).open(pipe).unwrap();
    let opened: Vec<_> = pipes.iter().map(open).collect();
    for pipe in &pipes {
        std::fs::remove_file(pipe).unwrap();
    }
    drop(opened);
    counting.finish();
    assert_eq!(counted(directory.path()), WAITING_MAX as u64 + 3 - lost);
}
