//! A file of cases: `=== title [flags]`, the map, `---`, what is told of it (`!! line:column: text`), and a
//! line for each key: `key`, `key -> answer`, or where Postfix answers something else
//! `key -> its answer ~> our answer`. Flags: `crlf` (lines of the map end so), `refused` (no table is made
//! of it), `beyond` (of a refused one: because of what Postfix can do, and we can't), `differs`,
//! `untold` (Postfix warns of what is no mistake here).

use std::fmt;

const NONE: &str = "(none)";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) title: String,
    pub(crate) flags: Vec<String>,
    map: String,
    /// Mistakes or warnings.
    pub(crate) told: Vec<String>,
    pub(crate) asks: Vec<Ask>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) key: String,
    pub(crate) postfix: Option<String>,
    /// Of a map that is refused always `None`.
    pub(crate) ours: Option<String>,
}

impl Case {
    pub(crate) fn read_all(text: &str) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut lines = text.split('\n').peekable();
        while let Some(line) = lines.next() {
            let Some(title) = line.strip_prefix("=== ") else {
                assert!(line.is_empty(), "no title: {line}");
                continue;
            };
            let (title, flags) = match title.rsplit_once(" [") {
                Some((title, flags)) => (title, flags.trim_end_matches(']')),
                None => (title, ""),
            };
            let flags: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
            let is_refused = flags.iter().any(|flag| flag == "refused");
            let map: Vec<&str> = lines.by_ref().take_while(|line| *line != "---").collect();
            let (mut told, mut asks) = (Vec::new(), Vec::new());
            while let Some(line) = lines.next_if(|line| !line.is_empty()) {
                match line.strip_prefix("!! ") {
                    Some(text) => told.push(text.to_owned()),
                    None => asks.push(Ask::read(line, is_refused)),
                }
            }
            let title = title.to_owned();
            cases.push(Case { title, flags, map: map.join("\n"), told, asks });
        }
        cases
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    /// The map.
    pub(crate) fn content(&self) -> String {
        let text = format!("{}\n", self.map);
        if self.has("crlf") { text.replace('\n', "\r\n") } else { text }
    }
}

impl Ask {
    fn read(line: &str, is_refused: bool) -> Ask {
        let (key, answers) = match line.split_once(" -> ") {
            Some((key, answers)) => (key, answers),
            None => (line, NONE),
        };
        let answer = |text: &str| (text != NONE).then(|| text.to_owned());
        let (postfix, ours) = match answers.split_once(" ~> ") {
            Some((postfix, ours)) => (answer(postfix), answer(ours)),
            None => (answer(answers), answer(answers).filter(|_| !is_refused)),
        };
        Ask { key: key.to_owned(), postfix, ours }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "=== {}", self.title)?;
        if !self.flags.is_empty() {
            write!(f, " [{}]", self.flags.join(" "))?;
        }
        writeln!(f, "\n{}\n---", self.map)?;
        self.told.iter().try_for_each(|text| writeln!(f, "!! {text}"))?;
        for Ask { key, postfix, ours } in &self.asks {
            let text = |answer: &Option<String>| answer.as_deref().unwrap_or(NONE).to_owned();
            if postfix != ours && !self.has("refused") {
                writeln!(f, "{key} -> {} ~> {}", text(postfix), text(ours))?;
            } else if postfix.is_some() {
                writeln!(f, "{key} -> {}", text(postfix))?;
            } else {
                writeln!(f, "{key}")?;
            }
        }
        Ok(())
    }
}
