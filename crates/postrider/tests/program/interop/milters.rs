//! Milters of other people: rspamd, which marks and refuses spam, OpenDKIM, which signs and verifies, and a
//! filter with Sendmail's own library (libmilter, by pymilter) that changes whatever can be changed.

use super::place::{Place, succeed};
use crate::problem_kinds::Observed;
use crate::support::client::Client;
use crate::support::name_server::NameServer;
use crate::support::server::{Server, command};
use crate::support::tool::{self, free_port, python};
use crate::support::{Files, config_with, wait_until};
use std::process::Command;
use std::time::{Duration, Instant};

/// A server that asks milters about everybody.
fn server(files: &Files, milters: &str, more: &str) -> Server {
    let keys = format!("relay_from = [\"127.0.0.0/8\"]\nmilters = [{milters}]");
    let routes = format!("{more}\n[[route]]\nmaildir = {{ path = \"mail/{{local}}\" }}\n");
    Server::start(files, &config_with("", &keys, &routes))
}

/// What arrived, with the line ends that it has on its way.
fn arrived(files: &Files, local: &str, count: usize) -> Vec<String> {
    let messages = files.wait_maildir(&format!("mail/{local}"), count);
    let text = |message: &Vec<u8>| String::from_utf8_lossy(message).replace('\n', "\r\n");
    messages.iter().map(text).collect()
}

/// rspamd as it is installed scans with a process of its own and asks the network; here the process that
/// speaks the protocol does it alone, by the patterns that stand for tests.
const RSPAMD: &str = r#"
options {
    pidfile = "DIR/pid"; tempdir = "DIR"; hs_cache_dir = "DIR"; url_tld = "DIR/tld"; filters = "FILTERS";
    control_socket = "DIR/control mode=0600"; enable_test_patterns = true;
    dns { nameserver = ["NAMES"]; timeout = 100ms; retransmits = 1; }
}
logging { type = "console"; level = "info"; }
actions { reject = 15; rewrite_subject = 12; add_header = 6; greylist = 100; subject = "*** %s"; }
worker "rspamd_proxy" {
    bind_socket = "127.0.0.1:PORT"; milter = yes; timeout = 60s; count = 1; spam_header = "X-Spam";
    upstream "local" { default = yes; self_scan = yes; }
}
"#;

/// Runs it at a port; returns its process.
fn rspamd(place: &mut Place, port: u16) -> u32 {
    rspamd_with(place, port, ("", "127.0.0.1:1"), "")
}

/// With these filters, this name server, and more lines.
pub(crate) fn rspamd_with(
    place: &mut Place,
    port: u16,
    (filters, names): (&str, &str),
    more: &str,
) -> u32 {
    place.write("tld", "com\norg\ntest\n");
    let text = RSPAMD.replace("DIR", &place.dir()).replace("PORT", &port.to_string());
    let text = text.replace("FILTERS", filters).replace("NAMES", names);
    place.write("rspamd.conf", &format!("{text}{more}"));
    let conf = place.path("rspamd.conf").display().to_string();
    let words = [
        "rspamd",
        "--user=nobody",
        "--group=nogroup",
        "--insecure",
        "--no-fork",
        "--config",
        &conf,
    ];
    let command = place.command("rspamd", &words);
    let id = place.start(command, "rspamd.log");
    place.wait_listening(port);
    id
}

/// What rspamd takes for spam, for probable spam, and for what must have another subject.
pub(super) const GTUBE: &str =
    "JS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";

pub(super) fn message(body: &str) -> String {
    format!(
        "From: Me <me@client.test>\r\nTo: you@far.test\r\nSubject:  two\r\n\tlines\r\n\
         Date: Mon, 23 Nov 2026 10:00:00 +0000\r\nMessage-ID: <1@client.test>\r\n\r\n{body}\r\n"
    )
}

fn send(client: &mut Client, content: &str, begin: &str) -> String {
    client.say("MAIL FROM:<me@client.test>", "250");
    client.say("RCPT TO:<you@far.test>", "250");
    client.say("DATA", "354");
    client.send(content);
    client.say(".", begin)
}

pub(crate) fn rspamd_marks_and_refuses() {
    let (mut place, files) = (Place::new(0), Files::new());
    let port = free_port();
    let id = rspamd(&mut place, port);
    let milter = format!("{{ address = \"127.0.0.1:{port}\", on_failure = \"accept\" }}");
    let admin = format!("127.0.0.1:{}", free_port());
    let server = server(&files, &milter, &format!("[admin]\naddress = \"{admin}\"\n"));
    let mut client = Client::connect(server.address());
    let clean = message("Dear reader,\r\n..\r\nbye");
    send(&mut client, &clean, "250 2.0.0 Ok: queued as");
    send(&mut client, &message(&format!("X{GTUBE}")), "554 5.7.1 ");
    let probable = message(&format!("Y{GTUBE}"));
    send(&mut client, &probable, "250 2.0.0 Ok: queued as");
    send(&mut client, &message(&format!("Z{GTUBE}")), "250 2.0.0 Ok: queued as");
    let got = arrived(&files, "you", 3);
    let has = |begin: &str, end: &str| {
        let found = got.iter().filter(|got| got.contains(begin) && got.ends_with(end)).count();
        assert_eq!(found, 1, "{begin}: {got:#?}");
    };
    has("From: Me", &clean.replace("\r\n..\r\n", "\r\n.\r\n"));
    has("X-Spam: Yes\r\n", &format!("Y{GTUBE}\r\n"));
    has("Subject: *** ", &format!("Z{GTUBE}\r\n"));
    assert!(got.iter().all(|got| got.contains("Message-ID: <1@client.test>\r\n")), "{got:#?}");
    // It is gone, and comes again.
    place.end(id);
    send(&mut client, &message("unfiltered"), "250 2.0.0 Ok: queued as");
    let address = format!("127.0.0.1:{port}: ");
    server.wait_console("it failed", |line| line.contains(&address));
    let seen = Observed { files, server, admin };
    let found = seen.wait_problem("milter", "warning");
    assert!(found["text"].as_str().is_some_and(|text| text.contains(&port.to_string())), "{found}");
    seen.wait_events("problem", "milter");
    rspamd(&mut place, port);
    let back = Instant::now();
    wait_until("it is asked again", || {
        send(&mut client, &clean, "250 2.0.0 Ok: queued as");
        seen.of("milter").is_empty()
    });
    seen.wait_cleared("milter", "warning");
    assert!(back.elapsed() < Duration::from_secs(10), "{:?}", back.elapsed());
    seen.wait_events("problem_cleared", "milter");
    seen.server.stop();
}

/// Makes a key, and prints what the DNS has of it.
const KEY: &str = r#"
import base64, subprocess, sys
run = lambda *words: subprocess.run(words, check=True, capture_output=True).stdout
run("openssl", "genrsa", "-traditional", "-out", sys.argv[1], "2048")
public = run("openssl", "rsa", "-in", sys.argv[1], "-pubout", "-outform", "DER")
print("v=DKIM1; k=rsa; p=" + base64.b64encode(public).decode(), end="")
"#;

/// Says what dkimpy says of a message; the record of the key is the second argument.
const VERIFY: &str = r#"
import dkim, sys
message = open(sys.argv[1], "rb").read()
print(dkim.verify(message, dnsfunc=lambda name, timeout=5: sys.argv[2].encode()), end="")
"#;

/// Signs for clients of this machine, and verifies what others send.
fn opendkim(place: &mut Place, mode: &str, record: &str) -> u16 {
    let (port, dir) = (free_port(), place.dir());
    place.write("dns", &format!("one._domainkey.client.test {record}\n"));
    let conf = format!("opendkim-{mode}.conf");
    let key = format!(
        "Domain client.test\nSelector one\nKeyFile {dir}/key\nRequireSafeKeys no\n\
         Canonicalization relaxed/simple\nSignatureAlgorithm rsa-sha256\n"
    );
    let key = if mode == "s" { key } else { String::new() };
    let text = format!(
        "Socket inet:{port}@127.0.0.1\nMode {mode}\n{key}TestDNSData {dir}/dns\nBackground no\n\
         UMask 002\n"
    );
    place.write(&conf, &text);
    let path = place.path(&conf).display().to_string();
    let command = place.command("opendkim", &["opendkim", "-f", "-x", &path]);
    place.start(command, &format!("opendkim-{mode}.log"));
    place.wait_listening(port);
    port
}

pub(crate) fn opendkim_signs_and_verifies() {
    let (mut place, files, names) = (Place::new(0), Files::new(), NameServer::start());
    let key = place.path("key").display().to_string();
    let record = python(KEY, &[&key]);
    names.txt("one._domainkey.client.test", &[&record]);
    let signer = opendkim(&mut place, "s", &record);
    let milter = format!("{{ address = \"127.0.0.1:{signer}\", on_failure = \"tempfail\" }}");
    let server = server(&files, &milter, &names.section());
    let mut client = Client::connect(server.address());
    // In memory, and on disk.
    let long = "a line of a body that is long\r\n".repeat(100_000);
    for body in ["Dear  reader,\r\n \r\nbye", &long] {
        send(&mut client, &message(body), "250 2.0.0 Ok: queued as");
    }
    let mut got = arrived(&files, "you", 2);
    got.sort_by_key(String::len);
    for (n, message) in got.iter().enumerate() {
        assert_eq!(message.matches("DKIM-Signature: ").count(), 1, "{message:.2000}");
        let path = files.write("signed.eml", message);
        let path = path.display().to_string();
        let said = tool::succeed("/usr/bin/python3", &["-c", VERIFY, &path, &record]);
        assert_eq!(said, "True", "message {n}");
        let answer = command(files.dir(), &["auth", "check", "signed.eml", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&answer.out).expect("json");
        assert_eq!(json["dkim"][0]["verdict"], "pass", "message {n}: {json:#}");
    }
    server.stop();
    verifies(&mut place, &record, &got);
}

/// The other way: what was signed is sent to a server whose milter verifies.
fn verifies(place: &mut Place, record: &str, signed: &[String]) {
    let files = Files::new();
    let port = opendkim(place, "v", record);
    let server = server(&files, &format!("{{ address = \"127.0.0.1:{port}\" }}"), "");
    let mut client = Client::connect(server.address());
    let own = |message: &String| {
        // What this server's mailbox added is not part of it.
        let at = message.find("DKIM-Signature: ").expect("signed");
        message[at..].replace("\r\n.", "\r\n..")
    };
    send(&mut client, &own(&signed[0]), "250 2.0.0 Ok: queued as");
    send(&mut client, &own(&signed[1]), "250 2.0.0 Ok: queued as");
    send(&mut client, &own(&signed[0]).replace("bye", "hello"), "250 2.0.0 Ok: queued as");
    let got = arrived(&files, "you", 3);
    let of = |verdict: &str| got.iter().filter(|got| got.contains(verdict)).count();
    assert_eq!((of("dkim=pass"), of("dkim=fail")), (2, 1), "{:.3000}", got[0]);
    server.stop();
}

/// Does what the subject says.
const FILTER: &str = r#"
import sys
import Milter
class Filter(Milter.Base):
    def __init__(self):
        self.id = Milter.uniqueID()
    def envfrom(self, sender, *parameters):
        self.subject, self.sender = "", sender
        return Milter.CONTINUE
    def envrcpt(self, recipient, *parameters):
        if recipient == "<refused@far.test>":
            self.setreply("550", "5.1.1", "100%% not here")
            return Milter.REJECT
        return Milter.CONTINUE
    def header(self, name, value):
        if name == "Subject":
            self.subject = value
        return Milter.CONTINUE
    def eom(self):
        for word in self.subject.split():
            if word == "insert":
                self.addheader("X-Inserted", "in front\n of all", 0)
            elif word == "add":
                self.addheader("X-Added", "at the end")
            elif word == "change":
                self.chgheader("To", 1, "somebody else")
            elif word == "remove":
                self.chgheader("X-Gone", 1, None)
            elif word == "body":
                self.replacebody("another body\r\n" + "x" * 70 + "\r\n")
            elif word == "large":
                for _ in range(64):
                    self.replacebody("0123456789abcde\r\n" * 3855)
            elif word == "recipients":
                self.addrcpt("<more@far.test>")
                self.delrcpt("<you@far.test>")
            elif word == "sender":
                self.chgfrom("<other@client.test>")
            elif word == "hold":
                self.quarantine("it looks odd")
            elif word == "discard":
                return Milter.DISCARD
            elif word == "wait":
                self.progress()
        return Milter.ACCEPT
Milter.factory = Filter
Milter.set_flags(Milter.ADDHDRS | Milter.CHGHDRS | Milter.CHGBODY | Milter.ADDRCPT | Milter.DELRCPT
    | Milter.CHGFROM | Milter.QUARANTINE)
Milter.runmilter("test", "unix:" + sys.argv[1], 60)
"#;

/// Starts it; its socket.
pub(crate) fn start_filter(place: &mut Place) -> String {
    let socket = place.path("socket").display().to_string();
    place.write("filter.py", FILTER);
    let script = place.path("filter.py").display().to_string();
    let command = place.command("python3-milter", &["/usr/bin/python3", &script, &socket]);
    place.start(command, "filter.log");
    crate::support::wait_until("the filter listens", || place.path("socket").exists());
    succeed(Command::new("chmod").arg("777").arg(&socket));
    socket
}

pub(crate) fn libmilter_changes_what_it_may() {
    let (mut place, files) = (Place::new(0), Files::new());
    let socket = start_filter(&mut place);
    let server = server(&files, &format!("{{ address = \"unix:{socket}\" }}"), "");
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<me@client.test>", "250");
    client.say("RCPT TO:<refused@far.test>", "550 5.1.1 100% not here");
    client.say("RSET", "250");
    let subject =
        |words: &str| format!("Subject: {words}\r\nTo: you\r\nX-Gone: 1\r\n\r\nthe body\r\n");
    let all = "insert add change remove body recipients sender wait";
    send(&mut client, &subject(all), "250 2.0.0 Ok: queued as");
    let got = arrived(&files, "more", 1).remove(0);
    assert!(got.contains("X-Inserted: in front\r\n of all\r\nReceived: "), "{got}");
    let body = format!("another body\r\n{}\r\n", "x".repeat(70));
    let rest = format!("Subject: {all}\r\nTo: somebody else\r\nX-Added: at the end\r\n\r\n{body}");
    assert!(got.ends_with(&rest), "{got}");
    assert!(got.starts_with("Return-Path: <other@client.test>\r\n"), "{got}");
    send(&mut client, &subject("insert"), "250 2.0.0 Ok: queued as");
    let got = arrived(&files, "you", 1).remove(0);
    assert!(got.ends_with(&subject("insert")), "{got}");
    send(&mut client, &subject("discard"), "250 2.0.0 Ok: discarded");
    send(&mut client, &subject("hold"), "250 2.0.0 Ok: queued as");
    let held = files.wait_events("held", 1);
    let reason = format!("milter unix:{socket}: it looks odd");
    assert_eq!(held[0]["reason"], reason, "{held:#?}");
    send(&mut client, &subject("large"), "250 2.0.0 Ok: queued as");
    let got = arrived(&files, "you", 2);
    let large = "0123456789abcde\r\n".repeat(3855 * 64);
    assert_eq!(got.iter().filter(|got| got.ends_with(&large)).count(), 1);
    let discarded = files.wait_events("discarded", 1);
    assert_eq!(discarded[0]["recipient"], "you@far.test", "{discarded:#?}");
    server.stop();
}
