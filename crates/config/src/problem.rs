//! What is wrong with a file, with the place where it shows.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Longer lines of a file are cut around what is wrong in them.
const COLUMNS: usize = 120;

/// Something wrong, or (a warning) something that is hardly meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file stands in the way of the program; otherwise it is only a warning.
    pub fatal: bool,
    /// What is wrong, for people.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Bytes of the text that it is about.
    pub span: Range<usize>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// All that is wrong with a file: at least one fatal problem, and the warnings.
#[derive(Clone, Debug)]
pub struct ConfigErrors {
    file: Arc<str>,
    text: Arc<str>,
    problems: Vec<Problem>,
}

impl ConfigErrors {
    /// Problems in the order of the file.
    #[must_use]
    pub fn new(file: Arc<str>, text: Arc<str>, mut problems: Vec<Problem>) -> ConfigErrors {
        problems.sort_by_key(|p| (p.span.start, !p.fatal));
        problems.dedup();
        ConfigErrors { file, text, problems }
    }

    /// The problems in the order of the file, warnings too.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// With the lines concerned and a pointer into them, for a terminal.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        render(&self.file, &self.text, &self.problems, colour)
    }
}

/// One line for each: `postrider.toml:3:5: error: unknown key "hostnam"`.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            let kind = if problem.fatal { "error" } else { "warning" };
            let Problem { line, column, message, .. } = problem;
            write!(f, "{}:{line}:{column}: {kind}: {message}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Renders problems with the lines concerned and a pointer into them.
#[must_use]
pub(super) fn render(file: &str, text: &str, problems: &[Problem], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.decor_style(DecorStyle::Unicode).term_width(COLUMNS);
    let mut out = String::new();
    for (i, problem) in problems.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let level = if problem.fatal { Level::ERROR } else { Level::WARNING };
        // The renderer takes no half characters.
        let Range { start, end } = problem.span;
        let span = text.floor_char_boundary(start)..text.ceil_char_boundary(end);
        let place = AnnotationKind::Primary.span(span);
        let snippet = Snippet::source(text).path(file).annotation(place);
        let report = level.primary_title(&problem.message).element(snippet);
        let report = report.elements(problem.help.iter().map(|help| Level::HELP.message(help)));
        out.push_str(&renderer.render(&[report]));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(span: Range<usize>) -> Problem {
        let help = Some("help".to_owned());
        Problem { fatal: true, message: "message".into(), help, span, line: 1, column: 1 }
    }

    #[test]
    fn any_place_in_any_text_can_be_shown() {
        let long = "x漢\t".repeat(3 * COLUMNS / 4);
        for (text, step) in [
            ("", 1),
            ("\n", 1),
            ("a = 1\r\nb = \"é\u{301}漢\t\"\n", 1),
            ("a\0\u{1b}[2J\n\n\u{feff}", 1),
            (&long, 19),
        ] {
            for start in (0..=text.len() + 1).step_by(step) {
                for end in (start..=text.len() + 1).step_by(step) {
                    let shown = render("a.toml", text, &[problem(start..end)], start % 2 == 0);
                    assert!(shown.contains("message") && shown.contains("a.toml:"), "{shown}");
                }
            }
        }
    }
}
