//! Programs of this machine send over a Unix socket, as the users that they run as.

use crate::support::Files;
use crate::support::client::Client;
use crate::support::server::Server;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::process::Command;

/// A server with a socket for local users, and these keys.
fn config(keys: &str) -> String {
    format!(
        "hostname = \"mail.here.test\"\nspool = {{ path = \"spool\" }}\n\
         [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n\
         [[listener]]\nname = \"local\"\nkind = \"local\"\nsocket = \"submit.sock\"\n{keys}\n\
         [[route]]\ndomains = [\"mail.here.test\", \"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n\
         [[route]]\nsmtp = {{ hosts = [\"127.0.0.1:9\"] }}\n\
         [log]\nformat = \"postfix\"\n"
    )
}

/// The user that the tests run as.
fn own_name() -> String {
    let out = Command::new("id").arg("-un").output().expect("id(1) is there").stdout;
    String::from_utf8(out).expect("text").trim().to_owned()
}

fn connect(files: &Files) -> Client {
    let mut client = Client::local(&files.path("submit.sock"));
    client.expect("220 mail.here.test");
    let offers = client.say("EHLO here", "250");
    for no in ["STARTTLS", "AUTH", "XCLIENT"] {
        assert!(!offers.contains(no), "{offers}");
    }
    assert!(offers.contains("DSN"), "{offers}");
    client
}

/// Sends a message, and returns the sender and the login that it was accepted with.
fn sent(files: &Files, client: &mut Client, from: &str, to: &str) -> (String, String) {
    let before = files.events_of("received").len();
    client.say(&format!("MAIL FROM:<{from}>"), "250");
    client.say(&format!("RCPT TO:<{to}>"), "250");
    client.say("DATA", "354");
    client.send("From: Jo <jo>\r\nBcc: secret@x.test\r\nSubject: one\r\n\r\nBody.\r\n.\r\n");
    client.expect("250");
    let event = files.wait_events("received", before + 1).remove(before);
    assert_eq!(event["listener"], "local", "{event}");
    assert_eq!(event["client"], "127.0.0.1", "{event}");
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    (text("sender"), text("login"))
}

#[test]
fn local_user_sends_as_itself() {
    let (files, user) = (Files::new(), own_name());
    let server = Server::start(&files, &config("trusted = []"));
    let mut client = connect(&files);
    let own = (format!("{user}@mail.here.test"), user.clone());
    assert_eq!(sent(&files, &mut client, "other@x.test", "jo"), own);
    assert_eq!(sent(&files, &mut client, &user, "a@elsewhere.test"), own, "relayed");
    let null = (String::new(), user.clone());
    assert_eq!(sent(&files, &mut client, "", "jo"), null);
    let content = files.wait_maildir("mail/jo", 2).remove(0);
    let text = String::from_utf8(content).expect("text");
    let uid = rustix::process::geteuid().as_raw();
    let trace = format!("\nReceived: by mail.here.test (Postrider, from userid {uid})");
    assert!(text.contains(&trace), "{text}");
    let line = format!(": uid={uid} from=<{user}@mail.here.test>");
    let line = server.wait_console("pickup", |logged| logged.ends_with(&line));
    assert!(line.contains("/pickup"), "{line}");
    assert!(text.contains("From: Jo <jo@mail.here.test>"), "{text}");
    assert!(text.contains("Date: ") && text.contains("Message-ID: "), "{text}");
    assert!(!text.contains("secret"), "{text}");
    // A reload holds from the next message of the session on.
    files.write(
        "postrider.toml",
        &config(&format!("trusted = [\"{user}\"]\norigin = \"here.test\"")),
    );
    assert_eq!(server.command(&["reload"]).code, 0);
    let named = ("other@x.test".to_owned(), user.clone());
    assert_eq!(sent(&files, &mut client, "other@x.test", "jo"), named);
    let completed = ("jane@here.test".to_owned(), user);
    assert_eq!(sent(&files, &mut client, "jane", "jo"), completed);
    server.stop();
}

#[test]
fn socket_is_for_all_users_and_ends_with_the_server() {
    let files = Files::new();
    let server = Server::start(&files, &config(""));
    let meta = || std::fs::symlink_metadata(files.path("submit.sock"));
    let found = meta().expect("a socket");
    assert!(found.file_type().is_socket() && found.mode() & 0o777 == 0o666, "{found:?}");
    // A killed server leaves its socket, which the next one replaces.
    server.kill();
    let server = Server::start_again(&files);
    assert_ne!(meta().expect("a socket").ino(), found.ino());
    connect(&files).say("QUIT", "221");
    server.stop();
    assert!(meta().is_err(), "it is removed");
    // No file is overwritten.
    files.write("submit.sock", "precious");
    let answer = crate::support::server::command(files.dir(), &["check"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    let told = "cannot listen on submit.sock (listener local): a file that is not a socket is in its place";
    assert!(format!("{answer:?}").contains(told), "{answer:?}");
}

#[test]
fn revoked_user_is_refused_at_the_socket() {
    let (files, user) = (Files::new(), own_name());
    let server = Server::start(&files, &config(""));
    let mut client = connect(&files);
    assert_eq!(server.command(&["login", "revoke", &user, "--reason", "stolen"]).code, 0);
    client.expect("421");
    Client::local(&files.path("submit.sock")).expect("554");
    assert_eq!(server.command(&["login", "allow", &user]).code, 0);
    connect(&files).say("QUIT", "221");
    server.stop();
}
