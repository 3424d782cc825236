//! Policy services of other people: postgrey, which puts off whom it doesn't know, and postfwd, which
//! goes by rules.

use super::place::Place;
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::tool::free_port;
use crate::support::{Files, config};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;

/// How long postgrey puts off.
const GREY_SECONDS: u64 = 2;

/// A server that asks the service at a port, about everybody.
fn server(files: &Files, port: u16, keys: &str) -> Server {
    let text = format!(
        "[[policy]]\nservice = \"127.0.0.1:{port}\"\nclients = \"all\"\n{keys}\n\
         [[route]]\nmaildir = {{ path = \"mail/{{local}}\" }}\n"
    );
    Server::start(files, &config(&text))
}

fn begun(server: &Server, from: &str) -> Client {
    let mut client = Client::connect(server.address());
    client.say(&format!("MAIL FROM:<{from}>"), "250");
    client
}

/// Runs postgrey.
fn postgrey(place: &mut Place) -> u16 {
    let (dir, port) = (place.dir(), free_port());
    place.make_dir("grey");
    super::place::succeed(Command::new("chown").arg("nobody").arg(place.path("grey")));
    let words = [
        "postgrey",
        &format!("--inet=127.0.0.1:{port}"),
        &format!("--dbdir={dir}/grey"),
        &format!("--delay={GREY_SECONDS}"),
        "--user=nobody",
        "--group=nogroup",
        "--whitelist-clients=/dev/null",
        "--whitelist-recipients=/dev/null",
    ];
    let command = place.command("postgrey", &words);
    place.start(command, "grey.log");
    place.wait_listening(port);
    port
}

pub(crate) fn postgrey_puts_off_and_then_takes() {
    let (mut place, files) = (Place::new(0), Files::new());
    let port = postgrey(&mut place);
    let server = server(&files, port, "");
    let mut client = begun(&server, "me@source.test");
    let put_off = client.say("RCPT TO:<you@far.test>", "450 4.2.0 ");
    assert!(put_off.to_lowercase().contains("greylist"), "{put_off}");
    client.say("RCPT TO:<you@far.test>", "450 4.2.0 ");
    std::thread::sleep(Duration::from_secs(GREY_SECONDS + 1));
    client.say("RCPT TO:<you@far.test>", "250 2.1.5");
    client.say("RCPT TO:<other@far.test>", "450 4.2.0 ");
    client.say("DATA", "354");
    client.say("Subject: x\r\n\r\nx\r\n.", "250 2.0.0 Ok: queued as");
    let mail = files.wait_maildir("mail/you", 1);
    let text = String::from_utf8_lossy(&mail[0]);
    assert!(text.contains("\nX-Greylist: delayed "), "{text}");
    let refused = files.wait_events("refused", 3);
    assert!(refused.iter().all(|event| event["status"] == "4.2.0"), "{refused:#?}");
    // It is gone: what nobody answers for is put off.
    drop(place);
    client.say("MAIL FROM:<me@source.test>", "250");
    client.say("RCPT TO:<you@far.test>", "451 4.3.5");
    server
        .wait_console("policy", |line| line.contains("policy") && line.contains(&port.to_string()));
    server.stop();
}

const RULES: &str = "\
id=BAD; sender=bad@source.test; action=REJECT 5.7.1 no mail from you
id=LATE; recipient=late@far.test; action=450 4.2.0 come again
id=MARK; recipient=marked@far.test; action=PREPEND X-Policy: marked
id=BIG; protocol_state==RCPT; size>=100000; action=REJECT too big for us
id=REST; action=DUNNO
";

/// Runs postfwd as inetd would: one process for each connection, which ends with it. (As a daemon it
/// leaves the process that was started.)
fn postfwd(place: &mut Place) -> u16 {
    place.write("rules", RULES);
    let rules = place.path("rules").display().to_string();
    let words = ["postfwd1", "--nodns", &format!("--file={rules}")];
    let mut command = place.command("postfwd", &words);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            let other = stream.try_clone().expect("a descriptor");
            command.stdin(OwnedFd::from(stream)).stdout(OwnedFd::from(other));
            let mut process = command.spawn().expect("postfwd");
            std::thread::spawn(move || process.wait());
        }
    });
    port
}

pub(crate) fn postfwd_goes_by_its_rules() {
    let (mut place, files) = (Place::new(0), Files::new());
    let port = postfwd(&mut place);
    let server = server(&files, port, "");
    let mut client = begun(&server, "bad@source.test");
    client.say("RCPT TO:<you@far.test>", "550 5.7.1 no mail from you");
    client.say("RSET", "250");
    client.say("MAIL FROM:<me@source.test> SIZE=100000", "250");
    client.say("RCPT TO:<you@far.test>", "550 5.7.1 too big for us");
    client.say("RSET", "250");
    client.say("MAIL FROM:<me@source.test>", "250");
    client.say("RCPT TO:<late@far.test>", "450 4.2.0 come again");
    client.say("RCPT TO:<marked@far.test>", "250 2.1.5");
    client.say("DATA", "354");
    client.say("Subject: x\r\n\r\nx\r\n.", "250 2.0.0 Ok: queued as");
    let mail = files.wait_maildir("mail/marked", 1);
    assert!(String::from_utf8_lossy(&mail[0]).contains("\nX-Policy: marked\n"));
    server.stop();
}
