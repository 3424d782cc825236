//! Copies of a directory: of Debian's slapd, and of servers that misbehave.

use super::peer::{DONE, Peer, element, entry_of, message, outcome, request};
use super::slapd::{Slapd, is_possible};
use super::{LdapSettings, run};
use crate::services::ServiceRuntime;
use crate::tables::ldap::Snapshot;
use crate::tables::testing::CapturedConsole;
use mta::console::Console;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

/// A place for the file, and what was said.
pub(super) struct Stand {
    dir: TempDir,
    runtime: ServiceRuntime,
    pub(super) console: Arc<CapturedConsole>,
}

impl Stand {
    pub(super) fn new() -> Stand {
        let dir = tempfile::tempdir().expect("a directory");
        // As if a spool were there.
        std::fs::write(dir.path().join("lock"), "").expect("a file");
        Stand { dir, runtime: ServiceRuntime::default(), console: Arc::default() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("tables/users.snapshot")
    }

    fn spool(&self) -> &Path {
        self.dir.path()
    }

    /// A snapshot of what is there under these servers; `more` are keys beyond the usual ones.
    pub(super) fn open(&self, servers: &[&str], filter: &str, more: &str) -> Snapshot {
        let more = match more {
            "" => "mode = \"snapshot\", refresh = \"1s\"".to_owned(),
            more => format!("mode = \"snapshot\", {more}"),
        };
        let config = super::parse(&super::keys(servers, filter, &more));
        let settings: &LdapSettings = config.tables[0].settings.of().expect("settings of ours");
        let console = Arc::clone(&self.console) as Arc<dyn Console + Send + Sync>;
        let with = (&self.runtime, console);
        Snapshot::open("users".into(), settings, self.spool(), with).expect("a thread")
    }
}

/// The answer as one text; `-`: the table doesn't have the key; trouble with its kind before it.
pub(super) fn text(snapshot: &Snapshot, key: &str) -> String {
    match snapshot.find(key) {
        Ok(Some(entry)) => entry.text.into(),
        Ok(None) => "-".to_owned(),
        Err(trouble) => format!("{:?}: {}", trouble.kind, trouble.text),
    }
}

/// Waits until something is so. The peers of a test go on meanwhile.
pub(super) async fn until(what: &str, so: impl FnMut() -> bool) {
    until_within(Duration::from_secs(20), what, so).await;
}

/// The same, for so long.
pub(super) async fn until_within(wait: Duration, what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < wait, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(super) async fn becomes(snapshot: &Snapshot, key: &str, wanted: &str) {
    let begun = Instant::now();
    while text(snapshot, key) != wanted {
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(20), "{key}: {}", text(snapshot, key));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_copy_answers_as_its_directory_does() {
    if !is_possible() {
        return;
    }
    let slapd = Slapd::start();
    let url = slapd.url();
    let keys = [
        "joe@example.test",
        "JOE@Example.Test",
        "zwei@example.test",
        "nobody@example.test",
        "bare@example.test",
        "hidden@example.test",
        "",
        "@example.test",
        "joe",
        "two@elsewhere.test",
        "gr\u{fc}\u{df}e",
        "many",
        "*",
        "*)(uid=*",
    ];
    run(async {
        for (filter, more) in [
            ("(mail=%s)", ""),
            ("(&(objectClass=inetOrgPerson)(|(mail=%s)(uid=%u)))", ""),
            ("(uid=%u)", "domains = [\"example.test\"]"),
            ("(cn=%s)", "max_results = 40"),
            ("(cn=%s)", "max_results = 39"),
        ] {
            let stand = Stand::new();
            let more = if more.is_empty() { "timeout = \"5s\"" } else { more };
            let copy = stand.open(&[&url], filter, more);
            let live = super::backend(&[&url], filter, more);
            until("it is read", || copy.status().entries > 0).await;
            for key in keys {
                let wanted = super::text(&live, key).await;
                let found = text(&copy, key);
                let same = wanted.split(", or more").next().unwrap_or_default();
                assert_eq!(found, same, "{filter} {more}: {key:?}");
            }
        }
    });
}

#[test]
fn changes_are_seen_and_outages_are_not() {
    if !is_possible() {
        return;
    }
    let mut slapd = Slapd::start();
    run(async {
        let (stand, url) = (Stand::new(), slapd.url());
        let users = stand.open(&[&url], "(mail=%s)", "");
        becomes(&users, "joe@example.test", "/srv/mail/joe").await;
        // The copy answers before its status is complete.
        until("the server is named", || users.status().server.as_ref() == Some(&url)).await;
        let joe = "uid=joe,ou=people,dc=example,dc=test";
        let new = "uid=new,ou=people,dc=example,dc=test";
        let mut admin = slapd.admin();
        admin.replace(joe, "description", "/srv/mail/elsewhere");
        admin.add(new, &[("uid", "new"), ("mail", "new@example.test"), ("description", "new")]);
        becomes(&users, "new@example.test", "new").await;
        assert_eq!(text(&users, "joe@example.test"), "/srv/mail/elsewhere");
        assert!(users.status().changed.is_some(), "{:?}", users.status());
        admin.delete(new);
        becomes(&users, "new@example.test", "-").await;

        slapd.stop();
        until("it is told", || users.trouble().is_some_and(|why| why.contains("refused"))).await;
        assert_eq!(text(&users, "joe@example.test"), "/srv/mail/elsewhere");
        assert_eq!(text(&users, "nobody@example.test"), "-");
        let entries = users.status().entries;
        drop(users);
        // A restart while the directory is away.
        let users = stand.open(&[&url], "(mail=%s)", "");
        assert_eq!(text(&users, "joe@example.test"), "/srv/mail/elsewhere");
        assert_eq!(text(&users, "nobody@example.test"), "-");
        assert_eq!(users.status().entries, entries);
        assert!(users.status().age_s.is_some());
        slapd.run();
        slapd.admin().replace(joe, "description", "/srv/mail/back");
        becomes(&users, "joe@example.test", "/srv/mail/back").await;
        until("no error is left", || users.trouble().is_none()).await;
    });
}

#[test]
fn before_the_first_reading_there_is_no_answer() {
    run(async {
        let stand = Stand::new();
        let nobody =
            format!("ldap://127.0.0.1:{}", crate::tables::testing::unprivileged::free_port());
        let users = stand.open(&[&nobody], "(mail=%s)", "");
        let answer = text(&users, "joe");
        assert_eq!(answer, "Unreachable: the directory has not been read completely yet");
        assert_eq!(users.status().age_s, None);
        until("it is told", || users.trouble().is_some()).await;
        let said = stand.console.lines();
        let none = "users: no snapshot: no answers until the directory has been read";
        assert!(said[0].contains(none), "{said:#?}");
        assert!(said[1].contains("cannot read the directory, no answers: ldap://"), "{said:#?}");
    });
}

/// A page with these numbers as entries: all, or more to come, or a failure by its code.
fn page(id: u8, numbers: std::ops::Range<u32>, code: u8, cookie: &[u8]) -> Vec<u8> {
    let entries = numbers.map(|n| {
        let mail = format!("user{n}@a.test");
        message(id, &entry_of(&[("mail", mail.as_bytes()), ("description", b"here")]))
    });
    let mut out = entries.collect::<Vec<_>>().concat();
    let value = element(0x30, &[element(0x02, &[0]), element(0x04, cookie)].concat());
    let control = [element(0x04, b"1.2.840.113556.1.4.319"), element(0x04, &value)].concat();
    let controls = element(0xa0, &element(0x30, &control));
    let done = [outcome(DONE, code, b"said so"), controls].concat();
    out.extend(message(id, &done));
    out
}

/// What is said to the search of this number.
pub(super) type Say = Box<dyn Fn(u8) -> Vec<u8>>;

/// A server that tells of no changes, and whose connections each follow a script: to each search it says
/// what is next, and closes when it is asked for more.
async fn scripted(scripts: Vec<Vec<Say>>) -> Peer {
    let scripts = std::rc::Rc::new(scripts);
    Peer::new(move |mut stream, number| {
        let scripts = std::rc::Rc::clone(&scripts);
        async move {
            let Some(script) = scripts.get(number).or(scripts.last()) else { return };
            // What it can do: nothing beyond the usual.
            let Some((id, _)) = request(&mut stream).await else { return };
            let can = message(id, &outcome(DONE, 0, b""));
            if stream.write_all(&can).await.is_err() {
                return;
            }
            for say in script {
                let Some((id, _)) = request(&mut stream).await else { return };
                if stream.write_all(&say(id)).await.is_err() {
                    return;
                }
            }
            // What is unread when a connection is closed would make a reset of it.
            let _ = request(&mut stream).await;
        }
    })
    .await
}

fn whole(count: u32) -> Vec<Say> {
    vec![Box::new(move |id| page(id, 0..count, 0, b""))]
}

#[test]
fn what_is_half_read_is_no_result() {
    run(async {
        let half = || -> Vec<Say> { vec![Box::new(|id| page(id, 0..3, 0, b"more"))] };
        let limited = || -> Vec<Say> { vec![Box::new(|id| page(id, 0..3, 4, b""))] };
        let pages = || -> Vec<Say> {
            vec![Box::new(|id| page(id, 0..3, 0, b"more")), Box::new(|id| page(id, 3..5, 0, b""))]
        };
        let peer = scripted(vec![half(), pages(), half(), limited(), whole(6)]).await;
        let stand = Stand::new();
        // So long each trouble can be seen.
        let users = stand.open(&[&peer.url], "(mail=%s)", "refresh = \"3s\"");
        until("the first fails", || users.trouble().is_some()).await;
        assert!(text(&users, "user0@a.test").starts_with("Unreachable: "));
        becomes(&users, "user4@a.test", "here").await;
        let closed = |why: String| why.contains("closed the connection");
        until("the third fails", || users.trouble().is_some_and(closed)).await;
        assert_eq!(text(&users, "user4@a.test"), "here");
        let said = |why: String| why.contains("sizeLimitExceeded (4): said so; it must return all");
        until("the fourth fails", || users.trouble().is_some_and(said)).await;
        assert_eq!((text(&users, "user4@a.test"), users.status().entries), ("here".into(), 5));
        becomes(&users, "user5@a.test", "here").await;
        until("no error is left", || users.trouble().is_none()).await;
        let files = std::fs::read_dir(stand.path().parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing is left of what failed");
    });
}

#[test]
fn what_loses_more_than_half_is_believed_the_second_time() {
    run(async {
        let scripts = [10, 5, 2, 10, 0, 0].map(whole).into();
        let peer = scripted(scripts).await;
        let stand = Stand::new();
        let users = stand.open(&[&peer.url], "(mail=%s)", "");
        becomes(&users, "user9@a.test", "here").await;
        // Half is not more than half.
        becomes(&users, "user9@a.test", "-").await;
        let doubt = |why: String| why.contains("2 entries instead of 5: ignored until confirmed");
        until("it is doubted", || users.trouble().is_some_and(doubt)).await;
        assert_eq!(text(&users, "user4@a.test"), "here");
        becomes(&users, "user9@a.test", "here").await;
        let doubt = |why: String| why.contains("0 entries instead of 10: ignored until confirmed");
        until("it is doubted", || users.trouble().is_some_and(doubt)).await;
        assert_eq!(text(&users, "user4@a.test"), "here");
        becomes(&users, "user4@a.test", "-").await;
        until("no error is left", || users.trouble().is_none()).await;
        assert_eq!(users.status().entries, 0);
        let said = stand.console.lines();
        assert_eq!(
            said.iter().filter(|line| line.contains("ignored until confirmed")).count(),
            2,
            "{said:#?}"
        );
    });
}

#[test]
fn a_file_serves_its_own_question_and_only_when_it_is_whole() {
    run(async {
        let peer = scripted(vec![whole(3)]).await;
        let stand = Stand::new();
        let users = stand.open(&[&peer.url], "(mail=%s)", "");
        becomes(&users, "user2@a.test", "here").await;
        drop(users);
        let nobody =
            format!("ldap://127.0.0.1:{}", crate::tables::testing::unprivileged::free_port());
        let open = |filter: &str, more: &str| {
            let users = stand.open(&[&nobody], filter, more);
            text(&users, "user2@a.test")
        };
        assert_eq!(open("(mail=%s)", ""), "here");
        assert_eq!(open("(mail=%s)", "refresh = \"9s\", timeout = \"9s\""), "here");
        for (filter, more) in [
            ("(mail=%u)", ""),
            ("(cn=%s)", ""),
            ("(&(mail=%s)(cn=*))", ""),
            ("(mail=%s)", "scope = \"one\""),
            ("(mail=%s)", "base = \"dc=test\""),
        ] {
            let answer = open(filter, more);
            assert!(answer.starts_with("Unreachable: "), "{filter} {more}: {answer}");
        }
        let said = stand.console.lines();
        assert!(said.iter().any(|line| line.contains("is for another query")), "{said:#?}");
        let mut bytes = std::fs::read(stand.path()).unwrap();
        bytes.pop();
        std::fs::write(stand.path(), &bytes).unwrap();
        assert!(open("(mail=%s)", "").starts_with("Unreachable: "));
        let said = stand.console.lines();
        assert!(said.iter().any(|line| line.contains("truncated")), "{said:#?}");
    });
}

#[test]
fn entries_without_a_key_are_no_directory() {
    run(async {
        let say: Say = Box::new(|id| {
            let entry = message(id, &entry_of(&[("description", b"here")]));
            [entry, page(id, 0..0, 0, b"")].concat()
        });
        let peer = scripted(vec![vec![say]]).await;
        let stand = Stand::new();
        let users = stand.open(&[&peer.url], "(mail=%s)", "");
        let none = |why: String| why.contains("1 entries found, none with a readable key");
        until("it is told", || users.trouble().is_some_and(none)).await;
        assert!(text(&users, "user0@a.test").starts_with("Unreachable: "));
    });
}

#[test]
fn a_file_that_hangs_delays_one_copy_only() {
    run(async {
        let peer = scripted([5, 5, 6].map(whole).into()).await;
        let (stand, beside) = (Stand::new(), Stand::new());
        let users = stand.open(&[&peer.url], "(mail=%s)", "");
        becomes(&users, "user4@a.test", "here").await;
        // The next reading finds the same, and looks at the file.
        let path = stand.path();
        std::fs::remove_file(&path).unwrap();
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let looks = |path: &Path| open(path, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
        let mut held = None;
        let other = scripted((3..40).map(whole).collect()).await;
        let beside = Stand { runtime: stand.runtime.clone(), ..beside };
        let copy = beside.open(&[&other.url], "(mail=%s)", "");
        // One more is there with each reading.
        becomes(&copy, "user6@a.test", "here").await;
        assert_eq!(text(&users, "user5@a.test"), "-");
        until("it is looked at", || {
            held = held.take().or_else(|| looks(&path).ok());
            held.is_some()
        })
        .await;
        drop(held);
        becomes(&users, "user5@a.test", "here").await;
    });
}
