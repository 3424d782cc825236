//! The test suite of the openspf project for RFC 7208, from the sources of pyspf, which
//! `scripts/install-test-packages` fetches.

use super::zone::{Zone, now};
use auth::spf::{Question, Sender, check};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Reads the scenarios: YAML by Python, as the suite's own driver does.
const READ: &str = "
import json, sys, yaml
print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1], encoding='utf-8')))))
";

fn scenarios() -> Vec<Value> {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-packages");
    let suite = packages.join("pyspf/test/rfc7208-tests.yml");
    assert!(suite.exists(), "scripts/install-test-packages fetches {}", suite.display());
    let read = Command::new("/usr/bin/python3").args(["-c", READ]).arg(&suite).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    serde_json::from_slice(&read.stdout).unwrap()
}

#[test]
fn the_openspf_suite_gets_its_results() {
    let (mut count, mut wrong) = (0, Vec::new());
    for scenario in scenarios() {
        let zone = Zone::of(&scenario["zonedata"]);
        for (name, test) in scenario["tests"].as_object().unwrap() {
            count += 1;
            if let Some(trouble) = differs(&zone, test) {
                wrong.push(format!("{name} ({}): {trouble}", test["spec"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 200, "only {count} tests");
}

/// What a test got instead of what it wants.
fn differs(zone: &Zone, test: &Value) -> Option<String> {
    let from = test["mailfrom"].as_str().unwrap();
    let (local, domain) = from.rsplit_once('@').unwrap_or(("", from));
    let question = Question {
        client: test["host"].as_str().unwrap().parse().unwrap(),
        sender: (!from.is_empty()).then_some(Sender { local, domain }),
        helo: test["helo"].as_str().unwrap(),
        receiver: test["receiver"].as_str().unwrap_or("unknown"),
        now: 0,
    };
    let outcome = now(check(zone, question));
    let is_good = match &test["result"] {
        Value::String(wanted) => outcome.verdict.as_str() == wanted,
        Value::Array(several) => several.iter().any(|wanted| wanted == outcome.verdict.as_str()),
        other => panic!("{other} is no result"),
    };
    let explained = outcome.explanation.as_deref().unwrap_or("DEFAULT");
    let is_explained =
        test["explanation"].as_str().is_none_or(|wanted| wanted.eq_ignore_ascii_case(explained));
    (!is_good || !is_explained).then(|| {
        let (wanted, explanation) = (&test["result"], &test["explanation"]);
        format!("{wanted} {explanation}, not {outcome:?}")
    })
}
