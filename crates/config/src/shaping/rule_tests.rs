use super::*;
use crate::{RouteLimits, SharedLimits};
use std::time::Duration;

const RULES: &str = "\
[provider.big]
mx = [\"*.big.test\"]
max_connections = 20
together = { max_connections = 41 }
backoff = { max_connections = 1, rate = [\"10/m\"] }

[[provider.big.rule]]
name = \"unusual-rate\"
match = \"unusual rate\"
after = \"3 in 10m\"
action = \"backoff\"
lasts = \"1h\"
until_delivered = 50

[[provider.big.rule]]
name = \"few\"
class = \"too_many_recipients\"
action = { set = { recipients_per_message = 1, rate = [\"2/s\"] } }

[[provider.big.rule]]
name = \"blocked\"
match = \"blocked\"
kind = \"block\"
action = \"suspend\"
scope = \"provider\"
";

fn file(name: &str, text: &str) -> ShapingFile {
    ShapingFile { name: name.into(), text: text.into() }
}

fn read(texts: &[&str]) -> Shaping {
    let names = ["a.toml", "b.toml"];
    let files: Vec<ShapingFile> =
        names.iter().zip(texts).map(|(name, text)| file(name, text)).collect();
    Shaping::read(&files).unwrap_or_else(|errors| panic!("{errors}"))
}

fn rules(shaping: &Shaping) -> Vec<String> {
    let told = |(provider, rule): (Option<&Arc<str>>, &Arc<Rule>)| {
        let provider = provider.map_or("-", |provider| provider);
        format!("{provider} {} {}: {}", rule.place, rule.name, rule.in_words())
    };
    shaping.rules().map(told).collect()
}

#[test]
fn rules_are_read_with_their_lines() {
    assert_eq!(
        rules(&read(&[RULES])),
        [
            "big a.toml:7 unusual-rate: /unusual rate/, 3 in 10m: backoff for 1h or 50 deliveries",
            "big a.toml:15 few: class too_many_recipients: recipients_per_message 1, rate 2/s for 30m",
            "big a.toml:20 blocked: /blocked/, kind block: suspend for 30m, all sources",
        ]
    );
}

#[test]
fn later_files_change_rules_by_their_names_key_by_key() {
    let later = "[[provider.big.rule]]\nname = \"unusual-rate\"\nlasts = \"2h\"\n\
                 [[provider.big.rule]]\nname = \"few\"\naction = \"none\"\n\
                 [[provider.big.rule]]\nname = \"blocked\"\nmatch = \"denied\"\nscope = \"provider and source\"\n\
                 [[provider.big.rule]]\nname = \"new\"\nclass = \"virus\"\naction = \"fail_campaign\"\n\
                 [[default.rule]]\nname = \"all\"\nkind = \"block\"\naction = \"suspend\"\nlasts = \"5m\"\n";
    assert_eq!(
        rules(&read(&[RULES, later])),
        [
            "- b.toml:15 all: kind block: suspend for 5m",
            "big b.toml:1 unusual-rate: /unusual rate/, 3 in 10m: backoff for 2h or 50 deliveries",
            "big b.toml:7 blocked: /denied/: suspend for 30m",
            "big b.toml:11 new: class virus: fail_campaign for 30m, all sources",
        ]
    );
    let shaping = read(&[RULES, "[provider.big]\nbackoff = { max_connections = 3 }\n"]);
    let rule = shaping.rule(Some("big"), "unusual-rate").unwrap();
    assert_eq!(rule.after, Some(HitThreshold { count: 3, within: Duration::from_secs(600) }));
    let limit = eased(&shaping, "unusual-rate", 0).by_rules.remove(0);
    assert_eq!((limit.connections_max, limit.per_second), (3, 10.0 / 60.0));
}

fn paced() -> Paced {
    let shared = Some(SharedLimits { connections_max: 20, messages_per_second: 0.0 });
    Paced::of_route(RouteLimits { shared, recipients_per_message: 9, ..RouteLimits::default() })
}

fn eased(shaping: &Shaping, rule: &str, quarters: u8) -> Paced {
    let mut paced = paced();
    let easing = Easing { provider: Some("big"), rule, quarters, is_of_every_source: false };
    shaping.ease(&mut paced, easing);
    paced
}

#[test]
fn a_provider_slows_down_as_a_whole_and_comes_back_in_quarters() {
    let shaping = read(&[RULES]);
    let steps: Vec<(u32, f64)> = (0..4)
        .map(|quarters| {
            let paced = eased(&shaping, "unusual-rate", quarters);
            assert_eq!((paced.limits, &paced.sets[..]), (self::paced().limits, &[][..]));
            let [limit] = &paced.by_rules[..] else { panic!() };
            assert_eq!(limit.provider.as_deref(), Some("big"));
            (limit.connections_max, limit.per_second * 60.0)
        })
        .collect();
    let expected = [(1, 10.0), (11, 40.0), (21, 160.0), (31, 640.0)];
    for ((connections, rate), expected) in steps.iter().zip(expected) {
        assert!(*connections == expected.0 && (rate - expected.1).abs() < 1e-6, "{steps:?}");
    }
    let by = |quarters| eased(&shaping, "unusual-rate", quarters).by_rules.remove(0).by;
    assert_eq!(by(0), "rule unusual-rate (a.toml:7)");
    assert_eq!(by(3), "rule unusual-rate (a.toml:7), 3/4 returned");
    assert_eq!(eased(&shaping, "blocked", 0), self::paced(), "it sets no limits");
    assert_eq!(eased(&shaping, "gone", 0), self::paced());
}

#[test]
fn what_a_rule_sets_holds_in_place_of_what_is_usual() {
    let shaping = read(&[RULES]);
    let set = eased(&shaping, "few", 0);
    assert_eq!(set.limits.recipients_per_message, 1);
    assert_eq!(
        set.sets,
        [RuleSet {
            by: "rule few (a.toml:15)".to_owned(),
            connections_max: None,
            rates: Some(vec![Rate::parse("2/s").unwrap()])
        }]
    );
    let back = eased(&shaping, "few", 2);
    assert_eq!(back.limits.recipients_per_message, 5);
    assert_eq!(back.sets[0].rates, Some(vec![Rate::of_per_second(32.0)]));
    assert_eq!((set.limits.shared, set.rates), (paced().limits.shared, paced().rates), "as usual");
    // Whoever has no provider slows down for a set of hosts alone.
    let text = "[default]\nbackoff = { max_connections = 2 }\n[[default.rule]]\nname = \"slow\"\n\
                class = \"rate_limited\"\naction = \"backoff\"\n";
    let mut paced = paced();
    let easing = Easing { provider: None, rule: "slow", quarters: 2, is_of_every_source: true };
    read(&[text]).ease(&mut paced, easing);
    let [limit] = &paced.by_rules[..] else { panic!() };
    assert_eq!((&limit.provider, limit.connections_max, limit.per_second), (&None, 11, 0.0));
}

#[test]
fn what_a_rule_sets_by_two_effects_is_set_once() {
    let shaping = read(&[RULES]);
    let mut paced = paced();
    // For a next hop alone, and for its provider.
    for quarters in [0, 0, 1] {
        let easing =
            Easing { provider: Some("big"), rule: "few", quarters, is_of_every_source: false };
        shaping.ease(&mut paced, easing);
    }
    let by: Vec<&str> = paced.sets.iter().map(|set| &*set.by).collect();
    assert_eq!(by, ["rule few (a.toml:15)", "rule few (a.toml:15), 1/4 returned"]);
}

#[test]
fn mistakes_in_rules_are_named_with_their_places() {
    let rule = "[[provider.big.rule]]\nname = \"x\"\n";
    for (text, place, message) in [
        ("match = \"x\"\naction = \"bakoff\"\n", "4:10", "\"bakoff\" is not an action"),
        ("match = \"x\"\naction = \"set\"\n", "4:10", "\"set\" is not an action"),
        ("match = \"x\"\naction = { set = {} }\n", "4:", "an action without settings"),
        ("match = \"x\"\naction = {}\n", "4:", "an action without settings"),
        (
            "match = \"x\"\naction = { set = { max_conections = 1 } }\n",
            "4:20",
            "unknown key `max_conections`",
        ),
        ("match = \"x\"\naction = { st = {} }\n", "4:12", "unknown key `st`"),
        ("match = \"x\"\naction = 3\n", "4:10", "`action` must be "),
        ("match = \"x\"\n", "1:1", "rule \"x\" has no `action`"),
        ("action = \"suspend\"\n", "1:1", "rule \"x\" has no condition"),
        ("match = \"x\"\naction = \"backoff\"\n", "4:1", "rule \"x\" needs a `backoff`"),
        (
            "match = \"x\"\naction = \"suspend\"\nuntil_delivered = 4\n",
            "5:1",
            "rule \"x\" ends after deliveries",
        ),
        (
            "match = \"x\"\n[[default.rule]]\nname = \"y\"\naction = \"suspend_tenant\"\n",
            "6:10",
            "\"suspend_tenant\" in a rule without a provider",
        ),
        ("after = \"often\"\n", "3:9", "\"often\" is not a number of replies in a time"),
        ("lasts = \"30\"\n", "3:9", "\"30\" is not a duration of a rule"),
        ("lasts = \"25h\"\n", "3:9", "\"25h\" is not a duration of a rule"),
        ("lasts = \"0\"\n", "3:9", "\"0\" is not a duration of a rule"),
        ("scope = \"source\"\n", "3:9", "invalid value \"source\" for `scope`"),
        ("matches = \"x\"\n", "3:1", "unknown key `matches`"),
        ("[[provider.big.rule]]\nname = \"x\"\n", "3:", "a second rule \"x\""),
        ("[[provider.big.rule]]\nname = \"a b\"\n", "4:8", "\"a b\" is not a rule name"),
        ("[[provider.big.rule]]\nmatch = \"x\"\n", "3:", "\"\" is not a rule name"),
    ] {
        let text = format!("{rule}{text}");
        let said = Shaping::read(&[file("a.toml", &text)]).unwrap_err().to_string();
        let is_there = said.starts_with(&format!("a.toml:{place}"));
        assert!(is_there && said.contains(&format!("error: {message}")), "{text}: {said}");
    }
    let many: String = (0..=RULES_MAX)
        .map(|n| format!("[[default.rule]]\nname = \"{n}\"\nmatch = \"x\"\naction = \"suspend\"\n"))
        .collect();
    let said = Shaping::read(&[file("a.toml", &many)]).unwrap_err().to_string();
    assert!(said.contains("more than 2000 rules"), "{said}");
}
