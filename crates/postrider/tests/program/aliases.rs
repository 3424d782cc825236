//! Aliases, files of addresses, and what is sent on to others, through the real program.

use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::{CONFIG, Server, program};
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

#[test]
fn a_quoted_local_part_writes_no_members_into_an_alias() {
    let (files, peer) = (Files::new(), Peer::start(|_| None));
    // The line of the manual, and those that a postmaster might write about quotes.
    let patterns = "/^(.*)-outgoing@(.*)$/ ${1}@${2}\n/^\"(.*)-bare\"@(.*)$/ ${1}@${2}, keep@ours.test\n\
                    /^(.*)-both@(.*)$/ ${1}@${2} ${1}-copy@${2}\n";
    files.write("patterns", patterns);
    files.write("fixed", "\"a b\"@ours.test jo@ours.test\n");
    let table = |name: &str, kind: &str| format!("[[table]]\nname = \"{name}\"\n{kind}\n");
    for kind in [
        table("aliases", "pcre = { path = \"patterns\" }"),
        table("aliases", "regexp = { path = \"patterns\" }"),
        table("f", "file = { path = \"fixed\" }")
            + &table("p", "pcre = { path = \"patterns\" }")
            + &table("aliases", "union = { tables = [\"f\", \"p\"] }"),
        table("f", "file = { path = \"fixed\" }")
            + &table("p", "regexp = { path = \"patterns\" }")
            + &table("aliases", "first = { tables = [\"f\", \"p\"] }"),
    ] {
        let text = format!(
            "{kind}[[route]]\ndomains = [\"ours.test\"]\naliases = {{ table = \"aliases\" }}\n\
             maildir = {{ path = \"mail/{{local}}\" }}\n\
             [[route]]\nsmtp = {{ hosts = [\"{}\"] }}\n",
            peer.address
        );
        let server = Server::start(&files, &config(&text));
        let mut client = Client::connect(server.address());
        for suffix in ["outgoing", "bare", "both"] {
            for local in [
                "victim@far.test,y",
                "victim@far.test y",
                "y,victim@far.test,y",
                "y victim@far.test",
                "a\\\" ,victim@far.test, \\\"b",
                "a\\\\ ,victim@far.test",
                ":include:/etc/passwd",
                "@far.test",
            ] {
                client.say("MAIL FROM:<me@source.test>", "250");
                client.send(format!("RCPT TO:<\"{local}-{suffix}\"@ours.test>\r\n"));
                // Refused, or taken for somebody at ours.test: nobody else gets it.
                if client.reply().starts_with("250") {
                    client.say("DATA", "354");
                    client.send("Subject: x\r\n\r\nBody.\r\n.\r\n");
                    assert!(client.reply().starts_with("250"));
                } else {
                    client.say("RSET", "250");
                }
            }
        }
        // Who needs no quotes is looked up as ever.
        let before = files.maildir("mail/ann").len();
        client.mail("me@source.test", &["ann-outgoing@ours.test"], "Subject: y\r\n\r\nBody.\r\n");
        files.wait_maildir("mail/ann", before + 1);
        server.stop();
    }
    assert_eq!(peer.taken().len(), 0, "nothing is relayed: {:?}", peer.taken());
}

#[test]
fn lines_in_another_syntax_are_warned_of() {
    let files = Files::new();
    files.write("aliases", "info@ours.test: jo@ours.test\nlost\nsales@ours.test jo@ours.test\n");
    let text = "[[table]]\nname = \"aliases\"\nfile = { path = \"aliases\" }\n\
                [[route]]\ndomains = [\"ours.test\"]\naliases = { table = \"aliases\" }\n\
                maildir = { path = \"mail/{local}\" }\n";
    let server = Server::start(&files, &config(text));
    let warned = server.wait_console("the colon", |line| line.contains("the colon is part of"));
    assert!(warned.contains("table aliases: ") && warned.contains("aliases:1:15: "), "{warned}");
    server.wait_console("the line without a value", |line| line.contains("aliases:2:"));
    let checked = program(files.dir(), &["check", "--config", CONFIG]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(checked.err.contains("the colon is part of the key"), "{checked:?}");
    server.stop();
}

#[test]
fn the_domain_of_rewritten_senders_has_a_postmaster() {
    let (files, peer) = (Files::new(), Peer::start(|_| None));
    let server = server(&files, &peer);
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["Postmaster@SRS.test"], "Subject: x\r\n\r\nBody.\r\n");
    files.wait_events("delivered", 1);
    server.stop();
}

/// As people have them who come from Postfix: some lines of virtual(5), some of aliases(5).
const ODD: &str = "\
here.test       anything
sales@here.test jo, :include:<LISTS>/right
sales@here.test ann
empty@here.test
info            jo@here.test
postmaster:     root
cmd@here.test   \"|/usr/bin/vacation jo\"
file@here.test  /var/mail/archive
out@here.test   jo :include:/etc/passwd
gone@here.test  :include:<LISTS>/absent
dir@here.test   :include:<LISTS>/sub
far@here.test   jo,ann@far.test
@here.test      @there.test
ok@here.test    Jo+x@Here.test, postmaster@far.test, \"a b\"@here.test
";

#[test]
fn lines_of_aliases_without_effect_are_warned_of() {
    let files = Files::new();
    let lists = files.path("lists");
    std::fs::create_dir_all(lists.join("sub")).expect("a directory");
    files.write("lists/right", "ann@here.test\n");
    let lists = lists.display().to_string();
    files.write("aliases", &ODD.replace("<LISTS>", &lists));
    let text = config(&format!(
        "[[table]]\nname = \"aliases\"\nfile = {{ path = \"aliases\" }}\n\
         [[table]]\nname = \"all\"\nfirst = {{ tables = [\"aliases\"] }}\n\
         [[route]]\ndomains = [\"here.test\", \"relay.test\"]\naliases = {{ table = \"all\" }}\n\
         include = [\"{lists}\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n"
    ));
    files.write(CONFIG, &text);
    let deferred = "; mail to this alias is deferred";
    let expected = [
        "3:1: \"sales@here.test\" already has a value; the line is ignored".to_owned(),
        "4:16: \"empty@here.test\" has no value; the line is ignored".to_owned(),
        "5:1: \"info\" has no domain and matches no address; add the domain".to_owned(),
        "6:11: the colon is part of the key: this is not the syntax of aliases".to_owned(),
        format!("7:17: \"\\\"|/usr/bin/vacation jo\\\"\" is not an address{deferred}"),
        format!("8:17: \"/var/mail/archive\" is not an address{deferred}"),
        format!("9:17: /etc/passwd is outside the directories of `include`{deferred}"),
        format!(
            "10:17: cannot read {lists}/absent: No such file or directory (os error 2){deferred}"
        ),
        format!("11:17: {lists}/sub is not a regular file{deferred}"),
        format!("12:17: no route for ann@far.test{deferred}"),
        format!("13:17: no route for x@there.test{deferred}"),
    ];
    let checked = crate::support::server::command(files.dir(), &["check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let prefix = "warning: table aliases: ";
    let told: Vec<&str> =
        checked.err.lines().filter_map(|line| line.strip_prefix(prefix)).collect();
    let told: Vec<&str> = told
        .iter()
        .map(|line| line.split_once("aliases:").map_or(*line, |(_, rest)| rest))
        .collect();
    assert_eq!(told, expected, "{}", checked.err);
    // The server starts, logs the same, and logs it again for a changed file.
    let server = Server::start_again(&files);
    let last = || server.console().iter().filter(|line| line.contains("no route for x@")).count();
    assert_eq!(last(), 1, "{:#?}", server.console());
    files
        .write("aliases", &ODD.replace("<LISTS>", &lists).replace("@there.test", "@there.test,jo"));
    crate::support::wait_until("the new file", || last() == 2);
    // Routes for some mail, or for none of its own, are no routes for all other domains.
    let hosts = "smtp = { hosts = [\"127.0.0.1:9\"] }\n";
    let news = format!("[[route]]\nwhen = {{ senders = [\"@news.test\"] }}\n{hosts}");
    let fallback = format!(
        "[[route]]\nname = \"backup\"\ndomains = []\n{hosts}\
         [[route]]\ndomains = [\"other.test\"]\nfallback = \"backup\"\n{hosts}"
    );
    for more in [&news, &fallback] {
        files.write(CONFIG, &(text.clone() + more));
        let checked = crate::support::server::command(files.dir(), &["check"]);
        let none = |address: &str| checked.err.contains(&format!("no route for {address};"));
        assert!(checked.code == 0 && none("ann@far.test") && none("x@there.test"), "{checked:?}");
    }
    // With a route for all other domains none is missing.
    files.write(CONFIG, &(text + "[[route]]\nmx = {}\n"));
    let reload = server.command(&["reload"]);
    assert_eq!(reload.code, 0, "{reload:?}");
    let checked = crate::support::server::command(files.dir(), &["check"]);
    assert!(!checked.err.contains("no route for"), "{}", checked.err);
    server.stop();
}

/// Aliases in circles, and some that only look so.
const CIRCLES: &str = "\
a@here.test     b@here.test
b@here.test     a@here.test
c@here.test     jo, D@Here.test
d@here.test     e
e@here.test     c@here.test
f@here.test     f@here.test, g@here.test
g@here.test     f@here.test
h@here.test     i@here.test
@here.test      h@here.test
@there.test     @where.test
@where.test     @there.test
j@here.test     @where.test
";

#[test]
fn aliases_in_a_circle_are_warned_of() {
    let files = Files::new();
    files.write("aliases", CIRCLES);
    let text = "[[table]]\nname = \"aliases\"\nfile = { path = \"aliases\" }\n\
                [[route]]\naliases = { table = \"aliases\" }\nmaildir = { path = \"mail/{local}\" }\n";
    let server = Server::start(&files, &config(text));
    let in_circles = |lines: &[String]| -> Vec<String> {
        let of = |line: &String| Some(line.rsplit_once("aliases:")?.1.to_owned());
        lines.iter().filter(|line| line.contains("leads back")).filter_map(of).collect()
    };
    let expected = [
        ("2:17", "b@here.test", "a@here.test"),
        ("5:17", "e@here.test", "D@Here.test"),
        ("11:17", "@where.test", "@there.test"),
    ]
    .map(|(at, key, through)| {
        format!("{at}: \"{key}\" leads back to itself through {through}; change one of the lines")
    });
    assert_eq!(in_circles(&server.console()), expected);
    let checked = crate::support::server::command(files.dir(), &["check"]);
    let lines: Vec<String> = checked.err.lines().map(str::to_owned).collect();
    assert_eq!((in_circles(&lines), checked.code), (expected.to_vec(), 0));
    // A circle that a changed file closes.
    files.write("aliases", "a@here.test b@here.test\n");
    assert_eq!(server.command(&["reload"]).code, 0);
    files.write("aliases", "a@here.test b@here.test\nb@here.test a\n");
    server.wait_console("the circle", |line| line.contains("aliases:2:13: \"b@here.test\" leads"));
    server.stop();
}

#[test]
fn circles_over_several_files_are_warned_of() {
    let files = Files::new();
    let lists = files.path("lists");
    std::fs::create_dir_all(&lists).expect("a directory");
    let lists = lists.display().to_string();
    files.write("lists/staff", "# Staff\njo@here.test\ncrew@here.test\n");
    files.write("lists/quiet", "jo@here.test\n");
    files.write("lists/deep", &format!(":include:{lists}/staff\n"));
    files.write(
        "here",
        &format!(
            "a@here.test b@there.test\nteam@here.test :include:{lists}/deep\n\
             crew@here.test team@here.test\n\
             quiet@here.test :include:{lists}/quiet\nself@here.test self@here.test, s@there.test\n\
             out@here.test x@far.test\n@here.test @there.test\n"
        ),
    );
    files.write(
        "there",
        "b@there.test c@there.test\nc@there.test A@Here.test\ns@there.test self@here.test\n\
         @there.test @here.test\n",
    );
    let text = format!(
        "[[table]]\nname = \"here\"\nfile = {{ path = \"here\" }}\n\
         [[table]]\nname = \"there\"\nfile = {{ path = \"there\" }}\n\
         [[route]]\ndomains = [\"here.test\"]\naliases = {{ table = \"here\" }}\n\
         include = [\"{lists}\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n\
         [[route]]\ndomains = [\"there.test\"]\naliases = {{ table = \"there\" }}\n\
         maildir = {{ path = \"mail/{{local}}\" }}\n\
         [[route]]\nsmtp = {{ hosts = [\"127.0.0.1:9\"] }}\n"
    );
    let server = Server::start(&files, &config(&text));
    let in_circles = |lines: &[String]| -> Vec<String> {
        let of = |line: &String| Some(line.rsplit_once("here:")?.1.to_owned());
        lines.iter().filter(|line| line.contains("leads back")).filter_map(of).collect()
    };
    let expected = [
        "1:13: \"a@here.test\" leads back to itself through c@there.test, over table \"there\"".to_owned(),
        format!(
            "2:16: \"team@here.test\" leads back to itself through crew@here.test, over {lists}/staff"
        ),
        "7:12: \"@here.test\" leads back to itself through x@there.test, over table \"there\"".to_owned(),
    ]
    .map(|text| text + "; change one of the lines");
    assert_eq!(in_circles(&server.console()), expected);
    let checked = crate::support::server::command(files.dir(), &["check"]);
    let lines: Vec<String> = checked.err.lines().map(str::to_owned).collect();
    assert_eq!((in_circles(&lines), checked.code), (expected.to_vec(), 0));
    // A reload looks again, also after a change of a list alone.
    files.write("lists/quiet", "quiet@here.test\nout@here.test\n");
    files.write("there", "b@there.test out@here.test\nx@there.test jo\n");
    assert_eq!(server.command(&["reload"]).code, 0);
    let since = server.console();
    let last = &in_circles(&since)[expected.len()..];
    assert_eq!(last, &expected[1..2], "{since:#?}");
    server.stop();
}

#[test]
fn circles_are_found_up_to_a_length() {
    let files = Files::new();
    let text = "[[table]]\nname = \"aliases\"\nfile = { path = \"aliases\" }\n\
                [[route]]\naliases = { table = \"aliases\" }\nmaildir = { path = \"mail/{local}\" }\n";
    files.write(CONFIG, &config(text));
    for (count, found) in [(101, 1), (102, 0)] {
        let to = |n: usize| (n + count - 1) % count;
        let lines = (0..count).map(|n| format!("u{n}@here.test u{}@here.test\n", to(n)));
        files.write("aliases", &lines.collect::<String>());
        let checked = crate::support::server::command(files.dir(), &["check"]);
        assert_eq!(checked.err.matches("leads back").count(), found, "{count}: {}", checked.err);
    }
}

#[test]
fn recipients_without_a_domain_are_warned_of() {
    let files = Files::new();
    files.write("users", "jo@here.test x\njo x\n@here.test x\n");
    let text = "[[table]]\nname = \"users\"\nfile = { path = \"users\" }\n\
                [[route]]\ndomains = [\"here.test\"]\nrecipients = { table = \"users\" }\n\
                maildir = { path = \"mail/{local}\" }\n";
    files.write(CONFIG, &config(text));
    let checked = crate::support::server::command(files.dir(), &["check"]);
    let warned: Vec<&str> =
        checked.err.lines().filter(|line| line.starts_with("warning: table users")).collect();
    assert_eq!((checked.code, warned.len()), (0, 1), "{checked:?}");
    let expected = "users:2:1: \"jo\" has no domain and matches no address; add the domain";
    assert!(warned[0].ends_with(expected), "{warned:?}");
}

#[test]
fn warnings_of_a_table_are_bounded() {
    let files = Files::new();
    let lines: String = (0..150).map(|n| format!("user{n} jo@here.test\n")).collect();
    files.write("aliases", &lines);
    let text = "[[table]]\nname = \"aliases\"\nfile = { path = \"aliases\" }\n\
                [[route]]\naliases = { table = \"aliases\" }\nmaildir = { path = \"mail/{local}\" }\n";
    files.write(CONFIG, &config(text));
    let checked = crate::support::server::command(files.dir(), &["check"]);
    let told: Vec<&str> =
        checked.err.lines().filter(|line| line.starts_with("warning: table aliases")).collect();
    assert_eq!(told.len(), 101, "{}", checked.err);
    assert!(told.last().is_some_and(|line| line.contains("50 more")), "{told:?}");
}
