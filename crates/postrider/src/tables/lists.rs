//! Files of addresses that aliases name (`:include:`).

use crate::under_way::WorkRegistry;
use crate::world::clock::wall_now;
use config::TableCache;
use lookup::{Backend, Entry, Fetch, LookupError, LookupErrorKind};
use mta::problems::{Conditions, DetectedProblem};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Maximum size of a file: 20,000 addresses of 200 octets.
const LIST_BYTES_MAX: u64 = 4 << 20;
/// Maximum number of concurrent reads. One that hangs, on a disk that is gone, occupies its place.
const READS_MAX: usize = 8;
/// Between the directory and the file of a key: no path has it.
const DELIMITER: char = '\0';

/// Cache limits for list files: a lifetime of a few seconds, and 64 MiB.
pub(super) fn cache() -> TableCache {
    TableCache {
        positive: Duration::from_secs(5),
        negative: Duration::from_secs(1),
        stale: Duration::ZERO,
        entries_max: 16,
        requests_max: READS_MAX as u32,
        waiting_max: 10_000,
        timeout: Duration::from_secs(20),
    }
}

/// The key of a file for [`ListFileReader`].
pub(super) fn key(directory: &Path, file: &Path) -> String {
    format!("{}{DELIMITER}{}", directory.display(), file.display())
}

/// Reads files on threads of their own.
pub(super) struct ListFileReader {
    places: Arc<Semaphore>,
    under_way: WorkRegistry,
    /// Problems of existing files that cannot be read.
    troubles: Conditions,
}

impl ListFileReader {
    pub(super) fn backend(under_way: WorkRegistry, troubles: Conditions) -> Box<dyn Backend> {
        Box::new(ListFileReader {
            places: Arc::new(Semaphore::new(READS_MAX)),
            under_way,
            troubles,
        })
    }

    async fn read(&self, key: &str) -> Result<Option<Entry>, LookupError> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Err(LookupError::new(LookupErrorKind::Timeout, "file reads do not respond"));
        };
        let (directory, file) = key.split_once(DELIMITER).unwrap_or_default();
        let (directory, file) = (PathBuf::from(directory), PathBuf::from(file));
        let (under_way, about) = (self.under_way.clone(), file.display().to_string());
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            let _work = under_way.begin(format!("the list {}", file.display()));
            read(&directory, &file)
        });
        match done.await {
            Ok(Ok(text)) => {
                self.troubles.clear(&about);
                Ok(text.map(Entry::text))
            }
            Ok(Err(error)) => {
                let text = format!("cannot read the list {about}: {error}");
                let step = "correct the file; its mail is deferred";
                self.troubles
                    .set(DetectedProblem::warning(about, text).next_step(step), wall_now());
                Err(LookupError::new(LookupErrorKind::Key, error.to_string()))
            }
            Err(_) => Err(LookupError::new(LookupErrorKind::Unreachable, "the server is stopping")),
        }
    }
}

impl Backend for ListFileReader {
    fn fetch<'a>(&'a self, keys: &'a [Box<str>]) -> Fetch<'a> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(keys.len());
            for key in keys {
                answers.push(self.read(key).await);
            }
            answers
        })
    }
}

/// The addresses in a file, joined by commas; `None` if the file does not exist.
pub(super) fn read(directory: &Path, file: &Path) -> io::Result<Option<String>> {
    // Do not block on a FIFO or a terminal.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(file);
    let opened = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let meta = opened.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    // Check the real path of the opened file, after all links.
    if !place_of(&opened)?.starts_with(fs::canonicalize(directory)?) {
        return Err(io::Error::other(format!("a link points outside {}", directory.display())));
    }
    let mut content = Vec::new();
    opened.take(LIST_BYTES_MAX + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LIST_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {LIST_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(&content).map_err(|error| {
        io::Error::other(format!("byte {} is not UTF-8", error.valid_up_to() + 1))
    })?;
    Ok(Some(addresses(text)))
}

fn place_of(file: &File) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The lines that are neither empty nor comments, with commas between them.
fn addresses(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mta::problems::{ClockReading, ProblemKind as _};
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    struct Place {
        dir: TempDir,
        lists: PathBuf,
    }

    impl Place {
        fn new() -> Place {
            let dir = tempfile::tempdir().expect("a directory");
            let lists = dir.path().join("lists");
            fs::create_dir_all(lists.join("deep")).expect("a directory");
            Place { dir, lists }
        }

        fn write(&self, name: &str, content: &[u8]) {
            fs::write(self.lists.join(name), content).expect("a file");
        }

        fn read(&self, name: &str) -> Result<Option<String>, String> {
            read(&self.lists, &self.lists.join(name)).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn a_list_has_addresses_comments_and_empty_lines() {
        let place = Place::new();
        place.write("deep/all", b"# Everybody.\r\n\n  jo@x.test\nann@x.test, bob@x.test\n\t# no\n");
        let all = "jo@x.test,ann@x.test, bob@x.test";
        assert_eq!(place.read("deep/all"), Ok(Some(all.to_owned())));
        place.write("empty", b"");
        assert_eq!(place.read("empty"), Ok(Some(String::new())));
        assert_eq!(place.read("none"), Ok(None));
        assert_eq!(place.read("none/deep"), Ok(None));
    }

    #[test]
    fn links_lead_nowhere_else() {
        let place = Place::new();
        fs::write(place.dir.path().join("secret"), "jo@x.test").expect("a file");
        place.write("own", b"jo@x.test");
        symlink("../secret", place.lists.join("out")).expect("a link");
        symlink("..", place.lists.join("up")).expect("a link");
        symlink("own", place.lists.join("in")).expect("a link");
        let out = format!("a link points outside {}", place.lists.display());
        assert_eq!(place.read("out"), Err(out.clone()));
        assert_eq!(place.read("up/secret"), Err(out.clone()));
        assert_eq!(place.read("../secret"), Err(out));
        assert_eq!(place.read("in"), Ok(Some("jo@x.test".to_owned())));
        // The directory itself may be one.
        let link = place.dir.path().join("link");
        symlink("lists", &link).expect("a link");
        let read = read(&link, &link.join("own")).expect("a list");
        assert_eq!(read.as_deref(), Some("jo@x.test"));
    }

    #[test]
    fn what_is_no_file_or_no_text_or_too_large_is_none() {
        let place = Place::new();
        assert_eq!(place.read("deep"), Err("not a regular file".to_owned()));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            place.lists.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("a pipe");
        assert_eq!(place.read("pipe"), Err("not a regular file".to_owned()));
        place.write("latin", b"j\xf6@x.test");
        assert_eq!(place.read("latin"), Err("byte 2 is not UTF-8".to_owned()));
        let most = vec![b'\n'; LIST_BYTES_MAX as usize];
        place.write("most", &most);
        assert_eq!(place.read("most"), Ok(Some(String::new())));
        place.write("more", &[&most[..], b"\n"].concat());
        assert_eq!(place.read("more"), Err("it has more than 4194304 bytes".to_owned()));
    }

    fn lists() -> ListFileReader {
        ListFileReader {
            places: Arc::new(Semaphore::new(READS_MAX)),
            under_way: WorkRegistry::default(),
            troubles: Conditions::new("list"),
        }
    }

    #[tokio::test]
    async fn a_file_that_can_not_be_read_is_a_problem_until_it_can_or_is_gone() {
        let (place, lists) = (Place::new(), lists());
        let key = key(&place.lists, &place.lists.join("staff"));
        let problems = || {
            let mut found = Vec::new();
            lists.troubles.find(ClockReading::default(), &mut |problem| found.push(problem));
            found
        };
        place.write("staff", b"j\xf6@x.test");
        assert_eq!(lists.read(&key).await.expect_err("no text").kind, LookupErrorKind::Key);
        assert_eq!(problems().len(), 1);
        assert!(problems()[0].about().ends_with("/lists/staff"), "{:?}", problems());
        place.write("staff", b"jo@x.test");
        assert!(lists.read(&key).await.expect("an answer").is_some());
        assert_eq!(problems(), []);
        place.write("staff", b"\xff");
        assert!(lists.read(&key).await.is_err());
        fs::remove_file(place.lists.join("staff")).expect("it is there");
        assert_eq!(lists.read(&key).await.expect("an answer"), None);
        assert_eq!(problems(), []);
    }

    #[tokio::test]
    async fn a_file_that_hangs_keeps_its_place_and_no_more_are_tried() {
        let lists = ListFileReader { places: Arc::new(Semaphore::new(0)), ..lists() };
        let trouble = lists.read("/x\0/x/y").await.expect_err("no answer");
        assert_eq!(trouble.kind, LookupErrorKind::Timeout);
    }
}
