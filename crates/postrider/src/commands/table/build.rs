//! `postrider table build`.

use super::progress::BuildProgress;
use super::source::{MalformedLine, PairReader};
use crate::cli::{BuildArgs, exit};
use crate::file_content;
use crate::replacement::{Replacement, salt};
use crate::terminal::clean;
use crate::world::clock::wall_now;
use lookup::database::{
    self, Database, DatabaseOptions, DatabaseSummary, DatabaseWriter, Duplicate, WriteError,
};
use lookup::{Entry, Table};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Maximum number of errors and duplicates printed; the rest is counted.
const SHOWN_MAX: usize = 20;

/// Size of a read from the source.
const READ_BYTES: usize = 256 << 10;

/// The result of a build.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) summary: DatabaseSummary,
    duplicates: BTreeMap<u64, DuplicateKey>,
    took: Duration,
}

/// An entry that was left out, beside its line.
#[derive(Debug)]
struct DuplicateKey {
    key: String,
    first_line: u64,
}

/// The reason why no database was built.
#[derive(Debug)]
pub(super) enum BuildError {
    /// A sentence.
    Impossible(String),
    /// The source has errors.
    Wrong(MalformedLines),
}

/// Malformed lines: the first ones, and their number.
#[derive(Debug, Default)]
pub(super) struct MalformedLines {
    pub(super) first: Vec<MalformedLine>,
    pub(super) count: u64,
}

impl MalformedLines {
    fn add(&mut self, mistake: MalformedLine) {
        self.count += 1;
        if self.first.len() < SHOWN_MAX {
            self.first.push(mistake);
        }
    }
}

impl From<String> for BuildError {
    fn from(text: String) -> BuildError {
        BuildError::Impossible(text)
    }
}

/// Builds, and prints the result.
pub(super) fn run(args: &BuildArgs) -> ExitCode {
    let outcome = build(args);
    if args.json {
        super::super::print(&format!("{:#}\n", json(args, &outcome)));
    } else {
        tell(args, &outcome);
    }
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) }
}

/// Builds a database and puts it in its place.
pub(super) fn build(args: &BuildArgs) -> Result<Built, BuildError> {
    let begun = Instant::now();
    refuse_others(&args.to)?;
    let (reader, meta) = open(&args.from)
        .map_err(|error| format!("cannot read {}: {error}", args.from.display()))?;
    let replacement = Replacement::create(&args.to, meta.as_ref())?;
    let scratch = replacement.scratch().map_err(|error| replacement.wrong(&error))?;
    let making = DatabaseOptions { salt: salt()?, made: wall_now(), folds_case: !args.keep_case };
    let mut writer = DatabaseWriter::new(replacement.file(), scratch, making)
        .map_err(|error| replacement.wrong(&error))?;
    let mut progress = BuildProgress::new(meta.map(|meta| meta.len()).filter(|bytes| *bytes > 0));
    let reader = BufReader::with_capacity(READ_BYTES, progress.reading(reader));
    let mut mistakes = MalformedLines::default();
    for pair in PairReader::new(reader, args.format) {
        match pair {
            Ok(pair) => match writer.push(&pair.key, &Entry::text(pair.value), pair.line) {
                Ok(()) => progress.add_key(),
                Err(WriteError::Io(error)) => return Err(replacement.wrong(&error).into()),
                Err(error) => {
                    mistakes.add(MalformedLine { line: pair.line, text: error.to_string() })
                }
            },
            Err(mistake) => mistakes.add(mistake),
        }
    }
    if mistakes.count > 0 {
        return Err(BuildError::Wrong(mistakes));
    }
    progress.add_index();
    let mut duplicates = BTreeMap::new();
    let (_, summary) = writer
        .finish(&mut |duplicate| keep(&mut duplicates, duplicate))
        .map_err(|error| replacement.wrong(&error))?;
    check(replacement.path(), &summary).map_err(|error| replacement.wrong(&error))?;
    replacement.place()?;
    Ok(Built { summary, duplicates, took: begun.elapsed() })
}

/// Refuses to overwrite a file that is no database, in case the names were swapped.
fn refuse_others(target: &Path) -> Result<(), String> {
    let mut begin = Vec::new();
    match File::open(target).and_then(|file| file.take(16).read_to_end(&mut begin)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("cannot replace {}: {error}", target.display())),
        Ok(_) if begin.is_empty() || database::is_database(&begin) => Ok(()),
        Ok(_) => Err(format!(
            "{} exists and is not a Postrider database: remove it, or choose another name for \
             --to",
            target.display()
        )),
    }
}

fn open(path: &Path) -> io::Result<(Box<dyn Read>, Option<Metadata>)> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let file = File::open(path)?;
    let meta = file.metadata()?;
    Ok((Box::new(file), Some(meta)))
}

/// Keeps the first of the duplicates.
fn keep(duplicates: &mut BTreeMap<u64, DuplicateKey>, duplicate: Duplicate<'_>) {
    let Duplicate { key, first_line, line } = duplicate;
    if duplicates.len() == SHOWN_MAX && duplicates.last_key_value().is_some_and(|(&l, _)| l < line)
    {
        return;
    }
    duplicates.insert(line, DuplicateKey { key: key.to_owned(), first_line });
    if duplicates.len() > SHOWN_MAX {
        duplicates.pop_last();
    }
}

/// Opens the new file as a server will.
fn check(path: &Path, summary: &DatabaseSummary) -> Result<(), String> {
    let bytes = file_content::open(path).map_err(|error| error.to_string())?;
    let database = Database::open("it", bytes).map_err(|error| error.to_string())?;
    if database.keys_count() != Some(summary.keys_count) {
        return Err("verification failed: keys are missing".to_owned());
    }
    Ok(())
}

/// Output for people: errors on standard error, results on standard output.
fn tell(args: &BuildArgs, outcome: &Result<Built, BuildError>) {
    let from = args.from.display();
    match outcome {
        Ok(built) => {
            let DatabaseSummary { keys_count, duplicates_count, file_bytes } = built.summary;
            for (line, DuplicateKey { key, first_line }) in &built.duplicates {
                let key = clean(key);
                eprintln!("{from}:{line}: warning: \"{key}\" is already on line {first_line}");
            }
            tell_rest(duplicates_count, built.duplicates.len(), "duplicates");
            let left_out = match duplicates_count {
                0 => String::new(),
                count => format!(", {count} duplicates skipped"),
            };
            let to = args.to.display();
            let seconds = built.took.as_secs_f64();
            super::super::print(&format!(
                "{to}: {keys_count} keys, {file_bytes} bytes, {seconds:.1} s{left_out}\n"
            ));
        }
        Err(BuildError::Impossible(text)) => eprintln!("postrider: {text}"),
        Err(BuildError::Wrong(mistakes)) => {
            for MalformedLine { line, text } in &mistakes.first {
                eprintln!("{from}:{line}: error: {}", clean(text));
            }
            tell_rest(mistakes.count, mistakes.first.len(), "mistakes");
            eprintln!("postrider: {} was not built", args.to.display());
        }
    }
}

fn tell_rest(count: u64, shown: usize, what: &str) {
    let rest = count.saturating_sub(shown as u64);
    if rest > 0 {
        eprintln!("and {rest} more {what}");
    }
}

/// Output for programs.
fn json(args: &BuildArgs, outcome: &Result<Built, BuildError>) -> serde_json::Value {
    let (from, to) = (args.from.display().to_string(), args.to.display().to_string());
    match outcome {
        Ok(built) => {
            let duplicates = built.duplicates.iter();
            serde_json::json!({
                "from": from,
                "to": to,
                "keys": built.summary.keys_count,
                "bytes": built.summary.file_bytes,
                "seconds": built.took.as_secs_f64(),
                "duplicates": built.summary.duplicates_count,
                "first_duplicates": duplicates.map(|(line, DuplicateKey { key, first_line })| {
                    serde_json::json!({ "line": line, "key": key, "first_line": first_line })
                }).collect::<Vec<_>>(),
            })
        }
        Err(BuildError::Impossible(text)) => {
            serde_json::json!({ "from": from, "to": to, "error": text })
        }
        Err(BuildError::Wrong(mistakes)) => serde_json::json!({
            "from": from,
            "to": to,
            "error": "the source has errors",
            "mistakes": mistakes.count,
            "first_mistakes": mistakes.first.iter().map(|MalformedLine { line, text }| {
                serde_json::json!({ "line": line, "message": text })
            }).collect::<Vec<_>>(),
        }),
    }
}
