//! The HTTP side over a real socket, and the promise that docs/metrics.md names every metric.

use super::*;
use crate::acme::AcmeMetrics;
use crate::node_metrics::NodeMetrics;
use crate::reload::ReloadState;
use crate::tables::remote::RemoteMetrics;
use crate::tables::{TableNumbers, TableSets};
use crate::tls_reports::TlsReportMetrics;
use crate::world::clock::Start;
use mta::control::{CensusRows, SummaryRow};
use mta::metrics::{MetricSet, Metrics, RefusalReason, SendingMetrics};
use mta::pools::PoolId;
use mta::pressure::{FnGauge, Level, Pressures};
use mta::problems::{Problem, Severity};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

fn numbers() -> Numbers {
    let services: [Arc<dyn MetricSet>; 2] =
        [Arc::<AcmeMetrics>::default(), Arc::<TlsReportMetrics>::default()];
    let services = services.to_vec();
    let node = NodeMetrics { sending: sending(), services, ..NodeMetrics::new(2, 1) };
    Numbers { node, pools: pools(), tables: tables(), live: live(), started: Start::now() }
}

/// With a problem of one kind.
fn live() -> LiveNumbers {
    let problem = Problem { kind: "milter".to_owned(), ..Problem::default() };
    LiveNumbers {
        problems: Arc::new(move || vec![problem.clone()]),
        counts: QueueCounts::counted(census()),
        certificates: Arc::new(|| vec![("/etc/mx.pem".to_owned(), 86_400)]),
        reloads: Arc::new(ReloadState::new(mail::Wall(5_000))),
    }
}

/// With a row in each table.
fn census() -> CensusRows {
    let rows =
        |name: &str| vec![SummaryRow { name: name.to_owned(), recipients: 7, oldest_ms: 9_000 }];
    let (next_hops, providers) = (rows("mx:out:a.test:25"), rows("google"));
    let (tenants, sources) = (rows("acme"), rows("ip-1"));
    CensusRows { next_hops, providers, tenants, sources, ..CensusRows::default() }
}

/// Of which one is full.
fn pools() -> Arc<Pressures> {
    let pools = Pressures::default();
    pools.keep(PoolId::Queue, FnGauge(|_| (Level::of(7, 7), None)));
    Arc::new(pools)
}

/// A source that warms up.
fn sending() -> Arc<SendingMetrics> {
    let sending = SendingMetrics::default();
    sending.warmup(&"ip-1".into()).pauses.inc();
    Arc::new(sending)
}

/// Two tables, one with a name that wants quoting.
fn tables() -> TableNumbers {
    let mut sets = TableSets::default();
    let [users, odd] = [RemoteMetrics::default(), RemoteMetrics::default()];
    users.hits.add(5);
    users.request_time.observe(Duration::from_millis(3));
    odd.troubles[lookup::LookupErrorKind::Busy].inc();
    sets.remote = vec![("users".into(), Arc::new(users)), ("a \"b\"".into(), Arc::new(odd))];
    sets.snapshots = vec![("people".into(), Arc::default())];
    TableNumbers::new(move || sets.clone())
}

fn serve(numbers: Numbers, health: HealthCheck) -> AdminServer {
    AdminServer::start(AdminParts {
        hostname: "mx.example.org".into(),
        address: Some("127.0.0.1:0".parse().unwrap()),
        opened: None,
        control: None,
        numbers,
        health,
    })
    .unwrap()
}

fn get(server: &AdminServer, path: &str) -> String {
    get_as(server, path, "localhost")
}

/// Asks by this name.
fn get_as(server: &AdminServer, path: &str, host: &str) -> String {
    get_accepting(server, path, (host, "application/openmetrics-text"))
}

fn get_accepting(server: &AdminServer, path: &str, (host, accept): (&str, &str)) -> String {
    let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_are_added_up_over_shards() {
    let numbers = numbers();
    let shards: Vec<Arc<Metrics>> = numbers.node.shards.clone();
    shards[0].messages_received.add(3);
    shards[1].messages_received.add(4);
    shards[1].refused[RefusalReason::Policy].inc();
    shards[0].delivery_delay.observe(Duration::from_millis(3));
    shards[1].delivery_delay.observe(Duration::from_secs(10_000_000));
    let server = serve(numbers, Arc::new(Health::default));
    let answer = get(&server, "/metrics");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for line in [
        "# TYPE postrider_messages_received counter",
        "postrider_messages_received_total 7",
        "postrider_refused_total{reason=\"policy\"} 1",
        "postrider_refused_total{reason=\"size\"} 0",
        "postrider_delivery_delay_seconds_bucket{le=\"0.001\"} 0",
        "postrider_delivery_delay_seconds_bucket{le=\"0.005\"} 1",
        "postrider_delivery_delay_seconds_bucket{le=\"432000.0\"} 1",
        "postrider_delivery_delay_seconds_bucket{le=\"+Inf\"} 2",
        "postrider_delivery_delay_seconds_count 2",
        "# EOF",
    ] {
        assert!(answer.lines().any(|seen| seen == line), "{line} is not in\n{answer}");
    }
    let types = answer.lines().filter(|line| line.starts_with("# TYPE postrider_refused "));
    assert_eq!(types.count(), 1);
}

#[test]
fn metrics_of_tables_and_sources_stand_side_by_side() {
    let server = serve(numbers(), Arc::new(Health::default));
    let answer = get(&server, "/metrics");
    for line in [
        "postrider_table_hits_total{table=\"users\"} 5",
        "postrider_table_hits_total{table=\"a \\\"b\\\"\"} 0",
        "postrider_table_troubles_total{table=\"users\",kind=\"busy\"} 0",
        "postrider_table_troubles_total{table=\"a \\\"b\\\"\",kind=\"busy\"} 1",
        "postrider_table_request_seconds_count{table=\"users\"} 1",
        "postrider_warmup_pauses_total{source=\"ip-1\"} 1",
        "postrider_pool_used{pool=\"queue\"} 7",
        "postrider_pool_under_pressure{pool=\"queue\"} 1",
        "postrider_table_request_seconds_bucket{le=\"0.005\",table=\"users\"} 1",
    ] {
        assert!(answer.lines().any(|seen| seen == line), "{line} is not in\n{answer}");
    }
    for name in ["table_hits counter", "table_troubles counter", "table_request_seconds histogram"]
    {
        let types = answer.lines().filter(|line| *line == format!("# TYPE postrider_{name}"));
        assert_eq!(types.count(), 1, "{name}");
    }
}

#[test]
fn metrics_are_in_the_format_that_the_client_accepts() {
    let server = serve(numbers(), Arc::new(Health::default));
    let ask = |accept| get_accepting(&server, "/metrics", ("localhost", accept)).to_lowercase();
    let (open, text) = (ask("application/openmetrics-text; version=1.0.0"), ask("*/*"));
    assert!(open.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open}");
    assert!(open.ends_with("# eof\n") && open.contains("# type postrider_build info"));
    assert!(text.contains("content-type: text/plain; version=0.0.4"), "{text}");
    for line in [
        "# type postrider_messages_received_total counter",
        "# type postrider_build_info gauge",
        "postrider_problem{kind=\"milter\",severity=\"error\"} 1",
        "postrider_problem{kind=\"milter\",severity=\"warning\"} 0",
        "postrider_config_last_reload_successful 1",
        "postrider_config_last_reload_timestamp_seconds 5",
        "postrider_queue_oldest_recipient_seconds{state=\"ready\"} 0",
        "postrider_queue_next_hop_recipients{next_hop=\"mx:out:a.test:25\"} 7",
        "postrider_queue_next_hop_oldest_seconds{next_hop=\"mx:out:a.test:25\"} 9",
        "postrider_certificate_left_seconds{file=\"/etc/mx.pem\"} 86400",
    ] {
        assert!(text.lines().any(|seen| seen == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("# eof") && !text.contains("# unit"), "{text}");
}

#[test]
fn health_tells_load_balancers_to_stay_away() {
    let health = Arc::new(Mutex::new(Health::default()));
    let asked = Arc::clone(&health);
    let server = serve(numbers(), Arc::new(move || asked.lock().unwrap().clone()));
    let answer = get(&server, "/healthz");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("{\"problems\":[],\"status\":\"ok\"}\n"), "{answer}");
    let warning = Problem { severity: Severity::Warning, ..Problem::default() };
    health.lock().unwrap().problems.push(Problem { text: "a disk is slow".to_owned(), ..warning });
    let answer = get(&server, "/healthz");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("a disk is slow") && answer.contains("degraded"), "{answer}");
    let error = Problem { kind: "log".to_owned(), ..Problem::default() };
    let error = Problem { text: "log 0 is poisoned".to_owned(), ..error };
    health.lock().unwrap().problems.push(error);
    let answer = get(&server, "/healthz");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("log 0 is poisoned") && answer.contains("failing"), "{answer}");
    *health.lock().unwrap() = Health { stopping: true, ..Health::default() };
    let answer = get(&server, "/healthz");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("stopping"), "{answer}");
}

#[test]
fn nothing_else_is_served() {
    let server = serve(numbers(), Arc::new(Health::default));
    for path in ["/", "/queue", "/metrics/", "/reload"] {
        let answer = get(&server, path);
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
}

#[test]
fn every_metric_is_documented() {
    let page = include_str!("../../../../docs/metrics.md");
    let mut text = String::new();
    let mut registry = Registry::with_prefix("postrider");
    registry.register_collector(Box::new(numbers()));
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let mut names: Vec<&str> = samples.map(|line| line.split(['{', ' ']).next().unwrap()).collect();
    names.dedup();
    assert!(names.len() > 50);
    for name in names {
        let name = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix).filter(|n| n.ends_with("_seconds")))
            .unwrap_or(name);
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/metrics.md");
    }
}

#[test]
fn nothing_is_told_to_who_came_by_another_name() {
    let server = serve(numbers(), Arc::new(Health::default));
    for path in ["/metrics", "/healthz"] {
        let answer = get_as(&server, path, "rebound.example");
        assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
        assert!(get_as(&server, path, "mx.example.org:8025").starts_with("HTTP/1.1 200"));
    }
}

#[test]
fn only_addresses_and_own_names_are_ours() {
    let ours = [
        "127.0.0.1",
        "127.0.0.1:8025",
        "[::1]",
        "[::1]:8025",
        "localhost:8025",
        "LocalHost",
        "mx.example.org",
        "MX.example.org.:8025",
    ];
    for host in ours {
        assert!(is_ours(host, "mx.example.org"), "{host}");
    }
    let others =
        ["", "evil.example", "evil.example:8025", "127.0.0.1.evil.example", "localhost.evil"];
    for host in others {
        assert!(!is_ours(host, "mx.example.org"), "{host}");
    }
}
