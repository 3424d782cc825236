//! Postfix's map files: what is found here, and what `postmap -q` finds. `maps/KIND.txt` has the files,
//! with what was asked and answered. `POSTMAP=write` asks Postfix anew and writes all answers, its own
//! and ours, for review.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod case;

use case::{Ask, Case};
use lookup::{CidrTable, PatternSyntax, PatternTable, Table, TableFileError, TextTable};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(86_400);

/// Files by the kind of map, and the kind that Postfix calls it by.
const KINDS: [(&str, &str); 7] = [
    ("texthash", "texthash"),
    ("virtual", "texthash"),
    ("transport", "texthash"),
    ("access", "texthash"),
    ("cidr", "cidr"),
    ("regexp", "regexp"),
    ("pcre", "pcre"),
];

fn maps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/postmap/maps")
}

fn cases(kind: &str) -> Vec<Case> {
    let file = maps().join(kind).with_extension("txt");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    Case::read_all(&text)
}

fn make(kind: &str, content: &[u8]) -> Result<Box<dyn Table>, Vec<TableFileError>> {
    Ok(match kind {
        "texthash" => Box::new(TextTable::read(content)?),
        "cidr" => Box::new(CidrTable::read(content)?),
        "regexp" => Box::new(PatternTable::read(content, PatternSyntax::Posix)?),
        "pcre" => Box::new(PatternTable::read(content, PatternSyntax::Perl)?),
        _ => panic!("a map of kind {kind}"),
    })
}

/// The case with what is answered here in the place of what is written.
fn with_ours(case: &Case, kind: &str) -> Case {
    let mut case = case.clone();
    match make(kind, case.content().as_bytes()) {
        Ok(table) => {
            case.told = table.warnings().iter().map(ToString::to_string).collect();
            for ask in &mut case.asks {
                let found = table.find(&ask.key).expect("an answer");
                ask.ours = found.map(|entry| entry.text.into());
            }
        }
        Err(mistakes) => {
            case.told = mistakes.iter().map(ToString::to_string).collect();
            case.asks.iter_mut().for_each(|ask| ask.ours = None);
        }
    }
    case
}

#[test]
fn answers_are_those_that_are_written() {
    let mut count = 0;
    for (kind, postfix_kind) in KINDS {
        for case in cases(kind) {
            assert_eq!(case, with_ours(&case, postfix_kind), "{kind}: {}", case.title);
            count += 1;
        }
    }
    assert!(count >= 200, "{count} files");
}

#[test]
fn differences_from_postfix_are_meant() {
    for (kind, _) in KINDS {
        for case in cases(kind) {
            let Case { title, told, asks, .. } = &case;
            if case.has("refused") {
                assert!(!told.is_empty(), "{kind}: {title}: no mistake is told");
            } else {
                let differs = asks.iter().any(|ask| ask.ours != ask.postfix);
                assert_eq!(differs, case.has("differs"), "{kind}: {title}");
            }
        }
    }
}

/// Where `postmap` is; `None`: not here, and the test is skipped, but never in continuous integration.
fn postmap() -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let program = std::env::split_paths(&path).map(|dir| dir.join("postmap")).find(|p| p.is_file());
    let has_pcre = || {
        ["/usr/lib/postfix/postfix-pcre.so", "/usr/lib/postfix/sbin/postfix-pcre.so"]
            .iter()
            .any(|file| Path::new(file).is_file())
    };
    let program = program.filter(|_| has_pcre());
    if program.is_none() {
        skips::missing("postmap with pcre");
    }
    program
}

/// A directory of Postfix's settings and maps.
struct Postfix {
    program: PathBuf,
    dir: tempfile::TempDir,
}

impl Postfix {
    fn new(program: PathBuf) -> Postfix {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("main.cf"), "compatibility_level = 3.6\n").expect("written");
        Postfix { program, dir }
    }

    /// The case with what Postfix answers, and what it warns of.
    fn ask(&self, case: &Case, kind: &str) -> (Case, String) {
        let file = self.dir.path().join("map");
        std::fs::write(&file, case.content()).expect("written");
        // Of a file that was changed just now Postfix waits whether it changes again.
        let opened = std::fs::File::options().write(true).open(&file).expect("opened");
        opened.set_modified(SystemTime::UNIX_EPOCH + DAY).expect("set");
        let mut child = Command::new(&self.program)
            .arg("-c")
            .arg(self.dir.path())
            .args(["-q", "-"])
            .arg(format!("{kind}:{}", file.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("postmap starts");
        let keys: String = case.asks.iter().map(|ask| format!("{}\n", ask.key)).collect();
        child.stdin.take().expect("piped").write_all(keys.as_bytes()).expect("read");
        let output = child.wait_with_output().expect("it ends");
        let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!warnings.contains("fatal:"), "{}: {warnings}", case.title);
        let answers = String::from_utf8(output.stdout).expect("text");
        let mut answers = answers.split_terminator('\n').peekable();
        let mut case = case.clone();
        for Ask { key, postfix, .. } in &mut case.asks {
            // One line for each key that it has, in their order.
            let answer = answers.peek().and_then(|line| line.strip_prefix(key.as_str()));
            *postfix = answer.and_then(|rest| rest.strip_prefix('\t')).map(str::to_owned);
            if postfix.is_some() {
                answers.next();
            }
        }
        assert_eq!(answers.next(), None, "{}", case.title);
        (case, warnings)
    }
}

#[test]
fn postmap_answers_what_is_written() {
    let Some(program) = postmap() else { return };
    let postfix = Postfix::new(program);
    let writes = std::env::var_os("POSTMAP").is_some_and(|value| value == "write");
    for (kind, postfix_kind) in KINDS {
        let mut written = Vec::new();
        for case in cases(kind) {
            let (asked, warnings) = postfix.ask(&case, postfix_kind);
            if writes {
                written.push(with_ours(&asked, postfix_kind).to_string());
                continue;
            }
            assert_eq!(case, asked, "{kind}: {}\n{warnings}", case.title);
            // It warns of what is told of here, but for what only we cannot do (`beyond`).
            let is_told = !case.told.is_empty() && !case.has("beyond") || case.has("untold");
            assert_eq!(is_told, !warnings.is_empty(), "{kind}: {}\n{warnings}", case.title);
        }
        if writes {
            let file = maps().join(kind).with_extension("txt");
            std::fs::write(file, written.join("\n")).expect("written");
        }
    }
}
