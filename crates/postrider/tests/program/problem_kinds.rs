//! Each kind of problem by a real cause: it is in `status`, at `/healthz`, in `/metrics`, on the console and in the
//! events, and gone from all of them after the mend. Meanwhile `status` never prints "All is well.".

mod dashboard;
mod promtool;
pub(crate) mod scarcity;

use crate::support::certificate;
use crate::support::client::Client;
use crate::support::http::metric;
use crate::support::peer::Peer;
use crate::support::server::{CONFIG, Server, command, control};
use crate::support::tool::free_port;
use crate::support::{Files, config_with, wait_until};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

const WELL: &str = "All is well.";

/// A server with an address for numbers.
pub(crate) struct Observed {
    pub(crate) files: Files,
    pub(crate) server: Server,
    pub(crate) admin: String,
}

impl Observed {
    pub(crate) fn start(files: Files, more: &str) -> Observed {
        Observed::start_listening(files, "", more)
    }

    /// The same with more keys of the listener.
    fn start_listening(files: Files, listener: &str, more: &str) -> Observed {
        let admin = format!("127.0.0.1:{}", free_port());
        let text = format!("[admin]\naddress = \"{admin}\"\n{more}");
        let listener = format!("relay_from = [\"127.0.0.0/8\"]\n{listener}");
        let server = Server::start(&files, &config_with("", &listener, &text));
        Observed { files, server, admin }
    }

    /// The whole answer, whatever its code.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.admin).expect("it answers");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        text
    }

    /// The problems of this kind in `status`.
    pub(crate) fn of(&self, kind: &str) -> Vec<Value> {
        let status = self.server.json(&["status"]).remove(0);
        let list = status["problem_list"].as_array().cloned().unwrap_or_default();
        list.into_iter().filter(|one| one["kind"] == kind).collect()
    }

    pub(crate) fn is_well(&self) -> bool {
        self.server.command(&["status"]).out.contains(WELL)
    }

    fn count(&self, kind: &str, severity: &str) -> u64 {
        let name = format!("postrider_problem{{kind=\"{kind}\",severity=\"{severity}\"}}");
        let metrics = self.get("/metrics");
        let row = metrics.lines().find_map(|line| line.strip_prefix(&name));
        row.unwrap_or_else(|| panic!("no {name}")).trim().parse().expect("a number")
    }

    /// Waits until a problem is reported everywhere, and returns it.
    pub(crate) fn wait_problem(&self, kind: &str, severity: &str) -> Value {
        wait_until(&format!("a problem {kind}"), || !self.of(kind).is_empty());
        let found = self.of(kind).remove(0);
        assert_eq!(found["severity"], severity, "{found}");
        assert!(!found["next_step"].as_str().expect("text").is_empty(), "{found}");
        assert!(!self.is_well(), "{found}");
        let health = self.get("/healthz");
        let word = match severity {
            "error" => "failing",
            "warning" => "degraded",
            _ => "ok",
        };
        assert!(health.contains(&format!("\"status\":\"{word}\"")), "{health}");
        assert!(health.contains(&format!("\"kind\":\"{kind}\"")), "{health}");
        assert!(self.count(kind, severity) > 0, "{kind}");
        found
    }

    pub(crate) fn wait_events(&self, name: &str, kind: &str) {
        wait_until(&format!("an event {name} about {kind}"), || {
            self.files.events_of(name).iter().any(|event| event["kind"] == kind)
        });
    }

    /// Waits until it is gone everywhere.
    pub(crate) fn wait_cleared(&self, kind: &str, severity: &str) {
        wait_until(&format!("no problem {kind}"), || self.of(kind).is_empty());
        wait_until("all is well", || self.is_well());
        assert_eq!(self.count(kind, severity), 0, "{kind}");
        let health = self.get("/healthz");
        assert!(health.contains("\"status\":\"ok\""), "{health}");
    }

    pub(crate) fn wait_console(&self, words: &str) {
        self.server.wait_console(words, |line| line.contains(words));
    }

    pub(crate) fn send(&self, from: &str, to: &str) -> String {
        let mut client = Client::connect(self.server.address());
        client.mail(from, &[to], "Subject: x\r\n\r\nx\r\n")
    }
}

const POOL: &str = "[[source]]\nname = \"ip-1\"\naddress = \"127.0.0.2\"\n\
                    [[source]]\nname = \"ip-2\"\naddress = \"127.0.0.3\"\n\
                    [[source]]\nname = \"ip-3\"\naddress = \"127.0.0.4\"\n\
                    [[pool]]\nname = \"bulk\"\n\
                    sources = [{ name = \"ip-1\" }, { name = \"ip-2\" }, { name = \"ip-3\" }]\n";

#[test]
fn dead_next_hop_of_a_pool_is_a_problem_for_each_source_until_it_answers() {
    let port = free_port();
    let more = format!(
        "{POOL}[[route]]\npool = \"bulk\"\nretry = {{ first = \"1s\", longest = \"1s\" }}\n\
         smtp = {{ hosts = [\"127.0.0.1:{port}\"] }}\n"
    );
    let place = Observed::start(Files::new(), &more);
    assert!(place.is_well());
    for n in 0..40 {
        place.send("a@source.test", &format!("b{n}@down.test"));
    }
    place.wait_problem("next_hop", "warning");
    let sources = |found: &[Value]| {
        let about = found.iter().map(|one| one["about"].as_str().unwrap_or_default());
        about.filter_map(|about| about.rsplit(" from ").next().map(str::to_owned)).collect()
    };
    wait_until("a problem for each source", || {
        let mut names: Vec<String> = sources(&place.of("next_hop"));
        names.sort();
        names == ["ip-1", "ip-2", "ip-3"]
    });
    // All recipients are counted, as they are now.
    let waiting = || -> u64 {
        let texts = place.of("next_hop").into_iter().map(|one| one["text"].to_string());
        texts
            .map(|text| {
                let words: Vec<&str> = text.split(' ').collect();
                let at = words.iter().position(|word| *word == "recipients").expect("a number");
                words[at - 1].parse::<u64>().expect("a number")
            })
            .sum()
    };
    wait_until("40 recipients", || waiting() == 40);
    assert!(place.files.events_of("suspended").iter().all(|event| event["source"].is_string()));
    place.wait_console("source=ip-2");
    // One source's mail is removed: the others' still waits.
    place.server.command(&["queue", "remove", "--source", "ip-2", "--domain", "down.test"]);
    wait_until("no mail of ip-2", || {
        !sources(&place.of("next_hop")).contains(&"ip-2".to_owned()) && waiting() < 40
    });
    assert!(!place.is_well());
    wait_until("counts by source", || {
        metric(&place.get("/metrics"), "postrider_queue_source_recipients") == waiting()
    });
    let peer = Peer::start_at(&format!("127.0.0.1:{port}"), "250 DSN", |_| None);
    place.wait_cleared("next_hop", "warning");
    assert!(!peer.taken().is_empty());
    place.files.wait_events("resumed", 2);
}

/// A milter or a policy service that answers nothing: it closes each connection.
fn rude(port: u16) -> TcpListener {
    TcpListener::bind(("127.0.0.1", port)).expect("a free port")
}

#[test]
fn stopped_milter_is_a_problem_until_a_message_passes_it() {
    let port = free_port();
    let files = Files::new();
    let admin = format!("127.0.0.1:{}", free_port());
    let text = format!("[admin]\naddress = \"{admin}\"\n[[route]]\ndiscard = {{}}\n");
    let text = crate::support::config_with(
        "",
        &format!(
            "relay_from = [\"127.0.0.0/8\"]\n\
             milters = [{{ address = \"127.0.0.1:{port}\", on_failure = \"accept\" }}]"
        ),
        &text,
    );
    let server = Server::start(&files, &text);
    let place = Observed { files, server, admin };
    assert!(place.is_well());
    place.send("a@source.test", "b@far.test");
    let found = place.wait_problem("milter", "warning");
    assert!(found["text"].as_str().is_some_and(|text| text.contains(&port.to_string())), "{found}");
    place.wait_console("milter");
    place.wait_events("problem", "milter");
    // Without the milter.
    let before = fs::read_to_string(place.files.path(CONFIG)).expect("it is there");
    let lines = before.lines().filter(|line| !line.starts_with("milters"));
    place.files.write(CONFIG, &lines.collect::<Vec<_>>().join("\n"));
    assert_eq!(place.server.command(&["reload"]).code, 0);
    place.wait_cleared("milter", "warning");
    place.wait_events("problem_cleared", "milter");
}

#[test]
fn stopped_policy_service_is_a_problem_until_it_answers() {
    let port = free_port();
    let more = format!(
        "[[policy]]\nservice = \"127.0.0.1:{port}\"\nclients = \"all\"\n[[route]]\ndiscard = {{}}\n"
    );
    let place = Observed::start(Files::new(), &more);
    let mut client = Client::connect(place.server.address());
    client.say("MAIL FROM:<a@source.test>", "250");
    client.say("RCPT TO:<b@far.test>", "451");
    place.wait_problem("policy_service", "error");
    place.wait_events("problem", "policy_service");
    let listener = rude(port);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 1) {
                line.clear();
            }
            let _ = (&stream).write_all(b"action=DUNNO\n\n");
        }
    });
    client.say("RCPT TO:<b@far.test>", "250");
    place.wait_cleared("policy_service", "error");
    place.wait_events("problem_cleared", "policy_service");
}

#[test]
fn refused_reload_is_a_problem_until_the_next_good_one() {
    let place = Observed::start(Files::new(), "[[route]]\ndiscard = {}\n");
    let good = fs::read_to_string(place.files.path(CONFIG)).expect("it is there");
    place.files.write(CONFIG, &good.replace("discard", "discrad"));
    // The command must not read the file.
    let reload = || control(place.files.dir(), &["reload"]).code;
    assert_ne!(reload(), 0);
    place.wait_problem("reload", "warning");
    assert_eq!(metric(&place.get("/metrics"), "postrider_config_last_reload_successful"), 0);
    place.wait_events("problem", "reload");
    place.files.write(CONFIG, &good);
    assert_eq!(reload(), 0);
    place.wait_cleared("reload", "warning");
    assert_eq!(metric(&place.get("/metrics"), "postrider_config_last_reload_successful"), 1);
    place.wait_events("problem_cleared", "reload");
}

#[test]
fn ended_certificate_is_a_problem_until_it_is_renewed() {
    let files = Files::new();
    certificate::make_ended(files.dir(), "mx", "mx.test");
    let section = certificate::section("mx", &["mx.test"]);
    let place = Observed::start(files, &format!("{section}[[route]]\ndiscard = {{}}\n"));
    let found = place.wait_problem("certificate", "error");
    assert!(found["text"].as_str().is_some_and(|text| text.contains("expired at")), "{found}");
    let metrics = place.get("/metrics");
    let left = metrics.lines().find(|line| line.starts_with("postrider_certificate_left_seconds{"));
    assert!(left.is_some_and(|line| line.contains("} -")), "{left:?}");
    place.wait_events("problem", "certificate");
    let checked = command(place.files.dir(), &["check"]);
    assert!(checked.code == 0 && checked.err.contains("mx.pem expired at 2"), "{checked:?}");
    certificate::make_certificate(place.files.dir(), "mx", certificate::EC, &["mx.test"]);
    place.wait_cleared("certificate", "error");
    place.wait_events("problem_cleared", "certificate");
    let checked = command(place.files.dir(), &["check"]);
    assert!(checked.code == 0 && !checked.err.contains("mx.pem"), "{checked:?}");
}

#[test]
fn check_warns_of_certificates_that_end_soon() {
    const HOUR: i64 = 3_600;
    let files = Files::new();
    let lasting = |name: &str, from: i64, to: i64| {
        certificate::make_lasting(files.dir(), name, (from * 24 * HOUR, to * 24 * HOUR + HOUR));
    };
    lasting("ended", -90, -2);
    lasting("soon", -87, 3);
    lasting("later", -10, 80);
    lasting("authority", -400, -1);
    let sections: Vec<String> = ["ended", "soon", "later"]
        .map(|name| certificate::section(name, &[&format!("{name}.test")]))
        .to_vec();
    let keys = "relay_from = [\"127.0.0.0/8\"]\n\
                client_certificates = { authorities = \"authority.pem\", relay = true }";
    let more = sections.concat() + "[[route]]\ndiscard = {}\n";
    let text = crate::support::config_with("", keys, &more);
    files.write(CONFIG, &text);
    let line = |word: &str| text.lines().position(|line| line.contains(word)).map(|at| at + 1);
    let checked = command(files.dir(), &["check", "--json"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let found: Value = serde_json::from_str(&checked.out).expect("JSON");
    let found = found["problems"].as_array().expect("a list").iter();
    let about: Vec<&Value> = found
        .filter(|one| one["message"].as_str().is_some_and(|text| text.contains(".pem expire")))
        .collect();
    for (one, (file, how)) in about.iter().zip([
        ("authority.pem", "authority.pem expired at 2"),
        ("ended.pem", "ended.pem expired at 2"),
        ("soon.pem", "soon.pem expires in 3 days, at 2"),
    ]) {
        assert!(one["message"].as_str().is_some_and(|text| text.contains(how)), "{one}");
        assert_eq!((&one["severity"], &one["file"]), (&"warning".into(), &CONFIG.into()));
        assert_eq!(one["line"].as_u64().map(|line| line as usize), line(file), "{one}");
        assert!(one["help"].as_str().is_some_and(|help| help.starts_with("renew it")), "{one}");
    }
    assert_eq!(about.len(), 3, "{checked:?}");
    let shown = command(files.dir(), &["check"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.err.contains("chain = \"ended.pem\""), "{}", shown.err);
    assert!(shown.out.contains(": OK ("), "{}", shown.out);
}

#[test]
fn source_without_its_address_is_a_problem_while_it_cannot_send() {
    let peer = Peer::start(|_| None);
    let more = format!(
        "[[source]]\nname = \"ip-1\"\naddress = \"127.0.0.2\"\n\
         [[source]]\nname = \"ip-9\"\naddress = \"192.0.2.9\"\n\
         [[pool]]\nname = \"bulk\"\nsources = [{{ name = \"ip-1\" }}, {{ name = \"ip-9\" }}]\n\
         [[route]]\npool = \"bulk\"\nsmtp = {{ hosts = [\"{}\"] }}\n",
        peer.address
    );
    let place = Observed::start(Files::new(), &more);
    for n in 0..20 {
        place.send("a@source.test", &format!("b{n}@far.test"));
    }
    let found = place.wait_problem("source", "warning");
    assert_eq!(found["about"], "ip-9");
    place.wait_console("ip-9");
    place.wait_events("problem", "source");
    place.files.wait_events("relayed", 20);
    assert!(!place.is_well());
}

#[test]
fn rules_of_prometheus_name_metrics_of_the_server() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/prometheus/postrider.rules.yml");
    let rules = fs::read_to_string(path).expect("they are there");
    let metrics = include_str!("../../../../docs/metrics.md");
    let mut seen = 0;
    for word in rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        if word.starts_with("postrider_") {
            let name = word.strip_suffix("_bucket").unwrap_or(word);
            assert!(metrics.contains(&format!("`{name}`")), "{name} is not in docs/metrics.md");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
    let alerts = rules.matches("- alert: ").count();
    for part in ["expr: ", "severity: ", "summary: ", "runbook: "] {
        assert!(rules.matches(part).count() >= alerts, "{part}");
    }
    let kinds = include_str!("../../../../docs/problems.md");
    for part in rules.split("kind=\"").skip(1) {
        let kind = part.split('"').next().unwrap_or_default();
        let is_known = kinds.contains(&format!("| `{kind}` |")) || kind == "busy";
        assert!(is_known, "{kind} is no kind of problem");
    }
}
