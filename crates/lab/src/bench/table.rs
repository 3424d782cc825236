//! The report as text: for a terminal, and as Markdown for a document.

use crate::bench::report::{Case, Ending, FigureSummary, Mark, Report, Scenario, Severity, Spread};
use crate::show::number::{three_digits, with_unit};
use comfy_table::{Cell, CellAlignment, Color, Table, TableStyle, presets};
use std::io::IsTerminal as _;

/// The columns, as figure and heading; those that no contender has are left out.
const COLUMNS: [(&str, &str); 30] = [
    ("accepted_per_second", "in/s"),
    ("accepted_of_offered", "of offered %"),
    ("delivered_per_second", "out/s"),
    ("best_delivered_per_second", "best out/s"),
    ("accept_seconds", "in s"),
    ("deliver_seconds", "out s"),
    ("resumed_percent", "resumed %"),
    ("latency_p50_ms", "p50 ms"),
    ("latency_p99_ms", "p99 ms"),
    ("reference_accepted_per_second", "in/s, empty"),
    ("accepted_of_reference", "of it %"),
    ("last_tenth_of_first", "last tenth %"),
    ("cpu_us_per_message", "CPU µs"),
    ("directory_cpu_us_per_message", "slapd CPU µs"),
    ("refused_for_now", "4yz"),
    ("accepted_last_of_first", "in, last ÷ first quarter"),
    ("delivered_last_of_first", "out, last ÷ first quarter"),
    ("memory_peak_bytes", "RSS MB"),
    ("memory_shared_once_bytes", "PSS MB"),
    ("memory_bytes_per_queued", "B/queued"),
    ("device_written_bytes_per_message", "written B"),
    ("syncs_per_message", "syncs/msg"),
    ("disk_used_bytes", "disk MB"),
    ("resume_seconds", "resume s"),
    ("recovery_seconds", "recover s"),
    ("drained_per_second", "drain/s"),
    ("drained_first_tenth", "drain/s full"),
    ("drained_last_tenth", "drain/s empty"),
    ("pauses", "pauses"),
    ("machine_cpu_percent", "machine %"),
];

/// All of it as text.
pub(crate) fn text(report: &Report) -> String {
    let machine = &report.manifest.machine;
    let mut out = format!(
        "{}, {} cores, {:.1} GB, {}; spools on {} ({})\n",
        machine.cpu_model,
        machine.cores,
        machine.memory_bytes as f64 / 1e9,
        machine.kernel.split(" #").next().unwrap_or_default(),
        machine.spool_file_system,
        machine.spool_directory
    );
    for contender in &report.manifest.contenders {
        out +=
            &format!("{}: {}; {}\n", contender.name, contender.version, contender.durability_note);
    }
    for skipped in &report.manifest.skipped {
        out += &format!("left out: {}: {}\n", skipped.name, skipped.why);
    }
    report.marks.iter().for_each(|mark| out += &mark_line("the whole run", mark));
    for scenario in &report.scenarios {
        for case in &scenario.cases {
            out += &case_text(
                scenario,
                case,
                report.manifest.contenders.iter().map(|c| c.name.as_str()),
            );
        }
        for published in &scenario.published {
            out += &format!(
                "published: {}, {}: {} ({})\n",
                published.server,
                published.what,
                with_unit(published.value, &published.unit),
                published.source
            );
        }
    }
    out
}

fn case_text<'a>(
    scenario: &Scenario,
    case: &Case,
    contenders: impl Iterator<Item = &'a str>,
) -> String {
    let load = &case.workload;
    let mut out = format!("\n{} {}: {}, {}", scenario.name, case.name, scenario.title, case.title);
    if load.messages > 0 {
        out += &format!(", {} messages of {} bytes", load.messages, load.body_bytes);
    }
    if let Some(handshakes) = &load.tls {
        out += &format!(", encrypted with {handshakes} handshakes");
    }
    load.offered().into_iter().chain(load.read()).for_each(|text| out += &format!(", {text}"));
    out.push('\n');
    if let Some(why) = &case.unavailable {
        return out + &format!("not run: {why}\n");
    }
    for left_out in &case.left_out {
        out += &format!("left out: {}: {}\n", left_out.name, left_out.why);
    }
    out += &figures_table(case, contenders, presets::UTF8_BORDERS_ONLY).to_string();
    out.push('\n');
    ratios(case).for_each(|line| out += &format!("{line}\n"));
    for round in &case.rounds {
        for measurement in &round.measurements {
            let who = format!("round {}, {}", round.number, measurement.contender);
            measurement.marks.iter().for_each(|mark| out += &mark_line(&who, mark));
        }
    }
    out
}

/// The tables alone, each with its ratios, and below each scenario the command that made it.
pub(crate) fn markdown(report: &Report) -> String {
    let mut out = String::new();
    for scenario in &report.scenarios {
        for case in scenario.cases.iter().filter(|case| !case.rounds.is_empty()) {
            let contenders = report.manifest.contenders.iter().map(|c| c.name.as_str());
            let table = figures_table(case, contenders, presets::ASCII_MARKDOWN);
            out += &format!("### {} {}: {}\n\n{table}\n\n", scenario.name, case.name, case.title);
            ratios(case).for_each(|line| out += &format!("- {line}\n"));
            out.push('\n');
        }
    }
    let command = report.manifest.command_line.join(" ");
    out + &format!("```sh\n{command}\n```\n")
}

/// The ratios that most is read from, a line each.
fn ratios(case: &Case) -> impl Iterator<Item = String> {
    const SHOWN: [&str; 4] =
        ["delivered_per_second", "accepted_per_second", "cpu_us_per_message", "drained_per_second"];
    let shown = case.ratios.iter().filter(|ratio| SHOWN.contains(&ratio.figure.as_str()));
    shown.map(|ratio| {
        let Spread { median, min, max, .. } = &ratio.spread;
        format!("{} ÷ {}, {}: {median:.2} ({min:.2} to {max:.2})", ratio.of, ratio.to, ratio.title)
    })
}

fn figures_table<'a>(
    case: &Case,
    contenders: impl Iterator<Item = &'a str>,
    style: TableStyle,
) -> Table {
    let has = |name: &str| case.summaries.iter().any(|summary| summary.figure == name);
    let columns: Vec<(&str, &str)> = COLUMNS.into_iter().filter(|(name, _)| has(name)).collect();
    let mut table = Table::new();
    table.load_style(style);
    let mut header = vec!["median of rounds"];
    header.extend(columns.iter().map(|(_, heading)| *heading));
    header.extend(["missing", "twice", "valid"]);
    table.set_header(header);
    for contender in contenders {
        let measurements = case.rounds.iter().flat_map(|round| &round.measurements);
        let mine: Vec<_> = measurements.filter(|m| m.contender == contender).collect();
        if mine.is_empty() {
            continue;
        }
        let mut row = vec![Cell::new(contender)];
        for (name, _) in &columns {
            let mut found = case.summaries.iter().filter(|s| s.contender == contender);
            let cell = found.find(|summary| summary.figure == *name).map_or("-".to_owned(), value);
            row.push(Cell::new(cell));
        }
        let sum = |count: fn(&crate::bench::report::MessageBalance) -> u64| -> u64 {
            mine.iter().map(|measurement| count(&measurement.account)).sum()
        };
        row.push(Cell::new(sum(|account| account.missing)));
        row.push(Cell::new(sum(|account| account.duplicates)));
        let severity =
            mine.iter().map(|measurement| measurement.severity()).max().unwrap_or_default();
        let finished = mine.iter().all(|measurement| measurement.ending == Ending::Finished);
        row.push(match severity {
            Severity::Invalid => colored("INVALID", Color::Red),
            Severity::Doubtful if !finished => colored("unfinished", Color::Yellow),
            Severity::Doubtful => colored("doubtful", Color::Yellow),
            Severity::Note => Cell::new("yes"),
        });
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn colored(text: &str, color: Color) -> Cell {
    let cell = Cell::new(text);
    if std::io::stdout().is_terminal() { cell.fg(color) } else { cell }
}

fn value(summary: &FigureSummary) -> String {
    let median = summary.spread.median;
    match summary.unit.as_str() {
        "bytes"
            if summary.figure.ends_with("_per_message")
                || summary.figure.ends_with("_per_queued") =>
        {
            three_digits(median)
        }
        "bytes" => format!("{:.0}", median / 1e6),
        _ => three_digits(median),
    }
}

fn mark_line(who: &str, mark: &Mark) -> String {
    let (word, color) = match mark.severity {
        Severity::Invalid => ("INVALID", "\x1b[1;31m"),
        Severity::Doubtful => ("doubtful", "\x1b[33m"),
        Severity::Note => ("note", ""),
    };
    if color.is_empty() || !std::io::stdout().is_terminal() {
        return format!("{word}: {who}: {}\n", mark.text);
    }
    format!("{color}{word}: {who}: {}\x1b[0m\n", mark.text)
}

#[cfg(test)]
mod tests {
    use super::{markdown, text};
    use crate::bench::report::{
        Case, Contender, Mark, Measurement, MessageBalance, Report, Round, Scenario, Severity,
    };

    #[test]
    fn an_invalid_result_says_so_and_why() {
        let mark = Mark { severity: Severity::Invalid, text: "LOSS: 3".to_owned() };
        let measurement = Measurement {
            contender: "x".to_owned(),
            account: MessageBalance { missing: 3, ..MessageBalance::default() },
            marks: vec![mark],
            ..Measurement::default()
        };
        let case = Case {
            rounds: vec![Round { number: 1, measurements: vec![measurement] }],
            ..Case::default()
        };
        let mut report = Report {
            scenarios: vec![Scenario { cases: vec![case], ..Scenario::default() }],
            ..Report::default()
        };
        report.manifest.contenders =
            vec![Contender { name: "x".to_owned(), ..Contender::default() }];
        let text = text(&report);
        assert!(text.contains("INVALID: round 1, x: LOSS: 3"), "{text}");
        assert!(report.is_invalid());
        report.manifest.command_line = vec!["postrider-lab".to_owned(), "bench".to_owned()];
        let markdown = markdown(&report);
        assert!(markdown.contains("| x ") && markdown.contains("|--"), "{markdown}");
        assert!(markdown.ends_with("```sh\npostrider-lab bench\n```\n"), "{markdown}");
    }
}
