use super::*;
use std::collections::BTreeMap;

const START: u32 = 20_788;

fn plan(per_day: &[u32]) -> Warmup {
    Warmup { start_day: START, per_day: per_day.to_vec(), hold_above_ppm: 50_000, line: 1 }
}

fn key() -> WarmupKey {
    WarmupKey { source: "ip-1".into(), towards: "google".into() }
}

fn at(day: u32, second: u64) -> Wall {
    Wall(u64::from(START + day) * DAY_MS + second * 1_000)
}

/// Requests an allowance, and writes the reservation.
fn ask(course: &mut WarmupState, plan: &Warmup, wanted: u32, now: Wall) -> Allowance {
    loop {
        match course.ask(&key(), plan, wanted, now) {
            Some(allowance) => return allowance,
            None => course.written(course.kept.day, course.writing),
        }
    }
}

fn granted(course: &mut WarmupState, plan: &Warmup, wanted: u32, now: Wall) -> u32 {
    match ask(course, plan, wanted, now) {
        Allowance::Granted { recipients, .. } => recipients,
        Allowance::Closed { .. } | Allowance::Warm => 0,
    }
}

/// Takes all allowances until `end`; returns times and recipients.
fn drain(course: &mut WarmupState, plan: &Warmup, from: Wall, end: Wall) -> Vec<(Wall, u32)> {
    let (mut all, mut now) = (Vec::new(), from);
    while now < end {
        match ask(course, plan, u32::MAX, now) {
            Allowance::Granted { recipients, .. } => {
                course.note(Tried { tried: recipients, delivered: recipients, held: 0 });
                all.push((now, recipients));
            }
            Allowance::Closed { until, .. } => {
                assert!(until > now, "nobody asks again at once");
                now = until;
            }
            Allowance::Warm => break,
        }
    }
    all
}

fn by_day(all: &[(Wall, u32)]) -> BTreeMap<u32, u32> {
    let mut days = BTreeMap::new();
    for (now, recipients) in all {
        *days.entry(day_of(*now) - START).or_default() += recipients;
    }
    days
}

#[test]
fn days_have_their_counts_and_then_it_is_warm() {
    let plan = plan(&[50, 100, 500, 2_000]);
    let mut course = WarmupState::new(&plan, at(0, 0), false);
    let all = drain(&mut course, &plan, at(0, 0), at(9, 0));
    assert_eq!(by_day(&all), BTreeMap::from([(0, 50), (1, 100), (2, 500), (3, 2_000)]));
    assert_eq!(course.take_turn(), Some(WarmupDayEnd::Warm));
    assert_eq!(ask(&mut course, &plan, 1, at(9, 0)), Allowance::Warm);
}

#[test]
fn a_day_is_spread_and_no_hour_has_more_than_two_hours_worth() {
    for count in [1, 2, 20, 50, 500, 2_000, 86_400, 2_000_000, 40_000_000] {
        let plan = plan(&[count]);
        let mut course = WarmupState::new(&plan, at(0, 0), false);
        let all = drain(&mut course, &plan, at(0, 0), at(1, 0));
        let total: u32 = all.iter().map(|(_, n)| n).sum();
        assert!(total <= count && total >= count - count.div_ceil(100), "{total} of {count}");
        for (first, (from, _)) in all.iter().enumerate() {
            let hour = all[first..].iter().take_while(|(now, _)| now.0 < from.0 + 3_600_000);
            let in_hour: u32 = hour.map(|(_, n)| n).sum();
            assert!(in_hour <= (count / 12).max(1) + 1, "{in_hour} of {count} in an hour");
        }
    }
}

#[test]
fn a_pause_is_not_made_up_for_but_with_an_hour_s_worth() {
    let plan = plan(&[2_400]);
    let mut course = WarmupState::new(&plan, at(0, 0), false);
    let mut sent = 0;
    for _ in 0..1_000 {
        sent += granted(&mut course, &plan, u32::MAX, at(0, 60_000));
    }
    assert_eq!(sent, 100);
}

#[test]
fn who_begins_in_the_evening_has_only_the_evening_s_part() {
    let plan = plan(&[2_400, 4_800]);
    let mut course = WarmupState::new(&plan, at(0, 64_800), false);
    let days = by_day(&drain(&mut course, &plan, at(0, 64_800), at(1, 0)));
    assert!((600..=700).contains(&days[&0]), "{days:?}");
    // There is no burst at midnight either.
    let first = granted(&mut course, &plan, u32::MAX, at(1, 0));
    assert!(first <= 4, "{first}");
}

#[test]
fn a_day_with_too_many_held_back_is_repeated_and_days_without_mail_count_for_nothing() {
    let plan = plan(&[50, 100]);
    let mut course = WarmupState::new(&plan, at(0, 0), false);
    assert_eq!(granted(&mut course, &plan, 9, at(0, 0)), 1);
    course.note(Tried { tried: 100, delivered: 94, held: 6 });
    ask(&mut course, &plan, 1, at(1, 0));
    let repeated = WarmupDayEnd::Repeated { stage: 0, count: 50, tried: 100, held: 6 };
    assert_eq!((course.take_turn(), course.kept.stage), (Some(repeated), 0));
    course.note(Tried { tried: 100, delivered: 95, held: 5 });
    ask(&mut course, &plan, 1, at(2, 0));
    assert_eq!((course.take_turn(), course.kept.stage), (None, 1));
    // Weeks pass without mail: waiting does not advance the warm-up.
    ask(&mut course, &plan, 1, at(30, 0));
    assert_eq!((course.take_turn(), course.kept.stage), (None, 1));
    // Nor does a message a day.
    for day in 30..60 {
        course.note(Tried { tried: 49, delivered: 49, held: 0 });
        ask(&mut course, &plan, 1, at(day + 1, 0));
        assert_eq!((course.take_turn(), course.kept.stage), (None, 1));
    }
    course.note(Tried { tried: 50, delivered: 50, held: 0 });
    assert_eq!(ask(&mut course, &plan, 1, at(61, 0)), Allowance::Warm);
}

#[test]
fn what_is_not_durable_is_not_handed_out_and_what_a_crash_leaves_is_lost() {
    let plan = plan(&[480]);
    let mut course = WarmupState::new(&plan, at(0, 0), false);
    assert_eq!(course.ask(&key(), &plan, 5, at(0, 0)), None);
    assert_eq!(course.ask(&key(), &plan, 5, at(0, 0)), None, "somebody else asks meanwhile");
    course.unwritten(START, 5);
    assert_eq!((course.kept.reserved, course.used()), (0, 0));
    assert_eq!(course.ask(&key(), &plan, 5, at(0, 1)), None);
    course.written(START, 5);
    assert_eq!(granted(&mut course, &plan, 2, at(0, 1)), 2);
    assert_eq!((course.kept.reserved, course.used()), (5, 2));
    // The three ungranted recipients are lost with the process.
    let mut again = WarmupState::read(course.kept);
    assert_eq!(again.used(), 5);
    let rest: u32 = (0..9).map(|_| granted(&mut again, &plan, 99, at(0, 1))).sum();
    assert!(rest <= 15, "{rest}");
    // After a clean end they are not.
    course.close();
    assert_eq!(WarmupState::read(course.kept).used(), 2);
}

#[test]
fn a_lower_count_holds_for_what_was_reserved_too() {
    let (high, low) = (plan(&[480]), plan(&[3]));
    let mut course = WarmupState::new(&high, at(0, 0), false);
    assert_eq!(course.ask(&key(), &high, 9, at(0, 0)), None);
    course.written(START, 9);
    assert_eq!(granted(&mut course, &low, 9, at(0, 1)), 3);
    assert_eq!(granted(&mut course, &low, 9, at(0, 80_000)), 0);
    assert_eq!(course.used(), 3);
}

#[test]
fn processes_that_end_at_any_moment_never_send_more_than_the_day_s_count() {
    let plan = plan(&[300, 700]);
    let mut random = mail::Random::new(7);
    for _ in 0..50 {
        let mut course = WarmupState::new(&plan, at(0, 0), false);
        let mut on_disk = course.kept;
        let (mut sent, mut now) = ([0_u32; 2], at(0, 0));
        while now < at(2, 0) {
            now = Wall(now.0 + random.below(400_000));
            let day = (day_of(now) - START) as usize;
            match course.ask(&key(), &plan, 1 + random.below(40) as u32, now) {
                Some(Allowance::Granted { recipients, until }) => {
                    let back = random.below(u64::from(recipients) + 1) as u32 / 2;
                    course.give_back(back, until);
                    course.note(Tried { tried: recipients - back, ..Tried::default() });
                    if day < 2 {
                        sent[day] += recipients - back;
                    }
                }
                Some(_) => {}
                None => {
                    let (record, writing) = (course.kept, course.writing);
                    // It may end before the write, after it, and before the notification.
                    match random.below(6) {
                        0 => course = WarmupState::read(on_disk),
                        1 => {
                            on_disk = record;
                            course = WarmupState::read(on_disk);
                        }
                        2 => course.unwritten(record.day, writing),
                        _ => {
                            on_disk = record;
                            course.written(record.day, writing);
                        }
                    }
                }
            }
        }
        assert!(sent[0] <= 300 && sent[1] <= 700, "{sent:?}");
        assert!(sent[0] > 60, "{sent:?}");
    }
}

#[test]
fn a_clock_that_is_set_back_gives_no_day_twice() {
    let plan = plan(&[48, 96]);
    let mut course = WarmupState::new(&plan, at(1, 0), false);
    let before: u32 =
        drain(&mut course, &plan, at(1, 0), at(1, 3_600)).iter().map(|(_, n)| n).sum();
    // An hour before midnight again: the current day continues, also after midnight.
    let after: u32 =
        drain(&mut course, &plan, at(0, 82_800), at(2, 0)).iter().map(|(_, n)| n).sum();
    assert!(before + after <= 48 && after >= 40, "{before} {after}");
    assert_eq!(course.kept.day, START + 1);
    // It was a month ahead: no more recipients today, and tomorrow is a normal day.
    granted(&mut course, &plan, 1, at(40, 0));
    assert_eq!(granted(&mut course, &plan, 1, at(5, 80_000)), 0);
    assert!(granted(&mut course, &plan, 1, at(6, 3_600)) > 0);
}

#[test]
fn another_start_begins_anew_and_today_s_recipients_stay_counted() {
    let old = plan(&[24, 48]);
    let mut course = WarmupState::new(&old, at(0, 0), false);
    drain(&mut course, &old, at(0, 0), at(1, 0));
    drain(&mut course, &old, at(1, 0), at(1, 43_200));
    assert_eq!(course.kept.stage, 1);
    let new = Warmup { start_day: START + 1, ..old };
    let rest = drain(&mut course, &new, at(1, 43_200), at(2, 0));
    assert_eq!((course.kept.stage, rest.len()), (0, 0), "24 were sent by noon");
    assert!(!drain(&mut course, &new, at(2, 0), at(2, 7_200)).is_empty());
    // A longer plan continues after the old one's end; a shorter one is over.
    let longer = Warmup { per_day: vec![24, 48, 96], ..new.clone() };
    drain(&mut course, &longer, at(2, 7_200), at(5, 1));
    assert_eq!(ask(&mut course, &longer, 1, at(5, 2)), Allowance::Warm);
    let longest = Warmup { per_day: vec![24, 48, 96, 192], ..new };
    assert_ne!(ask(&mut course, &longest, 1, at(5, 3)), Allowance::Warm);
}

#[test]
fn who_waits_is_told_of_what() {
    let plan = plan(&[48]);
    let mut course = WarmupState::new(&plan, at(0, 0), false);
    drain(&mut course, &plan, at(0, 0), at(0, 1));
    let Allowance::Closed { why, until } = ask(&mut course, &plan, 1, at(0, 1)) else { panic!() };
    assert_eq!(&*why, "warm-up of source ip-1 towards google: 2 of 48 recipients today");
    assert_eq!(until, at(0, 1_800));
}
