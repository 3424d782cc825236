//! Aliases, files of addresses, and what is sent on to others, through the real program.

use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::Server;
use crate::support::{Files, config};

/// As an alias file for virtual(5) has it.
const ALIASES: &str = "\
# Lists.
staff@ours.test         :include:<LISTS>/staff, boss@ours.test
away@ours.test          far@away.test
";

fn server(files: &Files, peer: &Peer) -> Server {
    let lists = files.path("lists");
    std::fs::create_dir(&lists).expect("a directory");
    files.write("lists/staff", "# Everybody\njo@ours.test\n\n:include:<LISTS>/more\n");
    for name in ["lists/staff", "aliases"] {
        let text = if name == "aliases" { ALIASES.to_owned() } else { read(files, name) };
        files.write(name, &text.replace("<LISTS>", &lists.display().to_string()));
    }
    files.write("lists/more", "ann@ours.test, jo@ours.test\n");
    files.write("secret", "new\nold\n");
    let text = format!(
        "[[table]]\nname = \"aliases\"\nfile = {{ path = \"aliases\" }}\n\
         [srs]\ndomain = \"srs.test\"\nsecret_file = \"secret\"\n\
         [[route]]\ndomains = [\"ours.test\"]\naliases = {{ table = \"aliases\" }}\n\
         include = [\"{}\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n\
         [[route]]\nsmtp = {{ hosts = [\"{}\"] }}\n",
        lists.display(),
        peer.address
    );
    Server::start(files, &config(&text))
}

fn read(files: &Files, name: &str) -> String {
    std::fs::read_to_string(files.path(name)).expect("a file")
}

#[test]
fn lists_are_read_from_files_and_again_when_these_change() {
    let (files, peer) = (Files::new(), Peer::start(|_| None));
    let server = server(&files, &peer);
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["staff@ours.test"], "Subject: one\r\n\r\nBody.\r\n");
    for user in ["jo", "ann", "boss"] {
        files.wait_maildir(&format!("mail/{user}"), 1);
    }
    files.write("lists/more", "bob@ours.test\n");
    crate::support::wait_until("the new list counts", || {
        client.mail("me@source.test", &["staff@ours.test"], "Subject: two\r\n\r\nBody.\r\n");
        std::thread::sleep(std::time::Duration::from_millis(500));
        !files.maildir("mail/bob").is_empty()
    });
    server.stop();
}

#[test]
fn what_is_sent_on_leaves_with_a_sender_of_ours_and_a_new_secret_needs_a_reload_only() {
    let (files, peer) = (Files::new(), Peer::start(|_| None));
    let server = server(&files, &peer);
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["away@ours.test"], "Subject: one\r\n\r\nBody.\r\n");
    let taken = peer.wait_taken(1).remove(0);
    let (_, rewritten) = taken.mail.split_once('<').expect("an address");
    let (rewritten, _) = rewritten.split_once('>').expect("an address");
    assert!(rewritten.starts_with("SRS0="), "{}", taken.mail);
    assert!(rewritten.ends_with("=source.test=me@srs.test"), "{}", taken.mail);
    client.mail("", &[rewritten], "Subject: no\r\n\r\nBody.\r\n");
    let taken = peer.wait_taken(2).remove(1);
    assert_eq!(taken.rcpt.len(), 1);
    assert!(taken.rcpt[0].contains("<me@source.test>"), "{taken:?}");
    for (secrets, reply) in [("newest\nnew\n", "250 2.1.5"), ("newest\n", "550 5.1.1")] {
        files.write("secret", secrets);
        server.command(&["reload"]);
        client.say("MAIL FROM:<>", "250");
        client.say(&format!("RCPT TO:<{rewritten}>"), reply);
        client.say("RSET", "250");
    }
    server.stop();
}

#[test]
fn reports_reach_those_that_their_sender_stands_for() {
    let (files, peer) = (
        Files::new(),
        Peer::start(|line| line.starts_with("RCPT").then(|| "550 5.1.1 Nobody".to_owned())),
    );
    let users = |count: usize| (0..count).map(|n| format!("u{n}@ours.test")).collect::<Vec<_>>();
    let aliases = format!(
        "sales@ours.test jo@ours.test, team@ours.test\nteam@ours.test ann@ours.test, jo@ours.test\n\
         admin@ours.test jo@ours.test\nmost@ours.test {}\nmany@ours.test {}\n",
        users(50).join(", "),
        users(51).join(", ")
    );
    files.write("aliases", &aliases);
    let text = format!(
        "[reports]\ndouble_bounce_to = \"admin@ours.test\"\n\
         [[table]]\nname = \"aliases\"\nfile = {{ path = \"aliases\" }}\n\
         [[route]]\ndomains = [\"ours.test\"]\naliases = {{ table = \"aliases\" }}\n\
         maildir = {{ path = \"mail/{{local}}\" }}\n\
         [[route]]\nsmtp = {{ hosts = [\"{}\"] }}\n",
        peer.address
    );
    let server = Server::start(&files, &config(&text));
    let mut client = Client::connect(server.address());
    let mut send = |from: &str| client.mail(from, &["no@far.test"], "Subject: x\r\n\r\nBody.\r\n");
    send("sales@ours.test");
    for user in ["jo", "ann"] {
        let report = String::from_utf8(files.wait_maildir(&format!("mail/{user}"), 1).remove(0));
        let report = report.expect("a report is text");
        assert!(report.contains("To: <sales@ours.test>"), "{report}");
        assert!(report.contains("550 5.1.1 Nobody"), "{report}");
    }
    send("most@ours.test");
    send("me@ours.test");
    files.wait_maildir("mail/me", 1);
    for n in 0..50 {
        files.wait_maildir(&format!("mail/u{n}"), 1);
    }
    send("many@ours.test");
    files.wait_maildir("mail/many", 1);
    server.wait_console("why", |line| line.contains("too many addresses for reports"));
    // Of what has no sender the postmaster is told by the very address: of that nobody is told in turn.
    send("");
    files.wait_maildir("mail/admin", 1);
    for name in ["sales", "team", "most", "u50"] {
        assert!(files.maildir(&format!("mail/{name}")).is_empty(), "{name}");
    }
    assert_eq!(files.maildir("mail/jo").len(), 1);
    server.stop();
}
