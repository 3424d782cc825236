//! What the DNS and domains say of TLS to their hosts: DANE (RFC 7672) by a signed zone and a validating
//! resolver, MTA-STS (RFC 8461) by a web server, and next hops that are as they say, or not.

mod files;
mod postfix;
mod reports;
mod zones;

use crate::interop::place::{Place, is_possible};
use crate::require_tls::hand_in;
use crate::smarthosts::start_exim;
use crate::support::certificate::{EC, make_certificate, make_issued, section};
use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::server::{CONFIG, POSTRIDER, Server};
use crate::support::tool::free_port;
use crate::support::{Files, wait_until};
use files::PolicyFiles;
use serde_json::Value;
use std::process::Command;
use zones::{Zones, certificate_digest, key_digest};

/// Debian's packages of what validates and what signs.
const PACKAGES: &[&str] = &["unbound", "ldnsutils"];

/// The next hops of a test: one shows each host a certificate of its own, the other one has no TLS.
struct Far {
    port: u16,
    files: Files,
    _hosts: (Server, Server, Files),
}

impl Far {
    /// `certificates` are made in the directory that it is given: files, and the hosts that they are for.
    fn start(certificates: impl Fn(&Files) -> Vec<(&'static str, &'static str)>) -> Far {
        let (port, files, clear_files) = (free_port(), Files::new(), Files::new());
        let sections = certificates(&files).into_iter();
        let sections: String = sections.map(|(file, host)| section(file, &[host])).collect();
        let listening = |at: &str| {
            format!(
                "hostname = \"far.test\"\nspool = {{ path = \"spool\" }}\n[[listener]]\n\
                 address = \"{at}:{port}\"\n[[route]]\ndomains = [\"*.test\"]\ndiscard = {{}}\n"
            )
        };
        let with_tls = Server::start(&files, &(listening("127.0.0.1") + &sections));
        let clear = Server::start(&clear_files, &listening("127.0.0.2"));
        Far { port, files, _hosts: (with_tls, clear, clear_files) }
    }
}

/// A relay by MX that asks the validating resolver, and trusts these roots.
fn relay(files: &Files, (zones, port): (&Zones, u16), tls: &str, roots: &str) -> Server {
    let config = format!(
        "hostname = \"near.test\"\nspool = {{ path = \"spool\" }}\n\
         dns = {{ servers = [\"{}\"], validating = true }}\n[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\n\
         address = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n[[route]]\n\
         retry = {{ first = \"1s\", longest = \"2s\" }}\nmx = {{ port = {port}, tls = \"{tls}\" }}\n",
        zones.server
    );
    files.write(CONFIG, &config);
    Server::start_trusting(files, roots)
}

fn send(near: &Server, domain: &str) {
    let mut client = Client::connect(near.address());
    client.mail("me@source.test", &[&format!("you@{domain}")], "Subject: x\r\n\r\nx\r\n");
}

/// What became of the mail for a domain.
fn relayed(files: &Files, domain: &str) -> Value {
    let is_it = |event: &Value| event["recipient"] == format!("you@{domain}");
    let find = || files.events_of("relayed").into_iter().find(is_it);
    wait_until(&format!("mail for {domain} is relayed"), || find().is_some());
    find().expect("it was there")
}

/// Policy and version of TLS, or that it went in clear.
fn encryption(event: &Value) -> String {
    let part = |key: &str| event[key].as_str().unwrap_or("none").to_owned();
    format!("{} {}", part("tls_policy"), part("tls_version"))
}

/// Mail for a domain waits, and this is why.
fn wait_reason(files: &Files, domain: &str, told: &[&str]) {
    let is_it = |event: &Value| {
        let text = event.to_string();
        told.iter().all(|part| text.contains(part))
    };
    wait_until(&format!("{domain}: {told:?}"), || files.events_of("suspended").iter().any(is_it));
    let is_its = |event: &Value| event["recipient"] == format!("you@{domain}");
    assert!(!files.events_of("relayed").iter().any(is_its), "{domain} waits");
}

fn admin(server: &Server) -> String {
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    line.rsplit(' ').next().expect("an address").to_owned()
}

/// The hosts of the signed zone: `good` with a certificate that nobody else vouches for, `bad` with
/// another one, and two with one of an authority of their own.
fn dane_certificates(files: &Files) -> Vec<(&'static str, &'static str)> {
    make_certificate(files.dir(), "good", EC, &["some.name.test"]);
    make_certificate(files.dir(), "bad", EC, &["bad.dane.test"]);
    make_issued(files.dir(), "ca", &[("issued", "issued.dane.test"), ("other", "other.test")]);
    vec![
        ("good", "good.dane.test"),
        ("bad", "bad.dane.test"),
        ("bad", "odd.dane.test"),
        ("issued", "issued.dane.test"),
        ("other", "misnamed.dane.test"),
    ]
}

/// The signed zone. Records of `bogus` are changed after they were signed.
fn dane_zone(files: &Files, port: u16) -> String {
    let at = |name: &str| files.path(name);
    let good = key_digest(&at("good.pem"));
    let authority = certificate_digest(&at("ca.pem"));
    let nobody = "00".repeat(32);
    let tlsa = |host: &str, record: String| format!("_{port}._tcp.{host} IN TLSA {record}\n");
    let addresses = ["good", "bad", "odd", "issued", "misnamed", "bogus", "plain"]
        .map(|host| format!("{host} IN A 127.0.0.1\n"));
    let mx = [
        ("ee", "10 good"),
        ("wrong", "10 bad"),
        ("mixed", "10 bad\n IN MX 20 bogus\n IN MX 30 good"),
        ("anchor", "10 issued"),
        ("anchor-misnamed", "10 misnamed"),
        ("unusable", "10 odd"),
        ("stripped", "10 clear"),
        ("without", "10 open"),
        ("false", "10 bogus"),
        ("alias", "10 other-name"),
    ]
    .map(|(domain, hosts)| format!("{domain} IN MX {hosts}\n"));
    addresses.concat()
        + &mx.concat()
        + "clear IN A 127.0.0.2\nopen IN A 127.0.0.2\nother-name IN CNAME good\n"
        + &tlsa("good", format!("3 1 1 {good}"))
        + &tlsa("bad", format!("3 1 1 {good}"))
        + &tlsa("odd", format!("1 1 1 {good}"))
        + &tlsa("clear", format!("3 1 1 {good}"))
        + &tlsa("issued", format!("2 0 1 {authority}"))
        + &tlsa("misnamed", format!("2 0 1 {authority}"))
        + &tlsa("bogus", format!("3 1 1 {nobody}"))
}

#[test]
fn hosts_have_the_certificates_that_their_signed_records_are_about() {
    if !is_possible(PACKAGES) {
        return;
    }
    let far = Far::start(dane_certificates);
    let unsigned = "insecure IN MX 10 good.dane.test.\n";
    let zones = Zones::start(&dane_zone(&far.files, far.port), unsigned);
    let files = Files::new();
    let near = relay(&files, (&zones, far.port), "dane", "/dev/null");
    for (domain, how) in [
        ("ee.dane.test", "dane TLSv1.3"),
        ("mixed.dane.test", "dane TLSv1.3"),
        ("anchor.dane.test", "dane TLSv1.3"),
        ("unusable.dane.test", "dane TLSv1.3"),
        ("alias.dane.test", "dane TLSv1.3"),
        ("without.dane.test", "none none"),
        // RFC 7672 §2.2.1: who may have forged the MX may have named any host.
        ("insecure.plain.test", "opportunistic TLSv1.3"),
    ] {
        send(&near, domain);
        assert_eq!(encryption(&relayed(&files, domain)), how, "{domain}");
    }
    assert!(relayed(&files, "mixed.dane.test")["next_hop"].to_string().contains("good.dane.test["));
    for (domain, told) in [
        (
            "wrong.dane.test",
            &["by the TLSA records of bad.dane.test: ", "no TLSA record matches"][..],
        ),
        ("anchor-misnamed.dane.test", &["misnamed.dane.test: ", "not valid for name", "4.7.5"]),
        ("stripped.dane.test", &["by the TLSA records of clear.dane.test: ", "4.7.4"]),
        ("false.dane.test", &["bogus.dane.test", "TLSA records failed", "4.4.3"]),
    ] {
        send(&near, domain);
        wait_reason(&files, domain, told);
    }
    let id = files.events_of("received").iter().find_map(|event| {
        (event["recipients"][0] == "you@wrong.dane.test").then(|| event["id"].to_string())
    });
    let why = near.command(&["queue", "why", id.expect("it was received").trim_matches('"')]);
    assert!(why.out.contains("by the TLSA records of bad.dane.test"), "{}", why.out);
    let metrics = get(&admin(&near), "/metrics");
    let counted = |name: &str| metric(&metrics, &format!("{name}{{policy=\"dane\"}}"));
    assert!(counted("postrider_tls_policy_connections_total") >= 5, "{metrics}");
    assert!(counted("postrider_tls_policy_failures_total") >= 5, "{metrics}");
}

#[test]
fn without_a_validating_resolver_no_record_counts_and_that_is_told() {
    if !is_possible(PACKAGES) {
        return;
    }
    let far = Far::start(dane_certificates);
    let zones = Zones::start(&dane_zone(&far.files, far.port), "");
    let files = Files::new();
    let near = relay(&files, (&zones, far.port), "dane", "/dev/null");
    let config = std::fs::read_to_string(files.path(CONFIG)).expect("it is there");
    near.stop();
    files.write(CONFIG, &config.replace(", validating = true", ""));
    let near = Server::start_trusting(&files, "/dev/null");
    near.wait_console("no DNSSEC", |line| {
        line.contains("TLSA records are ignored") && line.contains("`validating = true` is not set")
    });
    send(&near, "wrong.dane.test");
    let how = encryption(&relayed(&files, "wrong.dane.test"));
    assert_eq!(how, "opportunistic TLSv1.3");
}

/// A policy as a web server has it.
fn policy(mode: &str, mx: &[&str]) -> String {
    let mx: String = mx.iter().map(|mx| format!("mx: {mx}.plain.test\r\n")).collect();
    format!("200 text/plain 0\nversion: STSv1\r\nmode: {mode}\r\n{mx}max_age: 86400\r\n")
}

/// Domains, what the web server answers for their policies, and their MX hosts: `good` has a certificate
/// of an authority that is trusted, `bad` and `stranger` have others, `clear` has no TLS.
fn promises() -> Vec<(&'static str, Option<String>, &'static str)> {
    let clear = "10 clear";
    let usual = || policy("enforce", &["good"]);
    let large = format!("{}x: {}\n", usual(), "x".repeat(65_536));
    vec![
        ("enforced", Some(usual()), "10 good"),
        ("mixed", Some(policy("enforce", &["good"])), "10 stranger\n IN MX 20 good"),
        ("wild", Some(policy("enforce", &["*"])), "10 good"),
        ("families", Some(usual()), "10 good"),
        ("foreign", Some(usual()), "10 stranger"),
        ("invalid", Some(policy("enforce", &["bad"])), "10 bad"),
        ("stripped", Some(policy("enforce", &["clear"])), clear),
        ("testing", Some(policy("testing", &["good"])), clear),
        ("none", Some(policy("none", &[])), clear),
        // The same hosts as `stripped`, and no policy.
        ("silent", None, clear),
        // No policy can be had.
        ("redirected", Some(usual().replace("200", "301")), clear),
        ("gone", Some(usual().replace("200", "404")), clear),
        ("page", Some(usual().replace("text/plain", "text/html")), clear),
        ("large", Some(large), clear),
        ("odd", Some("200 text/plain 0\n<html>".to_owned()), clear),
        ("forged", Some(usual()), clear),
    ]
}

fn sts_zone(promises: &[(&str, Option<String>, &str)], web: std::net::Ipv4Addr) -> String {
    let hosts =
        "good IN A 127.0.0.1\nbad IN A 127.0.0.1\nstranger IN A 127.0.0.1\nclear IN A 127.0.0.2\n";
    let zone = |(domain, policy, mx): &(&str, Option<String>, &str)| {
        let record = match policy {
            Some(_) => {
                // What this machine has no way to must not hide what it has one to.
                let others = (1..=4).map(|n| match *domain {
                    "families" => format!("mta-sts.{domain} IN AAAA 100::{n}\n"),
                    _ => String::new(),
                });
                let others: String = others.collect();
                format!(
                    "_mta-sts.{domain} IN TXT \"v=STSv1; id=1\"\nmta-sts.{domain} IN A {web}\n{others}"
                )
            }
            None => String::new(),
        };
        format!("{domain} IN MX {mx}\n{record}")
    };
    hosts.to_owned() + &promises.iter().map(zone).collect::<String>()
}

/// A web server, hosts, zones and a relay that asks for policies.
fn sts() -> (PolicyFiles, Far, Zones, Files, Server) {
    let promises = promises();
    let answers = promises.iter().filter_map(|(name, policy, _)| Some((*name, policy.clone()?)));
    let web = PolicyFiles::start(&answers.collect::<Vec<_>>(), "good.plain.test");
    let far = Far::start(|files| {
        for extension in ["pem", "key"] {
            let copy = files.path(&format!("good.{extension}"));
            std::fs::copy(web.path(&format!("issued.{extension}")), copy).expect("copied");
        }
        make_certificate(files.dir(), "bad", EC, &["bad.plain.test"]);
        make_certificate(files.dir(), "stranger", EC, &["stranger.plain.test"]);
        vec![
            ("good", "good.plain.test"),
            ("bad", "bad.plain.test"),
            ("stranger", "stranger.plain.test"),
        ]
    });
    let zones = Zones::start("", &sts_zone(&promises, web.address));
    let files = Files::new();
    let roots = web.path("authority.pem").display().to_string();
    let near = relay(&files, (&zones, far.port), "mta-sts", &roots);
    (web, far, zones, files, near)
}

#[test]
fn hosts_are_as_their_domains_promise() {
    if !is_possible(PACKAGES) {
        return;
    }
    let (web, _far, _zones, files, near) = sts();
    for (domain, how) in [
        ("enforced", "mta-sts TLSv1.3"),
        ("mixed", "mta-sts TLSv1.3"),
        ("wild", "mta-sts TLSv1.3"),
        ("families", "mta-sts TLSv1.3"),
        ("testing", "none none"),
        ("none", "none none"),
        ("silent", "none none"),
        ("redirected", "none none"),
        ("gone", "none none"),
        ("page", "none none"),
        ("large", "none none"),
        ("odd", "none none"),
        ("forged", "none none"),
    ] {
        let domain = format!("{domain}.plain.test");
        send(&near, &domain);
        assert_eq!(encryption(&relayed(&files, &domain)), how, "{domain}");
    }
    assert_eq!((web.asked("enforced"), web.asked("redirected")), (1, 1));
    for (domain, told) in [
        ("redirected", "it returned 301"),
        ("gone", "it returned 404"),
        ("page", "text/html, not text/plain"),
        ("large", "length limit exceeded"),
        ("odd", "not `key: value`"),
        ("forged", "UnknownIssuer"),
    ] {
        let text = format!("cannot fetch the policy of {domain}.plain.test: ");
        near.wait_console(domain, |line| line.contains(&text) && line.contains(told));
    }
    for (domain, told) in [
        (
            "foreign.plain.test",
            &["(enforce) lists none of its MX hosts: stranger.plain.test", "4.7.5"][..],
        ),
        (
            "invalid.plain.test",
            &["by the MTA-STS policy of the domain: ", "bad.plain.test", "4.7.5"],
        ),
        (
            "stripped.plain.test",
            &["by the MTA-STS policy of the domain: ", "clear.plain.test", "4.7.4"],
        ),
    ] {
        send(&near, domain);
        wait_reason(&files, domain, told);
    }
    // On the same hosts, by its own promise, while the other one's mail waits.
    send(&near, "silent.plain.test");
    wait_until("the second", || {
        let is_it = |event: &Value| event["recipient"] == "you@silent.plain.test";
        files.events_of("relayed").into_iter().filter(is_it).count() == 2
    });
    let metrics = get(&admin(&near), "/metrics");
    assert_eq!(metric(&metrics, "postrider_mta_sts_fetches_total"), 9);
    assert_eq!(metric(&metrics, "postrider_mta_sts_fetches_failed_total"), 6);
    assert_eq!(metric(&metrics, "postrider_mta_sts_policies"), 9);
}

#[test]
fn a_policy_holds_over_a_restart_for_as_long_as_it_says() {
    if !is_possible(PACKAGES) {
        return;
    }
    let (web, _far, _zones, files, near) = sts();
    send(&near, "stripped.plain.test");
    wait_reason(&files, "stripped.plain.test", &["by the MTA-STS policy of the domain"]);
    near.kill();
    let roots = web.path("authority.pem").display().to_string();
    web.answer("stripped", "500 text/plain 0\n");
    std::fs::remove_file(files.path("spool/events.jsonl")).expect("removed");
    let near = Server::start_trusting(&files, &roots);
    wait_reason(&files, "stripped.plain.test", &["by the MTA-STS policy of the domain"]);
    assert_eq!(web.asked("stripped"), 1, "it was kept");
    near.stop();
    // Two days older, and the web server has no policy any more.
    let kept = files.path("spool/mta-sts/stripped.plain.test");
    let text = std::fs::read_to_string(&kept).expect("it was kept");
    let (head, policy) = text.split_once('\n').expect("a line");
    let [id, fetched, rest] = head.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{head}") };
    let earlier = fetched.parse::<u64>().expect("a time") - 2 * 86_400_000;
    // Without its checksum, as an earlier version wrote it.
    let (rest, _) = rest.split_once(" crc32c:").expect("a checksum");
    std::fs::write(&kept, format!("{id} {earlier} {rest}\n{policy}")).expect("written");
    let near = Server::start_trusting(&files, &roots);
    let how = encryption(&relayed(&files, "stripped.plain.test"));
    assert_eq!((how.as_str(), web.asked("stripped")), ("none none", 2));
    near.stop();
}

/// The relay started anew with a certificate of its own, and another `tls`.
fn with_certificate(
    files: &Files,
    near: Server,
    (tls, instead): (&str, &str),
    roots: &str,
) -> Server {
    near.stop();
    make_certificate(files.dir(), "mx", EC, &["near.test"]);
    let config = std::fs::read_to_string(files.path(CONFIG)).expect("it is there");
    let config = config.replace(&format!("tls = \"{tls}\""), &format!("tls = \"{instead}\""));
    files.write(CONFIG, &(config + &section("mx", &["near.test"])));
    Server::start_trusting(files, roots)
}

/// Mail that requires TLS is returned, with this status.
fn is_returned(files: &Files, domain: &str, status: &str) {
    let is_it = |event: &Value| event["recipient"] == format!("you@{domain}");
    let find = || files.events_of("failed").into_iter().find(is_it);
    wait_until(&format!("mail for {domain} is returned"), || find().is_some());
    assert_eq!(find().expect("it was there")["status"], status, "{domain}");
}

#[test]
fn who_requires_tls_needs_somebody_who_vouches_for_the_hosts_whatever_the_route_says() {
    if !is_possible(PACKAGES) {
        return;
    }
    let (web, _far, _zones, files, near) = sts();
    let roots = web.path("authority.pem").display().to_string();
    let near = with_certificate(&files, near, ("mta-sts", "opportunistic"), &roots);
    hand_in(&near, "me@source.test", "you@enforced.plain.test", "REQUIRETLS");
    assert_eq!(encryption(&relayed(&files, "enforced.plain.test")), "mta-sts TLSv1.3");
    // Without the wish the route asks nobody.
    send(&near, "stripped.plain.test");
    assert_eq!(encryption(&relayed(&files, "stripped.plain.test")), "none none");
    for domain in ["silent", "none", "testing", "stripped", "invalid"] {
        let domain = format!("{domain}.plain.test");
        hand_in(&near, "me@source.test", &format!("you@{domain}"), "REQUIRETLS");
        is_returned(&files, &domain, "5.7.10");
    }
    near.stop();
}

#[test]
fn who_requires_tls_is_sent_by_signed_records() {
    if !is_possible(PACKAGES) {
        return;
    }
    let far = Far::start(dane_certificates);
    let unsigned = "insecure IN MX 10 good.dane.test.\n";
    let zones = Zones::start(&dane_zone(&far.files, far.port), unsigned);
    let files = Files::new();
    let near = relay(&files, (&zones, far.port), "opportunistic", "/dev/null");
    let roots = far.files.path("ca.pem").display().to_string();
    let near = with_certificate(&files, near, ("opportunistic", "off"), &roots);
    for domain in ["ee.dane.test", "anchor.dane.test", "mixed.dane.test"] {
        hand_in(&near, "me@source.test", &format!("you@{domain}"), "REQUIRETLS");
        assert_eq!(encryption(&relayed(&files, domain)), "dane TLSv1.3", "{domain}");
    }
    for domain in
        ["wrong.dane.test", "unusable.dane.test", "without.dane.test", "insecure.plain.test"]
    {
        hand_in(&near, "me@source.test", &format!("you@{domain}"), "REQUIRETLS");
        is_returned(&files, domain, "5.7.10");
    }
    near.stop();
}

#[test]
fn who_asks_for_no_tls_is_not_held_up_by_what_the_domain_promises() {
    if !is_possible(PACKAGES) {
        return;
    }
    let (_web, _far, _zones, files, near) = sts();
    send(&near, "stripped.plain.test");
    wait_reason(&files, "stripped.plain.test", &["by the MTA-STS policy of the domain"]);
    let mut client = Client::connect(near.address());
    let content = "TLS-Required: No\r\nSubject: x\r\n\r\nYour certificate has ended.\r\n";
    client.mail("me@source.test", &["you@stripped.plain.test"], content);
    assert_eq!(encryption(&relayed(&files, "stripped.plain.test")), "none none");
    near.stop();
}

/// Domains, the exit code of `tls check` for them, and what it says.
const SURVEYS: &[(&str, i32, &[&str])] = &[
    (
        "ee.dane.test",
        0,
        &["MX records: secure by DNSSEC\n", "good.dane.test: dane: by its TLSA", "  TLSA 3 1 1 "],
    ),
    ("unusable.dane.test", 0, &["odd.dane.test: dane: with any certificate"]),
    ("without.dane.test", 0, &["MTA-STS: none: ", "open.dane.test: opportunistic: it has no TLSA"]),
    ("false.dane.test", 1, &["bogus.dane.test: left out: the lookup of its TLSA records failed"]),
    (
        "enforced.plain.test",
        0,
        &[
            "MX records: not secure by DNSSEC\n",
            "MTA-STS: enforce, id 1, max_age 86400 s, mx good.plain.test\n",
            "good.plain.test: mta-sts: by the domain's policy\n",
            "stranger.plain.test: left out: the domain's policy does not list it\n",
        ],
    ),
    (
        "silent.plain.test",
        0,
        &["good.plain.test: opportunistic: the MX records are not secure by DNSSEC"],
    ),
    ("nobody.plain.test", 1, &["no mail: 5.1.2 the domain does not exist\n"]),
];

#[test]
fn what_would_happen_is_shown_with_its_reasons() {
    if !is_possible(PACKAGES) {
        return;
    }
    let far = Far::start(dane_certificates);
    let web = PolicyFiles::start(&[("enforced", policy("enforce", &["good"]))], "good.plain.test");
    let promises = [
        ("enforced", Some(String::new()), "10 good\n IN MX 20 stranger"),
        ("silent", None, "10 good"),
    ];
    let zones = Zones::start(&dane_zone(&far.files, far.port), &sts_zone(&promises, web.address));
    let files = Files::new();
    let roots = web.path("authority.pem").display().to_string();
    let near = relay(&files, (&zones, far.port), "mta-sts", &roots);
    let run = |words: &[&str]| {
        let mut command = Command::new(POSTRIDER);
        command.args(words).args(["--config", CONFIG]).current_dir(files.dir());
        let output = command.env("SSL_CERT_FILE", &roots).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let check = |domain: &str| run(&["tls", "check", domain]);
    for (domain, code, told) in SURVEYS {
        let (exit, text) = check(domain);
        assert_eq!(exit, Some(*code), "{domain}: {text}");
        for part in *told {
            assert!(text.contains(part), "{domain}: {part}: {text}");
        }
    }
    let (_, text) = run(&["tls", "check", "enforced.plain.test", "--json"]);
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["mta_sts"]["mode"], "enforce");
    assert_eq!(
        (&json["hosts"][0]["outcome"], &json["hosts"][1]["outcome"]),
        (&"mta-sts".into(), &"left_out".into())
    );
    let (_, text) = run(&["explain", "you@enforced.plain.test", "--client", "127.0.0.1"]);
    let line = text.lines().find(|line| line.contains("tls of stranger.plain.test"));
    assert!(line.is_some_and(|line| line.contains("left out") && line.contains("DNS")), "{text}");
    let line = text.lines().find(|line| line.contains("tls of messages with REQUIRETLS"));
    assert!(
        line.is_some_and(|line| line.contains("to good.plain.test [requiretls,mta-sts]")),
        "{text}"
    );
    let (_, none) = run(&["tls", "check", "silent.plain.test"]);
    assert!(none.contains("messages with REQUIRETLS: 5.7.10 the message requires TLS"), "{none}");
    let line = text.lines().find(|line| line.trim_start().starts_with("ready queue "));
    assert!(line.is_some_and(|line| !line.contains("stranger")), "{text}");
    let line = text.lines().find(|line| line.trim_start().starts_with("tls  "));
    assert!(line.is_some_and(|line| line.contains("mta-sts") && line.contains(CONFIG)), "{text}");
    near.stop();
}

#[test]
fn exim_is_sent_to_as_its_records_and_domains_say() {
    if !is_possible(&[PACKAGES, &["exim4-daemon-light"]].concat()) {
        return;
    }
    let promises = [
        ("enforced", Some(policy("enforce", &["good"])), "10 good"),
        ("foreign", Some(policy("enforce", &["other"])), "10 good"),
    ];
    let answers = promises.iter().filter_map(|(name, policy, _)| Some((*name, policy.clone()?)));
    let web = PolicyFiles::start(&answers.collect::<Vec<_>>(), "good.plain.test");
    let mut place = Place::new(free_port());
    for extension in ["pem", "key"] {
        let copy = place.path(&format!("tls.{extension}"));
        std::fs::copy(web.path(&format!("issued.{extension}")), copy).expect("copied");
    }
    start_exim(&mut place, "");
    let (digest, nobody, port) = (key_digest(&web.path("issued.pem")), "11".repeat(32), place.port);
    let signed = format!(
        "good IN A 127.0.0.1\nbad IN A 127.0.0.1\nright IN MX 10 good\nwrong IN MX 10 bad\n\
         _{port}._tcp.good IN TLSA 3 1 1 {digest}\n_{port}._tcp.bad IN TLSA 3 1 1 {nobody}\n"
    );
    let zones = Zones::start(&signed, &sts_zone(&promises, web.address));
    let files = Files::new();
    let roots = web.path("authority.pem").display().to_string();
    let near = relay(&files, (&zones, port), "mta-sts", &roots);
    for (domain, how) in
        [("right.dane.test", "dane TLSv1.3"), ("enforced.plain.test", "mta-sts TLSv1.3")]
    {
        send(&near, domain);
        assert_eq!(encryption(&relayed(&files, domain)), how, "{domain}");
    }
    for (domain, told) in [
        ("wrong.dane.test", &["by the TLSA records of bad.dane.test: ", "no TLSA record matches"]),
        ("foreign.plain.test", &["(enforce) lists none of its MX hosts: good.plain.test", "4.7.5"]),
    ] {
        send(&near, domain);
        wait_reason(&files, domain, told);
    }
    near.stop();
}
