//! The junk folder, filled by rspamd's marks, and marks that clients forge.

use super::milters::{GTUBE, message, rspamd_with};
use super::place::Place;
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::tool::free_port;
use crate::support::{Files, config_with, wait_until};

/// A mail host that asks rspamd about all mail; `more` stands before its route.
fn server(files: &Files, milter: u16, more: &str) -> Server {
    let keys = format!("milters = [{{ address = \"127.0.0.1:{milter}\" }}]");
    let route = "[[route]]\ndomains = [\"far.test\"]\n\
                 maildir = { path = \"mail/{local}\", junk = { header = \"X-Spam\", value = \"Yes\" } }\n";
    Server::start(files, &config_with("", &keys, &format!("{more}{route}")))
}

/// Gives a message for a user, with this mark in its header.
fn give(server: &Server, user: &str, mark: &str, body: &str) {
    let mut client = Client::connect(server.address());
    let to = format!("{user}@far.test");
    client.mail("me@client.test", &[&to], &format!("{mark}{}", message(body)));
}

/// Waits for a message of this user; returns true if it is in the junk folder, and its text.
fn arrived(files: &Files, user: &str) -> (bool, String) {
    let (inbox, junk) = (format!("mail/{user}"), format!("mail/{user}/.Junk"));
    let found = || (files.maildir(&inbox), files.maildir(&junk));
    wait_until(user, || found() != (Vec::new(), Vec::new()));
    match (&found().0[..], &found().1[..]) {
        ([one], []) => (false, String::from_utf8_lossy(one).into_owned()),
        ([], [one]) => (true, String::from_utf8_lossy(one).into_owned()),
        all => panic!("{all:?}"),
    }
}

pub(crate) fn marked_mail_goes_to_the_junk_folder() {
    let (mut place, milter) = (Place::new(0), free_port());
    rspamd_with(&mut place, milter, ("", "127.0.0.1:1"), "");
    let spam = format!("Y{GTUBE}");
    let files = Files::new();
    let server = server(&files, milter, "");
    // A client's own mark counts as well, but it can't hide the filter's.
    for (user, mark, body, is_junk) in [
        ("clean", "", "hello", false),
        ("spam", "", &*spam, true),
        ("forged-no", "X-Spam: No\r\n", &*spam, true),
        ("forged-yes", "X-Spam: Yes\r\n", "hello", true),
        ("other", "X-Spam-Flag: YES\r\n", "hello", false),
    ] {
        give(&server, user, mark, body);
        let (is, text) = arrived(&files, user);
        assert_eq!(is, is_junk, "{user}: {text}");
        assert_eq!(text.contains("X-Spam: Yes\n"), is_junk, "{user}: {text}");
    }
    server.stop();
}

pub(crate) fn checks_remove_forged_marks() {
    let (mut place, milter) = (Place::new(0), free_port());
    rspamd_with(&mut place, milter, ("", "127.0.0.1:1"), "");
    let files = Files::new();
    let checks = "[[table]]\nname = \"marks\"\nregexp = { path = \"marks\" }\n\
                  [[header_check]]\ntable = \"marks\"\nin = \"header\"\n";
    files.write("marks", "/^X-Spam:/ IGNORE\n");
    let server = server(&files, milter, checks);
    for (user, mark, body, is_junk) in [
        ("spam", "X-Spam: No\r\n", format!("Y{GTUBE}"), true),
        ("clean", "X-Spam: Yes\r\n", "hello".to_owned(), false),
    ] {
        give(&server, user, mark, &body);
        let (is, text) = arrived(&files, user);
        assert_eq!(is, is_junk, "{user}: {text}");
        assert_eq!(text.matches("X-Spam:").count(), usize::from(is_junk), "{user}: {text}");
    }
    server.stop();
}
