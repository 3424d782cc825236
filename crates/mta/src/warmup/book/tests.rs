use super::*;
use config::Warmup;

const START: u32 = 20_788;

fn at(day: u32) -> Wall {
    Wall(u64::from(START + day) * 86_400_000)
}

fn asking(towards: &str, now: Wall) -> AllowanceRequest {
    let plan = Warmup { start_day: START, per_day: vec![24], hold_above_ppm: 50_000, line: 1 };
    let key = WarmupKey { source: "ip-1".into(), towards: towards.into() };
    AllowanceRequest { key, plan: Arc::new(plan), wanted: 1, now }
}

/// Requests an allowance, and writes the changes.
fn ask(book: &mut WarmupLedger, ask: &AllowanceRequest) -> Allowance {
    loop {
        match book.ask(ask) {
            AllowanceGrant::Answered(answered) => return answered.allowance,
            AllowanceGrant::Reserved => {
                let changes = book.take_changes();
                assert!(!changes.is_empty());
                book.written(&changes);
            }
        }
    }
}

#[test]
fn before_the_start_nothing_goes_and_nothing_is_kept() {
    let mut book = WarmupLedger::default();
    let early = asking("google", Wall(at(0).0 - 1));
    let Allowance::Closed { why, until } = ask(&mut book, &early) else { panic!() };
    assert_eq!((&*why, until), ("warm-up of source ip-1 has not begun", at(0)));
    assert!(book.take_changes().is_empty() && book.courses().next().is_none());
    assert!(matches!(ask(&mut book, &asking("google", at(0))), Allowance::Granted { .. }));
}

#[test]
fn providers_and_sources_are_counted_apart() {
    let mut book = WarmupLedger::default();
    for towards in ["google", "yahoo"] {
        assert!(matches!(ask(&mut book, &asking(towards, at(0))), Allowance::Granted { .. }));
        assert!(matches!(ask(&mut book, &asking(towards, at(0))), Allowance::Closed { .. }));
    }
    let mut other = asking("google", at(0));
    other.key.source = "ip-2".into();
    assert!(matches!(ask(&mut book, &other), Allowance::Granted { .. }));
    assert_eq!(book.courses().map(|seen| seen.used).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn what_was_written_is_read_and_what_is_over_is_forgotten() {
    let mut book = WarmupLedger::default();
    ask(&mut book, &asking("google", at(0)));
    book.note(&asking("google", at(0)).key, Tried { tried: 1, delivered: 1, held: 0 });
    let changes = book.take_changes();
    let kept: Vec<(WarmupKey, Record)> =
        changes.iter().map(|c| (c.key.clone(), Record::read(&c.record).unwrap())).collect();
    assert_eq!((kept.len(), kept[0].1.tried, kept[0].1.reserved), (1, 1, 1));
    let warming = BTreeSet::from([Arc::from("ip-1")]);
    let read = |warming: &BTreeSet<Arc<str>>, day| {
        WarmupLedger::read(kept.clone(), warming, START + day).courses().count()
    };
    assert_eq!((read(&warming, 300), read(&BTreeSet::new(), 30)), (1, 1));
    assert_eq!(read(&BTreeSet::new(), 31), 0);
}

#[test]
fn on_the_day_on_which_the_book_was_lost_nothing_goes() {
    let mut book = WarmupLedger::replaced(START);
    let Allowance::Closed { until, .. } = ask(&mut book, &asking("google", at(0))) else {
        panic!()
    };
    assert_eq!(until, at(1));
    assert!(matches!(ask(&mut book, &asking("google", at(1))), Allowance::Granted { .. }));
}

#[test]
fn more_sets_of_hosts_than_are_kept_have_one_course_together() {
    let mut book = WarmupLedger::default();
    let record = Record { day: START, ..Record::default() };
    let key = |n: usize| WarmupKey { source: "ip-1".into(), towards: format!("{n}").into() };
    let full = (0..COURSES_MAX).map(|n| (key(n), WarmupState::read(record)));
    book.courses.extend(full);
    for towards in ["new.test:25", "newer.test:25"] {
        ask(&mut book, &asking(towards, at(0)));
    }
    assert_eq!(book.courses.len(), COURSES_MAX + 1);
    assert!(matches!(ask(&mut book, &asking("newest.test:25", at(0))), Allowance::Closed { .. }));
    assert!(matches!(ask(&mut book, &asking("7", at(0))), Allowance::Granted { .. }));
    book.note(&asking("newest.test:25", at(0)).key, Tried { tried: 3, ..Tried::default() });
    let others = book.courses().find(|seen| &*seen.key.towards == OTHERS).unwrap();
    assert_eq!(others.kept.tried, 3);
}
