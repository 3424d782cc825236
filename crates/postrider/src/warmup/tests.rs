use super::*;
use crate::file_watch::FileWatch;
use config::Warmup;
use mta::problems::Problems;
use mta::warmup::{Record, WarmupKey};
use std::sync::Arc;

fn config(more: &str) -> Config {
    let text = format!(
        "hostname = \"a.test\"\n[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {{}}\n\
         [[source]]\nname = \"ip-1\"\naddress = \"127.0.0.2\"\n{more}"
    );
    channels::schema().parse(&text, "test.toml").unwrap()
}

const WARMUP: &str = "warmup = { start = \"2026-01-01\", per_day = [240] }\n";

fn ask(kept: &StoredWarmups, config: &Config, wanted: u32) -> Allowance {
    let plan = config.sources[0].warmup.clone().unwrap();
    let key = WarmupKey { source: "ip-1".into(), towards: "google".into() };
    let answer = kept.ask(AllowanceRequest { key, plan, wanted, now: wall_now() });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(answer.get()).allowance
}

fn open(directory: &Path, config: &Config) -> StoredWarmups {
    let kept = StoredWarmups::new(
        directory,
        Problems::default().conditions("state_file"),
        (
            &FileJobs::at(&FileWatch::start().unwrap(), directory),
            &Arc::new(ConsoleLog::stderr(Level::Error)),
        ),
    );
    kept.open_for(config);
    kept
}

fn recipients(allowance: &Allowance) -> u32 {
    match allowance {
        Allowance::Granted { recipients, .. } => *recipients,
        _ => 0,
    }
}

fn why(allowance: &Allowance) -> &str {
    match allowance {
        Allowance::Closed { why, .. } => why,
        _ => "",
    }
}

#[test]
fn what_was_granted_stays_counted_however_the_process_ends() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(WARMUP);
    let kept = open(directory.path(), &config);
    assert_eq!(recipients(&ask(&kept, &config, 3)), 3);
    // As after SIGKILL: nothing more is written.
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(directory.path().join(NAME), copy.path().join(NAME)).unwrap();
    let again = open(copy.path(), &config);
    let sent: u32 = (0..20).map(|_| recipients(&ask(&again, &config, 5))).sum();
    assert!((6..=8).contains(&sent), "an hour's worth is 10, and 3 were sent: {sent}");
    again.close();
    assert!(why(&ask(&again, &config, 1)).contains("the server is stopping"));
    kept.close();
}

#[test]
fn without_a_file_nothing_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join(NAME)).unwrap();
    let config = config(WARMUP);
    let kept = open(directory.path(), &config);
    let told = ask(&kept, &config, 1);
    assert!(why(&told).contains("cannot count recipients"), "{told:?}");
    // The next reload finds it.
    std::fs::remove_dir(directory.path().join(NAME)).unwrap();
    kept.open_for(&config);
    assert_eq!(recipients(&ask(&kept, &config, 1)), 1);
    kept.close();
}

#[test]
fn a_damaged_file_is_put_aside_and_today_nothing_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(NAME), b"no database").unwrap();
    let config = config(WARMUP);
    let kept = open(directory.path(), &config);
    let told = ask(&kept, &config, 1);
    assert!(why(&told).contains("240 of 240 recipients today"), "{told:?}");
    assert!(directory.path().join(DAMAGED).exists());
    kept.close();
}

#[test]
fn where_no_source_warms_up_there_is_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let kept = open(directory.path(), &config(""));
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
    kept.close();
}

#[test]
fn the_last_day_s_largest_come_first_and_no_more_than_a_thousand() {
    let plan = Warmup { start_day: 20_788, per_day: vec![50], hold_above_ppm: 50_000, line: 1 };
    let source = Source {
        name: "ip-1".into(),
        address: None,
        address6: None,
        proxy: None,
        ehlo: None,
        warmup: Some(Arc::new(plan)),
        line: 1,
    };
    let seen = |towards: String, day, stage, used| WarmupView {
        key: WarmupKey { source: "ip-1".into(), towards: towards.into() },
        kept: Record { day, stage, tried: 9, held: 1, delivered: 8, ..Record::default() },
        used,
    };
    let mut all: Vec<WarmupView> =
        (0..1_500).map(|n| seen(format!("h{n}:25"), 20_788, 0, 1)).collect();
    all.push(seen("google".to_owned(), 20_789, 1, 7));
    all.push(seen("yahoo".to_owned(), 20_789, 0, u32::MAX));
    let mut other = seen("google".to_owned(), 20_789, 0, 3);
    other.key.source = "ip-2".into();
    all.push(other);
    let item = item(&source, &all);
    assert_eq!((item.courses.len(), item.courses_count), (SHOWN_COURSES_MAX, 1_502));
    let [yahoo, google, ..] = &item.courses[..] else { panic!() };
    assert_eq!((&*yahoo.towards, yahoo.used, yahoo.count), ("yahoo", 50, Some(50)));
    assert_eq!((&*google.towards, google.stage, google.count), ("google", 2, None));
    assert_eq!((&*google.date, google.held), ("2026-12-02", 1));
}
