//! Rules of shaping: what providers say slows mail down or stops it, is shown, lifted, and kept over a restart.

use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::server::{CONFIG, Server, command, control};
use crate::support::tool::{Tool, free_port};
use crate::support::{Files, config, wait_until};
use config::shaping::{Rule, Shaping, ShapingFile};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What providers say, a row for each rule that is built in.
const WORDS: &str = include_str!("words.txt");

/// Provider, rule, domain of hosts and reply of each row.
fn words() -> Vec<[&'static str; 4]> {
    let rows = WORDS.lines().filter(|row| !row.starts_with('#'));
    let cells = rows.map(|row| {
        let mut rest = row;
        let mut cell = || {
            let (cell, more) = rest.split_once(' ').expect("another cell");
            rest = more.trim_start();
            cell
        };
        let [provider, rule, hosts] = [cell(), cell(), cell()];
        [provider, rule, hosts, rest]
    });
    cells.collect()
}

/// A server whose mail goes by MX to one sink, which refuses by domain.
struct Place {
    files: Files,
    server: Option<Server>,
    _tools: (Tool, Tool),
    admin: String,
}

impl Place {
    /// Domains with their hosts and what is said to mail for them; `shaping`: the files' names.
    fn new(domains: &[(String, &str, Option<&str>)], shaping: &[(&str, &str)]) -> Place {
        let files = Files::new();
        let (mut zone, mut replies) = (String::new(), String::new());
        let mut hosts = BTreeSet::new();
        for (domain, host, said) in domains {
            zone += &format!("$ORIGIN {domain}.\n@ MX 10 {host}.\n");
            if hosts.insert(host) {
                zone += &format!("$ORIGIN {host}.\n@ A 127.0.0.2\n");
            }
            if let Some(said) = said {
                replies += &format!("rcpt 1000 {domain} {said}\n");
            }
        }
        let zone = files.write("zone", &zone).display().to_string();
        let replies = files.write("replies", &replies).display().to_string();
        let names = Tool::lab(&["dns", "--zone", &zone]);
        let port = free_port();
        let sink = Tool::sink_at(&files, &format!("127.0.0.2:{port}"), &["--replies", &replies]);
        let admin = format!("127.0.0.1:{}", free_port());
        let mut names_of_files = Vec::new();
        for (name, text) in shaping {
            if !text.is_empty() {
                files.write(name, text);
            }
            names_of_files.push(format!("\"{name}\""));
        }
        let text = format!(
            "[dns]\nservers = [\"{}\"]\n[admin]\naddress = \"{admin}\"\n[retry]\nfirst = \"1h\"\n\
             [[route]]\nmx = {{ port = {port} }}\n",
            names.address
        );
        let text = format!("shaping = [{}]\n{}", names_of_files.join(", "), config(&text));
        let server = Some(Server::start(&files, &text));
        Place { files, server, _tools: (names, sink), admin }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    fn send(&self, domain: &str, count: usize) {
        let mut client = Client::connect(self.server().address());
        for n in 0..count {
            let to = format!("u{n}@{domain}");
            client.mail("me@source.test", &[&to], "Subject: x\r\n\r\nHello.\r\n");
        }
    }

    fn shaping(&self, words: &[&str]) -> crate::support::server::Answer {
        control(self.files.dir(), &[&["shaping"], words].concat())
    }

    /// What is in force for a provider as a whole, as JSON.
    fn wide_effects(&self) -> Vec<Value> {
        self.effects().into_iter().filter(is_wide).collect()
    }

    /// Waits until so many such events were about a provider as a whole.
    fn wait_wide(&self, event: &str, count: usize) -> Vec<Value> {
        let wide = || self.files.events_of(event).into_iter().filter(is_wide).collect::<Vec<_>>();
        wait_until(event, || wide().len() >= count);
        wide()
    }

    /// What is in force, as JSON.
    fn effects(&self) -> Vec<Value> {
        let mut responses = self.server().json(&["shaping", "list"]);
        responses.retain(|response| response["response"] == "effect");
        responses
    }
}

/// It is about a provider, and not about one of its next hops.
fn is_wide(told: &Value) -> bool {
    told["next_hop"].is_null()
}

fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or("-")
}

/// Customers of a provider.
const CUSTOMERS: [&str; 2] = ["a", "b"];

#[test]
fn each_rule_that_is_built_in_takes_effect_by_its_provider_s_words() {
    let builtin = Shaping::read(&[ShapingFile::builtin()]).unwrap_or_else(|e| panic!("{e}"));
    let mut rounds: BTreeMap<usize, Vec<(String, Arc<Rule>)>> = BTreeMap::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (provider, rule) in builtin.rules() {
        let provider = provider.expect("ours are of providers").to_string();
        let round = known.entry(provider.clone()).or_default();
        rounds.entry(*round).or_default().push((provider, Arc::clone(rule)));
        *round += 1;
    }
    let rules = rounds.values().flatten().map(|(p, rule)| (p.as_str(), &*rule.name));
    let words = words();
    let told = words.iter().map(|[provider, rule, ..]| (*provider, *rule));
    assert_eq!(rules.collect::<BTreeSet<_>>(), told.collect::<BTreeSet<_>>(), "each has words");
    // Two customers of the provider, each with a host of its own: what one of them alone is told is about its host.
    let said = |customer: &str, provider: &str, rule: &str| {
        let found = words.iter().find(|[p, r, ..]| (*p, *r) == (provider, rule));
        let [_, _, host, said] = found.expect("it has words");
        (format!("{customer}.{rule}.{provider}.test"), format!("{customer}-{rule}.{host}"), *said)
    };
    let all = CUSTOMERS.iter().flat_map(|customer| {
        words.iter().map(move |[provider, rule, ..]| said(customer, provider, rule))
    });
    let hosts: Vec<_> = all.collect();
    let domains: Vec<_> = hosts.iter().map(|(d, h, said)| (d.clone(), &**h, Some(*said))).collect();
    let place = Place::new(&domains, &[("builtin", "")]);
    for round in rounds.values() {
        for (provider, rule) in round {
            let count = rule.after.map_or(1, |after| after.count as usize);
            // No more than it takes: what comes behind that would be heard in the next round.
            let [one, other] = CUSTOMERS;
            place.send(&said(one, provider, &rule.name).0, count.max(2) - 1);
            place.send(&said(other, provider, &rule.name).0, 1);
        }
        let expected: BTreeSet<String> = round
            .iter()
            .map(|(p, r)| {
                format!("{p} {} {} {} {}", r.name, r.action, r.place, r.lasts.as_millis())
            })
            .collect();
        let mut last = BTreeSet::new();
        let begun = Instant::now();
        while last != expected {
            assert!(begun.elapsed() < Duration::from_secs(60), "{expected:#?}\n{last:#?}");
            std::thread::sleep(Duration::from_millis(100));
            let shown = |effect: &Value| {
                let w = |key| word(effect, key);
                // Mail without a source, and of none in particular.
                assert_eq!((w("source"), w("tenant")), ("", "-"), "{effect}");
                let lasts = &effect["lasts_ms"];
                format!("{} {} {} {} {lasts}", w("provider"), w("rule"), w("action"), w("place"))
            };
            last = place.wide_effects().iter().map(shown).collect();
        }
        assert_eq!(place.shaping(&["lift", "--all"]).code, 0);
        assert!(place.effects().is_empty());
    }
}

const BIG: &str = "[provider.big]\nmx = [\"*.big.test\"]\nbackoff = { max_connections = 1, rate = [\"60/m\"] }\n\
                   [[provider.big.rule]]\nname = \"slow\"\nmatch = \"slow down\"\naction = \"backoff\"\nlasts = \"4s\"\n\
                   [[provider.big.rule]]\nname = \"blocked\"\nclass = \"reputation\"\naction = \"suspend\"\nlasts = \"1h\"\n";

fn big() -> Place {
    let domains = [
        ("slow.test".to_owned(), "mx1.big.test", Some("450 4.7.28 Please slow down")),
        ("slower.test".to_owned(), "mx4.big.test", Some("450 4.7.28 Please slow down")),
        ("blocked.test".to_owned(), "mx2.big.test", Some("550 5.7.1 blocked using a list")),
        ("listed.test".to_owned(), "mx5.big.test", Some("550 5.7.1 blocked using a list")),
        ("fine.test".to_owned(), "mx3.big.test", None),
        ("other.test".to_owned(), "mx.other.test", None),
    ];
    Place::new(&domains, &[("shaping.toml", BIG)])
}

#[test]
fn a_provider_is_slowed_down_longer_when_it_says_so_again_and_then_as_fast_as_before() {
    let place = big();
    place.send("slow.test", 1);
    let shaped = place.files.wait_events("shaped", 1).remove(0);
    assert!(!is_wide(&shaped), "one customer's words: {shaped}");
    place.send("slower.test", 1);
    let shaped = place.wait_wide("shaped", 1).remove(0);
    let begun = Instant::now();
    assert_eq!((word(&shaped, "rule"), word(&shaped, "action")), ("slow", "backoff"));
    assert_eq!((word(&shaped, "provider"), word(&shaped, "place")), ("big", "shaping.toml:4"));
    assert_eq!(word(&shaped, "reply"), "450 4.7.28 Please slow down");
    // One a second, for all of the provider's hosts, and nobody else.
    place.send("fine.test", 5);
    place.send("other.test", 20);
    place.files.wait_events("relayed", 20);
    wait_until("why names the rule", || {
        let queued = place.server().queue();
        let limit = "provider big by rule slow (shaping.toml:4)";
        let slow = queued.iter().rfind(|item| item.to_string().contains(limit));
        let Some(id) = slow.and_then(|item| item["id"].as_str()) else { return false };
        let why = control(place.files.dir(), &["queue", "why", id]).out;
        why.contains(limit)
            && why.contains("replied: 450 4.7.28 Please slow down; limits return from ")
    });
    place.files.wait_events("relayed", 25);
    assert!(begun.elapsed() >= Duration::from_millis(2_500), "{:?}", begun.elapsed());
    // Again while it is in force: twice as long.
    place.send("slow.test", 1);
    place.send("slower.test", 1);
    let again = place.wait_wide("shaped", 2).remove(1);
    assert_eq!(again["step"], 2);
    let effect = place.wide_effects().remove(0);
    assert_eq!((&effect["step"], &effect["lasts_ms"]), (&2.into(), &8_000.into()), "{effect}");
    let listed = place.shaping(&["list"]).out;
    for part in ["slow", "shaping.toml:4", "provider big", "backoff", "450 4.7.28 Please slow down"]
    {
        assert!(listed.contains(part), "{part}\n{listed}");
    }
    let metrics = get(&place.admin, "/metrics");
    let in_force = place.effects().len() as u64;
    assert!(in_force >= 1, "{metrics}");
    assert_eq!(metric(&metrics, "postrider_shaping_effects"), in_force, "{metrics}");
    let begun_count = place.files.events_of("shaped").len() as u64;
    assert_eq!(metric(&metrics, "postrider_shaping_effects_begun_total"), begun_count);
    // Its limits return in steps: 8 seconds, and three quarters of that.
    wait_until("a part of its limits has returned", || {
        place.wide_effects().first().is_some_and(|effect| effect["returned"].as_u64() >= Some(1))
    });
    let ended = place.wait_wide("unshaped", 1).remove(0);
    assert_eq!((word(&ended, "rule"), word(&ended, "why")), ("slow", "time"));
    assert!(begun.elapsed() >= Duration::from_secs(14), "{:?}", begun.elapsed());
    assert!(place.effects().is_empty());
    let (fast, before) = (Instant::now(), place.files.events_of("relayed").len());
    place.send("fine.test", 10);
    place.files.wait_events("relayed", before + 10);
    assert!(fast.elapsed() < Duration::from_secs(3), "{:?}", fast.elapsed());
}

#[test]
fn what_is_stopped_stays_so_over_a_crash_until_it_is_lifted() {
    let mut place = big();
    place.send("blocked.test", 1);
    let narrow = place.files.wait_events("shaped", 1).remove(0);
    assert!(!is_wide(&narrow), "one customer's words: {narrow}");
    place.send("listed.test", 1);
    let shaped = place.wait_wide("shaped", 1).remove(0);
    assert_eq!((word(&shaped, "rule"), word(&shaped, "action")), ("blocked", "suspend"));
    let kept =
        || std::fs::read_to_string(place.files.path("spool/shaping.json")).unwrap_or_default();
    wait_until("it is kept", || kept().matches("\"blocked\"").count() == 2);
    place.server.take().expect("it runs").kill();
    place.server = Some(Server::start_again(&place.files));
    place.send("fine.test", 3);
    place.send("other.test", 3);
    place.files.wait_events("relayed", 3);
    let told =
        || place.server().queue().iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    wait_until("it waits for the rule", || {
        told().matches("provider big, stopped by rule blocked (shaping.toml:9)").count() == 3
    });
    let effect = place.wide_effects().remove(0);
    assert_eq!(
        (word(&effect, "rule"), word(&effect, "reply")),
        ("blocked", "550 5.7.1 blocked using a list")
    );
    let queued = place.server().queue();
    let waits = queued.iter().find(|item| item.to_string().contains("stopped by rule"));
    let id = waits.expect("it waits")["id"].as_str().expect("an id").to_owned();
    let why = place.server().command(&["queue", "why", &id]).out;
    for part in
        ["rule blocked (shaping.toml:9)", "replied: 550 5.7.1 blocked using a list", "until "]
    {
        assert!(why.contains(part), "{part}\n{why}");
    }
    let nothing = place.shaping(&["lift", "slow"]);
    assert!(nothing.code == 1 && nothing.err.contains("effect not found"), "{nothing:?}");
    assert_eq!(place.shaping(&["lift", "blocked", "--provider", "other"]).code, 1);
    let lifted = place.shaping(&["lift", "blocked", "--provider", "big"]);
    assert!(
        lifted.code == 0 && lifted.out.contains("2 effects of shaping rules lifted"),
        "{lifted:?}"
    );
    place.files.wait_events("relayed", 6);
    for ended in place.files.wait_events("unshaped", 2) {
        assert_eq!(word(&ended, "why"), "lifted");
    }
    assert!(place.shaping(&["list"]).out.contains("No shaping rule is in effect."));
    // Behind the list stands its checksum.
    wait_until("that is kept, too", || kept().split_whitespace().take(2).eq(["[", "]"]));
}

#[test]
fn rules_are_explained_and_checked() {
    let place = big();
    let told = place.server().command(&["explain", "you@fine.test"]).out;
    for (what, place) in [
        ("rule slow", "shaping.toml:4"),
        ("rule blocked", "shaping.toml:9"),
        ("rate in backoff", "shaping.toml:3"),
        ("max_connections in backoff", "shaping.toml:3"),
    ] {
        let is_it = |line: &str| line.contains(what) && line.contains(place);
        assert!(told.lines().any(is_it), "{what} {place}\n{told}");
    }
    for (mistake, told) in [
        (
            BIG.replace("\"slow down\"", "\".*\""),
            "shaping.toml:6: error: this pattern matches everything",
        ),
        (
            BIG.replace("\"reputation\"", "\"reputed\""),
            "shaping.toml:11: error: unknown class `reputed`",
        ),
        (
            BIG.replace("\"suspend\"", "\"stop\""),
            "shaping.toml:12:10: error: \"stop\" is not an action",
        ),
        (
            BIG.replace("\nbackoff", "\n# backoff"),
            "shaping.toml:7:1: error: rule \"slow\" needs a `backoff`",
        ),
    ] {
        place.files.write("shaping.toml", &mistake);
        let checked = command(place.files.dir(), &["check"]);
        let (line, message) = told.split_once(": error: ").expect("a place");
        let is_told = checked.err.contains(line) && checked.err.contains(message);
        assert!(checked.code == 2 && is_told, "{told}: {checked:?}");
        let refused = control(place.files.dir(), &["reload"]);
        assert!(refused.code == 1 && refused.err.contains(told), "{told}: {refused:?}");
    }
    // The old rules are in force.
    place.send("blocked.test", 1);
    place.files.wait_events("shaped", 1);
    // What a rule did ends with the rule.
    place.files.write("shaping.toml", &BIG.replace("\"suspend\"", "\"none\""));
    assert_eq!(control(place.files.dir(), &["reload"]).code, 0);
    let ended = place.files.wait_events("unshaped", 1).remove(0);
    assert_eq!(word(&ended, "why"), "rule");
    assert!(place.files.path(CONFIG).exists());
}
