mod lanes;
mod room;
mod whole_syncs;

use super::*;
use mta::seams::{Keeping, MailFolder, SystemAccount};
use rustix::process::geteuid;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

/// Writers, and a directory for mailboxes.
struct Place {
    root: tempfile::TempDir,
    files: MailboxFiles,
    metrics: Arc<MailboxMetrics>,
}

impl Place {
    fn new() -> Place {
        let metrics = Arc::default();
        let files = MailboxThreads::start(&metrics, 64);
        Place { root: tempfile::tempdir().unwrap(), files, metrics }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    fn mailbox(&self, below: &str) -> MailboxPlace {
        MailboxPlace { below: below.into(), ..MailboxPlace::at(self.root.path().into()) }
    }

    fn deliver(&self, place: &MailboxPlace, name: &str, content: &str) -> Result<(), MailboxError> {
        let pieces = vec![Bytes::from(content.to_owned())];
        wait(self.files.deliver(place.clone(), name.to_owned(), pieces))
    }

    /// Names and contents of what is new.
    fn new_in(&self, below: &str) -> Vec<(String, String)> {
        let entries = fs::read_dir(self.path(below).join("new")).into_iter().flatten().flatten();
        let mut found: Vec<_> = entries
            .map(|entry| {
                let text = fs::read_to_string(entry.path()).unwrap();
                (entry.file_name().into_string().unwrap(), text)
            })
            .collect();
        found.sort();
        found
    }
}

pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|e| e.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn untrusted(result: Result<(), MailboxError>) -> String {
    match result {
        Err(MailboxError::Untrusted(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_appears_in_new_only_when_it_is_whole() {
    let place = Place::new();
    let mailbox = place.mailbox("example.org/user");
    place.deliver(&mailbox, "1.a", "ab\r\nc").unwrap();
    assert_eq!(place.new_in("example.org/user"), [("1.a".to_owned(), "ab\nc".to_owned())]);
    let file = wait(place.files.begin(mailbox.clone(), "2.b".to_owned())).unwrap();
    wait(place.files.append(file, Bytes::from_static(b"half\r"))).unwrap();
    assert_eq!(names(&place.path("example.org/user/tmp")), ["2.b"]);
    assert_eq!(place.new_in("example.org/user").len(), 1);
    wait(place.files.append(file, Bytes::from_static(b"\nwhole"))).unwrap();
    wait(place.files.finish(file, true)).unwrap();
    assert_eq!(place.new_in("example.org/user")[1], ("2.b".to_owned(), "half\nwhole".to_owned()));
    let file = wait(place.files.begin(mailbox, "3.c".to_owned())).unwrap();
    wait(place.files.finish(file, false)).unwrap();
    assert_eq!(place.new_in("example.org/user").len(), 2);
    assert_eq!(names(&place.path("example.org/user/tmp")), [] as [String; 0]);
    assert!(wait(place.files.append(file, Bytes::new())).is_err());
    assert!(wait(place.files.finish(file, true)).is_err());
}

#[test]
fn directories_and_messages_are_their_users_only() {
    let place = Place::new();
    let mode = |path: &str| fs::metadata(place.path(path)).unwrap().permissions().mode() & 0o777;
    place.deliver(&place.mailbox("a/b"), "1", "x").unwrap();
    for path in ["a", "a/b", "a/b/tmp", "a/b/cur", "a/b/new"] {
        assert_eq!(mode(path), 0o700, "{path}");
    }
    assert_eq!(mode("a/b/new/1"), 0o600);
    let keeping = Arc::new(Keeping { mode: 0o640, ..Keeping::default() });
    let shared = MailboxPlace { keeping, ..place.mailbox("c") };
    place.deliver(&shared, "1", "x").unwrap();
    assert_eq!((mode("c"), mode("c/new"), mode("c/new/1")), (0o750, 0o750, 0o640));
}

#[test]
fn a_root_is_required_and_may_be_a_link() {
    let place = Place::new();
    let deep = MailboxPlace { below: "u".into(), ..MailboxPlace::at(place.path("x/y")) };
    for made in ["", "x"] {
        fs::create_dir_all(place.path(made)).unwrap();
        match place.deliver(&deep, "1", "x") {
            Err(MailboxError::Missing(path)) => assert_eq!(path, place.path("x/y")),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(names(&place.path("x")), [] as [String; 0]);
    fs::create_dir(place.path("x/y")).unwrap();
    place.deliver(&deep, "1", "x").unwrap();
    symlink(place.path("x/y"), place.path("link")).unwrap();
    let linked = MailboxPlace { below: "u".into(), ..MailboxPlace::at(place.path("link")) };
    place.deliver(&linked, "2", "x").unwrap();
    assert_eq!(place.new_in("x/y/u").len(), 2);
    // One that is the Maildir itself is made, and what it is in is required.
    place.deliver(&MailboxPlace::at(place.path("x/one")), "1", "x").unwrap();
    assert_eq!(place.new_in("x/one").len(), 1);
    let missing = place.deliver(&MailboxPlace::at(place.path("z/z/one")), "1", "x");
    assert!(matches!(missing, Err(MailboxError::Missing(path)) if path == place.path("z/z")));
}

#[test]
fn a_root_is_made_beside_a_spool_and_nowhere_else() {
    let place = Place::new();
    for (above, root, is_maildir) in
        [("a", "a/mail", false), ("b", "b/mail", true), ("c", "c/mail", true)]
    {
        let below = if is_maildir { "" } else { "u" };
        // A Maildir by itself is made in a directory that is there; that one is the root, then.
        let root = if above == "c" { format!("{root}/one") } else { root.to_owned() };
        let mailbox = MailboxPlace { below: below.into(), ..MailboxPlace::at(place.path(&root)) };
        fs::create_dir_all(place.path(above).join("other")).unwrap();
        fs::write(place.path(above).join("file"), "x").unwrap();
        let before = place.deliver(&mailbox, "1", "x");
        assert_eq!(before.is_ok(), above == "b", "{above}: there is no spool");
        fs::write(place.path(above).join("other/spool-salt"), "x").unwrap();
        place.deliver(&mailbox, "2", "x").unwrap();
        let within = if is_maildir { root } else { format!("{root}/u") };
        assert!(place.new_in(&within).iter().any(|(name, _)| name == "2"), "{above}");
    }
    assert_eq!(mode_of(&place.path("a/mail")), 0o711, "others find theirs in it");
    assert_eq!(mode_of(&place.path("a/mail/u")), 0o700);
}

fn mode_of(path: &std::path::Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn no_link_is_followed_below_the_root() {
    let place = Place::new();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(place.path("domain")).unwrap();
    symlink(outside.path(), place.path("linked")).unwrap();
    symlink(outside.path(), place.path("domain/linked")).unwrap();
    for below in ["linked", "linked/user", "domain/linked"] {
        let told = untrusted(place.deliver(&place.mailbox(below), "1", "x"));
        assert_eq!(told, "`linked` in its path is a symbolic link", "{below}");
    }
    for part in ["tmp", "new", ".Lists"] {
        let below = format!("user{}", part.trim_start_matches('.'));
        let mut mailbox = place.mailbox(&below);
        place.deliver(&mailbox, "1", "x").unwrap();
        let _ = fs::remove_dir_all(place.path(&below).join(part));
        symlink(outside.path(), place.path(&below).join(part)).unwrap();
        mailbox.folder = Some(MailFolder { name: ".Lists".to_owned(), is_made: false });
        if part != ".Lists" {
            mailbox.folder = None;
        }
        let told = untrusted(place.deliver(&mailbox, "2", "x"));
        assert_eq!(told, format!("`{part}` in its path is a symbolic link"));
    }
    let told = untrusted(place.deliver(&place.mailbox("domain/../../x"), "1", "x"));
    assert_eq!(told, "`..` in its path");
    assert_eq!(names(outside.path()), [] as [String; 0]);
}

#[test]
fn a_leftover_is_replaced_and_what_it_is_linked_to_is_not() {
    let place = Place::new();
    let mailbox = place.mailbox("user");
    place.deliver(&mailbox, "1", "x").unwrap();
    let precious = place.path("precious");
    fs::write(&precious, "precious").unwrap();
    fs::hard_link(&precious, place.path("user/tmp/2")).unwrap();
    symlink(&precious, place.path("user/tmp/3")).unwrap();
    fs::write(place.path("user/tmp/4"), "a leftover").unwrap();
    let before = std::time::SystemTime::now() - std::time::Duration::from_secs(10);
    fs::File::options()
        .write(true)
        .open(place.path("user/tmp/4"))
        .and_then(|file| file.set_modified(before))
        .unwrap();
    for (name, text) in [("2", "two"), ("3", "three"), ("4", "four")] {
        place.deliver(&mailbox, name, text).unwrap();
    }
    assert_eq!(fs::read_to_string(precious).unwrap(), "precious");
    assert_eq!(place.new_in("user")[1..], [new("2", "two"), new("3", "three"), new("4", "four")]);
    assert!(!names(&place.path("user/tmp")).contains(&"4".to_owned()));
}

fn new(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

#[test]
fn a_file_that_another_server_is_writing_is_left_alone() {
    let place = Place::new();
    let twin = Place::new();
    let mailbox = place.mailbox("user");
    let ours = wait(place.files.begin(mailbox.clone(), "1".to_owned())).unwrap();
    let theirs = wait(twin.files.begin(mailbox, "1".to_owned())).unwrap();
    wait(place.files.append(ours, Bytes::from_static(b"ours"))).unwrap();
    wait(twin.files.append(theirs, Bytes::from_static(b"theirs"))).unwrap();
    wait(place.files.finish(ours, true)).unwrap();
    wait(twin.files.finish(theirs, true)).unwrap();
    assert_eq!(place.new_in("user"), [new("1", "ours"), new("1.1", "theirs")]);
    assert_eq!(names(&place.path("user/tmp")), [] as [String; 0]);
}

#[test]
fn a_name_that_is_there_is_never_replaced_but_by_the_same_message() {
    for quota_bytes in [None, Some(1_000_000)] {
        let place = Place::new();
        let mailbox = MailboxPlace { quota_bytes, ..place.mailbox("user") };
        let long = "x".repeat(200_000);
        let other = format!("{}y", &long[1..]);
        for text in ["one", "two", "one", "three", "two", &long, &other, &long] {
            place.deliver(&mailbox, "1", text).unwrap();
        }
        let mut texts: Vec<_> = place.new_in("user").into_iter().map(|(_, text)| text).collect();
        texts.sort();
        let mut expected = ["one", "two", "three", &long, &other].map(str::to_owned);
        expected.sort();
        assert_eq!(texts, expected);
        assert_eq!(names(&place.path("user/tmp")), [] as [String; 0]);
    }
}

#[test]
fn names_are_not_tried_without_end() {
    let place = Place::new();
    let mailbox = place.mailbox("user");
    for n in 0..16 {
        place.deliver(&mailbox, "1", &n.to_string()).unwrap();
    }
    assert!(place.deliver(&mailbox, "1", "one more").is_err());
    place.deliver(&mailbox, "1", "15").unwrap();
    assert_eq!(place.new_in("user").len(), 16);
    assert_eq!(names(&place.path("user/tmp")), [] as [String; 0]);
}

#[test]
fn a_mailbox_that_cannot_be_made_is_an_error() {
    let place = Place::new();
    fs::write(place.path("file"), b"in the way").unwrap();
    let result = place.deliver(&place.mailbox("file/user"), "1", "x");
    assert!(matches!(result, Err(MailboxError::Io(_))), "{result:?}");
    // Where a message's name stands for a directory it has another.
    let mailbox = place.mailbox("user");
    fs::create_dir_all(place.path("user/new/2")).unwrap();
    place.deliver(&mailbox, "2", "x").unwrap();
    assert_eq!(names(&place.path("user/new")), ["2", "2.1"]);
    assert_eq!(names(&place.path("user/tmp")), [] as [String; 0]);
}

#[test]
fn a_folder_is_used_if_it_is_there_or_made_if_it_may_be() {
    let place = Place::new();
    let folder = |is_made| Some(MailFolder { name: ".Lists".to_owned(), is_made });
    let mut mailbox = place.mailbox("user");
    mailbox.folder = folder(false);
    place.deliver(&mailbox, "1", "x").unwrap();
    mailbox.folder = folder(true);
    place.deliver(&mailbox, "2", "x").unwrap();
    mailbox.folder = folder(false);
    place.deliver(&mailbox, "3", "x").unwrap();
    assert_eq!(place.new_in("user").len(), 1);
    assert_eq!(place.new_in("user/.Lists").len(), 2);
    assert_eq!(names(&place.path("user/.Lists")), ["cur", "maildirfolder", "new", "tmp"]);
}

#[test]
fn messages_for_one_mailbox_that_wait_together_are_one_batch() {
    let place = Place::new();
    let mailbox = place.mailbox("user");
    place.deliver(&mailbox, "first", "x").unwrap();
    let before = place.metrics.batches.get();
    let all = (0..20).map(|n| {
        place.files.deliver(mailbox.clone(), format!("{n}"), vec![Bytes::from_static(b"x")])
    });
    let results = wait(together(all.collect()));
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(place.new_in("user").len(), 21);
    // They are counted after they are answered.
    while place.metrics.written.get() < 21 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // The writer may have taken the first ones before the last were left.
    let batches = place.metrics.batches.get() - before;
    assert!(batches < 20, "{batches} batches");
}

/// Waits for all of them.
pub(super) async fn together<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|cx| {
        waiting.retain_mut(|future| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(output) => {
                done.push(output);
                false
            }
            std::task::Poll::Pending => true,
        });
        if waiting.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

mod with_quota {
    use super::*;

    fn mailbox(place: &Place, quota_bytes: u64) -> MailboxPlace {
        MailboxPlace { quota_bytes: Some(quota_bytes), ..place.mailbox("user") }
    }

    fn size_file(place: &Place) -> String {
        fs::read_to_string(place.path("user/maildirsize")).unwrap_or_default()
    }

    fn is_full(result: &Result<(), MailboxError>) -> bool {
        matches!(result, Err(MailboxError::Full { .. }))
    }

    #[test]
    fn what_fits_to_the_octet_is_taken_and_no_more() {
        let place = Place::new();
        let mailbox = mailbox(&place, 100);
        place.deliver(&mailbox, "1", &"x".repeat(60)).unwrap();
        assert_eq!(size_file(&place), "100S\n0 0\n60 1\n");
        assert!(is_full(&place.deliver(&mailbox, "2", &"x".repeat(41))));
        assert_eq!(names(&place.path("user/tmp")), [] as [String; 0]);
        place.deliver(&mailbox, "3", &"x".repeat(40)).unwrap();
        assert!(is_full(&place.deliver(&mailbox, "4", "x")));
        let names: Vec<_> = place.new_in("user").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["1,S=60", "3,S=40"]);
        // A delivery that is repeated after a crash is there already.
        place.deliver(&mailbox, "3", &"x".repeat(40)).unwrap();
        assert_eq!(place.new_in("user").len(), 2);
        // Room that a reader made is found, though nobody wrote it down.
        fs::remove_file(place.path("user/new/1,S=60")).unwrap();
        fs::write(place.path("user/maildirsize"), "100S\n60 1\n40 1\n").unwrap();
        place.deliver(&mailbox, "5", &"x".repeat(60)).unwrap();
        assert_eq!(size_file(&place), "100S\n40 1\n60 1\n");
    }

    #[test]
    fn one_batch_does_not_overdraw() {
        let place = Place::new();
        let mailbox = mailbox(&place, 100);
        place.deliver(&mailbox, "first", "").unwrap();
        let all = (0..20).map(|n| {
            let pieces = vec![Bytes::from("x".repeat(30))];
            place.files.deliver(mailbox.clone(), format!("{n}"), pieces)
        });
        let results = wait(together(all.collect()));
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 3);
        assert!(results.iter().all(|result| result.is_ok() || is_full(result)));
    }

    #[test]
    fn folders_count_and_what_is_thrown_away_does_not() {
        let place = Place::new();
        let mut mailbox = mailbox(&place, 100);
        mailbox.folder = Some(MailFolder { name: ".Lists".to_owned(), is_made: true });
        place.deliver(&mailbox, "1", &"x".repeat(30)).unwrap();
        for (path, content) in [
            ("user/cur/a,S=20:2,S", 5),
            ("user/cur/b:2,ST", 50),
            ("user/new/c", 10),
            ("user/.Trash/cur/d", 99),
            ("user/cur/.nfs", 99),
        ] {
            fs::create_dir_all(place.path(path).parent().unwrap()).unwrap();
            fs::write(place.path(path), "x".repeat(content)).unwrap();
        }
        fs::remove_file(place.path("user/maildirsize")).unwrap();
        place.deliver(&mailbox, "2", "x").unwrap();
        assert_eq!(size_file(&place), "100S\n60 3\n1 1\n");
    }

    #[test]
    fn a_file_that_lies_is_counted_anew() {
        let long = format!("100S\n{}", "0 0\n".repeat(1_250_000));
        for lie in
            ["", "garbage", "100S\n-500 1\n", "100S\n99999999999999999999 1\n", "9S\n5 1\n", &long]
        {
            let place = Place::new();
            let mailbox = mailbox(&place, 100);
            place.deliver(&mailbox, "1", &"x".repeat(60)).unwrap();
            fs::write(place.path("user/maildirsize"), lie).unwrap();
            let lie = &lie[..lie.len().min(30)];
            assert!(is_full(&place.deliver(&mailbox, "2", &"x".repeat(41))), "{lie:?}");
            assert_eq!(size_file(&place), "100S\n60 1\n", "{lie:?}");
            place.deliver(&mailbox, "3", &"x".repeat(40)).unwrap();
        }
    }

    #[test]
    fn what_stands_in_the_files_place_is_left_alone() {
        let place = Place::new();
        let mailbox = mailbox(&place, 100);
        let at = place.path("user/maildirsize");
        place.deliver(&mailbox, "1", &"x".repeat(60)).unwrap();
        // A directory stays: the mailbox is counted each time.
        fs::remove_file(&at).unwrap();
        fs::create_dir(&at).unwrap();
        place.deliver(&mailbox, "2", &"x".repeat(30)).unwrap();
        assert!(is_full(&place.deliver(&mailbox, "3", &"x".repeat(11))));
        assert!(at.is_dir());
        fs::remove_dir(&at).unwrap();
        // A link to what is not the mailbox's is replaced, not followed; so is a second name, and a
        // pipe holds nobody up.
        let precious = place.path("precious");
        for kind in ["symbolic", "hard", "pipe"] {
            let _ = fs::remove_file(&at);
            fs::write(&precious, "100S\n0 0\n").unwrap();
            match kind {
                "symbolic" => symlink(&precious, &at).unwrap(),
                "hard" => fs::hard_link(&precious, &at).unwrap(),
                _ => rustix::fs::mknodat(
                    rustix::fs::CWD,
                    &at,
                    rustix::fs::FileType::Fifo,
                    rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
                    0,
                )
                .unwrap(),
            }
            assert!(is_full(&place.deliver(&mailbox, kind, &"x".repeat(11))), "{kind}");
            assert_eq!(fs::read_to_string(&precious).unwrap(), "100S\n0 0\n", "{kind}");
            assert_eq!(size_file(&place), "100S\n90 2\n", "{kind}");
        }
    }
}

/// These need root, as continuous integration has it.
mod of_others {
    use super::*;

    const USER: u32 = 54_321;
    const GROUP: u32 = 54_322;

    fn mailbox(place: &Place, below: &str) -> MailboxPlace {
        let account =
            |number: u32| Some(SystemAccount { name: number.to_string(), by_table: false });
        let (user, group) = (account(USER), account(GROUP));
        let keeping = Arc::new(Keeping { user, group, mode: 0o600 });
        let quota_bytes = Some(1_000);
        let folder = Some(MailFolder { name: ".Lists".to_owned(), is_made: true });
        MailboxPlace { keeping, quota_bytes, folder, ..place.mailbox(below) }
    }

    #[test]
    fn all_that_is_made_is_given_to_its_user() {
        if !geteuid().is_root() {
            return;
        }
        let place = Place::new();
        place.deliver(&mailbox(&place, "domain/user"), "1", "x").unwrap();
        for path in [
            "domain",
            "domain/user",
            "domain/user/cur",
            "domain/user/maildirsize",
            "domain/user/.Lists",
            "domain/user/.Lists/tmp",
            "domain/user/.Lists/maildirfolder",
            "domain/user/.Lists/new/1,S=1",
        ] {
            let found = fs::symlink_metadata(place.path(path)).unwrap();
            assert_eq!((found.uid(), found.gid()), (USER, GROUP), "{path}");
        }
        assert_eq!(place.new_in("domain/user/.Lists").len(), 1);
        let root = fs::metadata(place.root.path()).unwrap();
        assert_eq!(root.uid(), 0, "what was there stays whose it was");
    }

    #[test]
    fn a_mailbox_of_somebody_else_is_left_alone() {
        if !geteuid().is_root() {
            return;
        }
        let place = Place::new();
        fs::create_dir(place.path("user")).unwrap();
        let told = untrusted(place.deliver(&mailbox(&place, "user"), "1", "x"));
        assert_eq!(told, format!("it belongs to user 0, not to user {USER}"));
        std::os::unix::fs::chown(place.path("user"), Some(USER), None).unwrap();
        place.deliver(&mailbox(&place, "user"), "1", "x").unwrap();
        let told = untrusted(place.deliver(&place.mailbox("user"), "2", "x"));
        assert_eq!(told, format!("it belongs to user {USER}, not to user 0"));
        assert_eq!(place.new_in("user").len(), 0);
    }

    /// The mailbox of a user whom a table names.
    fn of_user(place: &Place, below: &str, user: u32) -> MailboxPlace {
        let user = Some(SystemAccount { name: user.to_string(), by_table: true });
        let keeping = Arc::new(Keeping { user, ..Keeping::default() });
        MailboxPlace { keeping, ..place.mailbox(below) }
    }

    #[test]
    fn directories_above_mailboxes_of_several_users_are_none_of_theirs() {
        if !geteuid().is_root() {
            return;
        }
        let place = Place::new();
        place.deliver(&of_user(&place, "domain/a/Maildir", USER), "1", "x").unwrap();
        place.deliver(&of_user(&place, "domain/b/Maildir", USER + 1), "1", "x").unwrap();
        let found = |path: &str| fs::metadata(place.path(path)).unwrap();
        for path in ["domain", "domain/a", "domain/b"] {
            assert_eq!((found(path).uid(), found(path).mode() & 0o777), (0, 0o711), "{path}");
        }
        let kept = |path: &str| (found(path).uid(), found(path).mode() & 0o777);
        assert_eq!(kept("domain/a/Maildir"), (USER, 0o700));
        assert_eq!(kept("domain/b/Maildir/new/1"), (USER + 1, 0o600));
    }

    #[test]
    fn a_mailbox_that_was_opened_for_one_user_is_not_anothers() {
        if !geteuid().is_root() {
            return;
        }
        let place = Place::new();
        let mailboxes = [USER, USER + 1, USER].map(|user| of_user(&place, "shared", user));
        let deliver = |(n, mailbox): (usize, &MailboxPlace)| {
            place.files.deliver(mailbox.clone(), n.to_string(), vec!["x".into()])
        };
        // They wait together, and may come into one batch.
        let [one, other, third] = [0, 1, 2].map(|n| deliver((n, &mailboxes[n])));
        let (one, other, third) = wait(async { tokio::join!(one, other, third) });
        assert!(one.is_ok() && third.is_ok(), "{one:?} {third:?}");
        let told = untrusted(other);
        assert_eq!(told, format!("it belongs to user {USER}, not to user {}", USER + 1));
    }

    #[test]
    fn a_user_that_is_not_there_is_named() {
        let place = Place::new();
        let user = Some(SystemAccount { name: "no-such-user".to_owned(), by_table: false });
        let keeping = Arc::new(Keeping { user, ..Keeping::default() });
        let mailbox = MailboxPlace { keeping, ..place.mailbox("user") };
        let told = untrusted(place.deliver(&mailbox, "1", "x"));
        assert_eq!(told, "unknown user \"no-such-user\"");
    }
}
