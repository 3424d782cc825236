//! Postfix as next hop and as client, by every policy of either.

use super::reports::make_expired;
use super::{PACKAGES, encryption, policy, relayed, send, wait_reason};
use crate::interop::place::{Place, is_possible};
use crate::interop::postfix::{launch_asking, launch_with};
use crate::support::certificate::{EC, make_certificate, make_issued, section};
use crate::support::client::Client;
use crate::support::server::{CONFIG, Server};
use crate::support::tool::succeed;
use crate::support::{Files, wait_until};
use crate::tls_policies::files::PolicyFiles;
use crate::tls_policies::zones::{Zones, certificate_digest, key_digest};
use std::fmt::Write as _;

/// Its hosts, each at an address of its own: a certificate of an authority and of its name, of another name, of
/// the year before, of nobody, of X.509 version 1 with a short key, one that is not by TLS 1.3, none, and one of the
/// authority that has ended.
const HOSTS: [&str; 8] = ["good", "wrong", "late", "self", "short", "v12", "clear", "old"];

/// A certificate of version 1 by itself.
fn make_version_1(dir: &str, name: &str, key: &str, days: &str) {
    let command = format!(
        "cd {dir} && openssl req -new -newkey {key} -nodes -subj /CN={name} -keyout {name}.key \
         -out {name}.csr && openssl x509 -req -in {name}.csr -signkey {name}.key -days {days} -out {name}.pem"
    );
    succeed("sh", &["-c", &command]);
}

fn make_certificates(place: &Place, web: &PolicyFiles) {
    let dir = place.path(".");
    for extension in ["pem", "key"] {
        let copy = place.path(&format!("good.{extension}"));
        std::fs::copy(web.path(&format!("issued.{extension}")), copy).expect("copied");
    }
    make_certificate(&dir, "self", EC, &["self.plain.test"]);
    make_certificate(&dir, "wrong", EC, &["other.test"]);
    let dir = place.dir();
    make_version_1(&dir, "late", EC, "-1");
    make_version_1(&dir, "short", "rsa:1024", "2");
    make_version_1(&dir, "v12", "rsa:2048", "2");
    make_expired(&place.path("."), "old.plain.test", web);
}

/// Takes mail for anybody, and keeps none.
fn start_postfix(place: &mut Place) {
    let mut services = String::new();
    let (dir, port) = (place.dir(), place.port);
    for (n, host) in HOSTS.iter().enumerate() {
        let level = if *host == "clear" { "none" } else { "may" };
        let _ = writeln!(
            services,
            "127.0.0.{}:{port} inet n - n - - smtpd\n  -o smtpd_tls_security_level={level}",
            n + 11
        );
        if *host != "clear" {
            let _ =
                writeln!(services, "  -o smtpd_tls_chain_files={dir}/{host}.key,{dir}/{host}.pem");
        }
        if *host == "v12" {
            services.push_str("  -o smtpd_tls_protocols=!TLSv1.3\n");
        }
    }
    let lines =
        "smtpd_relay_restrictions = permit_mynetworks, reject\ndefault_transport = discard\n";
    launch_with(place, lines, &services);
    for n in 0..HOSTS.len() {
        let address = format!("127.0.0.{}:{port}", n + 11);
        wait_until("Postfix listens", || std::net::TcpStream::connect(&address).is_ok());
    }
}

/// The same hosts in both zones; TLSA records in the signed one, of which that of `wrong` is another's.
fn zones(place: &Place, web: &PolicyFiles) -> Zones {
    let (mut signed, mut plain) = (String::new(), String::new());
    for (n, host) in HOSTS.iter().enumerate() {
        let address = format!("{host} IN A 127.0.0.{}\n", n + 11);
        let _ = writeln!(signed, "{address}to-{host} IN MX 10 {host}");
        let _ = write!(plain, "{address}");
        for policy in ["opportunistic", "required", "verified"] {
            let _ = writeln!(plain, "{host}.{policy} IN MX 10 {host}");
        }
        let whose = match *host {
            "wrong" | "clear" => "good",
            own => own,
        };
        let digest = key_digest(&place.path(&format!("{whose}.pem")));
        let _ = writeln!(signed, "_{}._tcp.{host} IN TLSA 3 1 1 {digest}", place.port);
    }
    for (domain, host) in [("enforced", "good"), ("false", "self"), ("naked", "clear")] {
        let _ = write!(
            plain,
            "{domain} IN MX 10 {host}\n_mta-sts.{domain} IN TXT \"v=STSv1; id=1\"\n\
             mta-sts.{domain} IN A {}\n",
            web.address
        );
    }
    Zones::start(&signed, &plain)
}

/// A relay with a route for each policy.
fn near(files: &Files, (zones, port): (&Zones, u16), roots: &str) -> Server {
    let mut text = format!(
        "hostname = \"near.test\"\nspool = {{ path = \"spool\" }}\n\
         dns = {{ servers = [\"{}\"], validating = true }}\n[[listener]]\n\
         address = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n",
        zones.server
    );
    for (domains, policy) in [
        ("*.opportunistic.plain.test", "opportunistic"),
        ("*.required.plain.test", "required"),
        ("*.verified.plain.test", "verified"),
        ("*.dane.test", "dane"),
        ("*.plain.test", "mta-sts"),
    ] {
        let _ = write!(
            text,
            "[[route]]\ndomains = [\"{domains}\"]\nretry = {{ first = \"1s\", longest = \"2s\" }}\n\
             mx = {{ port = {port}, tls = \"{policy}\" }}\n"
        );
    }
    files.write(CONFIG, &text);
    Server::start_trusting(files, roots)
}

/// Domains, and by which policy and version mail goes.
const GOES: &[(&str, &str)] = &[
    ("good.opportunistic.plain.test", "opportunistic TLSv1.3"),
    ("wrong.opportunistic.plain.test", "opportunistic TLSv1.3"),
    ("late.opportunistic.plain.test", "opportunistic TLSv1.3"),
    ("self.opportunistic.plain.test", "opportunistic TLSv1.3"),
    ("short.opportunistic.plain.test", "opportunistic TLSv1.3"),
    ("v12.opportunistic.plain.test", "opportunistic TLSv1.2"),
    ("old.opportunistic.plain.test", "opportunistic TLSv1.3"),
    ("clear.opportunistic.plain.test", "none none"),
    ("good.required.plain.test", "required TLSv1.3"),
    ("short.required.plain.test", "required TLSv1.3"),
    ("v12.required.plain.test", "required TLSv1.2"),
    ("old.required.plain.test", "required TLSv1.3"),
    ("good.verified.plain.test", "verified TLSv1.3"),
    ("to-good.dane.test", "dane TLSv1.3"),
    ("to-self.dane.test", "dane TLSv1.3"),
    // RFC 7672 §3.1.1: neither times nor names count, and any certificate has a key.
    ("to-late.dane.test", "dane TLSv1.3"),
    ("to-old.dane.test", "dane TLSv1.3"),
    ("to-v12.dane.test", "dane TLSv1.2"),
    ("enforced.plain.test", "mta-sts TLSv1.3"),
];

/// Domains whose mail waits, and what is told.
const WAITS: &[(&str, &[&str])] = &[
    ("clear.required.plain.test", &["clear.plain.test", "STARTTLS is required", "4.7.4"]),
    ("clear.verified.plain.test", &["clear.plain.test", "STARTTLS is required", "4.7.4"]),
    ("wrong.verified.plain.test", &["wrong.plain.test", "4.7.5"]),
    ("late.verified.plain.test", &["late.plain.test", "4.7.5"]),
    ("old.verified.plain.test", &["old.plain.test", "expired", "4.7.5"]),
    ("self.verified.plain.test", &["self.plain.test", "4.7.5"]),
    ("to-wrong.dane.test", &["wrong.dane.test", "no TLSA record matches", "4.7.5"]),
    ("to-clear.dane.test", &["clear.dane.test", "4.7.4"]),
    ("false.plain.test", &["by the MTA-STS policy of the domain: ", "self.plain.test", "4.7.5"]),
    ("naked.plain.test", &["by the MTA-STS policy of the domain: ", "clear.plain.test", "4.7.4"]),
];

#[test]
fn postfix_is_sent_to_by_every_policy() {
    if !is_possible(PACKAGES) {
        return;
    }
    let answers = [
        ("enforced", policy("enforce", &["good"])),
        ("false", policy("enforce", &["self"])),
        ("naked", policy("enforce", &["clear"])),
    ];
    let web = PolicyFiles::start(&answers, "good.plain.test");
    let mut place = Place::new(0);
    make_certificates(&place, &web);
    start_postfix(&mut place);
    let zones = zones(&place, &web);
    // Who issued it is trusted, and who calls itself by another name.
    let pem = |path: std::path::PathBuf| std::fs::read_to_string(path).expect("a certificate");
    place.write("roots.pem", &(pem(web.path("authority.pem")) + &pem(place.path("wrong.pem"))));
    let (files, roots) = (Files::new(), place.path("roots.pem").display().to_string());
    let near = near(&files, (&zones, place.port), &roots);
    for (domain, how) in GOES {
        send(&near, domain);
        assert_eq!(encryption(&relayed(&files, domain)), *how, "{domain}");
    }
    for (domain, told) in WAITS {
        send(&near, domain);
        wait_reason(&files, domain, told);
    }
    near.stop();
}

/// What Postfix asks for, of which server, what its certificate must be for, and how mail comes then.
const ASKS: &[(&str, &str, &str, Option<&str>)] = &[
    ("none", "tls", "", Some("ESMTP")),
    ("may", "tls", "", Some("ESMTPS")),
    ("may", "clear", "", Some("ESMTP")),
    ("encrypt", "tls", "", Some("ESMTPS")),
    ("encrypt", "clear", "", None),
    ("verify", "tls", "mx.here.test", Some("ESMTPS")),
    ("verify", "tls", "other.test", None),
    ("verify", "clear", "mx.here.test", None),
    ("secure", "tls", "mx.here.test", Some("ESMTPS")),
    ("secure", "tls", "other.test", None),
    ("fingerprint", "tls", "", None),
];

/// A server that takes all mail, with a certificate or without.
fn far(files: &Files, certificate: &str) -> Server {
    let head = "hostname = \"mx.here.test\"\nspool = { path = \"spool\" }\n";
    let rest = "[[listener]]\naddress = \"127.0.0.1:0\"\n[[route]]\ndomains = [\"*.here.test\"]\n\
                discard = {}\n";
    Server::start(files, &format!("{head}{certificate}{rest}"))
}

#[test]
fn postfix_sends_to_us_by_each_of_its_levels() {
    if !is_possible(PACKAGES) {
        return;
    }
    let (tls_files, clear_files) = (Files::new(), Files::new());
    make_issued(tls_files.dir(), "ca", &[("mx", "mx.here.test")]);
    let tls = far(&tls_files, &section("mx", &["mx.here.test"]));
    let clear = far(&clear_files, "");
    let mut place = Place::new(0);
    std::fs::copy(tls_files.path("ca.pem"), place.path("ca.pem")).expect("copied");
    let (dir, port) = (place.dir(), place.port);
    let mut services = format!("127.0.0.1:{port} inet n - n - - smtpd\n");
    let mut transports = String::new();
    for (n, (level, server, name, _)) in ASKS.iter().enumerate() {
        let to = if *server == "tls" { &tls } else { &clear };
        let _ = writeln!(transports, "a{n}.here.test to-{n}:[127.0.0.1]:{}", to.address().port());
        let _ = write!(
            services,
            "to-{n} unix - - n - - smtp\n  -o smtp_tls_security_level={level}\n  \
             -o smtp_tls_CAfile={dir}/ca.pem\n"
        );
        if !name.is_empty() {
            let _ = write!(
                services,
                "  -o smtp_tls_verify_cert_match={name}\n  -o smtp_tls_secure_cert_match={name}\n"
            );
        }
    }
    place.write("transports", &transports);
    let lines = format!(
        "inet_interfaces = 127.0.0.1\nsmtpd_relay_restrictions = permit_mynetworks, reject\n\
         transport_maps = texthash:{dir}/transports\n"
    );
    launch_with(&mut place, &lines, &services);
    place.wait_listening(port);
    for n in 0..ASKS.len() {
        let mut client = Client::connect(([127, 0, 0, 1], port).into());
        client.say("MAIL FROM:<me@source.test>", "250");
        client.say(&format!("RCPT TO:<you@a{n}.here.test>"), "250");
        client.say("DATA", "354");
        client.say("Subject: x\r\n\r\nx\r\n.", "250");
    }
    for (n, (level, server, name, how)) in ASKS.iter().enumerate() {
        let files = if *server == "tls" { &tls_files } else { &clear_files };
        let to = format!("you@a{n}.here.test");
        let came = || {
            let mut events = files.events_of("received").into_iter();
            events.find(|event| event["recipients"][0] == *to)
        };
        let what = format!("{level} {server} {name}");
        if let Some(how) = how {
            wait_until(&what, || came().is_some());
            assert_eq!(came().expect("it came")["protocol"], *how, "{what}");
        } else {
            let is_put_off = |line: &str| line.contains(&to) && line.contains("status=deferred");
            let log = || std::fs::read_to_string(place.path("postfix.log")).unwrap_or_default();
            wait_until(&what, || log().lines().any(is_put_off));
            assert!(came().is_none(), "{what}");
        }
    }
    tls.stop();
    clear.stop();
}

/// What Postfix asks for of which host of the signed zone, and how it says that mail went, if it did.
const ASKS_BY_RECORDS: &[(&str, &str, Option<&str>)] = &[
    ("dane", "right", Some("Verified")),
    ("dane", "anchored", Some("Verified")),
    ("dane", "wrong", None),
    ("dane", "stripped", None),
    // By chance of what there is.
    ("dane", "none", Some("Trusted")),
    ("dane-only", "right", Some("Verified")),
    ("dane-only", "none", None),
];

/// The hosts, of which one is the server in clear.
fn zone_of_ours(files: &Files, tls: &Server, clear: &Server) -> String {
    let own = key_digest(&files.path("mx.pem"));
    let (authority, other) =
        (certificate_digest(&files.path("ca.pem")), key_digest(&files.path("ca.pem")));
    let hosts = ["right", "anchored", "wrong", "stripped", "none"];
    let mut zone: String = hosts.map(|host| format!("{host} IN A 127.0.0.1\n")).concat();
    let (tls, clear) = (tls.address().port(), clear.address().port());
    for (host, port, record) in [
        ("right", tls, format!("3 1 1 {own}")),
        ("anchored", tls, format!("2 0 1 {authority}")),
        ("wrong", tls, format!("3 1 1 {other}")),
        ("stripped", clear, format!("3 1 1 {own}")),
    ] {
        let _ = writeln!(zone, "_{port}._tcp.{host} IN TLSA {record}");
    }
    zone
}

#[test]
fn postfix_sends_to_us_as_signed_records_say() {
    if !is_possible(PACKAGES) {
        return;
    }
    let (tls_files, clear_files) = (Files::new(), Files::new());
    make_issued(tls_files.dir(), "ca", &[("mx", "anchored.dane.test")]);
    let tls = far(&tls_files, &section("mx", &["anchored.dane.test"]));
    let clear = far(&clear_files, "");
    let zones = Zones::start(&zone_of_ours(&tls_files, &tls, &clear), "");
    let mut place = Place::new(0);
    std::fs::copy(tls_files.path("ca.pem"), place.path("ca.pem")).expect("copied");
    let (dir, port) = (place.dir(), place.port);
    let mut services = format!("127.0.0.1:{port} inet n - n - - smtpd\n");
    let mut transports = String::new();
    for (n, (level, host, _)) in ASKS_BY_RECORDS.iter().enumerate() {
        let to = if *host == "stripped" { &clear } else { &tls };
        let to = to.address().port();
        let _ = writeln!(transports, "a{n}.here.test to-{n}:[{host}.dane.test]:{to}");
        let _ = write!(
            services,
            "to-{n} unix - - n - - smtp\n  -o smtp_tls_security_level={level}\n  \
             -o smtp_dns_support_level=dnssec\n  -o smtp_tls_loglevel=1\n  \
             -o smtp_tls_CAfile={dir}/ca.pem\n"
        );
    }
    place.write("transports", &transports);
    let lines = format!(
        "inet_interfaces = 127.0.0.1\nsmtpd_relay_restrictions = permit_mynetworks, reject\n\
         transport_maps = texthash:{dir}/transports\n"
    );
    launch_asking(&mut place, &zones.resolver, &lines, &services);
    place.wait_listening(port);
    for (n, (level, host, how)) in ASKS_BY_RECORDS.iter().enumerate() {
        let mut client = Client::connect(([127, 0, 0, 1], port).into());
        let to = format!("you@a{n}.here.test");
        client.give("me@source.test", &[&to], "Subject: x\r\n\r\nx\r\n");
        let log = || std::fs::read_to_string(place.path("postfix.log")).unwrap_or_default();
        let status = if how.is_some() { "status=sent" } else { "status=deferred" };
        let is_done = |line: &str| line.contains(&to) && line.contains(status);
        let what = format!("{level} {host}");
        wait_until(&what, || log().lines().any(is_done));
        let protocols = || -> Vec<_> {
            let events = tls_files.events_of("received").into_iter();
            let came = events.filter(|event| event["recipients"][0] == *to);
            came.map(|event| event["protocol"].clone()).collect()
        };
        if let Some(how) = how {
            // Events are written behind the reply.
            wait_until("it is told", || !protocols().is_empty());
            let of_host = format!("{how} TLS connection established to {host}.dane.test");
            assert!(log().contains(&of_host), "{what}: {}", log());
            assert_eq!(protocols(), ["ESMTPS"], "{what}");
        } else {
            assert!(protocols().is_empty(), "{what}");
        }
    }
    assert!(clear_files.events_of("received").is_empty());
    tls.stop();
    clear.stop();
}
