//! Signing under load: keys of 100,000 domains in a database, a key that takes the place of another when its time
//! has come, reloads, and another database in the place of the first. Nothing leaves without a good signature, nor with
//! one by a key out of its time.

use crate::support::client::Client;
use crate::support::peer::{Peer, Taken};
use crate::support::server::{self, CONFIG, Server};
use crate::support::spool_files::wall_now;
use crate::support::{Files, config_with, wait_until};
use auth::checks::{CheckSelection, Subject, check};
use auth::dkim::{Algorithm, DkimResult, SigningKey};
use auth::records::{DnsAnswer, Family, Records};
use mail::Wall;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Domains of the table.
const DOMAINS: usize = 100_000;
/// Keys that they share.
const KEYS: usize = 100;
const CLIENTS: usize = 4;
/// How long mail comes.
const LOAD: Duration = Duration::from_secs(9);
/// After that time the next key of the domain with a file signs.
const ROTATION_MS: u64 = 4_000;
/// After that time another database takes the place of the first.
const REPLACEMENT: Duration = Duration::from_secs(6);
/// Between two reloads.
const RELOAD_INTERVAL: Duration = Duration::from_millis(600);
/// However fast the machine is.
const MESSAGES_MAX: usize = 20_000;

/// The database: the first, while it is replaced, and when the server has the other one.
const PHASE_BEFORE: usize = 0;
const PHASE_REPLACED: usize = 1;
const PHASE_AFTER: usize = 2;

/// The records of keys by their selectors, whatever the domain.
struct Published(BTreeMap<String, String>);

impl Records for Published {
    async fn txt(&self, name: &str) -> DnsAnswer<Vec<u8>> {
        let selector = name.split_once("._domainkey.").map_or("", |(selector, _)| selector);
        Ok(self.0.get(selector).map(|record| record.clone().into_bytes()).into_iter().collect())
    }

    async fn addresses(&self, _: &str, _: Family) -> DnsAnswer<IpAddr> {
        Ok(Vec::new())
    }

    async fn mail_hosts(&self, _: &str) -> DnsAnswer<String> {
        Ok(Vec::new())
    }

    async fn names(&self, _: IpAddr) -> DnsAnswer<String> {
        Ok(Vec::new())
    }
}

/// One message that was taken.
struct Sent {
    domain: String,
    /// Of the database, before it was sent and after it was taken.
    phases: (usize, usize),
    /// The same of the clock, in seconds since 1970.
    seconds: (u64, u64),
}

/// What clients and the test share.
struct Load {
    address: SocketAddr,
    next: AtomicUsize,
    phase: AtomicUsize,
    sent: Mutex<BTreeMap<usize, Sent>>,
    until: Instant,
}

fn second() -> u64 {
    wall_now().0 / 1_000
}

/// The domain of the author of a message: each third is the one with keys in files.
fn author(n: usize) -> String {
    match n % 3 {
        0 => "example.org".to_owned(),
        // A step that has no divisor in common with their number.
        _ => format!("d{}.test", n * 7_919 % DOMAINS),
    }
}

impl Load {
    /// One client, until the time is over.
    fn send(&self) {
        let mut client = Client::connect(self.address);
        while Instant::now() < self.until {
            let n = self.next.fetch_add(1, Ordering::SeqCst);
            if n >= MESSAGES_MAX {
                return;
            }
            let domain = author(n);
            let before = (self.phase.load(Ordering::SeqCst), second());
            let content =
                format!("From: jo@{domain}\r\nX-Case: {n}\r\nSubject: x\r\n\r\nHello {n}\r\n");
            client.give("me@source.test", &["al@far.test"], &content);
            let after = (self.phase.load(Ordering::SeqCst), second());
            let (phases, seconds) = ((before.0, after.0), (before.1, after.1));
            self.sent.lock().expect("no panic").insert(n, Sent { domain, phases, seconds });
        }
    }
}

/// Makes the keys: files `k0.pem` to `k99.pem`, `s1.pem` and `s2.pem`; the records of all selectors.
fn make_keys(files: &Files) -> Published {
    let make = |name: &str| {
        let key = SigningKey::generate(Algorithm::Ed25519Sha256).expect("a key");
        let path = files.write(&format!("{name}.pem"), &key.pem().expect("text"));
        fs::set_permissions(path, Permissions::from_mode(0o600)).expect("a file of ours");
        key.record().expect("text")
    };
    let records: Vec<String> = (0..KEYS).map(|n| make(&format!("k{n}"))).collect();
    let mut published = BTreeMap::new();
    for n in 0..KEYS {
        published.insert(format!("a{n}"), records[n].clone());
        published.insert(format!("b{n}"), records[(n + 1) % KEYS].clone());
    }
    published.insert("s1".to_owned(), make("s1"));
    published.insert("s2".to_owned(), make("s2"));
    Published(published)
}

/// Builds a database: `a` with each domain's first key, `b` with its second.
fn build(files: &Files, generation: char, database: &str) {
    let shift = usize::from(generation == 'b');
    let line = |n: usize| {
        let path = files.path(&format!("k{}.pem", (n % KEYS + shift) % KEYS));
        format!("d{n}.test\t{generation}{} {}\n", n % KEYS, path.display())
    };
    files.write("keys.tsv", &(0..DOMAINS).map(line).collect::<String>());
    let words = ["table", "build", "--format", "tsv", "--from", "keys.tsv", "--to", database];
    let built = server::program(files.dir(), &words);
    assert_eq!(built.code, 0, "{built:?}");
}

fn configuration(files: &Files, to: &Peer, rotation: Wall) -> String {
    let path = |name: &str| files.path(name).display().to_string();
    let rest = format!(
        "[[table]]\nname = \"keys\"\ndatabase = {{ path = \"{}\" }}\n\
         [[signer]]\ndomains = [\"example.org\"]\nselector = \"s1\"\nkey = \"{}\"\n\
         next = {{ selector = \"s2\", key = \"{}\", from = \"{rotation}\" }}\n\
         [[signer]]\nkeys = {{ table = \"keys\" }}\n\
         [[route]]\nsmtp = {{ hosts = [\"{}\"], tls = \"off\", max_connections = 8 }}\n",
        path("keys.db"),
        path("s1.pem"),
        path("s2.pem"),
        to.address,
    );
    config_with("", "relay_from = [\"127.0.0.0/8\"]\nunsigned = \"refuse\"", &rest)
}

/// Reloads again and again while mail comes, and replaces the database in between; how often it reloaded.
fn change(files: &Files, server: &Server, load: &Load, text: &str) -> usize {
    let (begun, mut reloads) = (Instant::now(), 0);
    while Instant::now() < load.until {
        let is_due =
            begun.elapsed() >= REPLACEMENT && load.phase.load(Ordering::SeqCst) == PHASE_BEFORE;
        if is_due {
            load.phase.store(PHASE_REPLACED, Ordering::SeqCst);
            fs::rename(files.path("next.db"), files.path("keys.db")).expect("both are there");
        }
        files.write(CONFIG, &format!("{text}# {reloads}\n"));
        let reloaded = server.command(&["reload"]);
        assert_eq!(reloaded.code, 0, "{reloaded:?}");
        reloads += 1;
        if is_due {
            load.phase.store(PHASE_AFTER, Ordering::SeqCst);
        }
        thread::sleep(RELOAD_INTERVAL);
    }
    reloads
}

/// The selectors that a message may be signed with, its signature being made at this second.
fn allowed(sent: &Sent, at: u64, rotation: Wall) -> Vec<String> {
    let turn = rotation.0 / 1_000;
    if sent.domain == "example.org" {
        let first = (at <= turn).then(|| "s1".to_owned());
        return first.into_iter().chain((at >= turn).then(|| "s2".to_owned())).collect();
    }
    let number: usize = sent.domain[1..].trim_end_matches(".test").parse().expect("a number");
    let (first, second) = (format!("a{}", number % KEYS), format!("b{}", number % KEYS));
    match sent.phases {
        (_, PHASE_BEFORE) => vec![first],
        (PHASE_AFTER, _) => vec![second],
        _ => vec![first, second],
    }
}

/// Who signed a message, by what is verified, and when.
fn verified(published: &Published, message: &[u8], at: u64) -> (String, String) {
    let asked = CheckSelection { dkim: true, ..CheckSelection::default() };
    let mut scan = asked.scan();
    scan.push(message);
    let message = scan.finish();
    let subject = Subject { question: None, message: &message, now: at, chance: 0 };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let verdicts = runtime.block_on(check(published, asked, subject));
    let outcomes = verdicts.dkim.expect("it was asked for");
    assert!(outcomes.len() == 1 && outcomes[0].verdict == DkimResult::Pass, "{outcomes:?}");
    let signer = outcomes[0].signer.clone().expect("it passed");
    (signer.domain, signer.selector)
}

/// The number that a message has in a field, or the tag of a signature.
fn number_behind(text: &str, name: &str) -> Option<u64> {
    let rest = &text[text.find(name)? + name.len()..];
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// Holds each message against what was sent; how many were signed by a selector that begins so.
fn judge(
    published: &Published,
    mut sent: BTreeMap<usize, Sent>,
    taken: &[Taken],
    rotation: Wall,
) -> BTreeMap<char, usize> {
    let mut counts = BTreeMap::new();
    for taken in taken {
        let text = String::from_utf8_lossy(&taken.content);
        let case = number_behind(&text, "X-Case: ").expect("its number");
        let sent = sent.remove(&usize::try_from(case).expect("small")).expect("delivered once");
        let at = number_behind(&text, "; t=").expect("when it was signed");
        assert!((sent.seconds.0..=sent.seconds.1).contains(&at), "{case}: {at} {:?}", sent.seconds);
        let (domain, selector) = verified(published, &taken.content, at);
        assert_eq!(domain, sent.domain, "{case}");
        let allowed = allowed(&sent, at, rotation);
        assert!(allowed.contains(&selector), "{case}: {selector}, not {allowed:?}: {text}");
        let kind =
            if domain == "example.org" { selector.chars().last() } else { selector.chars().next() };
        *counts.entry(kind.expect("a selector")).or_default() += 1;
    }
    assert!(sent.is_empty(), "not delivered: {:?}", sent.keys());
    counts
}

#[test]
fn under_load_nothing_is_unsigned_nor_signed_by_a_key_out_of_its_time() {
    let (files, peer) = (Files::new(), Peer::start(|_| None));
    let published = make_keys(&files);
    build(&files, 'a', "keys.db");
    build(&files, 'b', "next.db");
    let rotation = Wall((wall_now().0 + ROTATION_MS) / 1_000 * 1_000);
    let text = configuration(&files, &peer, rotation);
    let server = Server::start(&files, &text);
    let load = Load {
        address: server.address(),
        next: AtomicUsize::new(0),
        phase: AtomicUsize::new(PHASE_BEFORE),
        sent: Mutex::default(),
        until: Instant::now() + LOAD,
    };
    let reloads = thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| load.send());
        }
        change(&files, &server, &load, &text)
    });
    assert!(reloads >= 5, "{reloads}");
    wait_until("an empty queue", || {
        thread::sleep(Duration::from_millis(200));
        server.queue().is_empty()
    });
    let sent = load.sent.into_inner().expect("no panic");
    let counts = judge(&published, sent, &peer.taken(), rotation);
    println!("{reloads} reloads, signed by: {counts:?}");
    // Both keys of both kinds had their time.
    for kind in ['a', 'b', '1', '2'] {
        assert!(counts.get(&kind).is_some_and(|count| *count >= 20), "{kind}: {counts:?}");
    }
    server.stop();
}
