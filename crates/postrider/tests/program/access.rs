//! Access rules by Postfix's files, through the real program.

use crate::support::client::Client;
use crate::support::server::{CONFIG, Server, command};
use crate::support::{Files, config};
use serde_json::Value;

/// As postmap(1) reads it.
const SENDERS: &str = "\
# Who may not send to us.
spammer@bad.test        REJECT
bad.test                550 5.7.1 Nothing from
    this domain, please
friend@bad.test         OK
.sub.test               REJECT
<>                      DUNNO
notices@                450 4.7.1 Not now
info@odd.test           FILTER smtp:[127.0.0.1]
";

/// As cidr_table(5) has it.
const CLIENTS: &str = "\
192.0.2.0/24            REJECT
127.0.0.0/8             DUNNO
";

fn server(files: &Files) -> Server {
    files.write("senders", SENDERS);
    files.write("clients", CLIENTS);
    Server::start(
        files,
        &config(
            "[[table]]\nname = \"senders\"\nfile = { path = \"senders\" }\n\
             [[table]]\nname = \"clients\"\ncidr = { path = \"clients\" }\n\
             [[access]]\ntable = \"clients\"\nby = \"client\"\ndefault = \"refuse\"\n\
             [[access]]\ntable = \"senders\"\nby = \"sender\"\n\
             [[route]]\nmaildir = { path = \"mail/{local}\" }\n",
        ),
    )
}

fn rcpt(client: &mut Client, sender: &str, reply: &str) {
    client.say(&format!("MAIL FROM:<{sender}>"), "250");
    client.say("RCPT TO:<jo@here.test>", reply);
    client.say("RSET", "250");
}

#[test]
fn a_file_of_postfix_is_read_as_it_is_and_again_when_it_changes() {
    let files = Files::new();
    let server = server(&files);
    let mut client = Client::connect(server.address());
    for (sender, reply) in [
        ("spammer@bad.test", "550 5.7.1 Access denied"),
        ("other@bad.test", "550 5.7.1 Nothing from    this domain, please"),
        ("friend@bad.test", "250 2.1.5"),
        ("me@a.sub.test", "550 5.7.1 Access denied"),
        ("me@sub.test", "250 2.1.5"),
        ("", "250 2.1.5"),
        ("notices+1@any.test", "450 4.7.1 Not now"),
        ("info@odd.test", "451 4.3.5"),
    ] {
        rcpt(&mut client, sender, reply);
    }
    server.wait_console("a mistake", |line| {
        line.contains("table senders: info@odd.test has \"FILTER smtp:[127.0.0.1]\"")
    });
    files.write("senders", "friend@bad.test REJECT 5.7.1 No longer\n");
    server.wait_console("a new table", |line| line.contains("senders read anew"));
    rcpt(&mut client, "friend@bad.test", "550 5.7.1 No longer");
    rcpt(&mut client, "spammer@bad.test", "250 2.1.5");
    client.mail("me@bad.test", &["jo@here.test"], "Subject: one\r\n\r\nBody.\r\n");
    files.wait_maildir("mail/jo", 1);
    server.stop();
}

/// What `explain` says with these words: whether the recipient is taken, and the lines about rules and the acceptance.
fn explained(files: &Files, words: &[&str]) -> (bool, Vec<String>) {
    let answer = command(files.dir(), &[&["explain", "--json", "jo@here.test"], words].concat());
    assert_eq!((answer.code, &*answer.err), (0, ""), "{words:?}");
    let said: Value = serde_json::from_str(&answer.out).expect("JSON");
    let steps = said["steps"].as_array().expect("steps").iter();
    let line = |step: &Value| {
        let part = |name: &str| step[name].as_str().expect("text").to_owned();
        let what = part("what");
        let is_shown = what.starts_with("access rule") || what == "acceptance";
        is_shown.then(|| format!("{what}: {}", part("value")))
    };
    (said["accepted"] == true, steps.filter_map(line).collect())
}

#[test]
fn explain_shows_which_rule_refuses_and_which_lets_in() {
    let files = Files::new();
    let server = server(&files);
    let local = ["--client", "127.0.0.1"];
    let from = |sender| [&local[..], &["--from", sender]].concat();
    let named = "acceptance: accepted from everybody: everything else stays on this server";
    let rule = |number: usize, text: &str| format!("access rule {number}: {text}");
    let first = rule(1, "by client: table \"clients\" has 127.0.0.1 DUNNO: the next rule is asked");
    // As the server itself says it.
    let (accepted, told) = explained(&files, &from("spammer@bad.test"));
    let second =
        "by sender: table \"senders\" has spammer@bad.test REJECT: 550 5.7.1 Access denied";
    assert!(!accepted);
    let refused = "acceptance: refused to 127.0.0.1: 550 5.7.1 Access denied".to_owned();
    assert_eq!(told, [first.clone(), rule(2, second), refused]);
    let (accepted, told) = explained(&files, &from("friend@bad.test"));
    let second = "by sender: table \"senders\" has friend@bad.test OK: no other rule is asked";
    assert!(accepted);
    assert_eq!(told, [first.clone(), rule(2, second), named.to_owned()]);
    let (accepted, told) = explained(&files, &from("me@far.test"));
    let second = "by sender: not in table \"senders\": the next rule is asked";
    assert!(accepted);
    assert_eq!(told, [first.clone(), rule(2, second), named.to_owned()]);
    let (accepted, told) = explained(&files, &from("info@odd.test"));
    let second = "has info@odd.test FILTER smtp:[127.0.0.1]: 451 4.3.5 The access rules have a";
    assert!(!accepted && told[1].contains(second), "{told:#?}");
    // The default of the first rule is to refuse.
    let (accepted, told) = explained(&files, &["--client", "198.51.100.7"]);
    let only = rule(1, "by client: not in table \"clients\": 550 5.7.1 Access denied");
    assert!(!accepted);
    assert_eq!(told[..told.len() - 1], [only], "no other is asked");
    // Nobody said who the client is.
    let (accepted, told) = explained(&files, &["--from", "me@bad.test"]);
    let only =
        rule(1, "by client: not asked without a client (--client, --helo): the next rule is asked");
    assert!(!accepted && told[0] == only, "{told:#?}");
    assert!(told[1].ends_with("550 5.7.1 Nothing from    this domain, please"), "{told:#?}");
    assert_eq!(explained(&files, &["--offline", "--from", "me@bad.test"]).1, [named]);
    server.stop();
}

#[test]
fn explain_shows_who_gets_the_copy_instead_and_what_is_dropped() {
    let files = Files::new();
    files.write("rules", "mail.far.test REDIRECT ann@here.test\ndrop.far.test DISCARD spam\n");
    let text = config(
        "[[table]]\nname = \"rules\"\nfile = { path = \"rules\" }\n\
         [[table]]\nname = \"users\"\nfile = { path = \"rules\" }\n\
         [[access]]\ntable = \"rules\"\nby = \"helo\"\nlisteners = [\"other\"]\n\
         [[access]]\ntable = \"rules\"\nby = \"helo\"\nlisteners = [\"in\"]\n\
         [[route]]\nrecipients = { table = \"users\" }\nmaildir = { path = \"mail/{local}\" }\n",
    );
    files.write(CONFIG, &(text + "[[listener]]\nname = \"other\"\naddress = \"127.0.0.1:0\"\n"));
    for (helo, said) in [
        ("mail.far.test", "has mail.far.test REDIRECT ann@here.test: ann@here.test gets its copy"),
        ("drop.far.test", "has drop.far.test DISCARD spam: nothing is kept for it"),
    ] {
        let (accepted, told) = explained(&files, &["--helo", helo]);
        // The users of the route are not asked for: `jo` is none.
        assert!(accepted && told[0].starts_with("access rule 2: by helo: "), "{told:#?}");
        assert!(told[0].ends_with(said), "{told:#?}");
    }
    assert!(!explained(&files, &["--helo", "far.test"]).0, "there is no such user");
}
