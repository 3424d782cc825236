//! `postrider init`: its files are the examples, start as they are, and carry mail.

mod records;

use crate::smarthosts::{PASSWORD, far, logins, write_secret};
use crate::support::certificate::{EC, make_certificate};
use crate::support::client::Client;
use crate::support::server::{self, Answer, CONFIG, POSTRIDER, Server, command};
use crate::support::tool::{self, Tool};
use crate::support::{Files, config, wait_until};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// Places in the examples, and below the test's directory.
const PLACES: [(&str, &str); 3] =
    [("/etc/postrider", "etc"), ("/var/spool/postrider", "spool"), ("/srv/mail", "mail")];

/// Runs `init` with these words, in the test's directory.
pub(crate) fn init(files: &Files, words: &[&str]) -> Answer {
    let places = ["--out", "etc", "--spool", "spool", "--mail", "mail"];
    // A user `postrider` of this machine would become the owner.
    let owner: &[&str] = match rustix::process::geteuid().is_root() && !words.contains(&"--owner") {
        true => &["--owner", "root"],
        false => &[],
    };
    server::program(files.dir(), &[&["init", "example.org"], words, &places, owner].concat())
}

/// The configuration that was written.
fn written(files: &Files) -> String {
    fs::read_to_string(files.path("etc/postrider.toml")).expect("a configuration")
}

/// Copies the configuration to where servers of tests have it, with other addresses and further lines.
pub(crate) fn startable(files: &Files, changes: &[(&str, &str)], more: &str) {
    let mut lines: Vec<String> = written(files).lines().map(str::to_owned).collect();
    for line in &mut lines {
        if line.starts_with("address = \"") {
            "address = \"127.0.0.1:0\"".clone_into(line);
        }
    }
    let mut text = lines.join("\n");
    for (before, after) in changes {
        assert!(text.contains(before), "{before}: {text}");
        text = text.replace(before, after);
    }
    files.write(CONFIG, &format!("{text}\n{more}"));
}

/// The first user's password, from the answer.
pub(crate) fn password(answer: &Answer) -> String {
    let (_, rest) = answer.out.split_once(", password ").expect("a password");
    rest.split(' ').next().expect("a word").to_owned()
}

/// Checks the answer: without the right to use low ports, the check at its end may find only that.
fn assert_done(answer: &Answer) {
    let is_low_port = answer.code == 2 && answer.err.contains("ermission denied");
    assert!(answer.code == 0 || is_low_port, "{answer:?}");
    assert!(!answer.err.contains("warning"), "{answer:?}");
}

pub(crate) fn certificate(files: &Files, name: &str) -> [String; 4] {
    make_certificate(files.dir(), "mx", EC, &[name]);
    ["--tls-chain", "mx.pem", "--tls-key", "mx.key"].map(str::to_owned)
}

/// TLS of the submission listeners, in their order.
pub(crate) const TLS: [&str; 2] = ["--tls", "--tls-on-connect"];

/// Sends by a submission listener with swaks.
pub(crate) fn submit(
    address: SocketAddr,
    tls: &str,
    (user, password): (&str, &str),
    from: &str,
    to: &str,
) -> Output {
    let port = address.port().to_string();
    let words = [
        "--server",
        "127.0.0.1",
        "--port",
        &port,
        tls,
        "--auth",
        "PLAIN",
        "--auth-user",
        user,
        "--auth-password",
        password,
        "--from",
        from,
        "--to",
        to,
        "--header",
        "Subject: hello",
    ];
    tool::run("swaks", &words)
}

/// What both sides sent.
fn dialogue(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn examples_are_written_by_init() {
    let secret = "relay.password";
    let relay = [
        "--kind",
        "relay",
        "--hostname",
        "relay.example.org",
        "--smarthost",
        "smtp.example.net:587",
        "--smarthost-user",
        "relay@example.org",
        "--smarthost-password-file",
        "etc/relay.password",
        "--relay-from",
        "10.0.0.0/8",
    ];
    let socket = "/run/postrider/submit.sock";
    let kinds: [(&str, &[&str]); 4] = [
        ("local", &["--kind", "local", "--hostname", "example.org", "--socket", "run/submit.sock"]),
        (
            "mail-host",
            &["--kind", "mail-host", "--hostname", "mx.example.org", "--user", "jo", "--acme"],
        ),
        (
            "sender",
            &["--kind", "sender", "--hostname", "out.example.org", "--user", "app", "--acme"],
        ),
        ("relay", &relay),
    ];
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for (kind, words) in kinds {
        let files = Files::new();
        fs::create_dir(files.path("etc")).expect("a directory");
        fs::create_dir(files.path("run")).expect("a directory");
        write_secret(&files, &format!("etc/{secret}"), "secret\n");
        assert_done(&init(&files, words));
        let mut text = written(&files);
        for (place, name) in PLACES.into_iter().chain([(socket, "run/submit.sock")]) {
            text = text.replace(&files.path(name).display().to_string(), place);
        }
        let example = examples.join(format!("init-{kind}.toml"));
        if std::env::var_os("EXAMPLES").is_some_and(|what| what == "write") {
            fs::write(&example, &text).expect("an example");
        }
        let example = fs::read_to_string(&example).expect("an example");
        assert_eq!(text, example, "{kind}: EXAMPLES=write writes it anew");
        for secret in ["passwords", "s1.pem", "srs.secret", secret] {
            let Ok(meta) = fs::metadata(files.path("etc").join(secret)) else { continue };
            assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{kind}: {secret}");
        }
    }
}

#[test]
fn init_overwrites_no_file_and_names_missing_flags() {
    let files = Files::new();
    let incomplete = init(&files, &["--kind", "sender", "--acme"]);
    assert_eq!(incomplete.code, 2, "{incomplete:?}");
    assert!(incomplete.err.contains("are missing: --hostname, --user\n"), "{incomplete:?}");
    assert!(!files.path("etc").exists());
    let words = ["--kind", "sender", "--hostname", "out.example.org", "--user", "app", "--acme"];
    assert_done(&init(&files, &words));
    let before = written(&files);
    let again = init(&files, &words);
    assert!(again.code == 1 && again.err.contains("etc/postrider.toml exists"), "{again:?}");
    fs::remove_file(files.path("etc/postrider.toml")).expect("a file");
    let again = init(&files, &words);
    assert!(again.code == 1 && again.err.contains("etc/passwords exists"), "{again:?}");
    assert!(!files.path("etc/postrider.toml").exists() && before.contains("out.example.org"));
}

#[test]
fn new_mail_host_receives_and_its_users_send() {
    let files = Files::new();
    let tls = certificate(&files, "mx.example.org");
    let words = ["--kind", "mail-host", "--hostname", "mx.example.org", "--user", "jo"];
    let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
    let made = init(&files, &[&words[..], &tls, &["--address", "192.0.2.1"]].concat());
    assert_done(&made);
    // Its own records satisfy the check of the DNS.
    let records: String = made.out.lines().filter(|line| line.contains(" IN ")).fold(
        "$ORIGIN org.\n$ORIGIN 2.0.192.in-addr.arpa.\n$ORIGIN test.\nsource MX 10 source\nsource A 192.0.2.9\n"
            .to_owned(),
        |zone, line| zone + line + "\n",
    );
    let zone = files.write("zone", &records).display().to_string();
    let names = Tool::lab(&["dns", "--zone", &zone]);
    startable(&files, &[], &format!("[dns]\nservers = [\"{}\"]\n", names.address));
    let checked = command(files.dir(), &["check", "--dns"]);
    assert!(checked.code == 0 && checked.out.contains("0 errors, 0 warnings"), "{checked:?}");
    assert!(!checked.err.contains("warning"), "{checked:?}");
    let server = Server::start_again(&files);
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["jo@example.org"], "Subject: x\r\n\r\nx\r\n");
    client.mail("me@source.test", &["postmaster@example.org"], "Subject: x\r\n\r\nx\r\n");
    client.say("MAIL FROM:<me@source.test>", "250");
    client.say("RCPT TO:<nobody@example.org>", "550 5.1.1");
    client.say("RCPT TO:<you@far.test>", "550 5.7.1");
    let (user, password) = ("jo@example.org", password(&made));
    for listener in [1, 2] {
        let login = (user, &*password);
        let said =
            dialogue(&submit(server.addresses[listener], TLS[listener - 1], login, user, user));
        assert!(said.contains("250 2.0.0") || said.contains("<~  250 "), "{said}");
    }
    let all = files.wait_maildir("mail/example.org/jo", 4);
    let signed = |message: &Vec<u8>| String::from_utf8_lossy(message).contains("d=example.org;");
    assert_eq!(all.iter().filter(|message| signed(message)).count(), 2);
    let wrong = submit(server.addresses[1], TLS[0], (user, "wrong"), user, user);
    assert!(dialogue(&wrong).contains("535 5.7.8"));
    server.stop();
}

#[test]
fn new_sender_signs_and_sends_by_mx() {
    let far_files = Files::new();
    let route = "[[route]]\ndomains = [\"far.test\"]\nmaildir = { path = \"mail/{local}\" }";
    let far = Server::start(&far_files, &config(route));
    let zone = "$ORIGIN test.\nfar MX 10 mx.far\nmx.far A 127.0.0.1\n";
    let files = Files::new();
    let names = Tool::lab(&["dns", "--zone", &files.write("zone", zone).display().to_string()]);
    let tls = certificate(&files, "out.example.org");
    let words = ["--kind", "sender", "--hostname", "out.example.org", "--user", "app"];
    let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
    let made = init(&files, &[&words[..], &tls].concat());
    assert_done(&made);
    // The next hop of the test is on this machine.
    let port = format!("mx = {{ port = {} }}", far.address().port());
    let changes = [("mx = { refuse_private = true }", &*port)];
    startable(&files, &changes, &format!("[dns]\nservers = [\"{}\"]\n", names.address));
    let checked = command(files.dir(), &["check"]);
    assert!(checked.code == 0 && !checked.err.contains("warning"), "{checked:?}");
    let server = Server::start_again(&files);
    let (user, password) = ("app@example.org", password(&made));
    for (address, tls) in server.addresses.iter().zip(TLS) {
        let output = submit(*address, tls, (user, &password), "news@example.org", "you@far.test");
        assert!(output.status.success(), "{}", dialogue(&output));
    }
    let mut local = Client::connect(server.addresses[2]);
    local.mail("me@example.org", &["you@far.test"], "From: me@example.org\r\n\r\nx\r\n");
    // Another author has no key.
    local.say("MAIL FROM:<me@other.test>", "250");
    local.say("RCPT TO:<you@far.test>", "250");
    local.say("DATA", "354");
    local.send("From: me@other.test\r\n\r\nx\r\n.\r\n");
    local.expect("550 5.7.20");
    for message in far_files.wait_maildir("mail/you", 3) {
        let text = String::from_utf8_lossy(&message).into_owned();
        assert!(text.contains("d=example.org;") && text.contains("s=s1;"), "{text}");
    }
    server.stop();
    far.stop();
}

#[test]
fn new_relay_logs_in_at_its_smarthost() {
    let far_files = Files::new();
    let far = far(&far_files);
    let smarthost = format!("127.0.0.1:{}", far.address().port());
    let files = Files::new();
    write_secret(&files, "secret", &format!("{PASSWORD}\n"));
    let made = init(
        &files,
        &[
            "--kind",
            "relay",
            "--hostname",
            "relay.example.org",
            "--smarthost",
            &smarthost,
            "--smarthost-user",
            "relay",
            "--smarthost-password-file",
            "secret",
        ],
    );
    assert_done(&made);
    assert!(!made.out.contains(PASSWORD), "{made:?}");
    startable(&files, &[], "");
    let roots = far_files.path("mx.pem").display().to_string();
    let server = Server::start_trusting(&files, &roots);
    let mut client = Client::connect(server.address());
    client.mail("me@example.org", &["you@far.test"], "Subject: x\r\n\r\nx\r\n");
    wait_until("a login", || logins(&far_files) == ["relay"]);
    server.stop();
    far.stop();
}

#[test]
fn new_local_server_keeps_mail_of_sendmail() {
    let files = Files::new();
    fs::create_dir(files.path("run")).expect("a directory");
    let words = ["--kind", "local", "--hostname", "example.org", "--socket", "run/submit.sock"];
    assert_done(&init(&files, &words));
    startable(&files, &[], "");
    let server = Server::start_again(&files);
    let sent = files.write("message", "Subject: to root\n\nx\n");
    let output = Command::new(POSTRIDER)
        .args(["sendmail", "-t", "-i", "root"])
        .env("POSTRIDER_CONFIG", files.path(CONFIG))
        .stdin(fs::File::open(sent).expect("a file"))
        .output()
        .expect("the program is there");
    assert!(output.status.success(), "{output:?}");
    let mut client = Client::connect(server.address());
    client.mail("me@example.org", &["abuse@example.org"], "Subject: x\r\n\r\nx\r\n");
    let all = files.wait_maildir("mail/root", 2);
    let texts: Vec<String> =
        all.iter().map(|message| String::from_utf8_lossy(message).into_owned()).collect();
    assert!(texts.iter().any(|text| text.contains("\nSubject: to root\n")), "{texts:?}");
    server.stop();
}

#[test]
fn every_kind_has_a_socket_on_request() {
    let words = ["--kind", "relay", "--hostname", "r.example.org", "--smarthost", "s.example.net"];
    for (more, count) in [(&[][..], 0), (&["--socket", "submit.sock"][..], 1)] {
        let files = Files::new();
        assert_done(&init(&files, &[&words[..], more].concat()));
        assert_eq!(written(&files).matches("kind = \"local\"").count(), count);
    }
}
