//! A catalogue: tables of rows that are tests, each with input and expected output, and a page rendered from them into
//! `target/docs`.
//!
//! A file begins with `# Title` and some lines about it. A row is `[id] What it is.` and lines
//! `K: …` whose letter says what it is: something that is done, or something that was observed.
//! Who plays rows returns the lines as they should have been; a row passes when they are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Unique over all tables.
    pub id: String,
    /// A sentence.
    pub what: String,
    /// What is done and what is observed, in their order.
    pub lines: Vec<String>,
}

impl Row {
    /// What follows `name: ` in the line that begins so.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Kind and rest of each line.
    pub fn steps(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().map(|line| step(line))
    }
}

/// Kind and rest of a line.
pub fn step(line: &str) -> (&str, &str) {
    let (kind, rest) = line.split_once(':').unwrap_or_else(|| panic!("no kind: {line}"));
    (kind, rest.strip_prefix(' ').unwrap_or(rest))
}

/// The rows of one file.
#[derive(Clone, Debug)]
pub struct Table {
    path: PathBuf,
    /// The heading in the page.
    pub title: String,
    /// What stands between heading and rows, as it is.
    pub about: String,
    /// What holds after each of the rows; empty: it depends on the row.
    pub proof: String,
    /// In the order of the file.
    pub rows: Vec<Row>,
}

/// Tables, and the page that is rendered from them.
pub struct Catalogue {
    /// The folder of the test, whose `rows` has the tables; with `-` for `_` the page's name.
    pub folder: &'static str,
    /// The environment variable that asks for one row, or for `write`.
    pub variable: &'static str,
    /// Every table, in the order of the page.
    pub names: &'static [&'static str],
    /// The page; `None` for who plays tables of a page that another test renders.
    pub render: Option<fn(&[Table]) -> String>,
}

/// What is asked for with the environment variable.
enum Wanted {
    All,
    Write,
    Row(String),
}

impl Catalogue {
    fn wanted(&self) -> Wanted {
        match std::env::var(self.variable) {
            Ok(value) if value == "write" => Wanted::Write,
            Ok(id) => Wanted::Row(id),
            Err(_) => Wanted::All,
        }
    }

    /// Returns true if observations are to be written into the tables.
    pub fn is_writing(&self) -> bool {
        matches!(self.wanted(), Wanted::Write)
    }

    /// Whether this row is to be played.
    pub fn is_wanted(&self, row: &Row) -> bool {
        !matches!(self.wanted(), Wanted::Row(id) if id != row.id)
    }

    /// All tables.
    pub fn tables(&self) -> Vec<Table> {
        self.names.iter().map(|name| self.table(name)).collect()
    }

    /// Reads `rows/NAME.txt`.
    pub fn table(&self, name: &str) -> Table {
        assert!(self.names.contains(&name), "{name} is not in the page");
        // Tests of other crates play tables, too.
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../postrider/tests/program");
        Table::read(tests.join(self.folder).join("rows").join(format!("{name}.txt")))
    }

    /// Plays each row of a table and compares its lines with those that `play` returns.
    pub fn check(&self, name: &str, mut play: impl FnMut(&Row) -> Vec<String>) {
        let table = self.table(name);
        let rows = table.rows.iter().filter(|row| self.is_wanted(row));
        let seen = rows.map(|row| (row.id.clone(), play(row))).collect();
        self.compare(&[table], &seen);
    }

    /// Compares rows, by their ids, with what was seen of them.
    pub fn compare(&self, tables: &[Table], seen: &BTreeMap<String, Vec<String>>) {
        let mut wrong = String::new();
        for table in tables {
            let mut fresh = table.clone();
            for (row, fresh) in table.rows.iter().zip(&mut fresh.rows) {
                let Some(lines) = seen.get(&row.id) else { continue };
                if *lines != row.lines {
                    wrong.push_str(&format!("[{}] {}\n", row.id, row.what));
                    wrong.push_str(&difference(&row.lines, lines));
                    fresh.lines.clone_from(lines);
                }
            }
            if self.is_writing() {
                std::fs::write(&table.path, fresh.text()).expect("a writable table");
            }
        }
        assert!(self.is_writing() || wrong.is_empty(), "{}:\n{wrong}", self.folder);
    }

    /// Renders the page into `target/docs`, and asserts that it has each row once and a heading for each link of its contents.
    pub fn render_page(&self) {
        let tables = self.tables();
        let page = self.render.expect("a page")(&tables);
        for row in tables.iter().flat_map(|table| &table.rows) {
            assert_eq!(page.matches(&format!("\n| `{}` |", row.id)).count(), 1, "{}", row.id);
        }
        let headings: BTreeSet<String> = page
            .lines()
            .filter_map(|line| Some(format!("#{}", anchor(line.strip_prefix("## ")?))))
            .collect();
        let links: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("- [")?.split_once("](")?.1.split(')').next())
            .collect();
        assert_eq!(links.len(), tables.len());
        assert!(links.iter().all(|link| headings.contains(*link)), "{links:?}, {headings:?}");
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/docs");
        std::fs::create_dir_all(&docs).expect("a writable target");
        let name = format!("{}.md", self.folder.replace('_', "-"));
        std::fs::write(docs.join(name), page).expect("a writable page");
    }

    /// Asserts that each row is complete and has a name of its own, and that there are so many.
    pub fn check_rows(&self, count_min: usize) {
        let mut ids = BTreeSet::new();
        for row in self.tables().iter().flat_map(|table| &table.rows) {
            assert!(ids.insert(row.id.clone()), "{} stands twice", row.id);
            assert!(row.what.ends_with('.') && !row.lines.is_empty(), "{row:?}");
        }
        assert!(ids.len() >= count_min, "{} rows", ids.len());
    }
}

/// How many rows there are, and where, as the begin of a page.
pub fn contents(tables: &[Table]) -> String {
    let count: usize = tables.iter().map(|table| table.rows.len()).sum();
    let mut text = format!("\n{count} rows:\n\n");
    for table in tables {
        let (title, rows) = (&table.title, table.rows.len());
        text.push_str(&format!("- [{title}](#{}): {rows}\n", anchor(title)));
    }
    text
}

/// The anchor of a heading.
fn anchor(title: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

/// Text as code in a cell of a table.
pub fn code(text: &str) -> String {
    let text = text.replace('|', "\\|");
    match (text.is_empty(), text.contains('`')) {
        (true, _) => "an empty line".to_owned(),
        (_, true) => format!("`` {text} ``"),
        _ => format!("`{text}`"),
    }
}

impl Table {
    fn read(path: PathBuf) -> Table {
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
