//! What looks like a sender's world: weighted domains and fields, refusals in providers' words, names.

use super::{Files, LAB, Tool, number, sink, source};
use load::dialogue::{Dialogue, DialogueEvent, Offer};
use std::io::{Read, Write};
use std::process::Command;

#[test]
fn failures_come_in_providers_words_for_the_domains_that_they_are_for() {
    let files = Files::new();
    std::fs::write(
        files.path("replies"),
        "# what two providers say\n\
         rcpt 1000 gone.test  550 5.1.1 <{recipient}>: nobody at {domain}\n\
         dot  500  *.b.test   451 4.7.1 greylisted\\n4.7.1 come back\n\
         mail 50   *          421 4.3.2 closing\n",
    )
    .expect("written");
    let run = || {
        let replies = files.name("replies");
        let sink = sink(&["--replies", &replies, "--seed", "5"]);
        let arguments = ["--sessions", "1", "--per-session", "5", "--domains"];
        let arguments = [&arguments[..], &["a.test=5,x.b.test=4,gone.test"]].concat();
        let (_, report) = source(&sink.address, 1000, &arguments).finish();
        sink.signal(rustix::process::Signal::TERM);
        let mut sink = sink;
        let (code, totals) = sink.finish();
        assert_eq!(code, 0);
        assert_eq!(number(&totals, "messages"), number(&report, "acked"));
        (number(&report, "acked"), report["refused_by_reply"].clone())
    };
    let (acked, refused) = run();
    assert!((600..800).contains(&acked), "{acked}: {refused}");
    for (phase, least, most) in [("RCPT 550", 60, 140), ("content 451", 140, 240)] {
        assert!((least..most).contains(&number(&refused, phase)), "{refused}");
    }
    // One session: the same seed, the same run.
    assert_eq!(run(), (acked, refused));
    std::fs::write(files.path("replies"), "\nrcpt 10 * 250 fine\n").expect("written");
    let output = Command::new(LAB)
        .args(["sink", "--listen", "127.0.0.1:0", "--replies", &files.name("replies")])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("replies:2:11: \"250\" is not a code from 400 to 599"), "{told}");
}

/// Takes one connection's messages; all that they hold.
fn taken(listener: &std::net::TcpListener) -> String {
    let offer = Offer {
        chunking: false,
        pipelining: false,
        dsn: false,
        discards: false,
        starttls: false,
        requiretls: false,
    };
    let (mut dialogue, mut content) = (Dialogue::new(offer), Vec::new());
    let (mut stream, _) = listener.accept().expect("it connects");
    let mut buffer = [0; 65_536];
    loop {
        stream.write_all(dialogue.output()).expect("it reads");
        dialogue.output().clear();
        let length = stream.read(&mut buffer).expect("it writes");
        let mut rest = &buffer[..length];
        loop {
            let (used, event) = dialogue.advance(rest, &mut content);
            rest = &rest[used..];
            match event {
                DialogueEvent::Quit => return String::from_utf8(content).expect("text"),
                DialogueEvent::Input => break,
                _ => dialogue.accept(),
            }
        }
    }
}

#[test]
fn messages_carry_fields_whose_values_are_drawn() {
    let files = Files::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    std::fs::write(files.path("domains"), "# two\nbig.test 3\nsmall.test\n").expect("written");
    let domains = files.name("domains");
    let arguments = ["--sessions", "1", "--per-session", "200", "--domains-file", &domains];
    let fields = ["--header", "X-Campaign: spring {n}", "--vary", "X-Tenant=acme*3|t{2}"];
    let mut tool = source(&address, 200, &[&arguments[..], &fields].concat());
    let text = taken(&listener);
    assert_eq!(tool.finish().0, 0);
    let count = |line: &str| text.lines().filter(|found| *found == line).count();
    assert_eq!((count("X-Campaign: spring 0"), count("X-Campaign: spring 199")), (1, 1));
    let tenants = ["X-Tenant: acme", "X-Tenant: t0", "X-Tenant: t1"].map(count);
    assert_eq!(tenants.iter().sum::<usize>(), 200);
    assert!((95..145).contains(&tenants[0]) && tenants[1] > 20 && tenants[2] > 20, "{tenants:?}");
    let domains = ["To: <user@big.test>", "To: <user@small.test>"].map(count);
    assert!(domains[0] + domains[1] == 200 && (125..175).contains(&domains[0]), "{domains:?}");
    for wrong in [&["--vary", "X-Tenant"][..], &["--header", "no field"], &["--domains", "a=0"]] {
        assert_eq!(source("127.0.0.1:1", 1, wrong).finish().0, 2, "{wrong:?}");
    }
}

/// What `dig` says to this question, in short.
fn dig(server: &str, words: &[&str]) -> String {
    let (_, port) = server.rsplit_once(':').expect("a port");
    let output = Command::new("dig")
        .args([
            "@127.0.0.1",
            "-p",
            port,
            "+tries=1",
            "+noall",
            "+answer",
            "+authority",
            "+comments",
        ])
        .args(words)
        .output()
        .expect("dig runs (see scripts/install-test-packages)");
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_name_server_answers_what_its_zones_have() {
    let files = Files::new();
    let long = "x".repeat(250);
    let zone = format!(
        "$TTL 300\n$ORIGIN example.test.\n@ IN SOA ns hostmaster ( 7 3600 600 86400 30 )\n\
         @ MX 10 mx\n@ MX 20 backup\n@ TXT \"v=spf1 ip4:192.0.2.0/24 -all\"\n\
         mx A 192.0.2.1\nmx AAAA 2001:db8::1\n_25._tcp.mx TLSA 3 1 1 ( 00ff ab )\n\
         www CNAME mx\n*.any A 192.0.2.9\nlong TXT {0} {0} {0} {0} {0} {0}\n\
         $ORIGIN 2.0.192.in-addr.arpa.\n1 PTR mx.example.test.\n",
        format!("\"{long}\"")
    );
    std::fs::write(files.path("zone"), zone).expect("written");
    let names = Tool::listen(&["dns", "--zone", &files.name("zone")]);
    for transport in ["+notcp", "+tcp"] {
        let ask = |words: &[&str]| dig(&names.address, &[words, &[transport]].concat());
        for (words, has) in [
            (
                &["MX", "example.test"][..],
                &["status: NOERROR", " aa ", "10 mx.example.test.", "20 backup"][..],
            ),
            (&["A", "mx.EXAMPLE.test"], &["300 IN A 192.0.2.1"]),
            (&["AAAA", "mx.example.test"], &["2001:db8::1"]),
            (&["TLSA", "_25._tcp.mx.example.test"], &["IN TLSA 3 1 1 00FFAB"]),
            (&["A", "www.example.test"], &["IN CNAME mx.example.test.", "192.0.2.1"]),
            (&["A", "a.b.any.example.test"], &["a.b.any.example.test. 300 IN A 192.0.2.9"]),
            (&["-x", "192.0.2.1"], &["PTR mx.example.test."]),
            (&["TXT", "example.test"], &["\"v=spf1 ip4:192.0.2.0/24 -all\""]),
            // NODATA and NXDOMAIN with the SOA, for as long as its minimum.
            (&["MX", "mx.example.test"], &["status: NOERROR", "example.test. 30 IN SOA ns"]),
            (&["A", "nobody.example.test"], &["status: NXDOMAIN", "example.test. 30 IN SOA ns"]),
            (&["A", "_tcp.mx.example.test"], &["status: NOERROR", "ANSWER: 0"]),
            (&["A", "elsewhere.test"], &["status: REFUSED"]),
        ] {
            let told = ask(words);
            assert!(has.iter().all(|has| told.contains(has)), "{words:?} {transport}: {told}");
        }
    }
    // Cut over UDP, asked again over TCP.
    let cut = dig(&names.address, &["TXT", "long.example.test", "+ignore"]);
    assert!(cut.contains(" tc ") && cut.contains("ANSWER: 0"), "{cut}");
    let whole = dig(&names.address, &["TXT", "long.example.test"]);
    assert_eq!(whole.matches(&long).count(), 6, "{whole}");
    std::fs::write(files.path("zone"), "$ORIGIN a.test.\n@ MX ten mx\n").expect("written");
    let wrong = Command::new(LAB).args(["dns", "--zone", &files.name("zone")]).output();
    let wrong = wrong.expect("it runs");
    let told = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        wrong.status.code() == Some(2) && told.contains("zone:2:6: `ten` is no number"),
        "{told}"
    );
}
