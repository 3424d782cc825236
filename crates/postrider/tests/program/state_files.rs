//! Files that the server writes for itself: whatever becomes of one of them, the server starts, names the file of which
//! something is lost, and mail goes on.

use crate::support::certificate::{EC, make_certificate};
use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::Server;
use crate::support::tool::free_port;
use crate::support::{Files, config_with, wait_until};
use aws_lc_rs::digest::{SHA256, digest};
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_SECONDS: u64 = 86_400;

/// No host answers there.
const AUTHORITY: &str = "https://127.0.0.1:1/dir";

/// How damage shows in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A checksum is behind all of it.
    Sealed,
    /// The same; what reads it passes over the line with the checksum.
    SealedPem,
    /// Lines, each with a checksum. One that is missing says nothing.
    Lines,
    /// A header, a mark that nothing depends on, and batches.
    Records,
    /// Two copies, the first octets of each in use.
    Register,
    /// It is none at the beginning, so that whatever is there is damage.
    Strange,
}

/// All state files, below the spool's directory; `DAY` is today's number, `BEFORE` that of two days ago, `ACCOUNT`
/// what the authority's URL comes to.
const FILES: [(&str, Form); 18] = [
    ("suspensions.json", Form::Sealed),
    ("revoked-logins.json", Form::Sealed),
    ("shaping.json", Form::Sealed),
    ("logs.json", Form::Sealed),
    ("spool-salt", Form::Sealed),
    ("login-salts.secret", Form::Sealed),
    ("known-clients.text", Form::Sealed),
    ("dmarc-reports/DAY.json", Form::Sealed),
    ("dmarc-reports/BEFORE.sent", Form::Lines),
    ("tls-reports/DAY.json", Form::Sealed),
    ("mta-sts/promised.test", Form::Sealed),
    ("acme/account-ACCOUNT.json", Form::Sealed),
    ("acme/mx.here.test.pem", Form::SealedPem),
    ("greylist.records", Form::Records),
    ("warmup.records", Form::Records),
    ("limits.records", Form::Records),
    ("register", Form::Register),
    ("tables/people.snapshot", Form::Strange),
];

/// What else there may be: parts of a name, and why nothing of it is lost without a word.
const OTHERS: [(&str, &str); 8] = [
    (".segment", "the log: what is damaged is named message by message"),
    (".spare", "an empty segment"),
    (".new", "a file that is being written"),
    ("lock", "it holds nothing"),
    ("control.sock", "no file"),
    ("events.jsonl", "nothing reads it here"),
    ("acme/mx.here.test.ordered", "see its own test"),
    ("BEFORE.json", "beside those that were sent"),
];

/// What happens to a file.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// A bit turns after so many sixteenths of it.
    Flip(usize),
    /// The second half goes.
    Cut,
    Emptied,
    Garbage,
    /// 30 MB of nothing.
    Blanks,
    /// 30 MB of what was there.
    Repeated,
}

const LONG_BYTES: usize = 30 << 20;
const SEAL_BYTES: usize = 22;
const MARK: std::ops::Range<usize> = 28..40;
const REGISTER_COPY_BYTES: usize = 16 << 10;
const REGISTER_USED_BYTES: usize = 40;

/// What a file is after this; `None`: nothing of it is lost.
fn harmed(form: Form, content: &[u8], harm: Harm) -> Option<Vec<u8>> {
    let mut bytes = content.to_vec();
    match (harm, form) {
        (Harm::Flip(_), Form::Strange) => bytes = b"no snapshot".to_vec(),
        (Harm::Flip(sixteenths), _) => {
            let used = match form {
                Form::SealedPem => bytes.len() - SEAL_BYTES,
                Form::Register => REGISTER_USED_BYTES,
                _ => bytes.len(),
            };
            let at = (used - 1) * sixteenths / 16;
            let bit = 1 << (sixteenths % 8);
            if form == Form::Records && MARK.contains(&at) {
                return None;
            }
            bytes[at] ^= bit;
            if form == Form::Register {
                bytes[at + REGISTER_COPY_BYTES] ^= bit;
            }
        }
        // Of its second copy nothing is needed while the first is whole.
        (Harm::Cut, Form::Register) => bytes.truncate(REGISTER_USED_BYTES / 2),
        (Harm::Cut, _) => bytes.truncate(bytes.len() / 2),
        (Harm::Emptied, Form::Lines) => return None,
        (Harm::Emptied, _) => bytes.clear(),
        (Harm::Garbage, _) => bytes = b"\x01\x02\xff damaged\n".repeat(30),
        (Harm::Blanks, _) => bytes = vec![b' '; LONG_BYTES],
        // They are read up to where they end, or line by line.
        (Harm::Repeated, Form::SealedPem | Form::Register | Form::Records | Form::Lines) => {
            return None;
        }
        (Harm::Repeated, _) => bytes = content.repeat(LONG_BYTES / content.len().max(1) + 1),
    }
    Some(bytes)
}

fn today() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    now.as_secs() / DAY_SECONDS
}

fn account() -> String {
    let hash = digest(&SHA256, AUTHORITY.as_bytes());
    hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A name as it is on this day.
fn named(name: &str) -> String {
    let name = name.replace("DAY", &today().to_string());
    name.replace("BEFORE", &(today() - 2).to_string()).replace("ACCOUNT", &account())
}

/// Text with the line that shows damage.
fn sealed(text: &str) -> String {
    format!("{text}{{\"crc32c\":\"{:08x}\"}}\n", crc32c::crc32c(text.as_bytes()))
}

/// A configuration whose server keeps all of them.
fn settings(peer: &Peer) -> String {
    let kept = config_with("", "checks = { greylist = { delay = \"2s\", by_spf = false } }", "");
    format!(
        "{kept}\
         [[listener]]\nname = \"relay\"\naddress = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n\
         [[listener]]\nname = \"submission\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
         logins = {{ table = \"passwords\" }}\n\
         [[table]]\nname = \"passwords\"\ninline = {{ me = \"{{PLAIN}}pencil\" }}\n\
         [[table]]\nname = \"people\"\n\
         ldap = {{ servers = [\"ldap://127.0.0.1:1\"], base = \"dc=x\", filter = \"(mail=%s)\", \
         attributes = [\"cn\"], mode = \"snapshot\" }}\n\
         [acme]\ndirectory = \"{AUTHORITY}\"\nterms_agreed = true\naddress = \"127.0.0.1:{}\"\n\
         [[certificate]]\nnames = [\"mx.here.test\"]\nacme = true\n\
         [[limit]]\nby = \"listener\"\nmessages = \"1000/h\"\n\
         [dmarc_reports]\nfrom = \"dmarc@here.test\"\norganization_name = \"Here\"\n\
         [tls_reports]\nfrom = \"tls@here.test\"\norganization_name = \"Here\"\n\
         [[source]]\nname = \"new\"\naddress = \"127.0.0.2\"\n\
         warmup = {{ start = \"2026-01-01\", per_day = [480] }}\n\
         [[pool]]\nname = \"bulk\"\nsources = [{{ name = \"new\" }}]\n\
         [[route]]\nname = \"here\"\ndomains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n\
         [[route]]\nname = \"warm\"\ndomains = [\"warm.test\"]\npool = \"bulk\"\n\
         smtp = {{ hosts = [\"{peer}\"] }}\n\
         [[route]]\nname = \"promises\"\ndomains = [\"promised.test\"]\nmx = {{ tls = \"mta-sts\" }}\n",
        free_port(),
        peer = peer.address,
    )
}

/// Has the server keep something in each, and adds what only strangers would have it keep.
fn seed(files: &Files, server: Server) {
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<a@stranger.test>", "250");
    client.say("RCPT TO:<al@here.test>", "4");
    let mut relay = Client::connect(server.addresses[1]);
    relay.mail("a@here.test", &["b@warm.test"], "Subject: x\r\n\r\n");
    let kept = |name: &str| fs::metadata(files.path("spool").join(name)).map_or(0, |it| it.len());
    let suspended = server.command(&["queue", "suspend", "--domain", "a.test", "--reason", "work"]);
    assert_eq!(suspended.code, 0, "{suspended:?}");
    let revoked = server.command(&["login", "revoke", "gone"]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    wait_until("a course", || kept("warmup.records") > 60);
    drop((client, relay));
    server.stop();
    let write = |name: &str, text: &str| {
        let path = files.path("spool").join(named(name));
        fs::create_dir_all(path.parent().expect("a directory")).expect("room");
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    };
    // As it is when no effect is in force any more.
    write("shaping.json", &sealed("[\n]\n"));
    write("known-clients.text", &sealed("00000000000000ff 192.0.2.1\n"));
    for name in ["dmarc-reports/DAY.json", "tls-reports/DAY.json"] {
        write(name, &sealed(&format!("{{\"number\":{},\"domains\":{{}}}}\n", today())));
    }
    write("dmarc-reports/BEFORE.json", "{\"number\":1,\"domains\":{}}");
    let sent = format!("far.test {:08x}\n", crc32c::crc32c(b"far.test"));
    write("dmarc-reports/BEFORE.sent", &sent);
    let policy = "version: STSv1\nmode: enforce\nmx: mx.far.test\nmax_age: 1000000\n";
    let head = format!("a1 {} 7 8", (today() - 1) * DAY_SECONDS * 1_000);
    let checksum = crc32c::crc32c_append(crc32c::crc32c(head.as_bytes()), policy.as_bytes());
    write("mta-sts/promised.test", &format!("{head} crc32c:{checksum:08x}\n{policy}"));
    let account = "{\"id\":\"https://127.0.0.1:1/a\",\"key_pkcs8\":\"AAAA\",\"directory\":null}\n";
    write("acme/account-ACCOUNT.json", &sealed(account));
    make_certificate(files.dir(), "made", EC, &["mx.here.test"]);
    let made = |name| fs::read_to_string(files.path(name)).expect("a certificate");
    let issued = format!("Issued by {AUTHORITY}\n{}{}", made("made.key"), made("made.pem"));
    write("acme/mx.here.test.pem", &sealed(&issued));
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let words = ["-a".as_ref(), from.as_os_str(), to.as_os_str()];
    let copied = std::process::Command::new("cp").args(words).status().expect("coreutils");
    assert!(copied.success());
}

/// Files below a directory, by their names from there.
fn names_below(directory: &Path, name: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let name = format!("{name}{}", entry.file_name().to_string_lossy());
        match entry.path().is_dir() {
            true => names_below(&entry.path(), &format!("{name}/"), found),
            false => found.push(name),
        }
    }
}

/// Mail for a mailbox of ours comes there.
fn mail_goes_on(files: &Files, server: &Server, what: &str) {
    let before = files.maildir("mail/al").len();
    let mut relay = Client::connect(server.addresses[1]);
    relay.mail("a@here.test", &["al@here.test"], "Subject: x\r\n\r\n");
    wait_until(what, || files.maildir("mail/al").len() > before);
}

#[test]
fn no_state_file_keeps_the_server_from_starting_and_whatever_is_lost_is_named() {
    let files = Files::new();
    let peer = Peer::start(|_| None);
    let text = settings(&peer);
    seed(&files, Server::start(&files, &text));
    let (spool, kept) = (files.path("spool"), files.path("kept"));
    // Nothing is said of files that are whole, and each file that there is has its row.
    copy(&spool, &kept);
    let server = Server::start_again(&files);
    mail_goes_on(&files, &server, "mail, with files that are whole");
    let status = server.command(&["status"]).out;
    for (name, form) in FILES.iter().filter(|(_, form)| *form != Form::Strange) {
        assert!(kept.join(named(name)).is_file(), "{name} is not kept");
        let is_said = server.console().iter().any(|line| {
            line.contains(&named(name)) && (line.contains("warn") || line.contains("error"))
        });
        assert!(!is_said && *form != Form::Strange, "{name}: {:#?}", server.console());
        assert!(!status.contains(&format!("{} is", named(name))), "{name}: {status}");
    }
    let mut all = Vec::new();
    names_below(&spool, "", &mut all);
    for name in all {
        let is_known = FILES.iter().any(|(known, _)| named(known) == name)
            || OTHERS.iter().any(|(part, _)| name.ends_with(&named(part)));
        assert!(is_known, "{name} is written by the server and not in the list");
    }
    server.stop();
    let flips = (0..=16).step_by(2).map(Harm::Flip);
    let others = [Harm::Cut, Harm::Emptied, Harm::Garbage, Harm::Blanks, Harm::Repeated];
    for harm in flips.chain(others) {
        copy(&kept, &spool);
        let mut expected = Vec::new();
        for (name, form) in FILES {
            let path = spool.join(named(name));
            let content = fs::read(&path).unwrap_or_default();
            let Some(content) = harmed(form, &content, harm) else { continue };
            fs::create_dir_all(path.parent().expect("a directory")).expect("room");
            fs::write(&path, content).expect("room");
            expected.push(named(name));
        }
        let server = Server::start_again(&files);
        for name in &expected {
            let what = format!("{harm:?}: a line about {name}");
            server.wait_console(&what, |line| {
                line.contains(name) && (line.contains("warn ") || line.contains("error "))
            });
            let mut status = String::new();
            wait_until(&format!("{harm:?}: {name} in {status}"), || {
                status = server.command(&["status"]).out;
                status.contains(name)
            });
        }
        // What was suspended must not go out because of that.
        let resumed = server.command(&["queue", "resume", "--all"]);
        assert_eq!(resumed.code, 0, "all delivery is suspended: {resumed:?}");
        mail_goes_on(&files, &server, &format!("mail, {harm:?}"));
        server.stop();
        // What was damaged is made anew, and is well.
        let again = Server::start_again(&files);
        mail_goes_on(&files, &again, &format!("mail after {harm:?}"));
        again.stop();
    }
}
