//! What domains are told of TLS to their hosts (RFC 8460): sessions are counted one day, and their report comes on
//! the next, by mail and at a web server, and can be read by a program that is not ours.

use super::files::PolicyFiles;
use super::zones::Zones;
use super::{Far, PACKAGES, dane_certificates, dane_zone, policy, relayed, send, start, wait_reason};
use crate::interop::place::is_possible;
use crate::support::certificate::{EC, make_certificate};
use crate::support::http::{get, metric};
use crate::support::server::{CONFIG, Server};
use crate::support::tool::{free_port, succeed};
use crate::support::{Files, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// Prints the report in a file as JSON.
const READ: &str = r#"
import email, email.policy, gzip, json, sys
with open(sys.argv[1], "rb") as file:
    message = email.message_from_binary_file(file, policy=email.policy.default)
text, part = message.iter_parts()
print(json.dumps({"subject": message["subject"], "to": message["to"], "from": message["from"],
    "domain": message["TLS-Report-Domain"], "submitter": message["TLS-Report-Submitter"],
    "required": message["TLS-Required"], "id": message["Message-ID"],
    "kind": message.get_content_type(), "report_type": message.get_param("report-type"),
    "text": text.get_content_type(), "part": part.get_content_type(), "name": part.get_filename(),
    "report": json.loads(gzip.decompress(part.get_content()))}))
"#;

/// Takes reports by POST at a port, with its certificate; writes what it got, a line each.
const TAKE: &str = r#"
import gzip, http.server, json, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open("posted", "a") as file:
            print(json.dumps({"path": self.path, "host": self.headers["Host"],
                "kind": self.headers["Content-Type"], "report": json.loads(gzip.decompress(body))}),
                file=file)
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args): pass
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain("web.pem", "web.key")
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"#;

/// A web server that takes reports, with a certificate that nobody vouches for. It ends with this.
struct Taker {
    port: u16,
    files: Files,
    child: Child,
}

impl Taker {
    fn start() -> Taker {
        let (port, files) = (free_port(), Files::new());
        make_certificate(files.dir(), "web", EC, &["some.other.name.test"]);
        let child = Command::new("/usr/bin/python3")
            .args(["-c", TAKE, &port.to_string()])
            .current_dir(files.dir())
            .stdin(Stdio::null())
            .spawn()
            .expect("Python");
        let taker = Taker { port, files, child };
        wait_until("the web server listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        taker
    }

    fn posted(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.files.path("posted")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A relay that reports; `sink.test` has a mailbox for each name.
fn reporting(files: &Files, (zones, port): (&Zones, u16), tls: &str, roots: &str) -> Server {
    let config = format!(
        "hostname = \"near.test\"\nspool = {{ path = \"spool\" }}\n\
         dns = {{ servers = [\"{}\"], validating = true }}\n[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\n\
         address = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n[[route]]\n\
         domains = [\"sink.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n[[route]]\n\
         retry = {{ first = \"1s\", longest = \"2s\" }}\nmx = {{ port = {port}, tls = \"{tls}\" }}\n\
         [tls_reports]\nfrom = \"tls@near.test\"\norganization_name = \"Near & Co\"\nspread = \"0s\"\n",
        zones.server
    );
    files.write(CONFIG, &config);
    start(files, roots)
}

/// Makes what was counted today of a day that is over: of yesterday, or of the day before as long as yesterday
/// may be counted for. Gives that day.
fn a_day_later(files: &Files) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let day = now / 86_400 - if now % 86_400 < 720 { 2 } else { 1 };
    let directory = files.path("spool/tls-reports");
    let entries = std::fs::read_dir(&directory).expect("what was counted");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    std::fs::rename(paths.remove(0), directory.join(format!("{day}.json"))).expect("renamed");
    day
}

/// The reports in a mailbox, by the domains that they are about.
fn read(files: &Files, mailbox: &str, count: usize) -> BTreeMap<String, Value> {
    let messages = files.wait_maildir(&format!("mail/{mailbox}"), count);
    let read = |message: Vec<u8>| {
        let path = files.path("report.eml");
        std::fs::write(&path, message).expect("written");
        let text = succeed("/usr/bin/python3", &["-c", READ, &path.display().to_string()]);
        let report: Value = serde_json::from_str(&text).expect("JSON");
        (report["domain"].as_str().expect("a domain").to_owned(), report)
    };
    let reports: BTreeMap<String, Value> = messages.into_iter().map(read).collect();
    assert_eq!(reports.len(), count, "one each");
    reports
}

/// All of it was seen to.
fn wait_nothing_left(files: &Files) {
    wait_until("nothing is left to report", || {
        std::fs::read_dir(files.path("spool/tls-reports")).is_ok_and(|all| all.count() == 0)
    });
}

/// Whether sessions were as they should be, and what others failed for, by policy.
fn summary(report: &Value) -> Vec<(String, bool, Vec<String>)> {
    let of = |counted: &Value| {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let count = |key: &str| counted["summary"][key].as_u64().expect("a number");
        let none = Vec::new();
        let details = counted["failure-details"].as_array().unwrap_or(&none);
        let failed: u64 =
            details.iter().map(|d| d["failed-session-count"].as_u64().expect("a number")).sum();
        assert_eq!(failed, count("total-failure-session-count"), "{counted}");
        let mut types: Vec<String> = details.iter().map(|d| text(&d["result-type"])).collect();
        types.dedup();
        assert_eq!(counted["policy"]["policy-domain"].as_str().map(str::len) > Some(0), true);
        let has_some = count("total-successful-session-count") > 0;
        (text(&counted["policy"]["policy-type"]), has_some, types)
    };
    let mut all: Vec<_> = report["policies"].as_array().expect("policies").iter().map(of).collect();
    all.sort();
    all
}

/// As tests write it: `sts good`, `no-policy-found failed starttls-not-supported`.
fn words(report: &Value) -> String {
    let word = |(policy, has_some, types): (String, bool, Vec<String>)| {
        let good = if has_some { " good" } else { "" };
        let failed = types.iter().map(|result| format!(" {result}"));
        format!("{policy}{good}{}", failed.collect::<String>())
    };
    summary(report).into_iter().map(word).collect::<Vec<_>>().join(", ")
}

fn wants(domain: &str, rua: &str) -> String {
    format!("_smtp._tls.{domain} IN TXT \"v=TLSRPTv1; rua={rua}\"\n")
}

#[test]
fn domains_hear_whether_hosts_are_as_their_signed_records_say() {
    if !is_possible(PACKAGES) {
        return;
    }
    let expected = [
        ("ee", "tlsa good"),
        ("wrong", "tlsa certificate-not-trusted"),
        ("anchor", "tlsa good"),
        ("anchor-misnamed", "tlsa certificate-host-mismatch"),
        ("unusable", "tlsa tlsa-invalid"),
        ("stripped", "tlsa starttls-not-supported"),
        ("false", "tlsa dnssec-invalid"),
        ("without", "no-policy-found starttls-not-supported"),
    ];
    let far = Far::start(dane_certificates);
    let records: String =
        expected.iter().map(|(domain, _)| wants(domain, "mailto:tls@sink.test")).collect();
    let zones = Zones::start(&(dane_zone(&far.files, far.port) + &records), "");
    let files = Files::new();
    let near = reporting(&files, (&zones, far.port), "dane", "/dev/null");
    for (domain, words) in expected {
        let domain = format!("{domain}.dane.test");
        send(&near, &domain);
        let goes = words.contains("good") || words.contains("tlsa-inv") || words.contains("no-pol");
        if goes {
            relayed(&files, &domain);
        }
    }
    for (domain, told) in [
        ("wrong.dane.test", "by the TLSA records of bad.dane.test"),
        ("anchor-misnamed.dane.test", "misnamed.dane.test: "),
        ("stripped.dane.test", "by the TLSA records of clear.dane.test"),
        ("false.dane.test", "bogus.dane.test"),
    ] {
        wait_reason(&files, domain, &[told]);
    }
    near.stop();
    a_day_later(&files);
    let near = start(&files, "/dev/null");
    let reports = read(&files, "tls", expected.len());
    for (domain, expected) in expected {
        let report = &reports[&format!("{domain}.dane.test")]["report"];
        assert_eq!(words(report), expected, "{domain}: {report}");
    }
    let ee = &reports["ee.dane.test"]["report"]["policies"][0]["policy"];
    assert_eq!(ee["mx-host"][0], "good.dane.test");
    let record = ee["policy-string"][0].as_str().expect("a record");
    assert!(record.starts_with("3 1 1 ") && record.len() == 6 + 64, "{record}");
    let wrong = &reports["wrong.dane.test"]["report"]["policies"][0]["failure-details"][0];
    assert_eq!(wrong["receiving-mx-hostname"], "bad.dane.test");
    assert_eq!((&wrong["sending-mta-ip"], &wrong["receiving-ip"]), (&"127.0.0.1".into(), &"127.0.0.1".into()));
    let reason = wrong["failure-reason-code"].as_str().expect("a reason");
    assert!(reason.contains("no TLSA record is about the certificate"), "{reason}");
    near.stop();
}

/// Domains, their MX hosts, policies, and what they are told.
type Told = (&'static str, &'static str, Option<String>, &'static str);

fn told() -> Vec<Told> {
    let usual = || Some(policy("enforce", &["good"]));
    let clear = "no-policy-found starttls-not-supported, sts";
    vec![
        ("enforced", "good", usual(), "sts good"),
        ("foreign", "self", usual(), "sts validation-failure"),
        ("untrusted", "self", Some(policy("enforce", &["self"])), "sts certificate-not-trusted"),
        ("misnamed", "alias", Some(policy("enforce", &["alias"])), "sts certificate-host-mismatch"),
        ("expired", "old", Some(policy("enforce", &["old"])), "sts certificate-expired"),
        ("stripped", "clear", Some(policy("enforce", &["clear"])), "sts starttls-not-supported"),
        ("tried", "good", Some(policy("testing", &["good"])), "sts good"),
        ("lax", "alias", Some(policy("testing", &["alias"])), "sts certificate-host-mismatch"),
        ("lax-foreign", "good", Some(policy("testing", &["self"])), "sts validation-failure"),
        ("lax-clear", "clear", Some(policy("testing", &["clear"])), "sts starttls-not-supported"),
        ("silent", "clear", None, "no-policy-found starttls-not-supported"),
        ("open", "good", None, "no-policy-found good"),
        ("gone", "clear", usual().map(|p| p.replace("200", "404")), concat_error(clear, "fetch-error")),
        ("odd", "clear", Some("200 text/plain 0\n<html>".to_owned()), concat_error(clear, "invalid")),
        ("forged", "clear", usual(), "no-policy-found starttls-not-supported, sts sts-webpki-invalid"),
    ]
}

fn concat_error(_: &str, error: &str) -> &'static str {
    match error {
        "invalid" => "no-policy-found starttls-not-supported, sts sts-policy-invalid",
        _ => "no-policy-found starttls-not-supported, sts sts-policy-fetch-error",
    }
}
