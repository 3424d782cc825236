//! What comes first: whether the run is worth anything, and how the first contender compares.

use super::figures::hint;
use super::slug;
use crate::bench::report::{Better, Case, Mark, Ratio, Report, Scenario, Severity};
use crate::show;
use crate::show::number::three_digits;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// Draws it.
pub(super) fn draw(report: &Report) -> Markup {
    html! {
        h2 id="verdict" { "Verdict" }
        (draw_banner(report, Severity::Invalid))
        (draw_banner(report, Severity::Doubtful))
        @if let Some(first) = report.scenarios.iter().flat_map(ratios).next() {
            (draw_legend(&first.of, report.manifest.rounds))
            @for scenario in &report.scenarios { (draw_scenario(scenario)) }
        } @else {
            p { "No comparison is possible." }
        }
    }
}

fn draw_legend(first: &str, rounds: u32) -> Markup {
    html! {
        p {
            "Figures of " (first) " divided by those of another in the same round; "
            @if rounds > 1 {
                "the median of " (rounds) " rounds, below it the smallest and the largest. "
            } @else {
                "one round only, so their variation is unknown. "
            }
            span class="good" { "▲ better" }
            ", "
            span class="worse" { "▼ worse" }
            " in every round; "
            span { "≈ neither" }
            "."
        }
    }
}

fn ratios(scenario: &Scenario) -> impl Iterator<Item = &Ratio> {
    let ratios = scenario.cases.iter().flat_map(|case| &case.ratios);
    ratios.filter(|ratio| ratio.better != Better::Neither)
}

fn draw_scenario(scenario: &Scenario) -> Markup {
    // In the order in which they come first.
    let mut others: Vec<&str> = vec![];
    for ratio in ratios(scenario) {
        if !others.contains(&&*ratio.to) {
            others.push(&ratio.to);
        }
    }
    if others.is_empty() {
        return html! {};
    }
    let header = html! {
        th { "against" }
        @for other in &others { th { (other) } }
    };
    let rows = html! {
        @for case in &scenario.cases {
            @if scenario.cases.len() > 1 && !case.ratios.is_empty() {
                (show::group(&case.title, others.len() + 1))
            }
            (draw_case(case, &others))
        }
    };
    html! {
        h3 { a href={"#" (slug(&scenario.name))} { (scenario.title) } }
        (show::scrolling(&header, &rows))
    }
}

fn draw_case(case: &Case, others: &[&str]) -> Markup {
    let mut figures: Vec<&Ratio> = vec![];
    for ratio in case.ratios.iter().filter(|ratio| ratio.better != Better::Neither) {
        if !figures.iter().any(|known| known.figure == ratio.figure) {
            figures.push(ratio);
        }
    }
    let of = |figure: &Ratio, other: &str| {
        case.ratios.iter().find(|ratio| ratio.to == other && ratio.figure == figure.figure)
    };
    html! {
        @for figure in figures {
            tr {
                (show::heading(&figure.title, hint(figure.better)))
                @for other in others { (draw_ratio(case, of(figure, other))) }
            }
        }
    }
}

fn draw_ratio(case: &Case, ratio: Option<&Ratio>) -> Markup {
    let Some(ratio) = ratio else {
        return html! { td { "–" } };
    };
    let spread = &ratio.spread;
    let median = three_digits(spread.median);
    if case.is_invalid(&ratio.of) || case.is_invalid(&ratio.to) {
        return html! { td class="wrong" { "INVALID" small { (median) "×" } } };
    }
    let (mark, class) = match judge(ratio) {
        Some(true) => ("▲", "good"),
        Some(false) => ("▼", "worse"),
        None => ("≈", "even"),
    };
    html! {
        td class=(class) {
            (mark) " " (median) "×"
            @if spread.values.len() > 1 {
                small { (three_digits(spread.min)) "–" (three_digits(spread.max)) }
            }
        }
    }
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
fn draw_banner(report: &Report, severity: Severity) -> Markup {
    let marks = marks(report, severity);
    if marks.is_empty() {
        return html! {};
    }
    let (class, heading) = match severity {
        Severity::Invalid => ("banner invalid", "INVALID: these results prove nothing"),
        Severity::Doubtful => ("banner care", "Doubtful: read with care"),
        Severity::Note => ("banner care", "Worth knowing"),
    };
    html! {
        div class=(class) {
            h2 { (heading) }
            ul {
                @for (place, text) in marks {
                    li {
                        @if !place.is_empty() { b { (place) ": " } }
                        (text)
                    }
                }
            }
        }
    }
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
