//! What domains are told of TLS to their hosts (RFC 8460): sessions are counted one day, and their report comes on
//! the next, by mail and at a web server, and can be read by a program that is not ours.

use super::files::PolicyFiles;
use super::zones::Zones;
use super::{Far, PACKAGES, dane_certificates, dane_zone, policy, relayed, send, wait_reason};
use crate::interop::place::is_possible;
use crate::support::certificate::{EC, make_certificate};
use crate::support::http::{get, metric};
use crate::support::server::{CONFIG, Server};
use crate::support::tool::{free_port, succeed};
use crate::support::{Files, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
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
    Server::start_trusting(files, roots)
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Makes what was counted today of a day that is over: of yesterday, or of the day before as long as yesterday
/// may be counted for. Gives that day.
fn a_day_later(files: &Files) -> u64 {
    let now = now();
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
        assert!(!text(&counted["policy"]["policy-domain"]).is_empty());
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
    let near = Server::start_trusting(&files, "/dev/null");
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
    assert_eq!(
        (&wrong["sending-mta-ip"], &wrong["receiving-ip"]),
        (&"127.0.0.1".into(), &"127.0.0.1".into())
    );
    let reason = wrong["failure-reason-code"].as_str().expect("a reason");
    assert!(reason.contains("no TLSA record matches the certificate"), "{reason}");
    near.stop();
}

/// A domain, its MX host, its policy, and what it is told.
type Told = (&'static str, &'static str, Option<String>, &'static str);

/// `good` and `old` have certificates of an authority that is trusted, `alias` shows the one of `good`, `self` one
/// of its own, and `clear` has no TLS.
fn told() -> Vec<Told> {
    let asks = |mode: &str, host: &str| Some(policy(mode, &[host]));
    let usual = || asks("enforce", "good");
    let gone = usual().map(|policy| policy.replace("200", "404"));
    let odd = Some("200 text/plain 0\n<html>".to_owned());
    vec![
        ("enforced", "good", usual(), "sts good"),
        ("foreign", "self", usual(), "sts validation-failure"),
        ("untrusted", "self", asks("enforce", "self"), "sts certificate-not-trusted"),
        ("misnamed", "alias", asks("enforce", "alias"), "sts certificate-host-mismatch"),
        ("expired", "old", asks("enforce", "old"), "sts certificate-expired"),
        ("stripped", "clear", asks("enforce", "clear"), "sts starttls-not-supported"),
        ("tried", "good", asks("testing", "good"), "sts good"),
        ("lax", "alias", asks("testing", "alias"), "sts certificate-host-mismatch"),
        ("lax-foreign", "good", asks("testing", "self"), "sts validation-failure"),
        ("lax-clear", "clear", asks("testing", "clear"), "sts starttls-not-supported"),
        ("silent", "clear", None, "no-policy-found starttls-not-supported"),
        ("open", "good", None, "no-policy-found good"),
        ("gone", "good", gone, "no-policy-found good, sts sts-policy-fetch-error"),
        ("odd", "good", odd, "no-policy-found good, sts sts-policy-invalid"),
        ("forged", "good", usual(), "no-policy-found good, sts sts-webpki-invalid"),
    ]
}

/// Domains that get none: their records are none.
const UNTOLD: &[&str] = &["none", "twice", "nowhere", "plainly", "huge"];

fn zone(told: &[Told], web: std::net::Ipv4Addr, taker: u16) -> String {
    let mut zone = "clear IN A 127.0.0.2\nweb IN A 127.0.0.1\n".to_owned();
    for host in ["good", "alias", "self", "old"] {
        zone += &format!("{host} IN A 127.0.0.1\n");
    }
    for (domain, host, policy, _) in told {
        zone += &format!("{domain} IN MX 10 {host}\n");
        zone += &match *domain {
            "enforced" => wants(
                domain,
                &format!("mailto:tls@sink.test,https://web.plain.test:{taker}/v1/tlsrpt?x=y"),
            ),
            // Mail for this one's own domain can't be delivered as it asks, and this is told there all the same.
            "stripped" => wants(domain, "mailto:tls@sink.test,mailto:tls@stripped.plain.test"),
            _ => wants(domain, "mailto:tls@sink.test"),
        };
        if policy.is_some() {
            zone += &format!(
                "_mta-sts.{domain} IN TXT \"v=STSv1; id=1\"\nmta-sts.{domain} IN A {web}\n"
            );
        }
    }
    for domain in UNTOLD {
        zone += &format!("{domain} IN MX 10 good\n");
    }
    let to = "mailto:untold@sink.test";
    let filler = format!("\"{}\" ", "x".repeat(250)).repeat(17);
    zone += &(wants("twice", to) + &wants("twice", &format!("{to}x")));
    zone += "_smtp._tls.nowhere IN TXT \"v=TLSRPTv1; x=mailto:untold@sink.test\"\n";
    zone += &wants("plainly", &format!("http://web.plain.test:{taker}/"));
    zone + &format!("_smtp._tls.huge IN TXT \"v=TLSRPTv1; rua={to};\" {filler}\n")
}

/// In `dir`, for this host, a certificate of the authority that has ended.
pub(super) fn make_expired(dir: &Path, host: &str, web: &PolicyFiles) {
    let at = |name: &str| dir.join(name).display().to_string();
    let by = |name: &str| web.path(name).display().to_string();
    let command = format!(
        "echo subjectAltName=DNS:{host} > {ext} && openssl req -newkey {EC} -nodes -subj /CN=old \
         -keyout {key} -out {request} && openssl x509 -req -in {request} -CA {ca} -CAkey {ca_key} \
         -days 0 -extfile {ext} -out {pem} && cat {ca} >> {pem}",
        ext = at("old.ext"),
        key = at("old.key"),
        request = at("old.request"),
        pem = at("old.pem"),
        ca = by("authority.pem"),
        ca_key = by("authority.key"),
    );
    succeed("sh", &["-c", &command]);
    // It holds for the second in which it was made.
    let made = now();
    wait_until("the certificate has ended", || now() > made);
}

fn hosts(files: &Files, web: &PolicyFiles) -> Vec<(&'static str, &'static str)> {
    for extension in ["pem", "key"] {
        let copy = files.path(&format!("good.{extension}"));
        std::fs::copy(web.path(&format!("issued.{extension}")), copy).expect("copied");
    }
    make_certificate(files.dir(), "self", EC, &["self.plain.test"]);
    make_expired(&files.path("."), "old.plain.test", web);
    // The first is shown to those who ask for a name that none has.
    vec![("good", "good.plain.test"), ("self", "self.plain.test"), ("old", "old.plain.test")]
}

/// Sends to each domain, and waits for what becomes of it.
fn send_to_all(near: &Server, files: &Files, told: &[Told]) {
    for (domain, _, policy, words) in told {
        let domain = format!("{domain}.plain.test");
        send(near, &domain);
        let is_lax = policy.as_ref().is_some_and(|policy| policy.contains("testing"));
        if is_lax || words.contains("good") || words.contains("no-policy") {
            relayed(files, &domain);
        }
    }
    for domain in UNTOLD {
        send(near, &format!("{domain}.plain.test"));
        relayed(files, &format!("{domain}.plain.test"));
    }
    for (domain, text) in [
        ("foreign", "lists none of its MX hosts: self.plain.test"),
        ("untrusted", "UnknownIssuer"),
        ("misnamed", "not valid for name"),
        ("expired", "expired"),
        ("stripped", "clear.plain.test"),
    ] {
        wait_reason(files, &format!("{domain}.plain.test"), &[text]);
    }
}

fn check_enforced(report: &Value, day: u64, posted: &Value, taker: u16) {
    let (begin, end) = (day * 86_400, day * 86_400 + 86_399);
    let subject = report["subject"].as_str().expect("a subject");
    let subject = subject.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        subject.starts_with("Report Domain: enforced.plain.test Submitter: near.test Report-ID: <"),
        "{subject}"
    );
    assert_eq!(
        (&report["to"], &report["from"]),
        (&"tls@sink.test".into(), &"tls@near.test".into())
    );
    for (key, value) in [
        ("submitter", "near.test"),
        ("required", "No"),
        ("kind", "multipart/report"),
        ("report_type", "tlsrpt"),
        ("text", "text/plain"),
        ("part", "application/tlsrpt+gzip"),
    ] {
        assert_eq!(report[key], value, "{report}");
    }
    assert_eq!(report["name"], format!("near.test!enforced.plain.test!{begin}!{end}.json.gz"));
    let json = &report["report"];
    assert_eq!(
        (&json["organization-name"], &json["contact-info"]),
        (&"Near & Co".into(), &"tls@near.test".into())
    );
    assert!(json["date-range"]["start-datetime"].as_str().expect("a date").ends_with("T00:00:00Z"));
    assert!(json["date-range"]["end-datetime"].as_str().expect("a date").ends_with("T23:59:59Z"));
    let counted = &json["policies"][0];
    let expected = ["version: STSv1", "mode: enforce", "mx: good.plain.test", "max_age: 86400"];
    assert_eq!(counted["policy"]["policy-string"], Value::from(expected.to_vec()));
    assert_eq!(counted["policy"]["mx-host"], Value::from(vec!["good.plain.test"]));
    // One before the restart, and one after it.
    assert_eq!(counted["summary"]["total-successful-session-count"], 2, "{counted}");
    assert_eq!(posted["path"], "/v1/tlsrpt?x=y");
    assert_eq!(posted["host"], format!("web.plain.test:{taker}"));
    assert_eq!(posted["kind"], "application/tlsrpt+gzip");
    assert_eq!(&posted["report"], json, "the same at each place");
}

#[test]
fn domains_hear_whether_hosts_are_as_they_promise() {
    if !is_possible(PACKAGES) {
        return;
    }
    let (told, taker) = (told(), Taker::start());
    let answers = told.iter().filter_map(|(name, _, policy, _)| Some((*name, policy.clone()?)));
    let web = PolicyFiles::start(&answers.collect::<Vec<_>>(), "good.plain.test");
    let far = Far::start(|files| hosts(files, &web));
    let zones = Zones::start("", &zone(&told, web.address, taker.port));
    let files = Files::new();
    let roots = web.path("authority.pem").display().to_string();
    let near = reporting(&files, (&zones, far.port), "mta-sts", &roots);
    send_to_all(&near, &files, &told);
    near.stop();
    // What was counted is there after a restart.
    let near = Server::start_trusting(&files, &roots);
    let before = files.events_of("relayed").len();
    send(&near, "enforced.plain.test");
    wait_until("it is relayed", || files.events_of("relayed").len() > before);
    let metrics = get(&super::admin(&near), "/metrics");
    wait_until("it is counted", || {
        metric(&get(&super::admin(&near), "/metrics"), "postrider_tls_report_sessions_total") > 0
    });
    assert_eq!(metric(&metrics, "postrider_tls_report_sessions_left_out_total"), 0);
    near.stop();
    let day = a_day_later(&files);
    let near = Server::start_trusting(&files, &roots);
    let reports = read(&files, "tls", told.len());
    wait_until("the web server has its report", || !taker.posted().is_empty());
    for (domain, _, _, expected) in &told {
        let report = &reports[&format!("{domain}.plain.test")]["report"];
        assert_eq!(words(report), *expected, "{domain}: {report}");
    }
    check_enforced(&reports["enforced.plain.test"], day, &taker.posted()[0], taker.port);
    // RFC 8460 §3: in spite of the policy, in clear, and told to nobody.
    let is_told = |event: &Value| event["recipient"] == "tls@stripped.plain.test";
    wait_until("the report is relayed", || files.events_of("relayed").iter().any(is_told));
    wait_nothing_left(&files);
    assert_eq!((taker.posted().len(), files.maildir("mail/untold").len()), (1, 0));
    let metrics = get(&super::admin(&near), "/metrics");
    let sent =
        |by: &str| metric(&metrics, &format!("postrider_tls_reports_sent_total{{by=\"{by}\"}}"));
    assert_eq!((sent("https"), sent("mail")), (1, told.len() as u64 + 1));
    near.stop();
    let counted = std::fs::read_dir(files.path("spool/tls-reports")).map_or(0, Iterator::count);
    let text: String = std::fs::read_dir(files.path("spool/tls-reports"))
        .into_iter()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok())
        .collect();
    // The mail that waits is tried again and counts; that of the report does not.
    assert!(counted <= 1 && !text.contains("no-policy-found"), "{text}");
}
