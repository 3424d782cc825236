//! What comes first: whether the run is worth anything, and how the first contender compares.

use super::{slug, table};
use crate::bench::report::{Better, Case, Mark, Ratio, Report, Scenario, Severity};
use crate::bench::show::markup::Markup;
use crate::bench::show::number::three_digits;
use std::collections::BTreeSet;

/// Draws it.
pub(super) fn draw(body: &mut Markup, report: &Report) {
    body.leaf("h2", &[("id", "verdict")], "Verdict");
    draw_banner(body, report, Severity::Invalid);
    draw_banner(body, report, Severity::Doubtful);
    let Some(first) = report.scenarios.iter().flat_map(ratios).next() else {
        body.leaf("p", &[], "There is nothing to compare.");
        return;
    };
    let rounds = report.manifest.rounds;
    let middle = if rounds > 1 {
        format!("the median of {rounds} rounds, below it the smallest and the largest")
    } else {
        "one round only, so nobody knows how far they scatter".to_owned()
    };
    body.element("p", &[], |text| {
        text.text(&format!(
            "Figures of {} divided by those of another in the same round; {middle}. ",
            first.of
        ));
        text.leaf("span", &[("class", "good")], "▲ better");
        text.text(", ");
        text.leaf("span", &[("class", "worse")], "▼ worse");
        text.text(" in every round; ");
        text.leaf("span", &[], "≈ neither");
        text.text(".");
    });
    for scenario in &report.scenarios {
        draw_scenario(body, scenario);
    }
}

fn ratios(scenario: &Scenario) -> impl Iterator<Item = &Ratio> {
    let ratios = scenario.cases.iter().flat_map(|case| &case.ratios);
    ratios.filter(|ratio| ratio.better != Better::Neither)
}

fn draw_scenario(body: &mut Markup, scenario: &Scenario) {
    // In the order in which they come first.
    let mut others: Vec<&str> = vec![];
    for ratio in ratios(scenario) {
        if !others.contains(&&*ratio.to) {
            others.push(&ratio.to);
        }
    }
    if others.is_empty() {
        return;
    }
    body.element("h3", &[], |heading| {
        heading.leaf("a", &[("href", &format!("#{}", slug(&scenario.name)))], &scenario.title);
    });
    let header = |row: &mut Markup| {
        row.leaf("th", &[], "against");
        others.iter().for_each(|other| row.leaf("th", &[], other));
    };
    table::draw(body, header, |rows| {
        for case in &scenario.cases {
            if scenario.cases.len() > 1 && !case.ratios.is_empty() {
                table::group(rows, &case.title, others.len() + 1);
            }
            draw_case(rows, case, &others);
        }
    });
}

fn draw_case(rows: &mut Markup, case: &Case, others: &[&str]) {
    let mut figures: Vec<&Ratio> = vec![];
    for ratio in case.ratios.iter().filter(|ratio| ratio.better != Better::Neither) {
        if !figures.iter().any(|known| known.figure == ratio.figure) {
            figures.push(ratio);
        }
    }
    for figure in figures {
        rows.element("tr", &[], |row| {
            table::figure_heading(row, &figure.title, figure.better);
            for other in others {
                let of_pair = |ratio: &&Ratio| ratio.to == *other && ratio.figure == figure.figure;
                draw_ratio(row, case, case.ratios.iter().find(of_pair));
            }
        });
    }
}

fn draw_ratio(row: &mut Markup, case: &Case, ratio: Option<&Ratio>) {
    let Some(ratio) = ratio else {
        return row.leaf("td", &[], "–");
    };
    let spread = &ratio.spread;
    if case.is_invalid(&ratio.of) || case.is_invalid(&ratio.to) {
        return row.element("td", &[("class", "wrong")], |cell| {
            cell.text("INVALID");
            cell.leaf("small", &[], &format!("{}×", three_digits(spread.median)));
        });
    }
    let (mark, class) = match judge(ratio) {
        Some(true) => ("▲", "good"),
        Some(false) => ("▼", "worse"),
        None => ("≈", "even"),
    };
    row.element("td", &[("class", class)], |cell| {
        cell.text(&format!("{mark} {}×", three_digits(spread.median)));
        if spread.values.len() > 1 {
            cell.leaf(
                "small",
                &[],
                &format!("{}–{}", three_digits(spread.min), three_digits(spread.max)),
            );
        }
    });
}

/// Whether the first contender was better in every round, or worse in every round.
fn judge(ratio: &Ratio) -> Option<bool> {
    let (min, max) = (ratio.spread.min, ratio.spread.max);
    match ratio.better {
        Better::Higher if min > 1.0 => Some(true),
        Better::Higher if max < 1.0 => Some(false),
        Better::Lower if max < 1.0 => Some(true),
        Better::Lower if min > 1.0 => Some(false),
        _ => None,
    }
}

/// All marks of one severity, each with where it applies.
fn draw_banner(body: &mut Markup, report: &Report, severity: Severity) {
    let marks = marks(report, severity);
    if marks.is_empty() {
        return;
    }
    let (class, heading) = match severity {
        Severity::Invalid => ("banner invalid", "INVALID: these results prove nothing"),
        Severity::Doubtful => ("banner care", "To be read with care"),
        Severity::Note => ("banner care", "Worth knowing"),
    };
    body.element("div", &[("class", class)], |banner| {
        banner.leaf("h2", &[], heading);
        banner.element("ul", &[], |list| {
            for (place, text) in marks {
                list.element("li", &[], |item| {
                    if !place.is_empty() {
                        item.leaf("b", &[], &format!("{place}: "));
                    }
                    item.text(&text);
                });
            }
        });
    });
}

/// Place and text, once each, in the report's order.
fn marks(report: &Report, severity: Severity) -> Vec<(String, String)> {
    let fits = |mark: &&Mark| mark.severity == severity;
    let of_run = report.marks.iter().filter(fits).map(|mark| (String::new(), mark.text.clone()));
    let mut marks: Vec<(String, String)> = of_run.collect();
    for scenario in &report.scenarios {
        for case in &scenario.cases {
            for round in &case.rounds {
                for measurement in &round.measurements {
                    let place =
                        format!("{}, {}, {}", scenario.name, case.name, measurement.contender);
                    let here = measurement.marks.iter().filter(fits);
                    marks.extend(here.map(|mark| (place.clone(), mark.text.clone())));
                }
            }
        }
    }
    let mut seen = BTreeSet::new();
    marks.retain(|mark| seen.insert(mark.clone()));
    marks
}

#[cfg(test)]
mod tests {
    use super::judge;
    use crate::bench::report::{Better, Ratio, Spread};

    fn ratio(better: Better, values: &[f64]) -> Ratio {
        let spread = Spread::of(values.to_vec()).expect("values");
        Ratio { better, spread, ..Ratio::default() }
    }

    #[test]
    fn only_every_round_on_one_side_is_a_verdict() {
        assert_eq!(judge(&ratio(Better::Higher, &[1.1, 2.0])), Some(true));
        assert_eq!(judge(&ratio(Better::Higher, &[0.9, 2.0])), None);
        assert_eq!(judge(&ratio(Better::Lower, &[1.1, 2.0])), Some(false));
        assert_eq!(judge(&ratio(Better::Lower, &[0.1, 0.2])), Some(true));
        assert_eq!(judge(&ratio(Better::Neither, &[0.1, 0.2])), None);
    }
}
