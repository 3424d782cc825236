//! A variant of a scenario: figures, plots, rounds.

use super::figures::{draw_figures, published_value};
use super::{charts, rounds, slug};
use crate::bench::report::{Case, Published, Report, Scenario, Workload};
use crate::show::number::grouped;
use maud::{Markup, html};

/// Draws it.
pub(super) fn draw(report: &Report, scenario: &Scenario, case: &Case) -> Markup {
    let here = |published: &&Published| published.case.is_empty() || published.case == case.name;
    let published: Vec<&Published> = scenario.published.iter().filter(here).collect();
    let charts = charts::of_case(report, case);
    html! {
        "\n"
        h3 id={(slug(&scenario.name)) "-" (slug(&case.name))} { (case.title) }
        p class="soft" { (workload(&case.workload)) }
        @if let Some(why) = &case.unavailable { p class="warn" { "Not measured: " (why) } }
        @for left_out in &case.left_out {
            p class="soft" { "Without " (left_out.name) ": " (left_out.why) }
        }
        (draw_figures(case, true, &published))
        (draw_published(&published))
        @if !charts.is_empty() {
            div class="plots" { @for chart in &charts { (chart.drawing.inline()) "\n" } }
        }
        (rounds::draw(case))
    }
}

/// What is sent, in a sentence.
fn workload(workload: &Workload) -> String {
    let whole = |value: u64| grouped(value as f64, 0);
    let mut text = match workload.messages {
        0 => "As many messages as the time allows".to_owned(),
        1 => "One message".to_owned(),
        messages => format!("{} messages", whole(messages)),
    };
    let drawn = |min: Option<u64>| min.map(|min| whole(min) + " to ").unwrap_or_default();
    let bytes = plural(workload.body_bytes, "byte");
    text += &format!(" of {}{bytes}", drawn(workload.body_bytes_min));
    text += &format!(
        " from {} with {} each, {}{} on a connection",
        if workload.postal { "postal".into() } else { plural(workload.sources.into(), "source") },
        plural(workload.sessions.into(), "session"),
        drawn(workload.per_connection_min),
        whole(workload.per_connection),
    );
    if workload.users > 0 {
        text += &format!(", to {} of {} users", whole(workload.recipients), whole(workload.users));
    }
    if let Some(offered) = workload.offered() {
        text += &format!(", {offered}");
    }
    if let Some(read) = workload.read() {
        text += &format!(", {read}");
    }
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
    if let Some(handshakes) = &workload.tls {
        text += &format!(", encrypted with {handshakes} handshakes");
    }
    if workload.seconds > 0.0 {
        text += &format!(", for {:.0} seconds", workload.seconds);
    }
    text + "."
}

fn plural(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count as f64, 0), if count == 1 { "" } else { "s" })
}

fn draw_published(published: &[&Published]) -> Markup {
    if published.is_empty() {
        return html! {};
    }
    html! {
        p class="soft" {
            "Published figures, measured on other machines and therefore without ratios:"
        }
        ul class="soft" {
            @for one in published {
                li { (one.server) ", " (one.what) ": " (published_value(one)) " (" (one.source) ")" }
            }
        }
    }
}
