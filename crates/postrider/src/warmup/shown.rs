//! How sources and their warm-ups are shown.

use config::Source;
use mail::Wall;
use mta::control::{CourseItem, SHOWN_COURSES_MAX, SourceItem};
use mta::warmup::SeenCourse;
use std::cmp::Reverse;

/// A source with its courses, which are some of `all`.
pub(super) fn item(source: &Source, all: &[SeenCourse]) -> SourceItem {
    let Some(plan) = &source.warmup else {
        return SourceItem { name: source.name.to_string(), ..SourceItem::default() };
    };
    let mut own: Vec<&SeenCourse> =
        all.iter().filter(|seen| seen.key.source == source.name).collect();
    let courses_count = own.len() as u64;
    own.sort_by_key(|seen| (Reverse((seen.kept.day, seen.used)), &seen.key.towards));
    own.truncate(SHOWN_COURSES_MAX);
    let course = |seen: &SeenCourse| {
        let count = plan.count(seen.kept.stage);
        let date = Wall(u64::from(seen.kept.day) * 86_400_000).to_string();
        CourseItem {
            towards: seen.key.towards.to_string(),
            stage: seen.kept.stage + 1,
            stages: u32::try_from(plan.per_day.len()).unwrap_or(u32::MAX),
            count,
            date: date.get(..10).unwrap_or_default().to_owned(),
            used: count.map_or(0, |count| seen.used.min(count)),
            tried: seen.kept.tried,
            delivered: seen.kept.delivered,
            held: seen.kept.held,
        }
    };
    let courses = own.into_iter().map(course).collect();
    SourceItem { name: source.name.to_string(), warms_up: true, courses, courses_count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Warmup;
    use mta::warmup::{CourseKey, Record};
    use std::sync::Arc;

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
        let seen = |towards: String, day, stage, used| SeenCourse {
            key: CourseKey { source: "ip-1".into(), towards: towards.into() },
            kept: Record { day, stage, tried: 9, held: 1, delivered: 8, ..Record::default() },
            used,
        };
        let mut all: Vec<SeenCourse> =
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
}
