//! `[alerts]`: trouble is reported by mail to a real server and to a web server, also when the queue or the disk is full.

use crate::problem_kinds::Observed;
use crate::problem_kinds::scarcity::{fill, with_small_disk};
use crate::support::certificate::make_issued;
use crate::support::client::Client;
use crate::support::http::metric;
use crate::support::peer::Peer;
use crate::support::server::{CONFIG, Server, control};
use crate::support::tool::free_port;
use crate::support::{Files, config_with, wait_until};
use serde_json::Value;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Takes alerts by POST at a port. The status of each response is in the file `status`.
const TAKE: &str = r#"
import http.server, json, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open("posted", "a") as file:
            print(json.dumps({"path": self.path, "host": self.headers["Host"],
                "kind": self.headers["Content-Type"], "alert": json.loads(body)}), file=file)
        self.send_response(int(open("status").read()))
        self.send_header("Content-Length", "0")
        self.send_header("Location", "/elsewhere")
        self.end_headers()
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
if len(sys.argv) > 2:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(sys.argv[2] + ".pem", sys.argv[2] + ".key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"#;

/// A web server that takes alerts. It ends with this.
struct Taker {
    port: u16,
    files: Files,
    child: Child,
}

impl Drop for Taker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Taker {
    /// In clear, or with the certificate `NAME.pem` that `make` creates.
    fn start(certificate: Option<&str>, make: impl Fn(&Files)) -> Taker {
        let (port, files) = (free_port(), Files::new());
        files.write("status", "204");
        make(&files);
        let port_text = port.to_string();
        let child = Command::new("/usr/bin/python3")
            .args(["-c", TAKE, &port_text])
            .args(certificate)
            .current_dir(files.dir())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Python");
        let taker = Taker { port, files, child };
        wait_until("the web server listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        taker
    }

    fn posted(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.files.path("posted")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn wait_posted(&self, count: usize) -> Vec<Value> {
        wait_until(&format!("{count} alerts at the web server"), || self.posted().len() >= count);
        self.posted()
    }
}

/// A server with an alert section, and a route to a next hop that is down for `down.test`.
fn start(alerts: &str, ops: &Peer) -> (Observed, u16) {
    let down = free_port();
    let more = format!(
        "[alerts]\n{alerts}\n\
         [[route]]\ndomains = [\"down.test\"]\nretry = {{ first = \"1s\", longest = \"1s\" }}\n\
         smtp = {{ hosts = [\"127.0.0.1:{down}\"] }}\n\
         [[route]]\ndomains = [\"ops.test\"]\nsmtp = {{ hosts = [\"{}\"] }}\n",
        ops.address
    );
    (Observed::start(Files::new(), &more), down)
}

fn text_of(content: &[u8]) -> String {
    String::from_utf8(content.to_vec()).expect("UTF-8")
}

#[test]
fn alert_arrives_by_mail_and_at_web_server_until_all_is_clear() {
    let ops = Peer::start(|_| None);
    let taker = Taker::start(None, |_| ());
    let alerts = format!(
        "to = [\"duty@ops.test\"]\nseverity = \"warning\"\nevery = \"3s\"\n\
         webhook = {{ url = \"http://127.0.0.1:{}/hook?key=secret\" }}",
        taker.port
    );
    let (place, down) = start(&alerts, &ops);
    place.send("a@source.test", "b@down.test");
    place.wait_problem("next_hop", "warning");
    let begun = Instant::now();
    let mail = ops.wait_taken(1).remove(0);
    assert_eq!(mail.mail.split(' ').next(), Some("MAIL"));
    assert!(mail.mail.starts_with("MAIL FROM:<>"), "{mail:?}");
    assert!(mail.rcpt[0].starts_with("RCPT TO:<duty@ops.test> NOTIFY=NEVER"), "{mail:?}");
    let text = text_of(&mail.content);
    assert!(text.contains("\r\nSubject: relay.test: 1 problem: next_hop\r\n"), "{text}");
    assert!(text.contains("\r\nAuto-Submitted: auto-generated\r\n"), "{text}");
    assert!(text.contains("\r\nNew problems:\r\n\r\n- warning (next_hop, since "), "{text}");
    assert!(text.contains("is suspended, 1 recipients wait"), "{text}");
    let posted = taker.wait_posted(1).remove(0);
    assert_eq!(
        (&posted["path"], &posted["kind"]),
        (&"/hook?key=secret".into(), &"application/json".into())
    );
    let alert = &posted["alert"];
    assert_eq!(
        (&alert["kind"], &alert["host"], &alert["version"]),
        (&"alert".into(), &"relay.test".into(), &1.into())
    );
    assert_eq!(alert["begun"][0]["kind"], "next_hop");
    // The next hop accepts mail again.
    let _peer = Peer::start_at(&format!("127.0.0.1:{down}"), "250 DSN", |_| None);
    place.wait_cleared("next_hop", "warning");
    let mails = ops.wait_taken(2);
    assert!(begun.elapsed() > Duration::from_secs(2), "not before `every` is over");
    let text = text_of(&mails[1].content);
    assert!(text.contains("\r\nSubject: relay.test: no problem is left\r\n"), "{text}");
    assert!(text.contains("\r\nEnded:\r\n\r\n- warning (next_hop"), "{text}");
    let posted = taker.wait_posted(2);
    assert_eq!(posted[1]["alert"]["kind"], "all_clear");
    let sent = |by: &str| {
        let name = format!("postrider_alerts_sent_total{{by=\"{by}\"}}");
        metric(&place.get("/metrics"), &name)
    };
    wait_until("both are counted", || (sent("mail"), sent("webhook")) == (2, 2));
    let log = place.server.console().join("\n");
    assert!(!log.contains("secret"), "{log}");
    assert_eq!((ops.taken().len(), taker.posted().len()), (2, 2));
    place.server.stop();
}

#[test]
fn alert_passes_a_full_queue() {
    let ops = Peer::start(|_| None);
    let down = free_port();
    let more = format!(
        "[alerts]\nto = [\"duty@ops.test\"]\nseverity = \"warning\"\n\
         [[route]]\ndomains = [\"ops.test\"]\nsmtp = {{ hosts = [\"{}\"] }}\n\
         [[route]]\nretry = {{ first = \"1h\", longest = \"1h\" }}\nsmtp = {{ hosts = [\"127.0.0.1:{down}\"] }}\n",
        ops.address
    );
    let files = Files::new();
    let text = config_with("queue_recipients_max = 1", "relay_from = [\"127.0.0.1\"]", &more);
    let server = Server::start(&files, &text);
    let mut client = Client::connect(server.address());
    client.mail("a@source.test", &["b@down.test"], "Subject: x\r\n\r\nx\r\n");
    let mut is_refused = |to: &str| {
        client.say("MAIL FROM:<a@source.test>", "250");
        client.say(&format!("RCPT TO:<{to}>"), "250");
        client.say("DATA", "452 4.3.1");
        client.say("RSET", "250");
    };
    is_refused("c@down.test");
    let mail = ops.wait_taken(1).remove(0);
    assert!(text_of(&mail.content).contains("next_hop"), "{mail:?}");
    // The reserve is for alerts only.
    is_refused("duty@ops.test");
    server.stop();
}

#[test]
fn alert_passes_a_full_disk() {
    const MIB: u64 = 1 << 20;
    let ops = Peer::start(|_| None);
    let more = format!(
        "[alerts]\nto = [\"duty@ops.test\"]\n\
         [[route]]\ndomains = [\"ops.test\"]\nsmtp = {{ hosts = [\"{}\"] }}\n[[route]]\ndiscard = {{}}\n",
        ops.address
    );
    let Some((place, disk)) = with_small_disk(160 * MIB, &more) else { return };
    fill(&disk, 16 * MIB);
    let refused = || {
        let mut client = Client::connect(place.server.address());
        client.say("MAIL FROM:<a@source.test>", "250");
        client.say("RCPT TO:<duty@ops.test>", "250");
        client.send("DATA\r\n");
        let reply = client.reply();
        match reply.starts_with("354") {
            true => client.say("x\r\n.", "").starts_with("452 4.3.1"),
            false => reply.starts_with("452 4.3.1"),
        }
    };
    wait_until("mail is refused", refused);
    let is_alert = || {
        let taken = ops.taken();
        taken.iter().any(|one| text_of(&one.content).contains("- error (log, since "))
    };
    wait_until("an alert about the full disk", is_alert);
    assert!(refused(), "mail of clients is still refused");
    place.server.stop();
}

#[test]
fn undelivered_alert_is_a_problem_and_causes_no_other_alert() {
    let ops =
        Peer::start(|line| line.starts_with("RCPT").then(|| "550 5.1.1 no such user".to_owned()));
    let taker = Taker::start(None, |files| _ = files.write("status", "302"));
    let alerts = format!(
        "to = [\"duty@ops.test\"]\nseverity = \"notice\"\nevery = \"1s\"\n\
         webhook = {{ url = \"http://127.0.0.1:{}/\" }}",
        taker.port
    );
    let (place, down) = start(&alerts, &ops);
    place.send("a@source.test", "b@down.test");
    wait_until("a problem with the alert", || {
        place.of("alert").iter().any(|one| one["about"] == "duty@ops.test")
    });
    let failed = || metric(&place.get("/metrics"), "postrider_alerts_failed_total{by=\"mail\"}");
    assert!(failed() >= 1);
    // What it is about ends, and with it the tries.
    let _peer = Peer::start_at(&format!("127.0.0.1:{down}"), "250 DSN", |_| None);
    wait_until("no next hop is down", || place.of("next_hop").is_empty());
    let begun = Instant::now();
    let (mut last, mut since) = (failed(), Instant::now());
    while since.elapsed() < Duration::from_secs(5) {
        assert!(begun.elapsed() < Duration::from_secs(30), "alerts go on");
        std::thread::sleep(Duration::from_millis(100));
        if failed() != last {
            (last, since) = (failed(), Instant::now());
        }
    }
    assert!(place.files.events_of("dsn_queued").is_empty(), "an alert is not returned");
    // No redirect is followed, and the requests are bounded.
    assert!(taker.posted().iter().all(|one| one["path"] == "/"));
    place.server.stop();
}

#[test]
fn web_server_must_have_a_valid_certificate() {
    let ops = Peer::start(|_| None);
    let make = |files: &Files| {
        make_issued(files.dir(), "ca", &[("web", "localhost"), ("other", "other.test")])
    };
    let right = Taker::start(Some("web"), make);
    let wrong = Taker::start(Some("other"), make);
    let alerts = |taker: &Taker, ca: &Taker| {
        format!(
            "severity = \"warning\"\nevery = \"1s\"\nwebhook = {{ url = \"https://localhost:{}/x\", ca_file = \"{}\" }}",
            taker.port,
            ca.files.path("ca.pem").display()
        )
    };
    let (place, _) = start(&alerts(&wrong, &wrong), &ops);
    place.send("a@source.test", "b@down.test");
    place.wait_problem("next_hop", "warning");
    std::thread::sleep(Duration::from_secs(5));
    assert!(wrong.posted().is_empty(), "the name is not in its certificate");
    // A reload names another server.
    let text = fs::read_to_string(place.files.path(CONFIG)).expect("it is there");
    let text = text.replace(&alerts(&wrong, &wrong), &alerts(&right, &right));
    place.files.write(CONFIG, &text);
    let answer = control(place.files.dir(), &["reload"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let posted = right.wait_posted(1).remove(0);
    assert_eq!(posted["alert"]["begun"][0]["kind"], "next_hop");
    assert_eq!(posted["host"], format!("localhost:{}", right.port));
    // Without the section nothing is sent.
    let (before, rest) = text.split_once("[alerts]").expect("a section");
    let (_, rest) = rest.split_once("[[route]]").expect("a route");
    place.files.write(CONFIG, &format!("{before}[[route]]{rest}"));
    assert_eq!(control(place.files.dir(), &["reload"]).code, 0);
    let count = right.posted().len();
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(right.posted().len(), count);
    assert!(ops.taken().is_empty());
    place.server.stop();
}

#[test]
fn restart_repeats_no_alert() {
    let ops = Peer::start(|_| None);
    let (place, _) = start("to = [\"postmaster\"]\nseverity = \"warning\"", &ops);
    place.send("a@source.test", "b@down.test");
    place.wait_problem("next_hop", "warning");
    // No route takes the postmaster's mail: it stays in the spool.
    let own = "spool/postmaster";
    let mail = place.files.wait_maildir(own, 1).remove(0);
    assert!(text_of(&mail).contains("To: <postmaster>"), "{}", text_of(&mail));
    wait_until("the state is written", || {
        let state = fs::read_to_string(place.files.path("spool/alerts.json"));
        state.is_ok_and(|text| text.contains("next_hop"))
    });
    let Observed { files, server, admin } = place;
    server.stop();
    let place = Observed { server: Server::start_again(&files), files, admin };
    place.wait_problem("next_hop", "warning");
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(place.files.maildir(own).len(), 1);
    place.server.stop();
}
