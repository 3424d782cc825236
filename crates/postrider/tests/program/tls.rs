//! TLS on listeners, spoken by other people's programs.

use crate::support::certificate::{EC, RSA, make_certificate, make_ended, section};
use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::server::{CONFIG, Server, command};
use crate::support::{Files, config, tool, wait_until};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

/// A listener with STARTTLS, and one that is encrypted from the start.
const LISTENERS: &str = "\
[[listener]]
name = \"mx\"
address = \"127.0.0.1:0\"
command_timeout = \"2s\"
[[listener]]
name = \"smtps\"
address = \"127.0.0.1:0\"
tls = \"implicit\"
[[route]]
domains = [\"here.test\"]
maildir = { path = \"mail/{local}\" }
[admin]
address = \"127.0.0.1:0\"
";

fn server(files: &Files, sections: &str) -> Server {
    let head = "hostname = \"mx.here.test\"\nspool = { path = \"spool\" }\n";
    Server::start(files, &format!("{head}{sections}{LISTENERS}"))
}

/// With one certificate, `mx.here.test`.
fn usual(files: &Files) -> Server {
    make_certificate(files.dir(), "mx", RSA, &["mx.here.test"]);
    server(files, &section("mx", &["mx.here.test"]))
}

/// What `openssl s_client` says of a connection that is encrypted from the start.
fn s_client(server: &Server, more: &[&str]) -> String {
    let to = server.addresses[1].to_string();
    let words: Vec<_> =
        ["s_client", "-connect", &to].into_iter().chain(more.iter().copied()).collect();
    let output = tool::run("openssl", &words);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text + &String::from_utf8_lossy(&output.stderr)
}

fn subject(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.strip_prefix("subject=CN = "));
    line.unwrap_or_else(|| panic!("{text}"))
}

fn admin(server: &Server) -> String {
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    line.rsplit(' ').next().expect("an address").to_owned()
}

#[test]
fn mail_comes_encrypted_by_starttls_and_from_the_start() {
    let files = Files::new();
    let server = usual(&files);
    let ca = files.path("mx.pem").display().to_string();
    for (address, how) in
        [(server.addresses[0], "--tls"), (server.addresses[1], "--tls-on-connect")]
    {
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        tool::succeed(
            "swaks",
            &[
                "--server",
                &host,
                "--port",
                &port,
                how,
                "--tls-verify",
                "--tls-sni",
                "mx.here.test",
                "--tls-ca-path",
                &ca,
                "--from",
                "me@source.test",
                "--to",
                "you@here.test",
                "--suppress-data",
            ],
        );
    }
    tool::python(
        "import smtplib, ssl, sys\n\
         context = ssl.create_default_context(cafile=sys.argv[2])\n\
         context.maximum_version = ssl.TLSVersion.TLSv1_2\n\
         class Client(smtplib.SMTP):\n\
         \x20   _host = 'mx.here.test'\n\
         client = Client()\n\
         client.connect('127.0.0.1', int(sys.argv[1]))\n\
         client._host = 'mx.here.test'\n\
         client.starttls(context=context)\n\
         client.sendmail('me@source.test', ['you@here.test'], b'Subject: x\\r\\n\\r\\n' + b'x' * 200000)\n\
         client.quit()\n",
        &[&server.address().port().to_string(), &ca],
    );
    let messages = files.wait_maildir("mail/you", 3);
    let text = |message: &Vec<u8>| String::from_utf8_lossy(message).into_owned();
    assert!(messages.iter().all(|message| text(message).contains(" with ESMTPS id ")));
    let tls13 = messages.iter().filter(|message| text(message).contains("\ttls TLS_AES_"));
    assert_eq!(tls13.count(), 2);
    files.wait_events("received", 3);
    let events = files.events_of("received");
    let versions: Vec<_> =
        events.iter().filter_map(|event| event["tls_version"].as_str()).collect();
    assert_eq!(versions, ["TLSv1.3", "TLSv1.3", "TLSv1.2"]);
    assert!(
        events[2]["tls_cipher"].as_str().is_some_and(|name| name.starts_with("TLS_ECDHE_RSA_"))
    );
    let metrics = get(&admin(&server), "/metrics");
    assert_eq!(metric(&metrics, "postrider_tls_handshakes_total"), 3);
}

#[test]
fn handshakes_have_a_limit_and_their_last_tenth_is_for_those_who_may_relay() {
    const FULL: &str = "454 4.7.0 Too many TLS handshakes; try again later";
    const GO: &str = "220 2.0.0 Ready to start TLS";
    let files = Files::new();
    make_certificate(files.dir(), "mx", EC, &["mx.here.test"]);
    let known =
        "[[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.1\"]\n";
    let limit = "[tls]\nmax_handshakes = 10\n";
    let lasting = LISTENERS.replace("command_timeout = \"2s\"\n", "");
    let head = "hostname = \"mx.here.test\"\nspool = { path = \"spool\" }\n";
    let certificate = section("mx", &["mx.here.test"]);
    let server = Server::start(&files, &format!("{head}{limit}{certificate}{lasting}{known}"));
    let [mx, smtps, inside] = server.addresses[..] else { panic!("{:?}", server.addresses) };
    let asks = |address, answer: &str| {
        let mut client = Client::connect(address);
        client.say("STARTTLS", answer);
        client
    };
    let mut strangers: Vec<Client> = (0..9).map(|_| asks(mx, GO)).collect();
    // The tenth is told, and may go on in clear; what stood behind it was not said for that.
    let mut tenth = Client::connect(mx);
    tenth.send("STARTTLS\r\nMAIL FROM:<evil@source.test>\r\nRCPT TO:<you@here.test>\r\n");
    tenth.expect(FULL);
    tenth.say("NOOP", "250 2.0.0 Ok");
    // Of another listener one may begin, for which the oldest there gives way; clients that may relay always.
    let implicit = TcpStream::connect(smtps).expect("a connection");
    assert_eq!(strangers.remove(0).reply(), "", "the oldest gives way");
    let known: Vec<Client> = (0..3).map(|_| asks(inside, GO)).collect();
    let told = files.wait_events("refused", 1);
    let steps: Vec<_> = told.iter().filter_map(|event| event["step"].as_str()).collect();
    assert_eq!(steps, ["STARTTLS"], "{told:?}");
    strangers.clear();
    drop((known, implicit));
    // Who went away makes room, once that is noticed.
    wait_until("room for a stranger", || {
        let mut client = Client::connect(mx);
        client.send("STARTTLS\r\n");
        client.reply().starts_with("220")
    });
}

#[test]
fn a_certificate_that_ends_soon_is_told_of() {
    let files = Files::new();
    make_ended(files.dir(), "mx", "mx.here.test");
    let server = server(&files, &section("mx", &["mx.here.test"]));
    let told = server.wait_console("tls", |line| line.contains("the certificate in"));
    assert!(told.contains("mx.pem expired ") && told.to_lowercase().contains("warn"), "{told}");
}

#[test]
fn a_client_is_shown_the_certificate_of_the_name_and_key_that_it_asks_for() {
    let files = Files::new();
    make_certificate(files.dir(), "rsa", RSA, &["mx.here.test"]);
    make_certificate(files.dir(), "ec", EC, &["mx.here.test"]);
    make_certificate(files.dir(), "other", EC, &["other.test"]);
    let sections = section("rsa", &["mx.here.test"])
        + &section("ec", &["mx.here.test"])
        + &section("other", &["other.test", "*.other.test"]);
    let server = server(&files, &sections);
    let seen = |more: &[&str]| s_client(&server, more);
    let usual = seen(&["-servername", "mx.here.test"]);
    assert_eq!(subject(&usual), "mx.here.test");
    assert!(usual.contains("Peer signature type: ECDSA"), "{usual}");
    let rsa = seen(&["-servername", "MX.here.test", "-sigalgs", "RSA-PSS+SHA256"]);
    assert_eq!(subject(&rsa), "mx.here.test");
    assert!(rsa.contains("Peer signature type: RSA-PSS"), "{rsa}");
    for name in ["other.test", "a.other.test"] {
        assert_eq!(subject(&seen(&["-servername", name])), "other.test");
    }
    for other in [&["-noservername"][..], &["-servername", "unknown.test"]] {
        assert_eq!(subject(&seen(other)), "mx.here.test", "{other:?}");
    }
    // Sessions are resumed by ticket.
    let ticket = files.path("ticket").display().to_string();
    let to = server.address().to_string();
    let again = format!(
        "(echo EHLO x; sleep 1; echo QUIT) | openssl s_client -connect {to} -starttls smtp -quiet \
         -sess_out {ticket} && (sleep 0.2; echo QUIT) | openssl s_client -connect {to} -starttls smtp \
         -sess_in {ticket}"
    );
    let resumed = tool::succeed("sh", &["-c", &again]);
    assert!(resumed.contains("Reused, TLSv1.3"), "{resumed}");
}

#[test]
fn certificates_that_change_are_shown_and_what_is_none_leaves_them() {
    let files = Files::new();
    let server = usual(&files);
    let serial = |text: &str| {
        let start = text.find("-----BEGIN CERTIFICATE").expect("it is shown");
        text[start..].lines().take(5).collect::<String>()
    };
    let first = serial(&s_client(&server, &[]));
    make_certificate(files.dir(), "mx", EC, &["mx.here.test"]);
    wait_until("the new one is shown", || serial(&s_client(&server, &[])) != first);
    let second = serial(&s_client(&server, &[]));
    files.write("mx.key", "-----BEGIN PRIVATE KEY-----\nnothing\n-----END PRIVATE KEY-----\n");
    server.wait_console("the mistake", |line| {
        line.contains("tls: the previous certificates stay in force: certificate of line 3: ")
            && line.contains("mx.key")
    });
    assert_eq!(serial(&s_client(&server, &[])), second);
    // A reload with it changes nothing.
    let config = std::fs::read_to_string(files.path(CONFIG)).expect("it is there");
    files.write(CONFIG, &config.replace("mx.here.test\"\n", "renamed.here.test\"\n"));
    let answer = server.command(&["reload"]);
    assert!(answer.code != 0 && answer.err.contains("mx.key"), "{}", answer.err);
}

/// RFC 3207 §4.2, and what was done to those who did not heed it.
#[test]
fn what_comes_in_clear_behind_starttls_is_dropped() {
    let files = Files::new();
    let server = usual(&files);
    let heard = tool::python(
        "import socket, ssl, sys\n\
         s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n\
         f = s.makefile('rb')\n\
         f.readline()\n\
         s.sendall(b'EHLO a.test\\r\\n')\n\
         while f.readline()[3:4] != b' ': pass\n\
         s.sendall(b'STARTTLS\\r\\nMAIL FROM:<evil@source.test>\\r\\nRCPT TO:<you@here.test>\\r\\n')\n\
         f.readline()\n\
         context = ssl._create_unverified_context()\n\
         t = context.wrap_socket(s, server_hostname='mx.here.test')\n\
         t.sendall(b'RCPT TO:<you@here.test>\\r\\n')\n\
         g = t.makefile('rb')\n\
         print(g.readline().decode(), end='')\n\
         t.sendall(b'EHLO a.test\\r\\n')\n\
         lines = []\n\
         while not lines or lines[-1][3:4] != b' ': lines.append(g.readline())\n\
         print(b''.join(lines).decode(), end='')\n\
         t.sendall(b'STARTTLS\\r\\n')\n\
         print(g.readline().decode(), end='')\n",
        &[&server.address().port().to_string()],
    );
    assert!(heard.starts_with("503 5.5.1 "), "{heard}");
    assert!(
        !heard.contains("250-STARTTLS") && heard.contains("\n503 5.5.1 TLS already active"),
        "{heard}"
    );
}

#[test]
fn handshakes_that_are_none_end_and_cost_nobody_else_anything() {
    let files = Files::new();
    let server = usual(&files);
    let admin = admin(&server);
    let connect = || TcpStream::connect(server.addresses[1]).expect("it listens");
    // One that says nothing, one that never ends its ClientHello, ones that speak something else.
    let silent = connect();
    let mut slow = connect();
    slow.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc]).expect("sent");
    for garbage in [&b"EHLO a.test\r\n"[..], b"GET / HTTP/1.0\r\n\r\n", &[0x80; 4_096]] {
        let mut other = connect();
        other.write_all(garbage).expect("sent");
        let mut heard = Vec::new();
        let _ = other.read_to_end(&mut heard);
        assert!(heard.len() < 100 && !heard.starts_with(b"220"), "{heard:?}");
    }
    assert_eq!(subject(&s_client(&server, &[])), "mx.here.test");
    let failed = || metric(&get(&admin, "/metrics"), "postrider_tls_handshakes_failed_total");
    wait_until("three have failed", || failed() == 3);
    // By STARTTLS the time for a command is the time for a handshake, too.
    let mut clear = Client::connect(server.address());
    clear.say("EHLO a.test", "250");
    clear.say("STARTTLS", "220 2.0.0 Ready to start TLS");
    assert_eq!(clear.rest(), "", "nothing is said in clear any more");
    wait_until("a fourth", || failed() == 4);
    drop((silent, slow));
    wait_until("all six", || failed() == 6);
}

#[test]
fn postfix_finds_what_it_asks_for() {
    let files = Files::new();
    let server = usual(&files);
    let ca = files.path("mx.pem").display().to_string();
    let to = format!("[127.0.0.1]:{}", server.address().port());
    files.write("main.cf", "compatibility_level = 3.6\n");
    let command = format!(
        "MAIL_CONFIG={} posttls-finger -c -L summary -l secure -F {ca} {to} mx.here.test",
        files.dir().display()
    );
    let text = tool::succeed("sh", &["-c", &command]);
    assert!(text.contains("Verified TLS connection established"), "{text}");
}

/// A route to what listens at `port`, for one domain.
fn route(domain: &str, port: u16, tls: &str) -> String {
    format!(
        "[[route]]\ndomains = [\"{domain}.test\"]\nretry = {{ first = \"1s\" }}\n\
         smtp = {{ hosts = [\"127.0.0.1:{port}\"]{tls} }}\n"
    )
}

fn relay(files: &Files, routes: &str, roots: &str) -> Server {
    let head = "hostname = \"near.test\"\nspool = { path = \"spool\" }\n[[listener]]\n\
         address = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n[admin]\naddress = \"127.0.0.1:0\"\n";
    files.write(CONFIG, &format!("{head}{routes}"));
    Server::start_trusting(files, roots)
}

#[test]
fn next_hops_are_sent_to_encrypted_as_the_route_says() {
    let far_files = Files::new();
    make_certificate(far_files.dir(), "mx", EC, &["IP:127.0.0.1"]);
    make_certificate(far_files.dir(), "other", EC, &["other.test"]);
    let far = server(&far_files, &section("mx", &["mx.here.test"]));
    let other_files = Files::new();
    std::fs::copy(far_files.path("other.pem"), other_files.path("mx.pem")).expect("copied");
    std::fs::copy(far_files.path("other.key"), other_files.path("mx.key")).expect("copied");
    let other = server(&other_files, &section("mx", &["mx.here.test"]));
    let clear_files = Files::new();
    let clear = server_in_clear(&clear_files);
    let roots = far_files.path("roots.pem");
    let pem = |name: &str| std::fs::read_to_string(far_files.path(name)).expect("a certificate");
    std::fs::write(&roots, pem("mx.pem") + &pem("other.pem")).expect("written");
    let (far_port, other_port) = (far.address().port(), other.address().port());
    let routes = route("usual", far_port, "")
        + &route("off", far_port, ", tls = \"off\"")
        + &route("required", far_port, ", tls = \"required\"")
        + &route("verified", far_port, ", tls = \"verified\"")
        + &route("misnamed", other_port, ", tls = \"verified\"")
        + &route("anyone", other_port, ", tls = \"required\"")
        + &route("clear", clear.address().port(), "")
        + &route("unmet", clear.address().port(), ", tls = \"required\"");
    let files = Files::new();
    let near = relay(&files, &routes, &roots.display().to_string());
    let mut client = Client::connect(near.address());
    let seen = |name: &str| {
        let events = || {
            files
                .events()
                .into_iter()
                .filter(|event| event["next_hop"].is_string() || event["reason"].is_string())
        };
        let of = |event: &serde_json::Value| event["recipient"] == format!("you@{name}.test");
        let is_end = |event: &serde_json::Value| {
            ["relayed", "failed", "deferred"].iter().any(|kind| event["event"] == *kind)
        };
        let find = || events().find(|event| of(event) && is_end(event));
        wait_until(name, || find().is_some());
        find().expect("it was there")
    };
    for name in ["usual", "off", "required", "verified", "anyone", "clear"] {
        client.mail("me@source.test", &[&format!("you@{name}.test")], "Subject: x\r\n\r\nx\r\n");
        let event = seen(name);
        // The far server takes mail for `here.test` only: it was asked, and that will do.
        let is_encrypted = event["tls_version"] == "TLSv1.3";
        assert_eq!(is_encrypted, !["off", "clear"].contains(&name), "{name}: {event:#}");
    }
    for (name, told) in [("misnamed", "not valid for name"), ("unmet", "STARTTLS is required")] {
        client.mail("me@source.test", &[&format!("you@{name}.test")], "Subject: x\r\n\r\nx\r\n");
        let hop = format!("smtp:route-{}", if name == "misnamed" { 5 } else { 8 });
        let is_it = |event: &serde_json::Value| {
            let reason = event["reason"].as_str().unwrap_or_default();
            event["next_hop"].as_str().is_some_and(|next| next.starts_with(&hop))
                && reason.contains(told)
        };
        wait_until(name, || files.events_of("suspended").iter().any(is_it));
    }
    // The far server says of each recipient that it has been asked for.
    let asked = |name: &str| {
        let recipient = format!("you@{name}.test");
        clear_files.events_of("refused").iter().any(|event| event["recipient"] == *recipient)
    };
    assert!(asked("clear") && !asked("unmet"));
}

#[test]
fn next_hops_are_asked_for_recipients_encrypted_as_the_route_says() {
    let known = "[[table]]\nname = \"known\"\n[table.inline]\n\"you@required.known.test\" = \"\"\n\
                 \"you@verified.known.test\" = \"\"\n\"you@misnamed.known.test\" = \"\"\n\
                 [[route]]\ndomains = [\"*.known.test\"]\nrecipients = { table = \"known\" }\n\
                 discard = {}\n";
    let (far_files, other_files) = (Files::new(), Files::new());
    make_certificate(far_files.dir(), "mx", EC, &["IP:127.0.0.1"]);
    make_certificate(other_files.dir(), "mx", EC, &["other.test"]);
    let here = |files: &Files| server(files, &(section("mx", &["mx.here.test"]) + known));
    let (far, other) = (here(&far_files), here(&other_files));
    let roots = far_files.path("roots.pem");
    let pem = |files: &Files| std::fs::read_to_string(files.path("mx.pem")).expect("a certificate");
    std::fs::write(&roots, pem(&far_files) + &pem(&other_files)).expect("written");
    let asked = |name: &str, server: &Server, tls: &str| {
        let to = server.to();
        format!(
            "[[table]]\nname = \"{name}\"\ncall_ahead = {{ route = \"{name}\" }}\n\
             [[route]]\nname = \"{name}\"\ndomains = [\"{name}.known.test\"]\n\
             recipients = {{ table = \"{name}\" }}\n\
             smtp = {{ hosts = [\"{to}\"], tls = \"{tls}\" }}\n"
        )
    };
    let routes = asked("required", &other, "required")
        + &asked("verified", &far, "verified")
        + &asked("misnamed", &other, "verified");
    let files = Files::new();
    let near = relay(&files, &routes, &roots.display().to_string());
    let mut client = Client::connect(near.address());
    client.say("MAIL FROM:<me@source.test>", "250");
    for (to, reply) in [
        ("you@required", "250"),
        ("nobody@required", "550 5.1.1 Recipient unknown"),
        ("you@verified", "250"),
        ("nobody@verified", "550 5.1.1 Recipient unknown"),
        ("you@misnamed", "451 4.4.3"),
    ] {
        client.say(&format!("RCPT TO:<{to}.known.test>"), reply);
    }
    let got = near.command(&["table", "get", "misnamed", "you@misnamed.known.test"]);
    assert!((got.out + &got.err).contains("not valid for name"), "it is told why");
}

/// Without a certificate.
fn server_in_clear(files: &Files) -> Server {
    let listeners = LISTENERS.replace("tls = \"implicit\"\n", "");
    let head = "hostname = \"mx.here.test\"\nspool = { path = \"spool\" }\n";
    Server::start(files, &format!("{head}{listeners}"))
}

#[test]
fn a_certificate_of_version_1_is_refused_in_words_about_it() {
    let files = Files::new();
    // As authorities of a house make them: without extensions.
    for words in [
        "req -newkey rsa:2048 -nodes -keyout old.key -out old.csr -subj /CN=relay.test",
        "x509 -req -in old.csr -signkey old.key -out old.pem -days 30",
    ] {
        let made = Command::new("openssl").args(words.split(' ')).current_dir(files.dir()).output();
        assert!(made.expect("openssl runs").status.success(), "{words}");
    }
    let text = "[[certificate]]\nnames = [\"relay.test\"]\nchain = \"old.pem\"\nkey = \"old.key\"\n\
                [[route]]\ndiscard = {}\n";
    files.write(CONFIG, &config(text));
    let refused = command(files.dir(), &["serve"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("old.pem: the certificate has X.509 version 1\n"), "{refused:?}");
    // Whoever shows the last line alone shows what to do.
    let last = refused.err.trim_end().lines().last().unwrap_or_default();
    assert!(last.contains("help: issue it as version 3"), "{refused:?}");
    assert!(!refused.err.contains("peer"), "{refused:?}");
}
