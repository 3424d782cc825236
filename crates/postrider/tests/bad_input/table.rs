//! The tables: files of rows, each with what is done and what must come of it.
//!
//! A file begins with `# Title` and some lines about it. A row is `[id] What it is.` and lines
//! `K: …` whose letter says what it is: something that is done, or something that was observed.
//! Who plays rows returns the lines as they should have been; a row passes when they are the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Unique over all tables.
    pub(crate) id: String,
    /// A sentence.
    pub(crate) what: String,
    /// What is done and what is observed, in their order.
    pub(crate) lines: Vec<String>,
}

impl Row {
    /// What follows `name: ` in the line that begins so.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Kind and rest of each line.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().map(|line| step(line))
    }
}

/// Kind and rest of a line.
pub(crate) fn step(line: &str) -> (&str, &str) {
    let (kind, rest) = line.split_once(':').unwrap_or_else(|| panic!("no kind: {line}"));
    (kind, rest.strip_prefix(' ').unwrap_or(rest))
}

/// The rows of one file.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    path: PathBuf,
    /// The heading in the page.
    pub(crate) title: String,
    /// What stands between heading and rows, as it is.
    pub(crate) about: String,
    /// What holds after each of the rows; empty: it depends on the row.
    pub(crate) proof: String,
    /// In the order of the file.
    pub(crate) rows: Vec<Row>,
}

/// Every table, in the order of the page.
const NAMES: [&str; 11] = [
    "dialogue",
    "addresses",
    "limits",
    "smuggling",
    "dsn",
    "config",
    "start",
    "spool",
    "control",
    "http",
    "command",
];

/// What is asked for with the environment variable.
enum Wanted {
    All,
    Write,
    Row(String),
}

fn wanted() -> Wanted {
    match std::env::var("BAD_INPUT") {
        Ok(value) if value == "write" => Wanted::Write,
        Ok(id) => Wanted::Row(id),
        Err(_) => Wanted::All,
    }
}

/// Whether observations are to be written into the tables and the page.
pub(crate) fn is_writing() -> bool {
    matches!(wanted(), Wanted::Write)
}

/// All tables.
pub(crate) fn all() -> Vec<Table> {
    NAMES.iter().map(|name| Table::read(name)).collect()
}

impl Table {
    /// Reads `rows/NAME.txt`.
    pub(crate) fn read(name: &str) -> Table {
        assert!(NAMES.contains(&name), "{name} is not in the page");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad_input/rows");
        let path = folder.join(format!("{name}.txt"));
        let text = std::fs::read_to_string(&path).expect("a readable table");
        let (head, rows) = text.split_once("\n\n[").expect("rows behind the head");
        let (title, about) = head.split_once('\n').unwrap_or((head, ""));
        let title = title.strip_prefix("# ").expect("a title").to_owned();
        let (about, proof) = about.split_once("\nproof: ").unwrap_or((about, ""));
        let rows = rows.split("\n\n[").map(|block| {
            let mut lines = block.lines();
            let (id, what) = lines.next().and_then(|line| line.split_once("] ")).expect("a row");
            let lines = lines.map(str::to_owned).collect();
            Row { id: id.to_owned(), what: what.to_owned(), lines }
        });
        let (about, proof) = (about.trim().to_owned(), proof.trim().to_owned());
        Table { rows: rows.collect(), title, about, proof, path }
    }

    /// Plays each row and compares its lines with those that `play` returns.
    pub(crate) fn check(&self, mut play: impl FnMut(&Row) -> Vec<String>) {
        let wanted = wanted();
        let mut fresh = self.clone();
        let mut wrong = String::new();
        for (row, fresh) in self.rows.iter().zip(&mut fresh.rows) {
            if matches!(&wanted, Wanted::Row(id) if *id != row.id) {
                continue;
            }
            fresh.lines = play(row);
            if fresh.lines != row.lines {
                wrong.push_str(&format!("[{}] {}\n", row.id, row.what));
                wrong.push_str(&difference(&row.lines, &fresh.lines));
            }
        }
        if matches!(wanted, Wanted::Write) {
            std::fs::write(&self.path, fresh.text()).expect("a writable table");
            crate::page::write();
        } else {
            assert!(wrong.is_empty(), "{}\n{wrong}", self.path.display());
        }
    }

    fn text(&self) -> String {
        let mut text = format!("# {}\n{}\n", self.title, self.about);
        if !self.proof.is_empty() {
            text.push_str(&format!("proof: {}\n", self.proof));
        }
        for row in &self.rows {
            text.push_str(&format!("\n[{}] {}\n", row.id, row.what));
            row.lines.iter().for_each(|line| {
                text.push_str(line);
                text.push('\n');
            });
        }
        text
    }
}

fn difference(expected: &[String], found: &[String]) -> String {
    let mut text = String::new();
    for n in 0..expected.len().max(found.len()) {
        let (expected, found) = (expected.get(n), found.get(n));
        if expected != found {
            let or_nothing = |line: Option<&String>| line.map_or("(nothing)", |l| l).to_owned();
            text.push_str(&format!("  expected {}\n", or_nothing(expected)));
            text.push_str(&format!("  found    {}\n", or_nothing(found)));
        }
    }
    text
}

#[test]
fn every_row_has_a_name_of_its_own() {
    let tables = all();
    let mut ids = BTreeSet::new();
    for row in tables.iter().flat_map(|table| &table.rows) {
        assert!(ids.insert(row.id.clone()), "{} stands twice", row.id);
        assert!(row.what.ends_with('.') && !row.lines.is_empty(), "{row:?}");
    }
    assert!(ids.len() >= 250, "{} rows", ids.len());
}
