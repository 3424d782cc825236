//! Recipients that a directory has: Debian's slapd, asked by LDAP, which is stopped, hangs, and is back.

pub(crate) mod slapd;

use crate::interop::place::is_possible;
use crate::problem_kinds::Observed;
use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::server::Server;
use crate::support::tool::free_port;
use crate::support::{Files, config, wait_until};
use rustix::process::Signal;
use slapd::Slapd;
use std::time::{Duration, Instant};

/// A question waits so long for its answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Recipients of `box.test` are in the directory; those of `here.test` need no table.
fn relay(slapd: &Slapd) -> String {
    relay_with(slapd, "mode = \"live\"")
}

/// The same, with more keys for the table.
fn relay_with(slapd: &Slapd, more: &str) -> String {
    config(&format!(
        "[admin]\naddress = \"127.0.0.1:0\"\n\
         [[table]]\nname = \"users\"\nldap = {{ servers = [\"{}\"], base = \"{}\", \
         filter = \"(mail=%s)\", attributes = [\"description\"], {more} }}\n\
         cache = {{ positive = \"1ms\", negative = \"1ms\", stale = \"1h\", timeout = \"{}s\" }}\n\
         [[route]]\ndomains = [\"box.test\"]\nrecipients = {{ table = \"users\" }}\n\
         maildir = {{ path = \"mail/{{local}}\" }}\n\
         [[route]]\ndomains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n",
        slapd.url(),
        slapd::BASE,
        PATIENCE.as_secs()
    ))
}

/// A session in which recipients can be named.
fn session(server: &Server) -> Client {
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<me@source.test>", "250");
    client
}

/// Names a recipient, each time in a session of its own, until the answer begins so, which it must soon.
fn becomes(server: &Server, to: &str, begin: &str) {
    wait_until(&format!("{to}: {begin}"), || {
        let mut client = session(server);
        client.send(format!("RCPT TO:<{to}>\r\n"));
        client.reply().starts_with(begin)
    });
}

#[test]
fn who_is_in_a_directory_is_known_while_it_is_away_and_others_when_it_is_back() {
    if !is_possible(&["slapd"]) {
        return;
    }
    let mut slapd = Slapd::start();
    let files = Files::new();
    let server = Server::start(&files, &relay(&slapd));
    let mut client = session(&server);
    client.say("RCPT TO:<Joe+tag@box.test>", "250 2.1.5");
    client.say("RCPT TO:<nobody@box.test>", "550 5.1.1");
    let told = server.command(&["table", "get", "users", "joe@box.test"]);
    assert_eq!(told.code, 0, "{told:?}");
    let from = format!("users, lookup of joe@box.test at {}; else the cache", slapd.url());
    assert!(told.out.starts_with("/srv/joe\n") && told.out.contains(&from), "{}", told.out);

    slapd.stop();
    client.say("RCPT TO:<joe@box.test>", "250 2.1.5");
    client.say("RCPT TO:<nobody@box.test>", "550 5.1.1");
    client.say("RCPT TO:<ann@box.test>", "451 4.4.3");
    let listed = server.command(&["table", "list"]);
    assert!(listed.out.contains("refused"), "{}", listed.out);

    slapd.run();
    becomes(&server, "ann@box.test", "250 2.1.5");
    let told = server.command(&["table", "get", "users", "ann@box.test"]);
    assert!(told.out.contains(&slapd.url()), "{}", told.out);
    drop(client);
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["ann@box.test"], "Subject: x\r\n\r\n");
    files.wait_maildir("mail/ann", 1);
    server.stop();
}

#[test]
fn stopped_directory_is_a_problem_until_it_answers() {
    const SOON: Duration = Duration::from_secs(10);
    if !is_possible(&["slapd"]) {
        return;
    }
    let (mut slapd, files) = (Slapd::start(), Files::new());
    let admin = format!("127.0.0.1:{}", free_port());
    let section = |address: &str| format!("[admin]\naddress = \"{address}\"\n");
    let text = relay(&slapd).replace(&section("127.0.0.1:0"), &section(&admin));
    let server = Server::start(&files, &text);
    let place = Observed { files, server, admin };
    becomes(&place.server, "joe@box.test", "250 2.1.5");
    assert!(place.is_well());
    slapd.stop();
    let stopped = Instant::now();
    becomes(&place.server, "ann@box.test", "451 4.4.3");
    let found = place.wait_problem("table", "warning");
    assert!(stopped.elapsed() < SOON, "{:?}", stopped.elapsed());
    assert!(found["text"].as_str().is_some_and(|text| text.contains(&slapd.url())), "{found}");
    place.wait_console(&slapd.url());
    place.wait_events("problem", "table");
    slapd.run();
    let back = Instant::now();
    becomes(&place.server, "ann@box.test", "250 2.1.5");
    place.wait_cleared("table", "warning");
    assert!(back.elapsed() < SOON, "{:?}", back.elapsed());
    place.wait_events("problem_cleared", "table");
}

#[test]
fn who_waits_for_a_directory_that_hangs_holds_nobody_up() {
    if !is_possible(&["slapd"]) {
        return;
    }
    let slapd = Slapd::start();
    let files = Files::new();
    let server = Server::start(&files, &relay(&slapd));
    let mut waiting: Vec<Client> = (0..20).map(|_| session(&server)).collect();
    waiting[0].say("RCPT TO:<joe@box.test>", "250 2.1.5");
    slapd.signal(Signal::STOP);
    let begun = Instant::now();
    for (n, client) in waiting.iter_mut().enumerate() {
        client.send(format!("RCPT TO:<user{n}@box.test>\r\n"));
    }
    let mut other = Client::connect(server.address());
    other.mail("me@source.test", &["a@here.test"], "Subject: x\r\n\r\n");
    let took = begun.elapsed();
    assert!(took < PATIENCE / 2, "{took:?}");
    for client in &mut waiting {
        client.expect("451 4.4.3");
    }
    let took = begun.elapsed();
    assert!(took < PATIENCE * 2, "{took:?}");
    waiting[0].say("RCPT TO:<joe@box.test>", "250 2.1.5");
    slapd.signal(Signal::CONT);
    becomes(&server, "ann@box.test", "250 2.1.5");
    files.wait_maildir("mail/a", 1);
    server.stop();
}

#[test]
fn a_copy_of_a_directory_serves_while_that_is_away_and_after_a_restart() {
    if !is_possible(&["slapd"]) {
        return;
    }
    let mut slapd = Slapd::start();
    slapd.stop();
    let files = Files::new();
    let server =
        Server::start(&files, &relay_with(&slapd, "mode = \"snapshot\", refresh = \"1s\""));
    let mut client = session(&server);
    client.say("RCPT TO:<joe@box.test>", "451 4.4.3");
    slapd.run();
    becomes(&server, "joe@box.test", "250 2.1.5");
    client.say("RCPT TO:<nobody@box.test>", "550 5.1.1");
    let told = server.command(&["table", "get", "users", "joe@box.test"]);
    let from = format!("joe@box.test at the snapshot of {} (", slapd.url());
    assert!(told.out.contains(&from) && told.out.contains("3 entries"), "{}", told.out);
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    let metrics = get(line.rsplit(' ').next().expect("an address"), "/metrics");
    assert_eq!(metric(&metrics, "postrider_table_snapshot_entries"), 3);
    assert!(metric(&metrics, "postrider_table_snapshot_age_seconds") < 20, "{metrics}");

    slapd.stop();
    client.say("RCPT TO:<joe@box.test>", "250 2.1.5");
    client.say("RCPT TO:<nobody@box.test>", "550 5.1.1");
    drop(client);
    server.stop();
    let server = Server::start_again(&files);
    let mut client = session(&server);
    client.say("RCPT TO:<joe@box.test>", "250 2.1.5");
    client.say("RCPT TO:<nobody@box.test>", "550 5.1.1");
    wait_until("it is told", || server.command(&["table", "list"]).out.contains("refused"));
    server.stop();
}
