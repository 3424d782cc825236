//! The rules in `contrib/prometheus`, read and evaluated by Prometheus's own program.

use super::Observed;
use crate::directories::slapd::{BASE, Slapd};
use crate::support::Files;
use crate::support::client::Client;
use crate::support::foreign::{is_possible, with_packages};
use crate::support::peer::Peer;
use crate::support::tool::free_port;
use crate::support::wait_until;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

pub(super) const RULES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/prometheus/postrider.rules.yml");

/// Minutes for which each scrape of an outage is repeated.
const MINUTES: usize = 60;

/// Runs promtool; true for success, and all that it printed.
pub(super) fn promtool(words: &[&str], input: &str) -> (bool, String) {
    let mut command = Command::new(with_packages());
    command.args(["prometheus", "promtool"]).args(words);
    let (stdin, out) = (Stdio::piped(), Stdio::piped());
    let child = command.stdin(stdin).stdout(out).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("a script of ours");
    // It need not read what it does not use.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn scrape(place: &Observed) -> String {
    let answer = place.get("/metrics");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    body.to_owned()
}

/// Scrapes before, during and after an outage, as series of an hour each.
fn series(scrapes: &[String; 3]) -> String {
    let mut all: BTreeMap<&str, [Option<&str>; 3]> = BTreeMap::new();
    for (at, scrape) in scrapes.iter().enumerate() {
        for line in scrape.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            all.entry(name).or_default()[at] = Some(value);
        }
    }
    let up = ["1"; 3].map(Some);
    let mut text = String::new();
    for (name, values) in all.into_iter().chain([("up", up)]) {
        let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
        // Other tests fill the disk within seconds, which here are hours.
        let is_disk = name == "postrider_spool_room_bytes";
        let values = if is_disk { [values[0]; 3] } else { values };
        let values = values.map(|value| match value {
            Some(value) => format!("{value}+0x{}", MINUTES - 1),
            None => format!("_x{MINUTES}"),
        });
        let labels = format!("{{job=\"postrider\",instance=\"mx1\",{labels}").replace(",}", "}");
        let series = format!("{name}{labels}").replace('\'', "''");
        let _ = writeln!(text, "    - series: '{series}'\n      values: '{}'", values.join(" "));
    }
    text
}

/// Asserts that no rule fires before the outage and after it, and that these and no others fire during it: name and labels.
#[track_caller]
fn assert_fires(scrapes: &[String; 3], alerts: &[&str]) {
    let files = Files::new();
    let mut text = format!(
        "rule_files: ['{RULES}']\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n{}  \
         promql_expr_test:\n",
        series(scrapes)
    );
    for (minute, alerts) in
        [(MINUTES - 5, &[][..]), (2 * MINUTES - 5, alerts), (3 * MINUTES - 5, &[])]
    {
        let samples = alerts.iter().map(|alert| {
            format!(
                "\n      - labels: 'ALERTS{{alertstate=\"firing\",job=\"postrider\",instance=\"mx1\",{alert}}}'\n        \
                 value: 1"
            )
        });
        let samples: String = samples.collect();
        let samples = if samples.is_empty() { " []".to_owned() } else { samples };
        let _ = write!(
            text,
            "  - expr: ALERTS{{alertstate=\"firing\"}}\n    eval_time: {minute}m\n    exp_samples:{samples}\n"
        );
    }
    let file = files.write("outage.yml", &text).display().to_string();
    let (is_right, said) = promtool(&["test", "rules", &file], "");
    assert!(is_right, "{said}");
}

#[test]
#[ignore = "its package takes more than 200 MB (`make test-peers`)"]
fn rules_and_metrics_are_accepted() {
    if !is_possible(&["prometheus"]) {
        return;
    }
    let place = Observed::start(Files::new(), "[[route]]\ndiscard = {}\n");
    place.send("a@source.test", "b@far.test");
    let (is_right, text) = promtool(&["check", "rules", RULES], "");
    assert!(is_right, "{text}");
    let (is_right, text) = promtool(&["check", "metrics"], &scrape(&place));
    assert!(is_right, "{text}");
}

#[test]
#[ignore = "its package takes more than 200 MB (`make test-peers`)"]
fn rule_fires_while_a_next_hop_is_down() {
    if !is_possible(&["prometheus"]) {
        return;
    }
    let port = free_port();
    let more = format!(
        "[[route]]\nretry = {{ first = \"1s\", longest = \"1s\" }}\n\
         smtp = {{ hosts = [\"127.0.0.1:{port}\"] }}\n"
    );
    let place = Observed::start(Files::new(), &more);
    let before = scrape(&place);
    for n in 0..20 {
        place.send("a@source.test", &format!("b{n}@down.test"));
    }
    place.wait_problem("next_hop", "warning");
    let during = scrape(&place);
    let _peer = Peer::start_at(&format!("127.0.0.1:{port}"), "250 DSN", |_| None);
    place.wait_cleared("next_hop", "warning");
    let alert = "alertname=\"PostriderNextHopDown\",kind=\"next_hop\",severity=\"warning\"";
    assert_fires(&[before, during, scrape(&place)], &[alert]);
}

#[test]
#[ignore = "its package takes more than 200 MB (`make test-peers`)"]
fn rule_fires_while_a_directory_is_down() {
    if !is_possible(&["prometheus", "slapd"]) {
        return;
    }
    let mut slapd = Slapd::start();
    let more = format!(
        "[[table]]\nname = \"users\"\nldap = {{ servers = [\"{}\"], base = \"{BASE}\", filter = \"(mail=%s)\", \
         attributes = [\"description\"], mode = \"live\" }}\n\
         cache = {{ positive = \"1ms\", negative = \"1ms\", stale = \"1h\", timeout = \"3s\" }}\n\
         [[route]]\ndomains = [\"box.test\"]\nrecipients = {{ table = \"users\" }}\n\
         maildir = {{ path = \"mail/{{local}}\" }}\n",
        slapd.url()
    );
    let place = Observed::start(Files::new(), &more);
    let becomes = |to: &str, begin: &str| {
        wait_until(&format!("{to}: {begin}"), || {
            let mut client = Client::connect(place.server.address());
            client.say("MAIL FROM:<me@source.test>", "250");
            client.send(format!("RCPT TO:<{to}>\r\n"));
            client.reply().starts_with(begin)
        });
    };
    becomes("joe@box.test", "250");
    let before = scrape(&place);
    slapd.stop();
    becomes("ann@box.test", "451 4.4.3");
    place.wait_problem("table", "warning");
    let mut during = String::new();
    wait_until("the table is only probed", || {
        becomes("ann@box.test", "451 4.4.3");
        during = scrape(&place);
        during.contains("postrider_table_silent{table=\"users\"} 1\n")
    });
    slapd.run();
    becomes("ann@box.test", "250");
    place.wait_cleared("table", "warning");
    let alert = "alertname=\"PostriderTableSilent\",table=\"users\",severity=\"critical\"";
    assert_fires(&[before, during, scrape(&place)], &[alert]);
}
