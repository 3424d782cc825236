//! The report of a migration: each setting of the other server with its result here.

use serde_json::{Value, json};
use std::fmt::Write as _;

/// A line in a file of the other server.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourceLine {
    pub(super) file: String,
    /// From 1; 0 for a default, which no line sets.
    pub(super) line: u32,
}

impl SourceLine {
    fn shown(&self) -> String {
        match (self.file.is_empty(), self.line) {
            (true, _) => "default".to_owned(),
            (false, 0) => self.file.clone(),
            (false, line) => format!("{}:{line}", self.file),
        }
    }
}

/// The result for a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Missing,
    Different,
    Carried,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Missing => "not carried",
            Verdict::Different => "carried differently",
            Verdict::Carried => "carried",
        }
    }
}

/// A row of the report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Remark {
    pub(super) verdict: Verdict,
    pub(super) origin: SourceLine,
    /// The parameter, restriction or service.
    pub(super) subject: String,
    pub(super) why: String,
    /// The operator's next step; empty for none.
    pub(super) remedy: String,
    /// This server would accept mail that the other one refuses.
    pub(super) is_open: bool,
}

/// All rows.
#[derive(Debug, Default)]
pub(super) struct MigrationReport {
    remarks: Vec<Remark>,
}

impl MigrationReport {
    /// Adds a row once.
    pub(super) fn add(&mut self, remark: Remark) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Returns true if a row is about this parameter, or one of its entries.
    pub(super) fn has(&self, name: &str) -> bool {
        let is_about = |subject: &str| {
            subject
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([':', ' ']))
        };
        self.remarks.iter().any(|remark| is_about(&remark.subject))
    }

    /// Returns true if a row names mail that the other server would refuse.
    pub(super) fn is_open(&self) -> bool {
        self.remarks.iter().any(|remark| remark.is_open)
    }

    /// For people: rows that need attention first.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let open: Vec<_> = self.remarks.iter().filter(|remark| remark.is_open).collect();
        if !open.is_empty() {
            text.push_str("Accepted here, refused by Postfix:\n");
            for remark in open {
                let _ = writeln!(text, "  {}: {}", remark.origin.shown(), remark.subject);
            }
            text.push('\n');
        }
        for verdict in [Verdict::Missing, Verdict::Different, Verdict::Carried] {
            let mut rows: Vec<_> =
                self.remarks.iter().filter(|remark| remark.verdict == verdict).collect();
            if rows.is_empty() {
                continue;
            }
            rows.sort_by(|a, b| (&a.origin, &a.subject).cmp(&(&b.origin, &b.subject)));
            let _ = writeln!(text, "{} ({}):", capital(verdict.word()), rows.len());
            for row in rows {
                let _ = writeln!(text, "  {}: {}", row.origin.shown(), row.subject);
                let _ = writeln!(text, "    {}", row.why);
                if !row.remedy.is_empty() {
                    let _ = writeln!(text, "    Do: {}", row.remedy);
                }
            }
            text.push('\n');
        }
        text
    }

    /// For programs.
    pub(super) fn json(&self) -> Vec<Value> {
        let row = |remark: &Remark| {
            json!({
                "result": remark.verdict.word().replace(' ', "_"),
                "file": remark.origin.file,
                "line": remark.origin.line,
                "subject": remark.subject,
                "why": remark.why,
                "do": remark.remedy,
                "accepts_more": remark.is_open,
            })
        };
        self.remarks.iter().map(row).collect()
    }

    #[cfg(test)]
    pub(super) fn remarks(&self) -> &[Remark] {
        &self.remarks
    }
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}
