//! Errors in a file, with their positions.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Longer lines of a file are cut around the error.
const COLUMNS: usize = 120;

/// An error, or (a warning) something probably unintended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file cannot be used; otherwise it is only a warning.
    pub fatal: bool,
    /// The problem, for people.
    pub message: String,
    /// The remedy.
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
    /// Errors in files that it references.
    others: Vec<ConfigErrors>,
}

impl ConfigErrors {
    /// Errors in the order of the file, then warnings, which must not hide them.
    #[must_use]
    pub fn new(file: Arc<str>, text: Arc<str>, mut problems: Vec<Problem>) -> ConfigErrors {
        problems.sort_by_key(|p| (!p.fatal, p.span.start));
        problems.dedup();
        ConfigErrors { file, text, problems, others: Vec::new() }
    }

    /// Both together: those of the same file in its order, then those of the other.
    #[must_use]
    pub fn and(self, other: ConfigErrors) -> ConfigErrors {
        let ConfigErrors { file, text, mut problems, mut others } = self;
        if other.file == file && other.text == text {
            problems.extend(other.problems);
            others.extend(other.others);
        } else if problems.is_empty() {
            return ConfigErrors { others: [others, other.others].concat(), ..other };
        } else {
            others.push(other);
        }
        ConfigErrors { others, ..ConfigErrors::new(file, text, problems) }
    }

    /// The errors in the order of the file, then the warnings.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Each file in which something is wrong, with its problems.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[Problem])> {
        let others = self.others.iter().map(|other| (&*other.file, &*other.problems));
        std::iter::once((&*self.file, &*self.problems)).chain(others)
    }

    /// With the lines concerned and a pointer into them, for a terminal.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let mut out = render(&self.file, &self.text, &self.problems, colour);
        for other in &self.others {
            out.push('\n');
            out.push_str(&other.render(colour));
        }
        out
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
        self.others.iter().try_for_each(|other| write!(f, "\n{other}"))
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
        // The renderer requires character boundaries.
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

    #[test]
    fn mistakes_of_several_files_are_shown_with_their_files() {
        let of = |file: &str, line| {
            let problem = Problem {
                fatal: true,
                message: format!("wrong {line}"),
                help: None,
                span: line..line + 1,
                line: u32::try_from(line).unwrap(),
                column: 1,
            };
            ConfigErrors::new(file.into(), "a = 1\nb = 2\n".into(), vec![problem])
        };
        let all = of("a.toml", 2).and(of("b.toml", 1)).and(of("a.toml", 1));
        let shown =
            "a.toml:1:1: error: wrong 1\na.toml:2:1: error: wrong 2\nb.toml:1:1: error: wrong 1";
        assert_eq!(all.to_string(), shown);
        let files: Vec<_> = all.files().map(|(file, all)| (file, all.len())).collect();
        assert_eq!(files, [("a.toml", 2), ("b.toml", 1)]);
        let rendered = all.render(false);
        assert!(rendered.contains("a.toml:1:2") && rendered.contains("b.toml:1:2"), "{rendered}");
    }

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
