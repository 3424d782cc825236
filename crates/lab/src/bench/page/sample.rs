//! A report with some of everything, for tests.

use crate::bench::report::{
    Better, Case, ConfigFile, Contender, DiskLatency, Ending, FORMAT, Figure, FigureSummary,
    Machine, Manifest, Mark, Measurement, MessageBalance, Minute, Percentiles, Published, Ratio,
    Report, Round, Scenario, Series, Severity, Skipped, Spread, TimelineEvent, Workload,
};

const RATE: &str = "delivered_per_second";
const CPU: &str = "cpu_us_per_message";
const MEMORY: &str = "memory_peak_bytes";

/// Name, messages/s, CPU in µs, memory in MB.
const CONTENDERS: [(&str, [f64; 3]); 4] = [
    ("postrider", [10_604.0, 107.0, 27.3]),
    ("floor", [12_018.0, 71.0, 12.1]),
    ("floor-log", [9_295.0, 92.0, 18.0]),
    ("a-server-with-a-long-name", [991.0, 3_736.0, 212.5]),
];

/// The whole of it.
pub(super) fn report() -> Report {
    Report {
        format: FORMAT,
        manifest: manifest(),
        scenarios: vec![
            scenario("one-server-dead", vec![case("local"), case("50ms"), unavailable()]),
            scenario("queue-growth", vec![case("local")]),
        ],
        marks: vec![Mark {
            severity: Severity::Doubtful,
            text: "Other programs kept a core busy: the load was 3.20 before the start".into(),
        }],
    }
}

fn manifest() -> Manifest {
    let contender = |(name, _): &(&str, [f64; 3])| Contender {
        name: (*name).into(),
        title: "A relay & <script>alert(1)</script>".into(),
        version: "0.1.0".into(),
        durability: "sync".into(),
        durability_note: "fdatasync before each 250, one for all waiting messages".into(),
        files: vec![ConfigFile {
            name: format!("{name}.toml"),
            text: "[[route]]\nsmtp = { hosts = [\"127.0.0.1:1\"], max_connections = 50 }\n".into(),
        }],
    };
    let words = ["postrider-lab", "bench", "all", "--scale", "0.04", "--out", "a directory"];
    Manifest {
        version: "0.1.0".into(),
        command_line: words.map(str::to_owned).to_vec(),
        seed: 1,
        scale: 0.04,
        rounds: 3,
        rate: Some(40.0),
        read_after_seconds: Some(60),
        began_at: "2026-11-21T19:00:00Z".into(),
        seconds: 1_234.5,
        machine: Machine {
            cpu_model: "A processor of 2.5 GHz".into(),
            cores: 2,
            memory_bytes: 8_000_000_000,
            kernel: "6.18.44".into(),
            spool_directory: "/var/tmp/bench".into(),
            spool_file_system: "ext4".into(),
            spool_device: "/dev/vda".into(),
            spool_mount_options: "rw,relatime".into(),
            load_before: 3.2,
            busy_before_percent: 2.0,
        },
        contenders: CONTENDERS.iter().map(contender).collect(),
        skipped: vec![Skipped {
            name: "postfix".into(),
            why: "postfix is missing; install postfix".into(),
        }],
    }
}

fn scenario(name: &str, cases: Vec<Case>) -> Scenario {
    let published = |server: &str, figure: &str, value, unit: &str| Published {
        server: server.into(),
        what: "messages of 10 kB, one server dead".into(),
        value,
        unit: unit.into(),
        figure: figure.into(),
        case: String::new(),
        source: "Example Journal 7 (2026), table 3".into(),
    };
    Scenario {
        name: name.into(),
        title: format!("A benchmark called {name}"),
        about: "Five sources send to the relay, which delivers to one sink, while a second one \
                does not answer. The time ends with the last arrival."
            .into(),
        publication: "Example Journal 7 (2026)".into(),
        differences: vec!["Source, relay and sink share two cores.".into()],
        published: vec![
            published("Example MTA", RATE, 1_333.0, "1/s"),
            published("Example MTA", CPU, 550.0, "µs"),
            published("Other MTA", "", 5_000.0, "1/min"),
        ],
        cases,
    }
}

fn unavailable() -> Case {
    Case {
        name: "80ms".into(),
        title: "Over 80 ms".into(),
        unavailable: Some("no emulated path: an emulated path needs root".into()),
        workload: Workload { messages: 1, body_bytes: 1, sources: 1, sessions: 1, ..workload("") },
        ..Case::default()
    }
}

fn workload(case: &str) -> Workload {
    Workload {
        messages: 20_000,
        body_bytes: 10_240,
        sources: 5,
        sessions: 50,
        per_connection: 1,
        rate: 40.0,
        read_after_seconds: Some(60),
        path_rtt_ms: if case == "50ms" { 50.0 } else { 0.0 },
        path_loss: if case == "50ms" { 0.001 } else { 0.0 },
        ..Workload::default()
    }
}

fn case(name: &str) -> Case {
    let rounds: Vec<Round> = (1..=3)
        .map(|number| Round {
            number,
            measurements: (0..CONTENDERS.len()).map(|n| measurement(name, n, number)).collect(),
        })
        .collect();
    let all = |n: usize, figure: usize| {
        let values = (1..=3).map(|round| value(n, figure, round)).collect();
        Spread::of(values).expect("three values")
    };
    let of = |n: usize, figure: usize| {
        let Figure { name, title, unit, better, .. } = figures(n, 1).swap_remove(figure);
        let contender = CONTENDERS[n].0.to_owned();
        FigureSummary { contender, figure: name, title, unit, better, spread: all(n, figure) }
    };
    let pair = |n: usize, figure: usize| {
        let Figure { name, title, better, .. } = figures(n, 1).swap_remove(figure);
        let to = CONTENDERS[n].0.to_owned();
        let values = (1..=3).map(|round| value(0, figure, round) / value(n, figure, round));
        let spread = Spread::of(values.collect()).expect("three values");
        Ratio { of: CONTENDERS[0].0.into(), to, figure: name, title, better, spread }
    };
    let each = |n: usize| (0..3).map(move |figure| (n, figure));
    Case {
        name: name.into(),
        title: if name == "local" { "On this machine".into() } else { format!("Over {name}") },
        workload: workload(name),
        left_out: Vec::new(),
        unavailable: None,
        rounds,
        summaries: (0..CONTENDERS.len()).flat_map(each).map(|(n, f)| of(n, f)).collect(),
        ratios: (1..CONTENDERS.len()).flat_map(each).map(|(n, f)| pair(n, f)).collect(),
    }
}

/// The contender's figure in a round: the middle one in the first.
fn value(n: usize, figure: usize, round: u32) -> f64 {
    // All but the first scatter against each other.
    let factor = [1.0, 0.93, 1.05][(round - 1) as usize];
    let factor = if n == 3 { 2.0 - factor } else { factor };
    CONTENDERS[n].1[figure] * factor * if figure == 2 { 1e6 } else { 1.0 }
}

fn figures(n: usize, round: u32) -> Vec<Figure> {
    let figure = |figure: usize, name: &str, title: &str, unit: &str, better| Figure {
        name: name.into(),
        title: title.into(),
        unit: unit.into(),
        value: value(n, figure, round),
        better,
    };
    vec![
        figure(0, RATE, "Messages delivered", "1/s", Better::Higher),
        figure(1, CPU, "CPU per message", "µs", Better::Lower),
        figure(2, MEMORY, "Memory at its peak", "bytes", Better::Lower),
    ]
}

fn measurement(case: &str, n: usize, round: u32) -> Measurement {
    let rate = value(n, 0, round);
    let invalid = case == "50ms" && n == 2;
    let invalid = invalid.then(|| Mark {
        severity: Severity::Invalid,
        text: "The spool is on tmpfs: nothing that it promises is kept".into(),
    });
    Measurement {
        contender: CONTENDERS[n].0.into(),
        ending: if n == 3 { Ending::TimedOut } else { Ending::Finished },
        ending_note: if n == 3 { "after 120 s".into() } else { String::new() },
        accepted: 20_000,
        delivered: if n == 3 { 18_211 } else { 20_000 },
        accept_seconds: 20_000.0 / rate,
        deliver_seconds: 20_500.0 / rate,
        figures: figures(n, round),
        latency: Some(Percentiles {
            count: 20_000,
            mean_us: 3e7 / rate,
            p50_us: 2.5e7 / rate,
            p90_us: 4e7 / rate,
            p99_us: 9e7 / rate,
            p999_us: 2e8 / rate,
            max_us: 3e8 / rate,
        }),
        intake_by_tenth: (0..10).map(|t| rate * (1.0 + 0.02 * f64::from(t % 3))).collect(),
        series: series(n, rate),
        minutes: vec![Minute {
            number: 1,
            messages: 5_172,
            kilobytes: 26_301,
            errors: 81,
            connections: 2_586,
            backlog: 4_711,
            in_mailboxes: 461,
            mailboxes: 97,
        }],
        moments: vec![
            TimelineEvent { seconds: 6.0, what: "egress enabled".into() },
            TimelineEvent { seconds: 31.0, what: "SIGKILL".into() },
        ],
        account: MessageBalance {
            acknowledged: 20_000,
            arrived: 20_000,
            ..MessageBalance::default()
        },
        disk: Some(DiskLatency { count: 100, p50_us: 812.0, p90_us: 1_420.0, max_us: 9_000.0 }),
        marks: invalid.into_iter().collect(),
    }
}

fn series(n: usize, rate: f64) -> Vec<Series> {
    let over_time = |name: &str, title: &str, unit: &str, value: &dyn Fn(f64) -> f64| Series {
        name: name.into(),
        title: title.into(),
        unit: unit.into(),
        points: (0..=80).map(|t| f64::from(t) / 2.0).map(|t| (t, value(t))).collect(),
    };
    let n = n as f64;
    let wave = |t: f64| 1.0 + 0.08 * (t * 1.7 + n).sin();
    vec![
        over_time("accepted_per_second", "accepted", "1/s", &|t| rate * wave(t)),
        over_time("delivered_per_second", "delivered", "1/s", &|t| {
            if t < 6.0 { 0.0 } else { rate * 0.9 * wave(t + 3.0) }
        }),
        over_time("queued", "Messages queued", "", &|t| rate * t.min(12.0 - t * 0.1) * wave(t)),
        over_time("memory_bytes", "Memory", "bytes", &|t| (20.0 + 40.0 * n + t) * 1e6),
    ]
}
