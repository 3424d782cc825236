//! A variant of a scenario: figures, plots, rounds.

use super::charts;
use super::{slug, table};
use crate::bench::report::{
    Better, Case, Ending, Measurement, Published, Report, Scenario, Severity, Summary, Workload,
};
use crate::bench::show::markup::Markup;
use crate::bench::show::number::{grouped, with_unit};

/// Draws it.
pub(super) fn draw(body: &mut Markup, report: &Report, scenario: &Scenario, case: &Case) {
    body.line();
    let id = format!("{}-{}", slug(&scenario.name), slug(&case.name));
    body.leaf("h3", &[("id", &id)], &case.title);
    body.leaf("p", &[("class", "soft")], &workload(&case.workload));
    if let Some(why) = &case.unavailable {
        body.leaf("p", &[("class", "warn")], &format!("Not measured: {why}"));
    }
    let published: Vec<&Published> = scenario
        .published
        .iter()
        .filter(|published| published.case.is_empty() || published.case == case.name)
        .collect();
    for left_out in &case.left_out {
        body.leaf(
            "p",
            &[("class", "soft")],
            &format!("Without {}: {}", left_out.name, left_out.why),
        );
    }
    draw_figures(body, case, true, &published);
    draw_published(body, &published);
    let charts = charts::of_case(report, case);
    if !charts.is_empty() {
        body.element("div", &[("class", "plots")], |plots| {
            for chart in &charts {
                plots.document(&chart.drawing.inline());
                plots.line();
            }
        });
    }
    draw_rounds(body, case);
}

/// What is sent, in a sentence.
fn workload(workload: &Workload) -> String {
    let whole = |value: u64| grouped(value as f64, 0);
    let mut text = match workload.messages {
        0 => "As many messages as the time allows".to_owned(),
        1 => "One message".to_owned(),
        messages => format!("{} messages", whole(messages)),
    };
    text += &format!(" of {}", plural(workload.body_bytes, "byte"));
    text += &format!(
        " from {} with {} each, {} on a connection",
        plural(workload.sources.into(), "source"),
        plural(workload.sessions.into(), "session"),
        whole(workload.per_connection),
    );
    if workload.path_rtt_ms > 0.0 {
        text += &format!(
            ", over a path to the sink of {:.0} ms that loses {:.2} % of the packets",
            workload.path_rtt_ms,
            workload.path_loss * 100.0
        );
    }
    if workload.connections_max > 0 {
        let connections = plural(workload.connections_max.into(), "connection");
        text += &format!(", {connections} to the sink at most");
    }
    if workload.routes > 0 {
        text += &format!(" on {}", plural(workload.routes.into(), "route"));
    }
    if workload.seconds > 0.0 {
        text += &format!(", for {:.0} seconds", workload.seconds);
    }
    text + "."
}

fn plural(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count as f64, 0), if count == 1 { "" } else { "s" })
}

/// The figures that a case has, in the order in which they come first: those that are compared, or
/// those that only describe.
fn figures(case: &Case, compared: bool) -> Vec<&Summary> {
    let mut figures: Vec<&Summary> = vec![];
    let wanted = |summary: &&Summary| (summary.better != Better::Neither) == compared;
    for summary in case.summaries.iter().filter(wanted) {
        if !figures.iter().any(|known| known.figure == summary.figure) {
            figures.push(summary);
        }
    }
    figures
}

/// A row for each figure, a column for each contender and for each server that something is
/// published of.
fn draw_figures(body: &mut Markup, case: &Case, compared: bool, published: &[&Published]) {
    let figures = figures(case, compared);
    if figures.is_empty() {
        return;
    }
    let mut contenders: Vec<&str> = vec![];
    for summary in &case.summaries {
        if !contenders.contains(&&*summary.contender) {
            contenders.push(&summary.contender);
        }
    }
    let mut servers: Vec<&str> = vec![];
    for one in published {
        let shown = figures.iter().any(|figure| figure.figure == one.figure);
        if shown && !servers.contains(&&*one.server) {
            servers.push(&one.server);
        }
    }
    let header = |row: &mut Markup| {
        row.leaf("th", &[], "");
        contenders.iter().for_each(|contender| draw_contender(row, case, contender));
        for server in &servers {
            row.element("th", &[("class", "published")], |cell| {
                cell.text(server);
                cell.leaf("small", &[], "published");
            });
        }
    };
    table::draw(body, header, |rows| {
        for figure in figures {
            rows.element("tr", &[], |row| {
                table::figure_heading(row, &figure.title, figure.better);
                for contender in &contenders {
                    draw_summary(row, case, contender, figure);
                }
                for server in &servers {
                    draw_published_cell(row, figure, published, server);
                }
            });
        }
    });
}

fn draw_contender(row: &mut Markup, case: &Case, contender: &str) {
    let invalid = case.is_invalid(contender);
    row.element("th", &[("class", if invalid { "wrong" } else { "" })], |cell| {
        cell.text(contender);
        if invalid {
            cell.leaf("small", &[("class", "wrong")], "INVALID");
        }
    });
}

fn draw_summary(row: &mut Markup, case: &Case, contender: &str, figure: &Summary) {
    let same =
        |summary: &&Summary| summary.contender == contender && summary.figure == figure.figure;
    let class = if case.is_invalid(contender) { "wrong" } else { "" };
    match case.summaries.iter().find(same) {
        Some(summary) => table::spread_cell(row, &summary.spread, &summary.unit, class),
        None => row.leaf("td", &[], "–"),
    }
}

/// What others measured elsewhere, in the row of what it stands beside.
fn draw_published_cell(row: &mut Markup, figure: &Summary, published: &[&Published], server: &str) {
    let here = published.iter().filter(|one| one.server == server && one.figure == figure.figure);
    row.element("td", &[("class", "published")], |cell| {
        let mut nothing = true;
        for one in here {
            if !std::mem::take(&mut nothing) {
                cell.empty("br", &[]);
            }
            cell.text(&table::published(one.value, &one.unit));
        }
        if nothing {
            cell.text("–");
        }
    });
}

fn draw_published(body: &mut Markup, published: &[&Published]) {
    if published.is_empty() {
        return;
    }
    body.leaf(
        "p",
        &[("class", "soft")],
        "Published figures, measured elsewhere on other machines, so never a ratio:",
    );
    body.element("ul", &[("class", "soft")], |list| {
        for one in published {
            let value = table::published(one.value, &one.unit);
            let text = format!("{}, {}: {value} ({})", one.server, one.what, one.source);
            list.leaf("li", &[], &text);
        }
    });
}

fn draw_rounds(body: &mut Markup, case: &Case) {
    if case.rounds.is_empty() {
        return;
    }
    body.element("details", &[], |details| {
        details.leaf("summary", &[], "Each round: how it ended, and every message accounted for");
        draw_figures(details, case, false, &[]);
        draw_endings(details, case);
        draw_latencies(details, case);
        draw_marks(details, case);
    });
}

fn all(case: &Case) -> impl Iterator<Item = (u32, &Measurement)> {
    case.rounds
        .iter()
        .flat_map(|round| round.measurements.iter().map(|measurement| (round.number, measurement)))
}

fn name(round: u32, measurement: &Measurement) -> String {
    format!("{round}, {}", measurement.contender)
}

fn draw_endings(details: &mut Markup, case: &Case) {
    const HEADINGS: [&str; 14] = [
        "round",
        "ended",
        "accepted",
        "accepted in",
        "delivered",
        "delivered in",
        "acknowledged",
        "missing",
        "repeated",
        "damaged",
        "misdelivered",
        "refused",
        "unknown",
        "sync of the disk before",
    ];
    table::draw(
        details,
        |row| table::headings(row, &HEADINGS),
        |rows| {
            for (round, measurement) in all(case) {
                let account = &measurement.account;
                let whole = |value: u64| grouped(value as f64, 0);
                let seconds = |value: f64| format!("{value:.2} s");
                let ended = match measurement.ending {
                    Ending::Finished => "finished".to_owned(),
                    Ending::TimedOut => format!("out of time {}", measurement.ending_note),
                    Ending::Failed => format!("FAILED {}", measurement.ending_note),
                };
                let duplicates = match account.duplicates_allowed {
                    0 => whole(account.duplicates),
                    allowed => format!(
                        "{} (up to {} explained)",
                        whole(account.duplicates),
                        whole(allowed)
                    ),
                };
                let disk = measurement.disk.as_ref().map_or_else(
                    || "–".to_owned(),
                    |disk| {
                        format!(
                            "{} (90 %: {})",
                            with_unit(disk.p50_us, "µs"),
                            with_unit(disk.p90_us, "µs")
                        )
                    },
                );
                table::text_row(
                    rows,
                    &[
                        name(round, measurement),
                        ended,
                        whole(measurement.accepted),
                        seconds(measurement.accept_seconds),
                        whole(measurement.delivered),
                        seconds(measurement.deliver_seconds),
                        whole(account.acknowledged),
                        whole(account.missing),
                        duplicates,
                        whole(account.damaged),
                        whole(account.misdelivered),
                        whole(account.refused),
                        whole(account.unknown),
                        disk,
                    ],
                );
            }
        },
    );
}

fn draw_latencies(details: &mut Markup, case: &Case) {
    if !all(case).any(|(_, measurement)| measurement.latency.is_some()) {
        return;
    }
    let headings = ["latency", "messages", "mean", "50 %", "90 %", "99 %", "99.9 %", "longest"];
    table::draw(
        details,
        |row| table::headings(row, &headings),
        |rows| {
            for (round, measurement) in all(case) {
                let Some(latency) = &measurement.latency else { continue };
                let times = [
                    latency.mean_us,
                    latency.p50_us,
                    latency.p90_us,
                    latency.p99_us,
                    latency.p999_us,
                    latency.max_us,
                ];
                let mut cells = vec![name(round, measurement), grouped(latency.count as f64, 0)];
                cells.extend(times.map(|time| with_unit(time, "µs")));
                table::text_row(rows, &cells);
            }
        },
    );
}

fn draw_marks(details: &mut Markup, case: &Case) {
    let marks = all(case).flat_map(|(round, measurement)| {
        measurement.marks.iter().map(move |mark| (name(round, measurement), mark))
    });
    let marks: Vec<_> = marks.collect();
    if marks.is_empty() {
        return;
    }
    details.element("ul", &[], |list| {
        for (name, mark) in marks {
            let (class, word) = match mark.severity {
                Severity::Note => ("soft", "note"),
                Severity::Doubtful => ("warn", "doubtful"),
                Severity::Invalid => ("wrong", "INVALID"),
            };
            list.leaf("li", &[("class", class)], &format!("round {name}: {word}: {}", mark.text));
        }
    });
}
