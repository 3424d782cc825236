//! The table of a case's figures: a row each, a column for each contender.

use crate::bench::report::{Better, Case, FigureSummary, Published};
use crate::show;
use crate::show::number::{short, unit_name};
use maud::{Markup, html};

/// Which way a figure is better, for the heading of its row.
pub(super) fn hint(better: Better) -> Option<&'static str> {
    match better {
        Better::Higher => Some("more is better"),
        Better::Lower => Some("less is better"),
        Better::Neither => None,
    }
}

/// The figures that a case has, in the order in which they come first: those that are compared, or
/// those that only describe.
fn figures(case: &Case, compared: bool) -> Vec<&FigureSummary> {
    let mut figures: Vec<&FigureSummary> = vec![];
    let wanted = |summary: &&FigureSummary| (summary.better != Better::Neither) == compared;
    for summary in case.summaries.iter().filter(wanted) {
        if !figures.iter().any(|known| known.figure == summary.figure) {
            figures.push(summary);
        }
    }
    figures
}

/// What appears in some list first stays first, and appears once.
fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut unique: Vec<&str> = vec![];
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique
}

/// A row for each figure, a column for each contender and for each server that something is
/// published of.
pub(super) fn draw_figures(case: &Case, compared: bool, published: &[&Published]) -> Markup {
    let figures = figures(case, compared);
    if figures.is_empty() {
        return html! {};
    }
    let contenders = unique(case.summaries.iter().map(|summary| &*summary.contender));
    let is_shown = |one: &&&Published| figures.iter().any(|figure| figure.figure == one.figure);
    let servers = unique(published.iter().filter(is_shown).map(|one| &*one.server));
    let header = html! {
        th {}
        @for contender in &contenders { (draw_contender(case, contender)) }
        @for server in &servers { th class="published" { (server) small { "published" } } }
    };
    let rows = html! {
        @for figure in &figures {
            tr {
                (show::heading(&figure.title, hint(figure.better)))
                @for contender in &contenders { (draw_summary(case, contender, figure)) }
                @for server in &servers { (draw_published_cell(figure, published, server)) }
            }
        }
    };
    show::scrolling(&header, &rows)
}

fn draw_contender(case: &Case, contender: &str) -> Markup {
    if case.is_invalid(contender) {
        html! { th class="wrong" { (contender) small class="wrong" { "INVALID" } } }
    } else {
        html! { th { (contender) } }
    }
}

fn draw_summary(case: &Case, contender: &str, figure: &FigureSummary) -> Markup {
    let same = |summary: &&FigureSummary| {
        summary.contender == contender && summary.figure == figure.figure
    };
    let class = if case.is_invalid(contender) { "wrong" } else { "" };
    match case.summaries.iter().find(same) {
        Some(summary) => show::spread_cell(&summary.spread, &summary.unit, class),
        None => html! { td { "–" } },
    }
}

/// What others measured elsewhere, in the row of what it stands beside.
fn draw_published_cell(figure: &FigureSummary, published: &[&Published], server: &str) -> Markup {
    let here = published.iter().filter(|one| one.server == server && one.figure == figure.figure);
    let values: Vec<String> = here.map(|one| published_value(one)).collect();
    html! {
        td class="published" {
            @if values.is_empty() { "–" }
            @for value in values { div { (value) } }
        }
    }
}

/// A value and its unit, as somebody published it.
pub(super) fn published_value(one: &Published) -> String {
    format!("{} {}", short(one.value), unit_name(&one.unit)).trim_end().to_owned()
}
