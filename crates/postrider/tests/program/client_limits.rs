//! What one client may have, and what strangers can't take from others: sessions at once, and by
//! the minute connections, messages, recipients and refusals.

use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::{Files, config, wait_until};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

/// A server with one listener, which strangers may use for one domain.
fn start(files: &Files, address: &str, keys: &str) -> Server {
    let text = config("[[route]]\ndomains = [\"box.test\"]\ndiscard = {}\n");
    let text = text.replace("relay_from = [\"127.0.0.0/8\"]", keys);
    Server::start(files, &text.replace("127.0.0.1:0", address))
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Opens a session, and says EHLO if it is greeted; what came instead of a greeting.
fn open(from: &str, server: SocketAddr) -> Result<Client, String> {
    let mut client = Client::from(ip(from), server);
    let greeting = client.reply();
    if !greeting.starts_with("220 ") {
        assert_eq!(client.rest(), "", "421 ends a session");
        return Err(greeting);
    }
    client.say("EHLO client.test", "250");
    Ok(client)
}

#[track_caller]
fn opened(from: &str, server: SocketAddr) -> Client {
    open(from, server).unwrap_or_else(|reply| panic!("{from}: {reply}"))
}

#[track_caller]
fn turned_away(from: &str, server: SocketAddr, reply: &str) {
    let greeting = open(from, server).err();
    assert!(greeting.as_ref().is_some_and(|said| said.contains(reply)), "{from}: {greeting:?}");
}

const TOO_MANY: &str = "421 4.7.0 relay.test Too many sessions from your address";

#[test]
fn a_client_has_so_many_sessions_at_once() {
    let files = Files::new();
    let keys = "max_sessions_per_address = 2\nrelay_from = [\"127.0.0.8/32\"]\n\
                exempt_from_limits = [\"127.0.0.9/32\"]";
    let server = start(&files, "127.0.0.1:0", keys);
    let to = server.address();
    let mut sessions: Vec<Client> = (0..2).map(|_| opened("127.0.0.2", to)).collect();
    turned_away("127.0.0.2", to, TOO_MANY);
    // Another address is another client.
    sessions.extend((0..2).map(|_| opened("127.0.0.3", to)));
    turned_away("127.0.0.3", to, TOO_MANY);
    // Who may relay has twenty times as many, who is exempt as many as he likes.
    sessions.extend((0..40).map(|_| opened("127.0.0.8", to)));
    turned_away("127.0.0.8", to, TOO_MANY);
    sessions.extend((0..60).map(|_| opened("127.0.0.9", to)));
    let refused = || files.events_of("refused");
    wait_until("three refusals", || refused().len() >= 3);
    assert!(refused().iter().all(|event| event["step"] == "connect"), "{:?}", refused());
    // A session that ends makes room.
    sessions.remove(0).say("QUIT", "221");
    wait_until("room", || open("127.0.0.2", to).is_ok());
    server.stop();
}

#[test]
fn strangers_can_not_take_the_last_tenth_of_the_sessions() {
    let files = Files::new();
    let keys = "max_sessions = 10\nrelay_from = [\"127.0.0.8/32\"]";
    let server = start(&files, "127.0.0.1:0", keys);
    let to = server.address();
    let full = "421 4.3.2 relay.test Too many sessions; try again later";
    let mut sessions: Vec<Client> =
        (0..9).map(|n| opened(&format!("127.0.0.{}", 20 + n), to)).collect();
    // Another gets the place of the one that has been idle longest.
    sessions.push(opened("127.0.0.30", to));
    sessions.remove(0).expect(full);
    // Who has a place already gets no other.
    turned_away("127.0.0.30", to, full);
    // Who is turned away has no place, also while he stays connected.
    let _hammering: Vec<Client> = (0..5).map(|_| Client::from(ip("127.0.0.30"), to)).collect();
    // Who may relay gives way to nobody, and has the last tenth and more.
    sessions.push(opened("127.0.0.8", to));
    sessions.push(opened("127.0.0.8", to));
    sessions.remove(0).expect(full);
    server.stop();
}

#[test]
fn a_client_makes_so_many_connections_in_a_minute() {
    let files = Files::new();
    let keys = "connections_per_minute = 3\nrelay_from = [\"127.0.0.8/32\"]\n\
                exempt_from_limits = [\"127.0.0.9/32\"]";
    let server = start(&files, "127.0.0.1:0", keys);
    let to = server.address();
    for _ in 0..3 {
        opened("127.0.0.2", to).say("QUIT", "221");
    }
    turned_away("127.0.0.2", to, "421 4.7.0 relay.test Connection rate limit exceeded");
    for from in ["127.0.0.3", "127.0.0.8", "127.0.0.9"] {
        (0..3).for_each(|_| drop(opened(from, to)));
    }
    for from in ["127.0.0.8", "127.0.0.9"] {
        (0..10).for_each(|_| drop(opened(from, to)));
    }
    server.stop();
}

#[test]
fn a_client_sends_so_many_messages_in_a_minute_over_all_its_sessions() {
    let files = Files::new();
    let keys = "messages_per_minute = 2\nexempt_from_limits = [\"127.0.0.9/32\"]";
    let server = start(&files, "127.0.0.1:0", keys);
    let to = server.address();
    let mail = "MAIL FROM:<a@source.test>";
    opened("127.0.0.2", to).mail("a@source.test", &["b@box.test"], "Subject: 1\r\n\r\n");
    let mut client = opened("127.0.0.2", to);
    client.mail("a@source.test", &["b@box.test"], "Subject: 2\r\n\r\n");
    client.say(mail, "450 4.7.1 Message rate limit exceeded");
    // The session goes on.
    client.say("NOOP", "250");
    opened("127.0.0.3", to).say(mail, "250");
    let mut exempt = opened("127.0.0.9", to);
    for n in 0..5 {
        exempt.mail("a@source.test", &["b@box.test"], &format!("Subject: {n}\r\n\r\n"));
    }
    server.stop();
}

#[test]
fn a_client_names_so_many_recipients_in_a_minute() {
    let files = Files::new();
    let server = start(&files, "127.0.0.1:0", "recipients_per_minute = 3");
    let to = server.address();
    let mut client = opened("127.0.0.2", to);
    client.say("MAIL FROM:<a@source.test>", "250");
    // What is refused for another reason does not count.
    client.say("RCPT TO:<b@elsewhere.test>", "550 5.7.1");
    for n in 0..3 {
        client.say(&format!("RCPT TO:<b{n}@box.test>"), "250");
    }
    client.say("RCPT TO:<b4@box.test>", "450 4.7.1 Recipient rate limit exceeded");
    // Those that were taken get their message.
    client.say("DATA", "354");
    client.send("Subject: x\r\n\r\n");
    client.say(".", "250 2.0.0");
    assert_eq!(files.wait_events("delivered", 3).len(), 3);
    opened("127.0.0.3", to).mail("a@source.test", &["b@box.test"], "Subject: x\r\n\r\n");
    server.stop();
}

#[test]
fn a_client_to_whom_much_is_refused_is_heard_no_more_for_a_while() {
    let files = Files::new();
    let server = start(&files, "127.0.0.1:0", "refusals_per_minute = 3");
    let to = server.address();
    let mut client = opened("127.0.0.2", to);
    client.say("MAIL FROM:<a@source.test>", "250");
    for n in 0..3 {
        client.say(&format!("RCPT TO:<b{n}@elsewhere.test>"), "550 5.7.1");
    }
    let why = "Too many rejected commands from your address";
    client.say("RCPT TO:<b@box.test>", &format!("450 4.7.1 {why}"));
    client.say("RSET", "250");
    client.say("MAIL FROM:<a@source.test>", &format!("450 4.7.1 {why}"));
    turned_away("127.0.0.2", to, &format!("421 4.7.0 relay.test {why}"));
    opened("127.0.0.3", to).mail("a@source.test", &["b@box.test"], "Subject: x\r\n\r\n");
    server.stop();
}

/// Says that the test runs where this machine has addresses of its own choosing.
const INSIDE: &str = "POSTRIDER_IN_NETWORK";

/// Two addresses of one /64, and one of another.
const ADDRESSES: [&str; 3] = ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1"];

/// A loopback interface with other people's addresses is to be had in a network of its own only:
/// the test runs itself in one.
#[test]
fn an_ipv6_64_is_one_client() {
    if std::env::var_os(INSIDE).is_none() {
        let may = Command::new("unshare").args(["-rn", "ip", "link"]).output();
        if !may.is_ok_and(|output| output.status.success()) {
            skips::machine(skips::Machine::Namespaces, "no network of one's own (unshare -rn, ip)");
            return;
        }
        let this = std::env::current_exe().expect("a program");
        let status = Command::new("unshare")
            .args(["-rn".as_ref(), this.as_os_str()])
            .args(["--exact", "an_ipv6_64_is_one_client"])
            .env(INSIDE, "1")
            .status();
        assert!(status.is_ok_and(|status| status.success()));
        return;
    }
    let add = ADDRESSES.map(|address| format!("ip -6 addr add {address}/128 dev lo"));
    let script = format!("ip link set lo up && {}", add.join(" && "));
    assert!(Command::new("sh").args(["-ec", &script]).status().expect("a shell").success());
    let files = Files::new();
    let server = start(&files, "[::1]:0", "max_sessions_per_address = 2\nmessages_per_minute = 1");
    let to = server.address();
    let [first, second, other] = ADDRESSES;
    let mut sessions = vec![opened(first, to), opened(second, to)];
    turned_away(second, to, TOO_MANY);
    sessions.push(opened(other, to));
    sessions[0].say("MAIL FROM:<a@source.test>", "250");
    sessions[1].say("MAIL FROM:<a@source.test>", "450 4.7.1 Message rate limit exceeded");
    sessions[2].say("MAIL FROM:<a@source.test>", "250");
    server.stop();
}
