use super::*;
use crate::line::{FairKey, Owner, SemaphoreLimits, TrustLevel};
use crate::problems::{Problem, Problems};
use mail::Wall;

fn at(seconds: u64) -> ClockReading {
    ClockReading { mono: Mono(seconds * 1_000_000), wall: Wall(seconds * 1_000) }
}

fn listed() -> (Arc<Pressures>, Problems) {
    let (pressures, problems) = (Arc::<Pressures>::default(), Problems::default());
    problems.register(Arc::clone(&pressures) as Arc<dyn ProblemKind>);
    (pressures, problems)
}

fn texts(all: &[Problem]) -> Vec<&str> {
    all.iter().map(|problem| problem.text.as_str()).collect()
}

#[test]
fn each_pool_shows_who_waits_and_who_holds_most_until_nobody_waits() {
    for pool in POOLS {
        let (pressures, problems) = listed();
        let line = FairSemaphore::new(SemaphoreLimits::equal(10));
        pressures.register(pool.id, &line);
        assert_eq!(problems.ask(at(0)), [], "{}", pool.word());
        let of = |zone: &str, n| FairKey::new(0, n).of(Owner::zone(zone));
        let who = |n| if n < 7 { of("wild.test", n) } else { of("tame.test", n) };
        let held: Vec<_> =
            (0..10).filter_map(|n| line.try_take(who(n), TrustLevel::Good, 1)).collect();
        let waits: Vec<_> = (10..15).map(|n| line.join(who(n), TrustLevel::Good, 1)).collect();
        let all = problems.ask(at(1));
        let [problem] = &*all else { panic!("{all:?}") };
        assert_eq!((problem.kind.as_str(), problem.about.as_str()), ("pool", pool.word()));
        let amounts = if pool.is_octets() { ["10B", "7B"] } else { ["10", "7"] };
        for part in [
            format!("pool {} ", pool.word()),
            format!("{} of {} in use", amounts[0], amounts[0]),
            "5 wait".to_owned(),
            format!("wild.test holds most: {}", amounts[1]),
        ] {
            assert!(problem.text.contains(&part), "{part}: {}", problem.text);
        }
        assert!(!problem.next_step.is_empty(), "{}", pool.word());
        let metrics = pressures.metrics(at(1));
        let [(name, numbers)] = &*metrics else { panic!("{}", metrics.len()) };
        let numbers = [&numbers.used, &numbers.max, &numbers.waiting, &numbers.pressed];
        assert_eq!((&**name, numbers.map(|n| n.get())), (pool.word(), [10, 10, 5, 1]));
        drop((waits, held));
        // Intermittent pressure is one problem.
        assert_eq!(problems.ask(at(10)).len(), 1);
        assert_eq!(problems.ask(at(11)), [], "{}", pool.word());
        assert_eq!(pressures.metrics(at(11))[0].1.pressed.get(), 0);
    }
}

#[test]
fn whoever_was_turned_away_counts_for_a_while() {
    for pool in POOLS {
        let (pressures, problems) = listed();
        pressures.keep(pool.id, FnGauge(|_| (Level { max: 5, ..Level::default() }, None)));
        for _ in 0..3 {
            pressures.note_turned_away(pool.id, at(1).mono);
        }
        let all = problems.ask(at(2));
        assert!(texts(&all)[0].contains(", 0 wait, 3 were rejected"), "{all:?}");
        assert_eq!(problems.ask(at(11)), []);
        pressures.note_turned_away(pool.id, at(20).mono);
        let all = problems.ask(at(20));
        assert!(texts(&all)[0].contains(", 1 were rejected"), "{all:?}");
    }
}

#[test]
fn console_hears_of_pressure_that_lasts() {
    let (pressures, problems) = listed();
    pressures.keep(PoolId::Queue, FnGauge(|_| (Level::of(5, 5), None)));
    for second in 0..10 {
        assert_eq!(problems.ask_for_reports(at(second)), []);
        assert_eq!(problems.ask(at(second)).len(), 1, "whoever asks sees it");
    }
    assert_eq!(problems.ask_for_reports(at(10)).len(), 1);
}

#[test]
fn parts_of_a_pool_are_added_up_and_what_is_gone_shows_nothing() {
    let (pressures, problems) = listed();
    let lines = [4, 6].map(|max| FairSemaphore::new(SemaphoreLimits::equal(max)));
    for line in &lines {
        pressures.register(PoolId::SenderQuestions, line);
    }
    let who = |n| FairKey::new(0, n).called("a hop");
    let _held = lines[1].try_take(who(1), TrustLevel::Good, 6);
    let _waits = lines[1].join(who(2), TrustLevel::Good, 1);
    let all = problems.ask(at(0));
    assert!(texts(&all)[0].contains("6 of 10 in use"), "{all:?}");
    assert!(texts(&all)[0].ends_with("a hop holds most: 6"), "{all:?}");
    assert_eq!(pressures.registered(), [PoolId::SenderQuestions]);
    let [one, _] = lines;
    drop(one);
    assert!(texts(&problems.ask(at(1)))[0].contains("6 of 6 in use"));
}

#[test]
fn what_waits_is_counted_while_it_is_noted() {
    let behind = Behind::default();
    let second = |n: u64| Mono(n * 1_000_000);
    let waiting = |n| behind.waiting(second(n));
    behind.note(0, ReadyId(1), 7, second(0));
    behind.note(1, ReadyId(1), 5, second(2));
    behind.note(0, ReadyId(1), 3, second(2));
    assert_eq!((waiting(2), waiting(6), waiting(7)), (8, 8, 0));
    behind.note(0, ReadyId(9), 1, second(8));
    assert_eq!((waiting(8), behind.lock().len()), (1, 1));
}
