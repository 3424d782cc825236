//! The Grafana dashboard in `contrib/grafana`: rendered from [`ROWS`], and each query answered by a real Prometheus
//! that scrapes a server under load. That Grafana draws it is not tested: it is not packaged.

use super::Observed;
use super::promtool::{RULES, promtool};
use crate::support::Files;
use crate::support::foreign::{is_possible, with_packages};
use crate::support::peer::Peer;
use crate::support::tool::free_port;
use crate::support::{WAIT_MAX, wait_until};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const DASHBOARD: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/grafana/postrider.dashboard.json");

/// A panel: title, unit, and queries, each with its legend. `I` stands for the servers, `R` for the interval of rates.
type Panel = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Rows of panels.
const ROWS: &[(&str, &[Panel])] = &[
    (
        "Overview",
        &[
            ("Problems", "short", &[("sum by (severity) (postrider_problem{I})", "{{severity}}")]),
            (
                "Messages accepted",
                "ops",
                &[(
                    "sum by (instance) (rate(postrider_messages_received_total{I}[R]))",
                    "{{instance}}",
                )],
            ),
            (
                "Recipients done",
                "ops",
                &[(
                    "sum by (outcome) (rate(postrider_recipients_done_total{I}[R]))",
                    "{{outcome}}",
                )],
            ),
            (
                "Delay until delivery",
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(postrider_delivery_delay_seconds_bucket{I}[R])))",
                        "median",
                    ),
                    (
                        "histogram_quantile(0.95, sum by (le) (rate(postrider_delivery_delay_seconds_bucket{I}[R])))",
                        "95 %",
                    ),
                ],
            ),
        ],
    ),
    (
        "Queue",
        &[
            (
                "Recipients by state",
                "short",
                &[("sum by (state) (postrider_queue_recipients{I})", "{{state}}")],
            ),
            (
                "Age of the oldest recipient",
                "s",
                &[("max by (state) (postrider_queue_oldest_recipient_seconds{I})", "{{state}}")],
            ),
            (
                "Recipients by next hop",
                "short",
                &[(
                    "topk(10, sum by (next_hop) (postrider_queue_next_hop_recipients{I}))",
                    "{{next_hop}}",
                )],
            ),
            (
                "Recipients by tenant",
                "short",
                &[(
                    "topk(10, sum by (tenant) (postrider_queue_tenant_recipients{I}))",
                    "{{tenant}}",
                )],
            ),
            (
                "Suspended next hops",
                "short",
                &[("sum by (instance) (postrider_next_hops_suspended{I})", "{{instance}}")],
            ),
            (
                "Deferrals by class",
                "ops",
                &[("sum by (class) (rate(postrider_deferrals_by_class_total{I}[R]))", "{{class}}")],
            ),
        ],
    ),
    (
        "Intake",
        &[
            (
                "Sessions",
                "short",
                &[("sum by (instance) (postrider_sessions_open{I})", "{{instance}}")],
            ),
            (
                "Refusals",
                "ops",
                &[("sum by (reason) (rate(postrider_refused_total{I}[R]))", "{{reason}}")],
            ),
            (
                "Logins",
                "ops",
                &[
                    ("sum (rate(postrider_logins_total{I}[R]))", "accepted"),
                    ("sum (rate(postrider_login_failures_total{I}[R]))", "failed"),
                ],
            ),
            (
                "Octets accepted",
                "Bps",
                &[("sum (rate(postrider_bytes_received_total{I}[R]))", "octets")],
            ),
        ],
    ),
    (
        "Delivery",
        &[
            (
                "Connections",
                "short",
                &[
                    ("sum (postrider_connections_open{I})", "open"),
                    ("sum (postrider_connections_waiting{I})", "waiting"),
                ],
            ),
            (
                "Connections opened and failed",
                "ops",
                &[
                    ("sum (rate(postrider_connections_opened_total{I}[R]))", "opened"),
                    ("sum (rate(postrider_connections_failed_total{I}[R]))", "failed"),
                ],
            ),
            (
                "Failures by class",
                "ops",
                &[("sum by (class) (rate(postrider_failures_by_class_total{I}[R]))", "{{class}}")],
            ),
            (
                "Sent by tenant",
                "ops",
                &[(
                    "topk(10, sum by (tenant) (rate(postrider_tenant_sent_total{I}[R])))",
                    "{{tenant}}",
                )],
            ),
        ],
    ),
    (
        "Server",
        &[
            (
                "Pools",
                "percentunit",
                &[(
                    "max by (pool) (postrider_pool_used{I} / (postrider_pool_max{I} > 0))",
                    "{{pool}}",
                )],
            ),
            (
                "Commits",
                "s",
                &[(
                    "histogram_quantile(0.95, sum by (le) (rate(postrider_spool_commit_seconds_bucket{I}[R])))",
                    "95 %",
                )],
            ),
            (
                "Room for the spool",
                "bytes",
                &[("min by (instance) (postrider_spool_room_bytes{I})", "{{instance}}")],
            ),
            (
                "Memory",
                "bytes",
                &[("sum by (instance) (postrider_resident_memory_bytes{I})", "{{instance}}")],
            ),
            (
                "Events dropped, alerts undelivered",
                "ops",
                &[
                    ("sum (rate(postrider_events_dropped_total{I}[R]))", "events"),
                    ("sum (rate(postrider_alerts_failed_total{I}[R]))", "alerts"),
                ],
            ),
        ],
    ),
];

/// A query as Grafana gets it.
fn in_grafana(query: &str) -> String {
    query.replace("{I}", "{instance=~\"$instance\"}").replace("[R]", "[$__rate_interval]")
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn rendered() -> String {
    let (mut panels, mut y) = (Vec::new(), 0);
    for (row, all) in ROWS {
        let id = panels.len() + 1;
        let place = json!({ "x": 0, "y": y, "w": 24, "h": 1 });
        panels.push(json!({ "id": id, "type": "row", "title": row, "collapsed": false, "gridPos": place, "panels": [] }));
        y += 1;
        for (at, (title, unit, queries)) in all.iter().enumerate() {
            let letters = ["A", "B", "C"];
            let targets = queries.iter().zip(letters).map(|((query, legend), letter)| {
                json!({ "refId": letter, "datasource": source(), "expr": in_grafana(query), "legendFormat": legend })
            });
            let place = json!({ "x": at % 2 * 12, "y": y + at / 2 * 8, "w": 12, "h": 8 });
            panels.push(json!({
                "id": panels.len() + 1, "type": "timeseries", "title": title, "datasource": source(),
                "gridPos": place, "targets": targets.collect::<Vec<_>>(),
                "fieldConfig": { "defaults": { "unit": unit, "min": 0 }, "overrides": [] },
            }));
        }
        y += all.len().div_ceil(2) * 8;
    }
    let variables = json!([
        { "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus" },
        { "name": "instance", "label": "Server", "type": "query", "datasource": source(), "refresh": 2,
          "query": "label_values(postrider_sessions_total, instance)",
          "multi": true, "includeAll": true, "allValue": ".*", "current": { "text": "All", "value": "$__all" } },
    ]);
    let board = json!({
        "title": "Postrider", "uid": "postrider", "tags": ["mail"], "schemaVersion": 39, "version": 1,
        "editable": true, "refresh": "30s", "time": { "from": "now-6h", "to": "now" }, "timezone": "",
        "templating": { "list": variables }, "panels": panels,
    });
    serde_json::to_string_pretty(&board).expect("JSON") + "\n"
}

/// All queries, for servers and an interval that exist.
fn queries(interval: &str) -> impl Iterator<Item = String> {
    let all =
        ROWS.iter().flat_map(|(_, panels)| panels.iter().flat_map(|(_, _, queries)| *queries));
    all.map(move |(query, _)| {
        query.replace("{I}", "{instance=~\".*\"}").replace("[R]", &format!("[{interval}]"))
    })
}

/// Words of a query that satisfy `is_word`.
fn words(query: &str) -> impl Iterator<Item = &str> {
    query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// A server with a tenant, mail that waits and fails, and refusals.
fn start_with_trouble() -> (Observed, Peer) {
    let (down, peer) = (
        free_port(),
        Peer::start(|line| {
            let refused = |name: &str, reply: &str| line.contains(name).then(|| reply.to_owned());
            refused("RCPT TO:<never", "550 5.1.1 No such user")
                .or_else(|| refused("RCPT TO:<later", "450 4.2.0 Greylisted"))
        }),
    );
    let more = format!(
        "[[tenant]]\nname = \"acme\"\n[steering]\ntenant = \"X-Tenant\"\n\
         [[route]]\ndomains = [\"down.test\"]\nretry = {{ first = \"1s\", longest = \"1s\" }}\n\
         smtp = {{ hosts = [\"127.0.0.1:{down}\"] }}\n\
         [[route]]\nretry = {{ first = \"1s\", longest = \"2s\" }}\nsmtp = {{ hosts = [\"{}\"] }}\n",
        peer.address
    );
    let files = Files::new();
    let place = Observed::start_listening(files, "steering_from = [\"127.0.0.0/8\"]", &more);
    (place, peer)
}

/// One round of mail.
fn load(place: &Observed, round: usize) {
    let mut client = crate::support::client::Client::connect(place.server.address());
    let content = "X-Tenant: acme\r\nSubject: x\r\n\r\nx\r\n";
    for to in ["ok", "never", "later"] {
        client.mail("a@source.test", &[&format!("{to}{round}@far.test")], content);
    }
    client.mail("a@source.test", &[&format!("b{round}@down.test")], content);
    client.say("RCPT TO:<early@far.test>", "503");
    client.say("QUIT", "221");
}

#[test]
fn dashboard_is_rendered_from_its_table() {
    let text = rendered();
    if std::env::var_os("DASHBOARD").is_some_and(|value| value == "write") {
        fs::write(DASHBOARD, &text).expect("the file is writable");
    }
    let found = fs::read_to_string(DASHBOARD).unwrap_or_default();
    assert_eq!(found, text, "DASHBOARD=write cargo test -p postrider dashboard_is_rendered");
}

#[test]
fn each_metric_and_label_of_the_dashboard_exists() {
    let (place, _peer) = start_with_trouble();
    load(&place, 0);
    place.wait_problem("next_hop", "warning");
    place.files.wait_events("failed", 1);
    let metrics = place.get("/metrics");
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with("postrider_")) {
        let (name, rest) = line.split_once([' ', '{']).expect("a value");
        let known = labels.entry(name).or_default();
        known.extend(rest.split("=\"").filter_map(|part| part.rsplit(['{', ',', '"']).next()));
    }
    for query in queries("1m") {
        let (grouped, rest) = match query.split_once(" by (") {
            Some((_, rest)) => rest.split_once(')').expect("a list"),
            None => ("", query.as_str()),
        };
        for name in words(rest).filter(|word| word.starts_with("postrider_")) {
            let known =
                labels.get(name).unwrap_or_else(|| panic!("{name} is not exported: {query}"));
            for label in words(grouped).filter(|label| *label != "instance") {
                assert!(known.contains(label), "{name} has no {label}: {known:?}");
            }
        }
    }
    place.server.stop();
}

/// The JSON at a path of a web server; `None` if it gives none.
fn get_json(address: &str, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    // Without chunks.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
}

/// A Prometheus that scrapes a server each second and evaluates rules. It ends with this.
struct Prometheus {
    child: Child,
    url: String,
    _files: Files,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(target: &str, rules: &str) -> Prometheus {
        let (port, files) = (free_port(), Files::new());
        files.write("rules.yml", rules);
        files.write(
            "prometheus.yml",
            &format!(
                "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [rules.yml]\n\
                 scrape_configs:\n- job_name: postrider\n  static_configs: [{{ targets: [\"{target}\"] }}]\n"
            ),
        );
        let mut command = Command::new(with_packages());
        let data = files.path("data").display().to_string();
        command.args(["prometheus", "prometheus", "--config.file=prometheus.yml"]);
        command.arg(format!("--storage.tsdb.path={data}"));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.current_dir(files.dir()).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn().expect("a script of ours");
        Prometheus { child, url: format!("127.0.0.1:{port}"), _files: files }
    }

    /// The samples of a query; `None` until it answers.
    fn ask(&self, query: &str) -> Option<Vec<Value>> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = get_json(&self.url, &format!("/api/v1/query?query={encoded}"))?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().cloned()
    }
}

/// The value of a sample.
fn value(sample: &Value) -> f64 {
    sample["value"][1].as_str().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

#[test]
#[ignore = "its package takes more than 200 MB (`make test-peers`)"]
fn each_query_returns_data_and_the_rule_of_the_trouble_fires_once() {
    if !is_possible(&["prometheus"]) {
        return;
    }
    let (place, _peer) = start_with_trouble();
    // Waits of minutes last as many tenths of a second.
    let rules = fs::read_to_string(RULES).expect("it is there");
    let quick: String = rules
        .lines()
        .map(|line| match line.trim_start().strip_prefix("for: ") {
            Some(_) => format!("{}for: 2s\n", &line[..line.len() - line.trim_start().len()]),
            None => format!("{line}\n"),
        })
        .collect();
    let written = place.files.write("rules.yml", &quick).display().to_string();
    let (is_right, text) = promtool(&["check", "rules", &written], "");
    assert!(is_right, "{text}");
    let prometheus = Prometheus::start(&place.admin, &quick);
    let begun = Instant::now();
    let mut open: Vec<String> = queries("10s").collect();
    let (mut round, mut last) = (0, Instant::now());
    while !open.is_empty() {
        assert!(begun.elapsed() < 2 * WAIT_MAX, "without data: {open:#?}");
        load(&place, round);
        std::thread::sleep(Duration::from_millis(50));
        round += 1;
        if last.elapsed().as_secs() >= 1 {
            last = Instant::now();
            open.retain(|query| {
                let samples = prometheus.ask(query).unwrap_or_default();
                !samples.iter().any(|sample| !value(sample).is_nan())
            });
        }
    }
    let firing = || {
        let samples = prometheus.ask("ALERTS{alertstate=\"firing\"}").unwrap_or_default();
        let name =
            |sample: &Value| sample["metric"]["alertname"].as_str().expect("a name").to_owned();
        samples.iter().map(name).collect::<Vec<_>>()
    };
    wait_until("the rule fires", || firing().contains(&"PostriderNextHopDown".to_owned()));
    let fired = firing();
    let distinct: BTreeSet<&String> = fired.iter().collect();
    assert_eq!(fired.len(), distinct.len(), "one alert for one cause: {fired:?}");
    // What the trouble is: a next hop that is down, and recipients that fail.
    let expected = ["PostriderNextHopDown", "PostriderManyFailures"];
    assert!(fired.iter().all(|name| expected.contains(&name.as_str())), "{fired:?}");
    place.server.stop();
}
