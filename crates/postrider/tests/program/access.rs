//! Access rules by Postfix's files, through the real program.

use crate::support::client::Client;
use crate::support::server::{Answer, CONFIG, Server, command, program};
use crate::support::{Files, config, wait_until};
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
             [[access]]\nclients = \"all\"\ntable = \"clients\"\nby = \"client\"\ndefault = \"refuse\"\n\
             [[access]]\nclients = \"all\"\ntable = \"senders\"\nby = \"sender\"\n\
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
    ] {
        rcpt(&mut client, sender, reply);
    }
    files.write("senders", "friend@bad.test REJECT 5.7.1 No longer\n");
    server.wait_console("a new table", |line| line.contains("senders reloaded"));
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
    let named =
        "acceptance: accepted from all clients: everything else is delivered on this server";
    let rule = |number: usize, text: &str| format!("access rule {number}: {text}");
    let first =
        rule(1, "by client: table \"clients\" has 127.0.0.1 DUNNO: continues with the next rule");
    // As the server itself says it.
    let (accepted, told) = explained(&files, &from("spammer@bad.test"));
    let second =
        "by sender: table \"senders\" has spammer@bad.test REJECT: 550 5.7.1 Access denied";
    assert!(!accepted);
    let refused = "acceptance: rejected for 127.0.0.1: 550 5.7.1 Access denied".to_owned();
    assert_eq!(told, [first.clone(), rule(2, second), refused]);
    let (accepted, told) = explained(&files, &from("friend@bad.test"));
    let second = "by sender: table \"senders\" has friend@bad.test OK: no further rule of list \"sender\" applies";
    assert!(accepted);
    assert_eq!(told, [first.clone(), rule(2, second), named.to_owned()]);
    let (accepted, told) = explained(&files, &from("me@far.test"));
    let second = "by sender: not in table \"senders\": continues with the next rule";
    assert!(accepted);
    assert_eq!(told, [first.clone(), rule(2, second), named.to_owned()]);
    // The default of the first rule is to refuse.
    let (accepted, told) = explained(&files, &["--client", "198.51.100.7"]);
    let only = rule(1, "by client: not in table \"clients\": 550 5.7.1 Access denied");
    assert!(!accepted);
    assert_eq!(told[..told.len() - 1], [only], "no other is asked");
    // Nobody said who the client is.
    let (accepted, told) = explained(&files, &["--from", "me@bad.test"]);
    let only = rule(
        1,
        "by client: skipped without a client (--client, --helo): continues with the next rule",
    );
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
         [[access]]\nclients = \"all\"\ntable = \"rules\"\nby = \"helo\"\nlisteners = [\"other\"]\n\
         [[access]]\nclients = \"all\"\ntable = \"rules\"\nby = \"helo\"\nlisteners = [\"in\"]\n\
         [[route]]\nrecipients = { table = \"users\" }\nmaildir = { path = \"mail/{local}\" }\n",
    );
    files.write(CONFIG, &(text + "[[listener]]\nname = \"other\"\naddress = \"127.0.0.1:0\"\n"));
    for (helo, said) in [
        ("mail.far.test", "has mail.far.test REDIRECT ann@here.test: redirected to ann@here.test"),
        ("drop.far.test", "has drop.far.test DISCARD spam: discarded"),
    ] {
        let (accepted, told) = explained(&files, &["--helo", helo]);
        // The users of the route are not asked for: `jo` is none.
        assert!(accepted && told[0].starts_with("access rule 2: by helo: "), "{told:#?}");
        assert!(told[0].ends_with(said), "{told:#?}");
    }
    assert!(!explained(&files, &["--helo", "far.test"]).0, "there is no such user");
}

#[test]
fn explain_shows_skipped_rules_and_pending_decisions() {
    let files = Files::new();
    files.write("helo", "good.test OK\nodd.test DEFER_IF_PERMIT Odd\n");
    files.write("rcpt", "jo@here.test REJECT\n");
    let rule = |table: &str, by: &str, clients: &str| {
        format!("[[access]]\ntable = \"{table}\"\nby = \"{by}\"\nclients = \"{clients}\"\n")
    };
    let table =
        |name: &str| format!("[[table]]\nname = \"{name}\"\nfile = {{ path = \"{name}\" }}\n");
    let whole = |rules: &[String]| {
        let route = "[[route]]\ndiscard = {}\n";
        config(&format!("{}{}{}{route}", table("helo"), table("rcpt"), rules.concat()))
    };
    let (from, friend) = (["--helo", "good.test", "--client", "198.51.100.7"], "127.0.0.1");
    let rules = [
        rule("helo", "helo", "all"),
        rule("helo", "helo", "all"),
        rule("rcpt", "recipient", "strangers"),
    ];
    files.write(CONFIG, &whole(&rules));
    let (accepted, told) = explained(&files, &from);
    let ended = "access rule 2: by helo: skipped: an OK has ended list \"helo\"";
    assert!(!accepted && told[1] == ended, "{told:#?}");
    assert!(told[2].ends_with("jo@here.test REJECT: 550 5.7.1 Access denied"), "{told:#?}");
    let (accepted, told) = explained(&files, &["--helo", "good.test", "--client", friend]);
    let skipped = "access rule 3: by recipient: skipped: the client may relay";
    assert!(accepted && told[2] == skipped, "{told:#?}");
    // It decides though rules follow.
    files.write("rcpt", "jo@here.test DUNNO\n");
    let (accepted, told) = explained(&files, &["--helo", "odd.test", "--client", "198.51.100.7"]);
    let last = "access rule 1: unless a rule rejects: 450 4.7.1 Odd";
    assert!(!accepted && told.iter().rev().nth(1).is_some_and(|line| line == last), "{told:#?}");
    assert!(told.last().is_some_and(|line| line.ends_with("450 4.7.1 Odd")), "{told:#?}");
}

/// An MTA of X.400 that listens beside.
const X400: &str = "[x400]\nmta = \"m\"\ndomain = \"/PRMD=A/ADMD= /C=GB/\"\n[[x400.peer]]\nname = \"hub\"\n\
                    their_name = \"h\"\ntheir_password = \"x\"\nour_password = \"y\"\n\
                    [[listener]]\nname = \"p1\"\nkind = \"p1\"\naddress = \"127.0.0.1:0\"\n";

/// A configuration with a table of this kind that a rule asks.
fn asking(table: &str, rule: &str, more: &str) -> String {
    config(&format!(
        "{more}[[table]]\nname = \"t\"\n{table}\n[[access]]\nclients = \"all\"\ntable = \"t\"\n{rule}\n[[route]]\ndiscard = {{}}\n"
    ))
}

/// What `check` finds wrong: nothing, or one mistake.
fn checked(files: &Files, text: &str) -> Option<String> {
    files.write(CONFIG, text);
    let answer = command(files.dir(), &["check"]);
    let mistakes = answer.err.lines().find(|line| line.contains("table \"t\""));
    assert_eq!(answer.code, if mistakes.is_some() { 2 } else { 0 }, "{text}: {answer:?}");
    let shown = command(files.dir(), &["check", "--json"]).out;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["valid"], mistakes.is_none(), "{shown}");
    mistakes.map(str::to_owned)
}

#[test]
fn an_action_that_there_is_not_is_found_in_each_kind_of_table_before_mail_comes() {
    let files = Files::new();
    files.write("text", "# Who\na.test OK\nb.test\n   FILTER smtp:x\n");
    files.write("cidr", "192.0.2.0/24 OK\n198.51.100.0/24 permit_mynetworks, reject\n");
    files.write("regexp", "/a/ OK\n/^b(.*)/ FILTER smtp:$1\n");
    files.write("pcre", "/b(.*)/ REDIRECT $1@b.test\n/c/ REDIRECT c\n");
    files.write("right.regexp", "/^b(.*)/ $1\n/^c(.*)/ 550 5.1.1 No $1\n/d(.*)/ PREPEND $1\n");
    files.write("db.txt", "a.test OK\nb.test FILTER smtp:x\n");
    let built = program(files.dir(), &["table", "build", "--from", "db.txt", "--to", "db"]);
    assert_eq!(built.code, 0, "{built:?}");
    let unknown = "unknown action ";
    for (kind, by, mistake) in [
        (
            "inline = { a = \"OK\", B = \"FILTER smtp:x\" }",
            "helo",
            format!("key \"b\": {unknown}\"FILTER smtp:x\""),
        ),
        ("file = { path = \"text\" }", "sender", format!("text:4:4: {unknown}\"FILTER smtp:x\"")),
        (
            "cidr = { path = \"cidr\" }",
            "client",
            format!("cidr:2:17: {unknown}\"permit_mynetworks, reject\""),
        ),
        ("regexp = { path = \"regexp\" }", "sender", format!("regexp:2:10: {unknown}\"FILTER\"")),
        ("pcre = { path = \"pcre\" }", "sender", "pcre:2:5: \"c\" is not an address".to_owned()),
        (
            "database = { path = \"db\" }",
            "sender",
            format!("db: key \"b.test\": {unknown}\"FILTER smtp:x\""),
        ),
    ] {
        let text = asking(kind, &format!("by = \"{by}\""), "");
        let found = checked(&files, &text).unwrap_or_else(|| panic!("{kind}"));
        assert!(found.ends_with(&mistake), "{found}");
        let Answer { code, err, .. } = command(files.dir(), &["serve"]);
        assert!(code != 0 && err.contains(&mistake), "{kind}: {err}");
        // As a part of another, and where nobody takes it for actions.
        let both = format!("{kind}\n[[table]]\nname = \"all\"\nfirst = {{ tables = [\"t\"] }}");
        let whole = asking(&both, &format!("by = \"{by}\""), "").replacen(
            "[[access]]\nclients = \"all\"\ntable = \"t\"",
            "[[access]]\nclients = \"all\"\ntable = \"all\"",
            1,
        );
        assert_eq!(checked(&files, &whole), Some(found), "{kind}");
        let unasked = whole
            .replace(
                "[[access]]\nclients = \"all\"\ntable = \"all\"",
                "[[copy]]\nto = \"a@b.test\"",
            )
            .replace(&format!("by = \"{by}\""), "");
        assert_eq!(checked(&files, &unasked), None, "{kind}");
    }
    assert_eq!(
        checked(&files, &asking("regexp = { path = \"right.regexp\" }", "by = \"helo\"", "")),
        None
    );
    let absent = checked(&files, &asking("file = { path = \"absent\" }", "by = \"helo\"", ""));
    assert!(absent.is_some_and(|found| found.contains("cannot read absent")));
}

#[test]
fn an_action_of_internet_mail_alone_is_found_where_x400_asks_for_it() {
    let files = Files::new();
    let here = "listeners = [\"p1\"]";
    for (by, key, action, limits, is_right) in [
        ("helo", "hub", "DISCARD", "", false),
        ("helo", "hub", "REDIRECT a@b.test", here, false),
        ("helo", "hub", "BCC a@b.test", here, false),
        ("helo", "hub", "PREPEND X-A: b", here, false),
        ("helo", "hub", "HOLD", here, true),
        ("helo", "hub", "REJECT", here, true),
        ("helo", "hub", "DISCARD", "listeners = [\"in\"]", true),
        ("helo", "mail.test", "DISCARD", "", true),
        ("helo", "mail.test", "DISCARD", here, false),
        ("client", "192.0.2", "DISCARD", "", true),
        ("client", "192.0.2", "DISCARD", here, false),
        ("sender", "/C=gb/", "DISCARD", "", false),
        ("sender", "spam@bad.test", "DISCARD", "", true),
        ("recipient", "/O=x/PRMD=A/ADMD= /C=gb/", "BCC a@b.test", "", false),
        ("sender+recipient", "spam@bad.test,b.test", "DISCARD", "", true),
        ("sender+recipient", "/C=fr/,/C=gb/", "DISCARD", "", false),
    ] {
        let rule = format!("by = \"{by}\"\n{limits}");
        let text = asking(&format!("inline = {{ \"{key}\" = \"{action}\" }}"), &rule, X400);
        let word = action.split(' ').next().unwrap_or_default();
        let wanted = format!(
            "key \"{}\": {word} is an action for internet mail only, but listener \"p1\" is for X.400",
            key.to_lowercase()
        );
        match checked(&files, &text) {
            Some(found) => {
                assert!(!is_right && found.ends_with(&wanted), "{by} {key} {limits}: {found}")
            }
            None => assert!(is_right, "{by} {key} {action} {limits}"),
        }
        // Of a file it is the line.
        files.write("text", &format!("{key} {action}\n"));
        let text = text.replace(
            &format!("inline = {{ \"{key}\" = \"{action}\" }}"),
            "file = { path = \"text\" }",
        );
        let is_key_alone = !key.contains(' ');
        if is_key_alone {
            assert_eq!(checked(&files, &text).is_none(), is_right, "{by} {key} {limits}");
        }
    }
}

#[test]
fn a_table_with_a_wrong_action_does_not_take_the_place_of_one_that_is_right() {
    let files = Files::new();
    files.write("text", "bad.test REJECT\n");
    let server =
        Server::start(&files, &asking("file = { path = \"text\" }", "by = \"sender\"", ""));
    let mut client = Client::connect(server.address());
    rcpt(&mut client, "me@bad.test", "550 5.7.1");
    files.write("text", "other.test REJECT\nbad.test REJCT\n");
    server.wait_console("a mistake", |line| {
        line.contains("table t unchanged: text:2:10: unknown action \"REJCT\"")
    });
    rcpt(&mut client, "me@bad.test", "550 5.7.1");
    rcpt(&mut client, "me@other.test", "250 2.1.5");
    let problems = || server.command(&["status"]).out;
    assert!(problems().contains("text:2:10"), "{}", problems());
    let reload = server.command(&["reload"]);
    assert!(reload.code == 1 && reload.err.contains("text:2:10"), "{reload:?}");
    files.write("text", "other.test REJECT\nbad.test OK\n");
    server.wait_console("a new table", |line| line.contains("text reloaded"));
    rcpt(&mut client, "me@other.test", "550 5.7.1");
    rcpt(&mut client, "me@bad.test", "250 2.1.5");
    assert_eq!(server.command(&["reload"]).code, 0);
    wait_until("no problem", || !problems().contains("text:2:10"));
    // A rule that a reload adds judges what was read before.
    files.write(
        CONFIG,
        &asking("file = { path = \"text\" }", "by = \"sender\"", "")
            .replace("[[access]]\nclients = \"all\"\ntable = \"t\"\nby = \"sender\"", ""),
    );
    assert_eq!(server.command(&["reload"]).code, 0);
    files.write("text", "other.test NONSENSE\n");
    server.wait_console("a new table", |line| line.contains("text reloaded keys=1"));
    files.write(CONFIG, &asking("file = { path = \"text\" }", "by = \"sender\"", ""));
    let reload = server.command(&["reload"]);
    assert!(reload.code == 1 && reload.err.contains("\"NONSENSE\""), "{reload:?}");
    server.stop();
}
