//! The test suite of the openspf project for RFC 7208, from the sources of pyspf, which
//! `scripts/install-test-packages` fetches.

use super::zone::{Zone, now};
use crate::support::client::Client;
use crate::support::name_server::{Fault, NameServer};
use crate::support::server::Server;
use crate::support::{Files, config_with};
use auth::spf::{Sender, SpfQuery, check};
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
    let question = SpfQuery {
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

/// Tests whose sender SMTP has no form for: a label that is empty or too long, a local part that is empty or has a
/// blank without quotes.
const NO_SENDERS: [&str; 4] = ["dorky-sentinel", "emptylabel", "nolocalpart", "toolonglabel"];

/// Tests that come to something else, and why.
const DIFFERENT: [(&str, &str); 1] = [
    // An answer with a TXT record without strings (RFC 1035 §3.3.14 asks for one at least) can't be read.
    ("null-text", "temperror"),
];

/// By way of the server: a name server, the resolver, SMTP, and the field that the message got.
#[test]
fn the_openspf_suite_gets_its_results_from_the_server() {
    let (files, names) = (Files::new(), NameServer::start());
    names.set_ttl(0);
    let listener = "checks = { spf = \"mark\" }\nxclient_from = [\"127.0.0.1\"]\n\
                    exempt_from_limits = [\"0.0.0.0/0\", \"::/0\"]\n";
    let rest = format!(
        "{}timeout = \"250ms\"\nattempts = 1\n\
         [[route]]\ndomains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n",
        names.section()
    );
    let server = Server::start(&files, &config_with("", listener, &rest));
    let (mut count, mut refused, mut wrong) = (0, Vec::new(), Vec::new());
    for scenario in scenarios() {
        publish(&names, &scenario["zonedata"]);
        for (name, test) in scenario["tests"].as_object().unwrap() {
            count += 1;
            let Some(found) = mark(&files, &server, test, count) else {
                refused.push(name.clone());
                continue;
            };
            let different = DIFFERENT.iter().find(|(of, _)| of == name);
            let is_good = match (different, &test["result"]) {
                (Some((_, verdict)), _) => found == *verdict,
                (None, Value::Array(several)) => several.iter().any(|wanted| *wanted == *found),
                (None, wanted) => *wanted == *found,
            };
            if !is_good {
                wrong.push(format!("{name} ({}): {}, not {found}", test["spec"], test["result"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    refused.sort();
    assert_eq!(refused, NO_SENDERS);
}

/// The verdict for a message as the test has it; `None`: its sender is none for SMTP.
fn mark(files: &Files, server: &Server, test: &Value, number: usize) -> Option<String> {
    let of = |key: &str| test[key].as_str().unwrap();
    let mut client = Client::connect(server.address());
    let (host, helo) = (of("host"), of("helo"));
    let address = if host.contains(':') { format!("IPV6:{host}") } else { host.to_owned() };
    let helo = if helo.is_empty() { "x" } else { helo };
    // Of what is no name in EHLO a proxy speaks.
    let text = helo.replace('+', "+2B").replace('=', "+3D").replace(' ', "+20");
    client.say(&format!("XCLIENT ADDR={address} NAME=[UNAVAILABLE] HELO={text}"), "220");
    client.say(&format!("EHLO {helo}"), "");
    let reply = client.say(&format!("MAIL FROM:<{}>", of("mailfrom")), "");
    if !reply.starts_with("250") {
        assert!(reply.starts_with("501"), "{reply}");
        return None;
    }
    client.say(&format!("RCPT TO:<n{number}@here.test>"), "250");
    client.say("DATA", "354");
    client.say("From: a@b.test\r\n\r\nx\r\n.", "250");
    let message = files.wait_maildir(&format!("mail/n{number}"), 1).remove(0);
    let field = mail::header::find(&message, "Authentication-Results").expect("a field");
    let text = String::from_utf8(field.unfolded().into_owned()).unwrap();
    let (_, verdict) = text.split_once("spf=").expect("a verdict");
    Some(verdict.split(' ').next().unwrap().to_owned())
}

/// Has the name server know a scenario's zone, and nothing else.
fn publish(names: &NameServer, zone: &Value) {
    names.forget_all();
    for (name, records) in zone.as_object().expect("names") {
        let (name, records) = (name.to_ascii_lowercase(), records.as_array().expect("records"));
        let of = |kind: &str| -> Vec<&Value> {
            records.iter().filter_map(|record| record.get(kind)).collect()
        };
        let texts = |kind| -> Vec<String> {
            let known = of(kind).into_iter().filter(|data| **data != *"NONE");
            known.map(|data| String::from_utf8(super::zone::text(data)).unwrap()).collect()
        };
        let texts = if of("TXT").is_empty() { texts("SPF") } else { texts("TXT") };
        names.txt(&name, &texts.iter().map(String::as_str).collect::<Vec<_>>());
        let addresses = [of("A"), of("AAAA")].concat();
        let addresses = addresses.iter().filter_map(|data| data.as_str());
        let is_address = |text: &&str| text.parse::<std::net::IpAddr>().is_ok();
        names.host(&name, &addresses.filter(is_address).collect::<Vec<_>>());
        let mx =
            |data: &Value| (data[0].as_u64().unwrap() as u16, data[1].as_str().unwrap().to_owned());
        let hosts: Vec<_> = of("MX").into_iter().filter(|data| data.is_array()).map(mx).collect();
        let hosts: Vec<_> = hosts.iter().map(|(preference, host)| (*preference, &**host)).collect();
        names.mx(&name, &hosts);
        names
            .pointer(&name, &of("PTR").iter().filter_map(|data| data.as_str()).collect::<Vec<_>>());
        if let [target] = of("CNAME")[..] {
            names.alias(&name, target.as_str().unwrap());
        }
        if records.iter().any(|record| *record == *"TIMEOUT") {
            names.fault(&name, Fault::SilentOtherwise);
        }
        let is_silent = |record: &Value| {
            record.as_object().is_some_and(|of| of.values().any(|data| *data == *"TIMEOUT"))
        };
        if records.iter().any(is_silent) {
            names.fault(&name, Fault::Silent);
        }
    }
}
