//! `report.html`: a run for people. One file that loads nothing, readable on a phone.

mod case;
mod charts;
mod figures;
mod manifest;
mod rounds;
mod verdict;

#[cfg(test)]
mod sample;

use crate::bench::report::{Report, Scenario};
use crate::show::{plot, printable};
use maud::{Markup, PreEscaped, html};
use std::io;
use std::path::{Path, PathBuf};

const STYLE: &str = include_str!("style.css");

/// What is in every page's head. Closed as XML has it, which `meta` in HTML needn't be.
const METAS: &str = "<meta charset=\"utf-8\"/>\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>";

/// Draws the page.
#[must_use]
pub fn draw(report: &Report) -> String {
    let page = html! {
        html lang="en" xmlns="http://www.w3.org/1999/xhtml" {
            head {
                (PreEscaped(METAS))
                title { (title(report)) }
                // Plots first: the page gives them its own background.
                style { (PreEscaped(plot::STYLE)) (PreEscaped(STYLE)) }
            }
            "\n"
            body { (draw_body(report)) }
        }
    };
    format!("<!DOCTYPE html>\n{}\n", printable(&page.into_string()))
}

/// Writes `report.html` and each plot as `plot-SCENARIO-CASE-WHAT.svg` into a directory; gives the
/// names of the files.
pub fn write(report: &Report, directory: &Path) -> io::Result<Vec<PathBuf>> {
    let page = directory.join("report.html");
    std::fs::write(&page, draw(report))?;
    let mut files = vec![page];
    for scenario in &report.scenarios {
        for case in &scenario.cases {
            for chart in charts::of_case(report, case) {
                let parts = ["plot", &scenario.name, &case.name, &chart.name].map(slug);
                let file = directory.join(format!("{}.svg", parts.join("-")));
                std::fs::write(&file, chart.drawing.standalone())?;
                files.push(file);
            }
        }
    }
    Ok(files)
}

fn title(report: &Report) -> String {
    let names: Vec<&str> = report.scenarios.iter().map(|scenario| &*scenario.name).collect();
    format!("Benchmark: {}", names.join(", "))
}

fn draw_body(report: &Report) -> Markup {
    html! {
        h1 { (title(report)) }
        p class="soft" { (manifest::summary(&report.manifest)) }
        (verdict::draw(report))
        @if report.scenarios.len() > 1 {
            nav {
                @for scenario in &report.scenarios {
                    a href={"#" (slug(&scenario.name))} { (scenario.title) }
                }
            }
        }
        @for scenario in &report.scenarios { (draw_scenario(report, scenario)) }
        (manifest::draw(&report.manifest))
    }
}

fn draw_scenario(report: &Report, scenario: &Scenario) -> Markup {
    html! {
        "\n"
        h2 id=(slug(&scenario.name)) { (scenario.title) }
        p { (scenario.about) }
        @if !scenario.publication.is_empty() {
            p class="soft" { "Follows: " (scenario.publication) }
        }
        @if !scenario.differences.is_empty() {
            p { "Differences from the publication:" }
            ul { @for difference in &scenario.differences { li { (difference) } } }
        }
        @for case in &scenario.cases { (case::draw(report, scenario, case)) }
    }
}

/// A name as part of a file's name or of a link.
fn slug(name: impl AsRef<str>) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    name.as_ref().chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::{draw, sample, slug, write};

    #[test]
    fn the_page_and_its_plots_are_well_formed_and_load_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let files = write(&sample::report(), directory.path()).expect("written");
        assert!(files.len() > 5, "{files:?}");
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a file that was written");
            let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
            let document = roxmltree::Document::parse_with_options(&text, options)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            for node in document.descendants() {
                assert!(!["script", "link", "img", "iframe"].contains(&node.tag_name().name()));
                for attribute in node.attributes().filter(|a| ["href", "src"].contains(&a.name())) {
                    assert!(attribute.value().starts_with('#'), "{}", attribute.value());
                }
            }
            assert!(!text.contains("url(") && !text.contains("@import"));
        }
    }

    #[test]
    fn the_style_needs_no_escaping() {
        assert!(!super::STYLE.contains(['<', '&']));
    }

    #[test]
    fn the_same_report_gives_the_same_page() {
        assert_eq!(draw(&sample::report()), draw(&sample::report()));
    }

    #[test]
    fn links_within_the_page_lead_somewhere() {
        let page = draw(&sample::report());
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&page, options).expect("XML");
        let all = |name: &'static str| {
            let nodes = document.descendants();
            nodes.filter_map(move |node| node.attribute(name)).collect::<Vec<_>>()
        };
        let ids = all("id");
        let links = all("href");
        assert!(!links.is_empty());
        assert!(links.iter().all(|link| ids.contains(&link.trim_start_matches('#'))), "{links:?}");
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len(), "{ids:?}");
    }

    #[test]
    fn the_page_says_what_the_report_says() {
        let page = draw(&sample::report());
        let said = [
            "INVALID",
            "The spool is on tmpfs",
            "10.7×",
            "9.30–11.8",
            "10,604 /s",
            "1,333",
            "&lt;script&gt;alert(1)&lt;/script&gt;",
            "no emulated path",
            "install postfix",
            "max_connections = 50",
            "--scale 0.04",
            "Example Journal",
            "4,711",
        ];
        for text in said {
            assert!(page.contains(text), "{text} is missing");
        }
        assert!(!page.contains("<script"));
    }

    #[test]
    fn an_empty_report_is_a_page() {
        let page = draw(&super::Report::default());
        assert!(page.contains("</html>"));
    }

    #[test]
    fn what_a_file_name_can_not_have_becomes_a_dash() {
        assert_eq!(slug("50ms, 0.1 %/x"), "50ms--0.1---x");
    }
}
