//! A running server, and the proofs that a row disturbed nothing.

use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::server::Server;
use crate::support::{Files, wait_until};
use smtp::testing::escape::escape;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The server's listeners by name, with the keys that differ from the default.
const LISTENERS: [(&str, &str); 21] = [
    ("in", RELAY_STRICTLY),
    (
        "small",
        "max_message_bytes = \"64KiB\"\nmax_recipients = 100\nmax_command_bytes = 512\n\
               max_line_bytes = 998\nmax_hops = 3",
    ),
    ("recipients", "max_recipients = 400\nrelay_from = [\"127.0.0.0/8\"]"),
    ("errors", "max_errors = 3"),
    ("commands", "max_commands = 10"),
    ("messages", "max_messages = 2"),
    ("one", "max_sessions = 1"),
    ("address", "max_sessions_per_address = 1"),
    ("slow", "command_timeout = \"1s\"\ncontent_timeout = \"1s\""),
    ("short", "session_timeout = \"1s\""),
    ("plain", "chunking = false\npipelining = false\nsmtputf8 = false\ndsn = false"),
    (
        "steered",
        "relay_from = [\"127.0.0.0/8\"]\nfuture_release = true\nsteering_from = [\"127.0.0.0/8\"]",
    ),
    ("normalize", "bare_newline = \"normalize\""),
    ("strip", "nul = \"strip\""),
    ("keep", "nul = \"keep\""),
    ("strangers", "relay_from = []\ngreeting_delay = \"10s\""),
    ("access", RELAY),
    ("patient", "relay_from = []\nearly_talkers = \"accept\"\ngreeting_delay = \"10s\""),
    (
        "checks",
        "relay_from = []\ngreeting_delay = \"0s\"\n\
         checks = { spf = \"mark\", dkim = \"mark\", dmarc = \"reject\", arc = \"mark\" }",
    ),
    (
        "grey",
        "relay_from = []\ngreeting_delay = \"0s\"\n\
         checks = { own_domains = \"reject\", greylist = { delay = \"1h\", by_spf = false } }",
    ),
    (
        "lists",
        "relay_from = []\ngreeting_delay = \"0s\"\nchecks = { sender_domain = \"reject\", \
         dnsbl = { lists = [\"all.lists.test\"], sender_lists = [\"d.lists.test\"], timeout = \"1s\" } }",
    ),
];
/// What most rows are about is what strangers get, who may do everything else here.
const RELAY_STRICTLY: &str = "relay_from = [\"127.0.0.0/8\"]\nbare_newline = \"reject\"";
const RELAY: &str = "relay_from = [\"127.0.0.0/8\"]";

/// Errors on the console that rows are about: configurations that are wrong, and lookups in the copy of a
/// directory of which there is none yet.
const EXPECTED: [&str; 2] =
    ["Z error reload: ", ": the directory has not been read completely yet"];

/// What the listener `access` says of recipients. Tables stand before routes: they are put where the
/// text ends, which is all the same.
const ACCESS: &str = "\
[[access]]\nclients = \"all\"\ntable = \"access\"\nby = \"recipient\"\nlisteners = [\"access\"]\n\
[[access]]\nclients = \"all\"\ntable = \"patterns\"\nby = \"recipient\"\nlisteners = [\"access\"]\n\
[[table]]\nname = \"patterns\"\nregexp = { path = \"patterns\" }\n\
[[table]]\nname = \"access\"\n[table.inline]\n\
\"lines@far.test\" = \"REJECT 5.7.1 no\\r\\n250 2.1.5 yes\"\n";

/// What is no action only with a part of the key in it: the server would not start with others.
const PATTERNS: &str = "\
/^(filter)@/ $1 smtp:[127.0.0.1]\n\
/^empty(x?)@/ $1\n\
/^redirect@(far)/ REDIRECT $1\n\
/^code(x?)@/ ${1}600 5.7.1 no\n\
/^field(x?)@/ PREPEND no field$1\n";

/// Aliases of `alias.test`, and the files that they name.
fn aliases(files: &Files) -> String {
    let lists = files.path("lists");
    std::fs::create_dir(&lists).expect("a directory");
    std::fs::write(lists.join("binary"), b"b@far.test\n\xff\xfe\n").expect("a file");
    std::fs::write(lists.join("command"), "b@far.test\n|/bin/sh\n").expect("a file");
    std::fs::write(lists.join("large"), vec![b'\n'; (4 << 20) + 1]).expect("a file");
    std::fs::create_dir(lists.join("directory")).expect("a directory");
    std::os::unix::fs::symlink("/etc/passwd", lists.join("link")).expect("a link");
    let lists = lists.display();
    let names = ["binary", "command", "large", "directory", "link", "none", "../postrider.toml"];
    let entry = |(at, name): (usize, &str)| {
        format!("\"list{at}@alias.test\" = \":include:{lists}/{name}\"\n")
    };
    let entries: String = names.into_iter().enumerate().map(entry).collect();
    format!(
        "[[table]]\nname = \"aliases\"\n[table.inline]\n{entries}\
         \"passwd@alias.test\" = \":include:/etc/passwd\"\n\
         \"pipe@alias.test\" = \"|/bin/sh\"\n"
    )
}

/// A server with witnesses.
pub(crate) struct Bench {
    pub(crate) files: Files,
    pub(crate) server: Server,
    admin: String,
}

/// Counters before a row.
struct Counts {
    received: u64,
    failed: u64,
}

/// A session that is open while a row is played, with a message under way.
pub(crate) struct Witness {
    client: Client,
    before: Counts,
}

impl Bench {
    /// A server with all listeners; domains of it stay on this machine, all others are relayed to
    /// nowhere.
    pub(crate) fn start() -> Bench {
        Bench::start_with("")
    }

    /// The same, with these sections before the others.
    pub(crate) fn start_with(sections: &str) -> Bench {
        let files = Files::new();
        let mut text = String::from(
            "hostname = \"relay.test\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
             [spool]\npath = \"spool\"\nsegment_bytes = \"8MiB\"\nmin_free_bytes = \"16MiB\"\n\
             queue_recipients_max = 350\n",
        );
        for (name, keys) in LISTENERS {
            // That one is offered with a time of day, which no row can have.
            let offers = if name == "steered" { "" } else { "future_release = false\n" };
            text.push_str(&format!(
                "[[listener]]\nname = \"{name}\"\naddress = \"127.0.0.1:0\"\n{offers}{keys}\n"
            ));
        }
        text.push_str(sections);
        text.push_str(
            "[steering]\ntenant = \"X-Tenant\"\ncampaign = \"X-Campaign\"\npool = \"X-Pool\"\n\
             priority = \"X-Urgency\"\nnot_before = \"X-Not-Before\"\nexpires = \"X-Expires\"\n\
             window = \"X-Window\"\n\
             [[route]]\ndomains = [\"void.test\"]\ndiscard = {}\n\
             [[route]]\ndomains = [\"far.test\", \"*.far.test\", \"client.test\", \"relay.test\",\n\
             \"witness.test\", \"xn--bcher-kva.test\"]\n\
             maildir = { path = \"mail/{domain}/{local}\" }\n\
             [[route]]\ndomains = [\"alias.test\"]\naliases = { table = \"aliases\" }\n\
             include = [\"<LISTS>\"]\nmaildir = { path = \"mail/{domain}/{local}\" }\n\
             [[route]]\ndomains = [\"hop.test\"]\nsmtp = { hosts = [\"127.0.0.1:9\"] }\n\
             [[route]]\nsmtp = { hosts = [\"127.0.0.1:9\"] }\n",
        );
        files.write("secret", "a secret\n");
        text.push_str("[srs]\ndomain = \"srs.test\"\nsecret_file = \"secret\"\n");
        files.write("patterns", PATTERNS);
        text.push_str(ACCESS);
        text.push_str(&aliases(&files));
        let text = text.replace("<LISTS>", &files.path("lists").display().to_string());
        let server = Server::start(&files, &text);
        let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
        let admin = line.rsplit(' ').next().expect("an address").to_owned();
        Bench { files, server, admin }
    }

    /// Where a listener is.
    pub(crate) fn listener(&self, name: &str) -> SocketAddr {
        let at = LISTENERS.iter().position(|(listener, _)| *listener == name);
        self.server.addresses[at.unwrap_or_else(|| panic!("no listener {name}"))]
    }

    /// Where `/metrics` is.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin.parse().expect("an address")
    }

    fn metrics(&self) -> String {
        get(&self.admin, "/metrics")
    }

    /// Opens a session and begins a transaction in it.
    pub(crate) fn witness(&self) -> Witness {
        let metrics = self.metrics();
        let before = Counts {
            received: metric(&metrics, "postrider_messages_received_total"),
            failed: metric(&metrics, "postrider_dsns_total"),
        };
        let mut client = Client::connect(self.listener("in"));
        client.say("MAIL FROM:<witness@client.test>", "250 2.1.0");
        client.say("RCPT TO:<w@witness.test>", "250 2.1.5");
        Witness { client, before }
    }

    /// After a row: finishes the witness's message, which must arrive once. `accepted` messages of
    /// the row itself were answered with 250; returned is what arrived of them, as lines `M: …`.
    pub(crate) fn prove(&self, witness: Witness, id: &str, accepted: u64) -> Vec<String> {
        let Witness { mut client, before } = witness;
        client.say("DATA", "354");
        client.send(format!("Subject: {id}\r\n\r\nStill here.\r\n.\r\n"));
        client.expect("250 2.0.0");
        client.say("QUIT", "221");
        drop(client);
        wait_until(&format!("[{id}]: all is settled and all sessions are over"), || {
            let metrics = self.metrics();
            let of = |name: &str| metric(&metrics, name);
            of("postrider_recipients_received_total") == of("postrider_recipients_done_total")
                && of("postrider_sessions_open") == 0
        });
        let metrics = self.metrics();
        let received = metric(&metrics, "postrider_messages_received_total") - before.received;
        assert_eq!(received, accepted + 1, "[{id}]: messages accepted");
        assert_eq!(metric(&metrics, "postrider_dsns_total"), before.failed, "[{id}]: reports");
        let mut delivered = self.take_delivered();
        let own = delivered.remove("witness.test/w").unwrap_or_default();
        let [own] = &own[..] else { panic!("[{id}]: {} witnesses arrived", own.len()) };
        assert_eq!(content(own), format!("Subject: {id}\n\nStill here.\n").as_bytes());
        let bad = |line: &String| {
            let is_expected = EXPECTED.iter().any(|text| line.contains(text));
            let error = line.contains("Z error ") && !is_expected;
            error || line.contains("panicked")
        };
        let console = self.server.console();
        assert!(!console.iter().any(bad), "[{id}]: {console:#?}");
        let line = |to: &String, message: &Vec<u8>| {
            let content = content(message);
            let text = match content.len() {
                0..=200 => escape(content),
                length => format!("({length} bytes)"),
            };
            format!("M: {to} {text}")
        };
        delivered
            .iter()
            .flat_map(|(to, messages)| messages.iter().map(move |message| line(to, message)))
            .collect()
    }

    /// What arrived since the last call, by mailbox.
    fn take_delivered(&self) -> BTreeMap<String, Vec<Vec<u8>>> {
        let mut delivered = BTreeMap::<String, Vec<Vec<u8>>>::new();
        let mail = self.files.path("mail");
        for maildir in folders(&mail).iter().flat_map(|domain| folders(domain)) {
            let name = maildir.strip_prefix(&mail).expect("below it").display().to_string();
            assert_eq!(files(&maildir.join("tmp")), [] as [PathBuf; 0], "{name}");
            for file in files(&maildir.join("new")) {
                let message = std::fs::read(&file).expect("a message");
                std::fs::remove_file(&file).expect("a message");
                delivered.entry(name.clone()).or_default().push(message);
            }
        }
        delivered.values_mut().for_each(|messages| messages.sort());
        delivered
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Folders in a folder that may be missing.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let mut paths = files(folder);
    paths.retain(|path| path.is_dir());
    paths.sort();
    paths
}

/// A message without the fields that Postrider put on top.
fn content(message: &[u8]) -> &[u8] {
    let mut rest = message;
    let (mut in_trace, mut goes_on) = (true, false);
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let (line, behind) = rest.split_at(end + 1);
        let begins = |name: &str| line.starts_with(name.as_bytes());
        let trace = begins("Return-Path: ") || begins("Delivered-To: ");
        let ours = begins("Received: from client.test ") && in_trace;
        let checked = begins("Authentication-Results: relay.test;") && in_trace;
        let more = (begins("\t") || begins(" ")) && goes_on;
        if !(trace || ours || checked || more) {
            break;
        }
        // One Received field, with the lines that continue it, is the last that is ours.
        in_trace &= !ours;
        goes_on = ours || checked || more;
        rest = behind;
    }
    rest
}
