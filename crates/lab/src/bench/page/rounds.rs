//! Each round of a case: how it ended, and every message accounted for.

use super::figures::draw_figures;
use crate::bench::report::{Case, DiskLatency, Ending, Measurement, Minute, Percentiles, Severity};
use crate::show;
use crate::show::number::{grouped, with_unit};
use maud::{Markup, html};

/// Draws them, folded away.
pub(super) fn draw(case: &Case) -> Markup {
    if case.rounds.is_empty() {
        return html! {};
    }
    html! {
        details {
            summary { "Each round: how it ended, and every message accounted for" }
            (draw_figures(case, false, &[]))
            (draw_endings(case))
            (draw_latencies(case))
            (draw_minutes(case))
            (draw_marks(case))
        }
    }
}

fn all(case: &Case) -> impl Iterator<Item = (u32, &Measurement)> {
    case.rounds
        .iter()
        .flat_map(|round| round.measurements.iter().map(|measurement| (round.number, measurement)))
}

fn name(round: u32, measurement: &Measurement) -> String {
    format!("{round}, {}", measurement.contender)
}

fn whole(value: u64) -> String {
    grouped(value as f64, 0)
}

/// A column of the table of endings: its heading, and what it says of a measurement.
type Column = (&'static str, fn(&Measurement) -> String);

const ENDING_COLUMNS: [Column; 13] = [
    ("ended", ended),
    ("accepted", |one| whole(one.accepted)),
    ("accepted in", |one| seconds(one.accept_seconds)),
    ("delivered", |one| whole(one.delivered)),
    ("delivered in", |one| seconds(one.deliver_seconds)),
    ("acknowledged", |one| whole(one.account.acknowledged)),
    ("missing", |one| whole(one.account.missing)),
    ("repeated", repeated),
    ("damaged", |one| whole(one.account.damaged)),
    ("misdelivered", |one| whole(one.account.misdelivered)),
    ("refused", |one| whole(one.account.refused)),
    ("unknown", |one| whole(one.account.unknown)),
    ("sync of the disk before", |one| one.disk.as_ref().map_or_else(|| "–".to_owned(), disk)),
];

fn draw_endings(case: &Case) -> Markup {
    let header = html! {
        th { "round" }
        @for (heading, _) in ENDING_COLUMNS { th { (heading) } }
    };
    let rows = html! {
        @for (round, measurement) in all(case) {
            tr {
                th { (name(round, measurement)) }
                @for (_, cell) in ENDING_COLUMNS { td { (cell(measurement)) } }
            }
        }
    };
    show::scrolling(&header, &rows)
}

fn ended(measurement: &Measurement) -> String {
    match measurement.ending {
        Ending::Finished => "finished".to_owned(),
        Ending::TimedOut => format!("out of time {}", measurement.ending_note),
        Ending::Failed => format!("FAILED {}", measurement.ending_note),
    }
}

fn seconds(value: f64) -> String {
    format!("{value:.2} s")
}

fn repeated(measurement: &Measurement) -> String {
    let account = &measurement.account;
    let duplicates = whole(account.duplicates);
    match account.duplicates_allowed {
        0 => duplicates,
        allowed => format!("{duplicates} (up to {} explained)", whole(allowed)),
    }
}

fn disk(latency: &DiskLatency) -> String {
    format!("{} (90 %: {})", with_unit(latency.p50_us, "µs"), with_unit(latency.p90_us, "µs"))
}

fn draw_latencies(case: &Case) -> Markup {
    let latency =
        |(round, one): (u32, &Measurement)| Some((name(round, one), one.latency.clone()?));
    let latencies: Vec<(String, Percentiles)> = all(case).filter_map(latency).collect();
    if latencies.is_empty() {
        return html! {};
    }
    let headings = ["latency", "messages", "mean", "50 %", "90 %", "99 %", "99.9 %", "longest"];
    let rows = html! {
        @for (name, latency) in latencies {
            @let Percentiles { count, mean_us, p50_us, p90_us, p99_us, p999_us, max_us } = latency;
            tr {
                th { (name) }
                td { (whole(count)) }
                @for time in [mean_us, p50_us, p90_us, p99_us, p999_us, max_us] {
                    td { (with_unit(time, "µs")) }
                }
            }
        }
    };
    show::scrolling(&show::headings(&headings), &rows)
}

/// A line for each minute, as the publication has it.
fn draw_minutes(case: &Case) -> Markup {
    if all(case).all(|(_, measurement)| measurement.minutes.is_empty()) {
        return html! {};
    }
    let headings = [
        "minute",
        "messages",
        "kB",
        "errors",
        "connections",
        "backlog",
        "in mailboxes",
        "mailboxes with mail",
    ];
    let rows = html! {
        @for (round, measurement) in all(case) {
            @if !measurement.minutes.is_empty() {
                (show::group(&name(round, measurement), headings.len()))
            }
            @for minute in &measurement.minutes {
                tr {
                    th { (minute.number) }
                    @for value in values(minute) { td { (whole(value)) } }
                }
            }
        }
    };
    show::scrolling(&show::headings(&headings), &rows)
}

fn values(minute: &Minute) -> [u64; 7] {
    let &Minute { messages, kilobytes, errors, connections, .. } = minute;
    let &Minute { backlog, in_mailboxes, mailboxes, .. } = minute;
    [messages, kilobytes, errors, connections, backlog, in_mailboxes, mailboxes]
}

fn draw_marks(case: &Case) -> Markup {
    let marks = all(case).flat_map(|(round, measurement)| {
        measurement.marks.iter().map(move |mark| (name(round, measurement), mark))
    });
    let marks: Vec<_> = marks.collect();
    if marks.is_empty() {
        return html! {};
    }
    let word = |severity: Severity| match severity {
        Severity::Note => ("soft", "note"),
        Severity::Doubtful => ("warn", "doubtful"),
        Severity::Invalid => ("wrong", "INVALID"),
    };
    html! {
        ul {
            @for (name, mark) in marks {
                @let (class, word) = word(mark.severity);
                li class=(class) { "round " (name) ": " (word) ": " (mark.text) }
            }
        }
    }
}
