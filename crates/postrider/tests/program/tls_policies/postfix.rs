//! Postfix as next hop and as client, by every policy of either.

use super::{PACKAGES, encryption, policy, relayed, send, wait_reason};
use crate::interop::place::{Place, is_possible};
use crate::interop::postfix::launch_with;
use crate::support::certificate::{EC, make_certificate, make_issued, section};
use crate::support::client::Client;
use crate::support::server::{CONFIG, Server};
use crate::support::tool::succeed;
use crate::support::{Files, wait_until};
use crate::tls_policies::files::PolicyFiles;
use crate::tls_policies::zones::{Zones, key_digest};
use std::fmt::Write as _;

/// Its hosts, each at an address of its own: a certificate of an authority and of its name, of another name, of
/// the year before, of nobody, of X.509 version 1 with a short key, one that is not by TLS 1.3, and none.
const HOSTS: [&str; 7] = ["good", "wrong", "late", "self", "short", "old", "clear"];

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
    make_version_1(&dir, "old", "rsa:2048", "2");
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
        if *host == "old" {
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
    ("old.opportunistic.plain.test", "opportunistic TLSv1.2"),
    ("clear.opportunistic.plain.test", "none none"),
    ("good.required.plain.test", "required TLSv1.3"),
    ("short.required.plain.test", "required TLSv1.3"),
    ("old.required.plain.test", "required TLSv1.2"),
    ("good.verified.plain.test", "verified TLSv1.3"),
    ("to-good.dane.test", "dane TLSv1.3"),
    ("to-self.dane.test", "dane TLSv1.3"),
    // RFC 7672 §3.1.1: neither times nor names count, and any certificate has a key.
    ("to-late.dane.test", "dane TLSv1.3"),
    ("to-old.dane.test", "dane TLSv1.2"),
    ("enforced.plain.test", "mta-sts TLSv1.3"),
];

/// Domains whose mail waits, and what is told.
const WAITS: &[(&str, &[&str])] = &[
    ("clear.required.plain.test", &["clear.plain.test", "STARTTLS is required", "4.7.4"]),
    ("clear.verified.plain.test", &["clear.plain.test", "STARTTLS is required", "4.7.4"]),
    ("wrong.verified.plain.test", &["wrong.plain.test", "4.7.5"]),
    ("late.verified.plain.test", &["late.plain.test", "4.7.5"]),
    ("self.verified.plain.test", &["self.plain.test", "4.7.5"]),
    ("to-wrong.dane.test", &["wrong.dane.test", "no TLSA record is about", "4.7.5"]),
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
