//! Building and reading, through the files of a real directory.

use super::build::{BuildError, build};
use crate::cli::{BuildArgs, Format};
use crate::file_content;
use lookup::Table;
use lookup::database::Database;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn args(&self, text: &str) -> BuildArgs {
        let from = self.path("users.txt");
        fs::write(&from, text).unwrap();
        BuildArgs {
            from,
            to: self.path("users.db"),
            format: Format::Postfix,
            keep_case: false,
            json: false,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What there is but the source.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != "users.txt").collect();
        names.sort();
        names
    }
}

fn open(path: &Path) -> Database {
    Database::open("users.db", file_content::open(path).unwrap()).unwrap()
}

fn value(database: &Database, key: &str) -> Option<String> {
    database.find(key).unwrap().map(|entry| entry.text.into())
}

#[test]
fn what_is_built_is_found() {
    let files = Files::new();
    let args = files.args("# users\nA@x.test  one\nb@x.test two,\n  three\na@X.test other\n");
    let built = build(&args).unwrap();
    assert_eq!((built.summary.keys_count, built.summary.duplicates_count), (2, 1));
    assert_eq!(files.names(), ["users.db"]);
    let database = open(&args.to);
    assert_eq!(value(&database, "a@x.TEST").as_deref(), Some("one"));
    assert_eq!(value(&database, "b@x.test").as_deref(), Some("two,  three"));
    assert_eq!(value(&database, "c@x.test"), None);
}

#[test]
fn with_case_keys_differ_by_it() {
    let files = Files::new();
    let args = files.args("A 1\na 2\n");
    let built = build(&BuildArgs { keep_case: true, ..args }).unwrap();
    assert_eq!(built.summary.keys_count, 2);
    let database = open(&files.path("users.db"));
    assert_eq!(value(&database, "A").as_deref(), Some("1"));
    assert_eq!(value(&database, "a").as_deref(), Some("2"));
}

#[test]
fn a_source_with_mistakes_leaves_the_old_database() {
    let files = Files::new();
    let args = files.args("a old\n");
    build(&args).unwrap();
    let mut text = "a new\n".to_owned();
    text.push_str(&"wrong\n".repeat(25));
    let key = "k".repeat(65_536);
    text.push_str(&format!("{key} v\n"));
    let Err(BuildError::Wrong(mistakes)) = build(&files.args(&text)) else {
        panic!("it was built")
    };
    assert_eq!(mistakes.count, 26);
    assert_eq!(mistakes.first.len(), 20);
    assert_eq!((mistakes.first[0].line, mistakes.first[19].line), (2, 21));
    assert_eq!(&*mistakes.first[0].text, "\"wrong\" has no value");
    let Err(BuildError::Wrong(mistakes)) = build(&files.args(&format!("a new\n{key} v\n"))) else {
        panic!("it was built")
    };
    let told = &mistakes.first[0];
    assert_eq!((told.line, &*told.text), (2, "the key has 65536 bytes: at most 65535"));
    assert_eq!(files.names(), ["users.db"]);
    assert_eq!(value(&open(&args.to), "a").as_deref(), Some("old"));
}

#[test]
fn names_that_were_confused_cost_no_file() {
    let files = Files::new();
    let args = files.args("a old\n");
    let swapped = BuildArgs { to: args.from.clone(), ..args };
    let Err(BuildError::Impossible(text)) = build(&swapped) else { panic!("it was built") };
    assert!(text.contains("users.txt exists and is not a Postrider database"), "{text}");
    assert_eq!(fs::read(&swapped.from).unwrap(), b"a old\n");
    let missing = BuildArgs { from: files.path("missing"), to: files.path("users.db"), ..swapped };
    let Err(BuildError::Impossible(text)) = build(&missing) else { panic!("it was built") };
    assert!(text.starts_with("cannot read ") && text.contains("missing: No such file"), "{text}");
    assert!(files.names().is_empty());
}

#[test]
fn an_answer_is_old_or_new_while_the_file_is_replaced_a_hundred_times() {
    const KEYS: u64 = 3_000;
    let files = Files::new();
    // In generation g only keys have a value that are a multiple of g % 3 + 1.
    let text = |generation: u64| -> String {
        let keys = (0..KEYS).filter(|key| key % (generation % 3 + 1) == 0);
        keys.map(|key| format!("user{key}@x.test {generation}/{key}\n")).collect()
    };
    let path = files.path("users.db");
    build(&files.args(&text(0))).unwrap();
    let (placed, lookups, is_done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let look_up = || {
        let mut newest = 0;
        while !is_done.load(Ordering::Relaxed) {
            let oldest = placed.load(Ordering::Acquire);
            // As a server has it: one file, now mapped, for many lookups.
            let database = open(&path);
            let mut seen = None;
            for key in 0..KEYS {
                let Some(value) = value(&database, &format!("user{key}@x.test")) else {
                    assert!(seen.is_some_and(|seen| key % (seen % 3 + 1) != 0), "{seen:?} {key}");
                    continue;
                };
                let (generation, of) = value.split_once('/').unwrap();
                let generation: u64 = generation.parse().unwrap();
                assert_eq!(of, key.to_string());
                assert_eq!(*seen.get_or_insert(generation), generation, "two in one file");
                assert_eq!(key % (generation % 3 + 1), 0);
            }
            let seen = seen.expect("all have key 0");
            assert!(seen >= oldest && seen >= newest, "{seen} after {oldest} and {newest}");
            newest = seen;
            lookups.fetch_add(KEYS, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(look_up), scope.spawn(look_up)];
        for generation in 1..=100 {
            build(&files.args(&text(generation))).unwrap();
            placed.store(generation, Ordering::Release);
        }
        is_done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert!(lookups.load(Ordering::Relaxed) >= 100 * KEYS, "{lookups:?}");
    assert_eq!(value(&open(&path), "user0@x.test").as_deref(), Some("100/0"));
    assert_eq!(files.names(), ["users.db"]);
}
