//! What is wrong with a file, with the place where it shows.

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, Severity,
};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

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
    let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(100).with_links(false);
    let mut out = String::new();
    for (i, problem) in problems.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let report = Report { source: NamedSource::new(file, text.to_owned()), problem };
        if handler.render_report(&mut out, &report).is_err() {
            // Writing to a string fails only if the handler cannot read the source.
            out.push_str(&problem.message);
            out.push('\n');
        }
    }
    out
}

/// One problem as miette wants it.
#[derive(Debug)]
struct Report<'a> {
    source: NamedSource<String>,
    problem: &'a Problem,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem.message)
    }
}

impl std::error::Error for Report<'_> {}

impl Diagnostic for Report<'_> {
    fn severity(&self) -> Option<Severity> {
        Some(if self.problem.fatal { Severity::Error } else { Severity::Warning })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.problem.help.as_deref().map(|help| Box::new(help) as Box<dyn fmt::Display + 'a>)
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = LabeledSpan::new_with_span(None, self.problem.span.clone());
        Some(Box::new(std::iter::once(label)))
    }
}
