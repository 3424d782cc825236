//! `[log] format = "postfix"`: programs that read Postfix's log read ours.

use crate::interop::place::{Place, is_possible};
use crate::interop::postfix;
use crate::support::certificate::{EC, make_certificate, section};
use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::{CONFIG, POSTRIDER, Server, control};
use crate::support::tool::python;
use crate::support::{Files, WAIT_MAX, config, config_with, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

/// Mail that is relayed, deferred and bounced, by the recipient's name.
const ROUTES: &str = "[log]\nformat = \"postfix\"\n\
     [retry]\nfirst = \"1h\"\nlongest = \"1h\"\n\
     [[table]]\nname = \"users\"\n[table.inline]\n\"sender@here.test\" = \"\"\n\
     [[route]]\ndomains = [\"here.test\"]\nrecipients = { table = \"users\" }\nmaildir = { path = \"mail/{local}\" }\n";

fn start(files: &Files) -> (Server, Peer) {
    let peer = Peer::start(|line| {
        let reply = |name: &str, reply: &str| {
            (line.starts_with("RCPT") && line.contains(name)).then(|| reply.to_owned())
        };
        reply("<later", "450 4.2.0 Greylisted")
            .or_else(|| reply("<never", "550 5.1.1 No such user"))
    });
    let hop = &peer.address;
    let text = format!("{ROUTES}[[route]]\nsmtp = {{ hosts = [\"{hop}\"] }}\n");
    let server = Server::start(files, &config_with("", "relay_from = [\"127.0.0.1\"]", &text));
    (server, peer)
}

/// The sums of pflogsumm's first section by name.
fn sums(place: &Place, log: &str) -> BTreeMap<String, u64> {
    place.write("log", log);
    let path = place.path("log").display().to_string();
    let output =
        place.command("pflogsumm", &["pflogsumm", &path]).output().expect("a script of ours");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    // `     20   delivered`, `      4   deferred  (4 deferrals)`
    let line = |line: &str| {
        let (number, rest) = line.trim_start().split_once(' ')?;
        // `rejected (20%)`
        let name = rest.trim_start().split(['(', '\u{20}']).next()?;
        Some((name.trim_end().to_owned(), number.parse().ok()?))
    };
    text.lines().take_while(|line| !line.starts_with("Per-Hour")).filter_map(line).collect()
}

#[test]
fn pflogsumm_counts_what_the_events_count() {
    if !is_possible(&["pflogsumm"]) {
        return;
    }
    let files = Files::new();
    let (server, _peer) = start(&files);
    let mut client = Client::connect(server.address());
    for n in 0..20 {
        let to = format!("ok{n}@far.test");
        client.mail(
            "sender@here.test",
            &[&to],
            &format!("Message-ID: <{n}@here.test>\r\n\r\nx\r\n"),
        );
    }
    for n in 0..5 {
        let (ok, later) = (format!("ok-{n}@far.test"), format!("later{n}@far.test"));
        client.mail("sender@here.test", &[&ok, &later], "\r\nx\r\n");
    }
    for n in 0..3 {
        client.mail("sender@here.test", &[&format!("never{n}@far.test")], "\r\nx\r\n");
    }
    client.say("MAIL FROM:<sender@here.test>", "250");
    for n in 0..7 {
        client.say(&format!("RCPT TO:<nobody{n}@here.test>"), "550 5.1.1");
    }
    files.wait_events("relayed", 25);
    // Three DSNs.
    files.wait_events("delivered", 3);
    files.wait_events("deferred", 5);
    let count = |name: &str| files.wait_events(name, 0).len() as u64;
    let (received, refused) = (count("received"), count("refused"));
    let delivered = count("relayed") + count("delivered");
    let (deferred, failed) = (count("deferred"), count("failed"));
    server.wait_console("the last refusal", |line| line.contains("nobody6@here.test"));
    // All but those with a deferred recipient.
    let removed = || server.console().iter().filter(|line| line.ends_with(": removed")).count();
    wait_until("26 removed messages", || removed() >= 26);
    let place = Place::new(0);
    let log = server.console().join("\n") + "\n";
    let sums = sums(&place, &log);
    let seen =
        |name: &str| sums.get(name).copied().unwrap_or_else(|| panic!("{name}: {sums:?}\n{log}"));
    let all = ["received", "delivered", "deferred", "bounced", "rejected"].map(seen);
    assert_eq!(all, [received, delivered, deferred, failed, refused], "{log}");
    assert_eq!(all, [28, 28, 5, 3, 7], "{log}");
    assert!(log.contains(": message-id=<7@here.test>"), "{log}");
    // Queue ids lead to the message.
    let line = log.lines().find(|line| line.contains("to=<later0@far.test>")).expect("a line");
    assert!(line.contains("dsn=4.2.0, status=deferred (host "), "{line}");
    assert!(line.contains(" said: 450 4.2.0 Greylisted (in reply to RCPT TO command))"), "{line}");
    let id = line.split(": ").nth(1).expect("a queue id");
    let shown = server.command(&["trace", id]);
    assert!(shown.code == 0 && shown.out.contains("later0@far.test"), "{shown:?}");
    server.stop();
}

/// Attacks and one honest client, each from an address of its own. Both servers get the same.
fn attack(server: SocketAddr) {
    let from = |last: u8| {
        let mut client = Client::from(IpAddr::from([127, 0, 0, last]), server);
        client.expect("220");
        client
    };
    // Guesses users, with names of others in all that it may choose.
    let mut guesser = from(2);
    guesser.say("EHLO [9.9.9.9]", "250");
    guesser.say("MAIL FROM:<\"from x[9.9.9.9]: 554 5.7.1\"@far.test>", "250");
    guesser.say("RCPT TO:<\"a from unknown[9.9.9.9]: 554 5.7.1 x\"@here.test>", "550 5.1.1");
    guesser.say("RCPT TO:<nobody@here.test>", "550 5.1.1");
    guesser.say("QUIT", "221");
    // Wants to relay.
    let mut relayer = from(3);
    relayer.say("EHLO relayer.test", "250");
    relayer.say("MAIL FROM:<a@far.test>", "250");
    relayer.say("RCPT TO:<b@elsewhere.test>", "55");
    relayer.say("QUIT", "221");
    // Scanners that go without QUIT.
    drop(from(4));
    let mut scanner = from(5);
    scanner.say("EHLO scanner.test", "250");
    drop(scanner);
    let mut prober = from(6);
    prober.say("EHLO prober.test", "250");
    prober.say("MAIL FROM:<a@far.test>", "250");
    prober.say("RCPT TO:<sender@here.test>", "250");
    drop(prober);
    // Knows other commands only.
    let mut babbler = from(7);
    babbler.say("EHLO babbler.test", "250");
    for _ in 0..30 {
        babbler.send("FOO\r\n");
        if babbler.reply().starts_with("421") {
            break;
        }
    }
    drop(babbler);
    // Breaks off in content: a network failure, not an attack.
    let mut broken = from(8);
    broken.say("EHLO broken.test", "250");
    broken.say("MAIL FROM:<a@far.test>", "250");
    broken.say("RCPT TO:<sender@here.test>", "250");
    broken.say("DATA", "354");
    broken.send("Subject: x\r\n");
    drop(broken);
    let mut honest = from(9);
    honest.say("EHLO honest.test", "250");
    honest.say("MAIL FROM:<a@far.test>", "250");
    honest.say("RCPT TO:<sender@here.test>", "250");
    honest.say("DATA", "354");
    honest.send("Subject: x\r\n\r\nx\r\n");
    honest.say(".", "250");
    honest.say("RSET", "250");
    honest.say("QUIT", "221");
}

/// The last three numbers of addresses that fail2ban finds in a log, in order.
fn banned(place: &Place, log: &str) -> Vec<String> {
    place.write("log", log);
    let path = place.path("log").display().to_string();
    let words = ["fail2ban-regex", "--out", "ip", &path, "postfix[mode=aggressive]"];
    let output = place.command("fail2ban", &words).output().expect("a script of ours");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    assert!(!found.is_empty(), "{}\n{log}", String::from_utf8_lossy(&output.stderr));
    found.into_iter().collect()
}

/// Lines about connections from an address, without the client's name and without time and process.
fn connections(log: &str, address: &str) -> Vec<String> {
    let of = format!("[{address}]");
    let words = ["connect from ", "lost connection ", "too many errors ", "timeout after "];
    let lines = log.lines().filter(|line| line.contains(&of));
    let texts = lines.filter_map(|line| line.split_once("]: ").map(|(_, text)| text));
    let is_connection = |text: &&str| {
        let text = text.strip_prefix("dis").unwrap_or(text);
        words.iter().any(|word| text.starts_with(word))
    };
    let unnamed = |text: &str| {
        let (before, rest) = text.split_once("from ").expect("a client");
        let (_, rest) = rest.split_once('[').expect("an address");
        // Postfix has the octets of content there.
        let before = before.split(" (").next().expect("a word").trim_end();
        format!("{before} from [{rest}")
    };
    texts.filter(is_connection).map(unnamed).collect()
}

#[test]
fn fail2bans_filter_finds_the_same_attackers_as_in_postfixs_log() {
    if !postfix::is_startable() || !is_possible(&["fail2ban"]) {
        return;
    }
    let mut place = Place::new(0);
    place.write("users", "sender@here.test x\n");
    let (dir, port) = (place.dir(), place.port);
    let lines = format!(
        "mynetworks = 192.0.2.1\nvirtual_mailbox_domains = here.test\n\
         virtual_mailbox_maps = texthash:{dir}/users\nvirtual_transport = discard:\n\
         smtpd_error_sleep_time = 0\nsmtpd_hard_error_limit = 21\ninet_interfaces = 127.0.0.1\n\
         smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination\n"
    );
    // All addresses of this machine are 127.0.0.1's network.
    postfix::launch_with(&mut place, &lines, &format!("{port} inet n - n - - smtpd\n"));
    place.wait_listening(port);
    attack(SocketAddr::from(([127, 0, 0, 1], port)));
    let theirs = || fs::read_to_string(place.path("postfix.log")).unwrap_or_default();
    wait_until("Postfix has logged the last client", || {
        theirs()
            .lines()
            .any(|line| line.contains("disconnect from") && line.contains("[127.0.0.9]"))
    });
    let files = Files::new();
    let (server, _peer) = start(&files);
    attack(server.address());
    server.wait_console("the last client", |line| {
        line.contains("disconnect from") && line.contains("[127.0.0.9]")
    });
    // A check that the port is open.
    let theirs: String = theirs()
        .lines()
        .filter(|line| !line.contains("localhost[127.0.0.1]"))
        .map(|line| format!("{line}\n"))
        .collect();
    let (theirs, ours) = (theirs, server.console().join("\n") + "\n");
    let found = banned(&place, &ours);
    assert_eq!(found, banned(&place, &theirs), "{ours}\n{theirs}");
    let attackers = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7"];
    assert_eq!(found, attackers, "{ours}\n{theirs}");
    // The lines about connections are the same, too.
    for last in 2..10 {
        let address = format!("127.0.0.{last}");
        let ours_of = connections(&ours, &address);
        assert_eq!(ours_of, connections(&theirs, &address), "{ours}\n{theirs}");
        assert!(ours_of.len() >= 2, "{address}: {ours}");
    }
    server.stop();
}

#[test]
fn lines_of_deliveries_have_delays_original_recipient_and_mechanism() {
    let files = Files::new();
    make_certificate(files.dir(), "mx", EC, &["mx.test"]);
    let peer = Peer::start(|line| {
        if line == "." {
            std::thread::sleep(Duration::from_millis(300));
        }
        None
    });
    let text = format!(
        "[log]\nformat = \"postfix\"\n\
         {}[[listener]]\nname = \"users\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
         tls = \"implicit\"\nlogins = {{ table = \"passwords\" }}\n\
         [[table]]\nname = \"passwords\"\ninline = {{ jo = \"{{PLAIN}}pencil\" }}\n\
         [[table]]\nname = \"aliases\"\n[table.inline]\n\"team@here.test\" = \"ann@far.test, bob@far.test\"\n\
         [[route]]\ndomains = [\"here.test\"]\naliases = {{ table = \"aliases\" }}\nmaildir = {{ path = \"mail/{{local}}\" }}\n\
         [[route]]\nsmtp = {{ hosts = [\"{}\"] }}\n",
        section("mx", &["mx.test"]),
        peer.address
    );
    let server = Server::start(&files, &config_with("", "relay_from = [\"127.0.0.1\"]", &text));
    let port = server.addresses[1].port().to_string();
    python(
        "import smtplib, ssl, sys\n\
         c = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[1]), context=ssl._create_unverified_context())\n\
         c.ehlo('client.test')\n\
         c.user, c.password = 'jo', 'wrong'\n\
         try: c.auth('LOGIN', c.auth_login)\n\
         except smtplib.SMTPAuthenticationError: pass\n\
         c.password = 'pencil'\n\
         c.auth('LOGIN', c.auth_login)\n\
         c.sendmail('jo@here.test', ['team@here.test', 'eve@far.test'], 'Subject: x\\r\\n\\r\\nx\\r\\n')\n\
         c.quit()\n",
        &[&port],
    );
    files.wait_events("relayed", 3);
    let all = |words: &str| -> Vec<String> {
        server.console().into_iter().filter(|line| line.contains(words)).collect()
    };
    wait_until("all lines", || all("status=sent").len() >= 3);
    let login = all("sasl_username=jo");
    assert!(login[0].contains(": SASL LOGIN authentication failed: "), "{login:#?}");
    assert!(login[1].contains(", sasl_method=LOGIN, sasl_username=jo"), "{login:#?}");
    let ended = server.wait_console("the end", |line| line.contains("disconnect from"));
    assert!(
        ended.ends_with(" ehlo=1 auth=1/2 mail=1 rcpt=2 data=1 quit=1 commands=7/8"),
        "{ended}"
    );
    let sent = all("status=sent");
    let line = |to: &str| sent.iter().find(|line| line.contains(to)).expect("a line").as_str();
    for member in ["to=<ann@far.test>", "to=<bob@far.test>"] {
        assert!(line(member).contains(&format!("{member}, orig_to=<team@here.test>, relay=")));
    }
    assert!(line("to=<eve@far.test>").contains("to=<eve@far.test>, relay="), "{sent:#?}");
    for line in &sent {
        let value = |name: &str| {
            let (_, rest) = line.split_once(name).expect("a field");
            rest.split(',').next().expect("a value").to_owned()
        };
        let seconds = |text: &str| text.parse::<f64>().expect("seconds");
        let delay = seconds(&value(" delay="));
        let parts: Vec<f64> = value(" delays=").split('/').map(seconds).collect();
        assert_eq!(parts.len(), 4, "{line}");
        assert!((parts.iter().sum::<f64>() - delay).abs() < 0.11, "{line}");
        assert!(parts[3] >= 0.29, "the peer took its time: {line}");
    }
    server.stop();
}

#[test]
fn syslog_gets_the_lines_at_its_socket() {
    let unshare = ["--mount", "--map-root-user"];
    let mount = ["mount", "-t", "tmpfs", "none", "/mnt"];
    let answer = Command::new("unshare").args(unshare).args(mount).output().expect("util-linux");
    if !answer.status.success() {
        return skips::machine(
            skips::Machine::Namespaces,
            &String::from_utf8_lossy(&answer.stderr),
        );
    }
    let files = Files::new();
    fs::create_dir(files.path("dev")).expect("a directory");
    for name in ["null", "urandom"] {
        files.write(&format!("dev/{name}"), "");
    }
    let socket = UnixDatagram::bind(files.path("dev/log")).expect("a socket");
    socket.set_read_timeout(Some(WAIT_MAX)).expect("a socket");
    let peer = Peer::start(|_| None);
    let text = |log: &str| {
        let more =
            format!("[log]\n{log}\n[[route]]\nsmtp = {{ hosts = [\"{}\"] }}\n", peer.address);
        config(&more)
    };
    files.write(CONFIG, &text("to = \"stderr\""));
    let line = format!("mount --bind dev /dev && exec {POSTRIDER} serve --config {CONFIG}");
    let mut command = Command::new("unshare");
    command.args(unshare).args(["sh", "-c", &line]);
    let server = Server::spawn(command, files.dir());
    files.write(CONFIG, &text("to = \"syslog\"\nformat = \"postfix\""));
    assert_eq!(control(files.dir(), &["reload"]).code, 0);
    let mut client = Client::connect(server.address());
    client.mail("a@source.test", &["b@far.test"], "Subject: x\r\n\r\nx\r\n");
    client.say("QUIT", "221");
    peer.wait_taken(1);
    let mut lines: Vec<String> = Vec::new();
    let has = |lines: &[String], words: &str| lines.iter().any(|line| line.contains(words));
    while !(has(&lines, ": removed") && has(&lines, "disconnect from")) {
        let mut datagram = [0; 8_192];
        let length =
            socket.recv(&mut datagram).unwrap_or_else(|error| panic!("{error}: {lines:#?}"));
        lines.push(String::from_utf8(datagram[..length].to_vec()).expect("UTF-8"));
    }
    // Facility `mail`, severity `info`, without a host name (RFC 3164, as sent to a local socket).
    for program in ["smtpd", "cleanup", "qmgr", "smtp"] {
        let of = |line: &&String| line.contains(&format!("/{program}["));
        let line = lines.iter().find(of).unwrap_or_else(|| panic!("{program}: {lines:#?}"));
        assert!(line.starts_with("<22>"), "{line}");
    }
    assert!(has(&lines, "to=<b@far.test>, relay=127.0.0.1[127.0.0.1]:"), "{lines:#?}");
    let console = server.console().join("\n");
    assert!(!console.contains("b@far.test"), "{console}");
    server.stop();
}
