//! Files whose content is in use, two of each kind: one hangs, and the other is read anew when it changes.

use crate::hanging_files::{AT_ONCE, a_start_says_what_it_waits_for, all_else_goes_on, pipe};
use crate::support::certificate::{EC, make_certificate, section};
use crate::support::client::Client;
use crate::support::server::{Server, program};
use crate::support::tool::run;
use crate::support::{Files, config, wait_until};
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::{Duration, Instant};

/// Of each kind the file that hangs, and what is on the console once the other one was read anew.
const KINDS: [(&str, &str); 11] = [
    ("chain-a.pem", "tls: mx-b.pem reloaded"),
    ("key-a.key", "tls: mx-b.pem reloaded"),
    ("authorities-a.pem", "tls: authorities-b.pem reloaded"),
    ("seal-a.key", "signing: signing key seal-b.key reloaded"),
    ("signer-a.key", "signing: signing key signer-b.key reloaded"),
    ("next-a.key", "signing: signing key next-b.key reloaded"),
    ("login-a", "login: login-b reloaded"),
    ("file-a", "tables: table file-b: file-b reloaded"),
    ("cidr-a", "tables: table cidr-b: cidr-b reloaded"),
    ("regexp-a", "tables: table regexp-b: regexp-b reloaded"),
    ("pcre-a", "tables: table pcre-b: pcre-b reloaded"),
];

fn certificate(files: &Files, name: &str) {
    for file in [format!("{name}.pem"), format!("{name}.key")] {
        let _ = fs::remove_file(files.path(&file));
    }
    make_certificate(files.dir(), name, EC, &[&format!("{name}.test")]);
}

fn key(files: &Files, name: &str) {
    let _ = fs::remove_file(files.path(name));
    let made = program(files.dir(), &["dkim", "new", "--out", name, "x.test", "s"]);
    assert!(files.path(name).exists(), "{made:?}");
}

fn text_file(files: &Files, name: &str, text: &str) {
    let _ = fs::remove_file(files.path(name));
    fs::set_permissions(files.write(name, text), Permissions::from_mode(0o600)).expect("ours");
}

/// Makes all files of this letter.
fn make(files: &Files, letter: char, round: usize) {
    let certificates = if letter == 'a' { &["chain", "key"][..] } else { &["mx"] };
    for name in certificates.iter().chain(&["authorities"]) {
        certificate(files, &format!("{name}-{letter}"));
    }
    for name in ["seal", "signer", "next"] {
        key(files, &format!("{name}-{letter}.key"));
    }
    text_file(files, &format!("login-{letter}"), &format!("secret{round}\n"));
    text_file(files, &format!("file-{letter}"), &format!("k v{round}\n"));
    text_file(files, &format!("cidr-{letter}"), &format!("192.0.2.{round} v\n"));
    for kind in ["regexp", "pcre"] {
        text_file(files, &format!("{kind}-{letter}"), &format!("/k{round}/ v\n"));
    }
}

/// A server that uses two files of each kind.
fn configuration() -> String {
    let mut text = String::new();
    for name in ["chain-a", "key-a", "mx-b"] {
        text += &section(name, &[&format!("{name}.test")]);
    }
    for letter in ['a', 'b'] {
        text += &format!(
            "[[listener]]\nname = \"{letter}\"\naddress = \"127.0.0.1:0\"\n\
             client_certificates = {{ authorities = \"authorities-{letter}.pem\", relay = true }}\n\
             checks = {{ arc = \"mark\" }}\n\
             seal = {{ domain = \"x.test\", selector = \"s\", key = \"seal-{letter}.key\" }}\n\
             [[signer]]\ndomains = [\"{letter}.test\"]\nselector = \"s\"\nkey = \"signer-{letter}.key\"\n\
             next = {{ selector = \"t\", key = \"next-{letter}.key\", from = \"2026-01-01T00:00:00Z\" }}\n\
             [[route]]\ndomains = [\"{letter}.test\"]\nsmtp = {{ hosts = [\"127.0.0.1:9\"], tls = \"required\", \
             login = {{ user = \"u\", password_file = \"login-{letter}\" }} }}\n"
        );
        for kind in ["file", "cidr", "regexp", "pcre"] {
            let name = format!("{kind}-{letter}");
            text += &format!("[[table]]\nname = \"{name}\"\n{kind} = {{ path = \"{name}\" }}\n");
        }
    }
    config(&(text + "[[route]]\ndomains = [\"far.test\"]\ndiscard = {}\n"))
}

/// The certificate that is shown to who asks for this name.
fn shown(server: &Server, name: &str) -> String {
    let to = server.address().to_string();
    let words =
        ["s_client", "-connect", &to, "-starttls", "smtp", "-servername", name, "-no_ticket"];
    let said = String::from_utf8_lossy(&run("openssl", &words).stdout).into_owned();
    let start = said.find("-----BEGIN CERTIFICATE").unwrap_or_else(|| panic!("{said}"));
    said[start..].lines().take(5).collect()
}

#[test]
fn a_file_that_hangs_keeps_no_other_one_from_being_read_anew() {
    let files = Files::new();
    make(&files, 'a', 1);
    make(&files, 'b', 1);
    let mut server = Server::start(&files, &configuration());
    let before = ["chain-a.test", "mx-b.test"].map(|name| shown(&server, name));
    for (hanging, _) in KINDS {
        pipe(&files, hanging);
    }
    let status = || server.command(&["status"]).out;
    for (hanging, _) in KINDS {
        let named = format!("{hanging} has not responded for ");
        wait_until(hanging, || status().contains(&named));
    }
    make(&files, 'b', 2);
    for (_, line) in KINDS {
        server.wait_console(line, |said| said.contains(line));
    }
    let after = ["chain-a.test", "mx-b.test"].map(|name| shown(&server, name));
    assert_eq!(after[0], before[0], "what was read before is in use");
    assert_ne!(after[1], before[1]);
    all_else_goes_on(&server, || server.command(&["status"]), "all kinds");
    // A reload names what it waits for, and leaves all as it was.
    let begun = Instant::now();
    let late = server.command(&["reload"]);
    let late = format!("{}{}", late.out, late.err);
    assert!(late.contains("reading secrets in login-a"), "{late}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let begun = Instant::now();
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
}

#[test]
fn a_certificate_that_is_of_no_use_keeps_no_other_one_from_being_renewed() {
    let files = Files::new();
    make(&files, 'a', 1);
    make(&files, 'b', 1);
    let server = Server::start(&files, &configuration());
    let before = shown(&server, "mx-b.test");
    let [certificates, signer] =
        ["the previous certificates stay in force: ", "signing key signer-a.key unchanged: "];
    for (wrong, told) in [
        ("chain-a.pem", certificates),
        ("authorities-a.pem", certificates),
        ("signer-a.key", signer),
    ] {
        text_file(&files, wrong, "nothing");
        server.wait_console(wrong, |line| line.contains(wrong) && line.contains(told));
        let status = server.command(&["status"]).out;
        assert!(status.contains(wrong) && status.contains(told), "{status}");
    }
    make(&files, 'b', 2);
    wait_until("the renewed one", || shown(&server, "mx-b.test") != before);
    server.wait_console("the other key", |line| line.contains("signer-b.key reloaded"));
    // What is mended is taken up, and is no problem any more.
    make(&files, 'a', 2);
    wait_until("nothing is wrong", || {
        let status = server.command(&["status"]).out;
        !status.contains(certificates) && !status.contains(signer)
    });
    server.stop();
}

#[test]
fn a_reload_and_a_start_name_the_file_that_they_wait_for() {
    let files = Files::new();
    make(&files, 'a', 1);
    make(&files, 'b', 1);
    let text = configuration();
    Server::start(&files, &text).stop();
    for (hanging, is_signing) in [
        ("chain-a.pem", false),
        ("key-a.key", false),
        ("authorities-a.pem", false),
        ("seal-a.key", true),
        ("next-a.key", true),
    ] {
        pipe(&files, hanging);
        let what = if is_signing { "signing key " } else { "" };
        a_start_says_what_it_waits_for(&files, &format!("reading {what}{hanging}"));
        make(&files, 'a', 1);
    }
}

#[test]
fn a_key_that_a_table_names_and_that_hangs_defers_only_what_it_would_sign() {
    let files = Files::new();
    for letter in ['a', 'b'] {
        key(&files, &format!("named-{letter}.key"));
    }
    let at = |letter: char| files.path(&format!("named-{letter}.key")).display().to_string();
    let keys = format!("a.test s {}\nb.test s {}\n", at('a'), at('b'));
    files.write("keys", &keys);
    let text = "[[table]]\nname = \"keys\"\nfile = { path = \"keys\" }\n[[signer]]\nkeys = { table = \"keys\" }\n\
                [[route]]\ndiscard = {}\n";
    let mut server = Server::start(&files, &config(text));
    pipe(&files, "named-a.key");
    let address = server.address();
    let hand_in = move |letter: char| {
        let mut client = Client::connect(address);
        client.say(&format!("MAIL FROM:<u@{letter}.test>"), "250");
        client.say("RCPT TO:<al@far.test>", "250");
        client.say("DATA", "354");
        client.send(format!("From: u@{letter}.test\r\n\r\nHello\r\n.\r\n"));
        client.reply()
    };
    // More of them than may hang at once for one file.
    let late: Vec<_> = (0..20).map(|_| thread::spawn(move || hand_in('a'))).collect();
    wait_until("the file is named", || {
        server.command(&["status"]).out.contains("named-a.key has not responded")
    });
    let begun = Instant::now();
    assert!(hand_in('b').starts_with("250 "));
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    for reply in late {
        let reply = reply.join().expect("no panic");
        assert!(reply.starts_with("451 4.7.5"), "{reply}");
    }
    let begun = Instant::now();
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
}
