//! `explain` and the server's RCPT replies: random clients, senders and recipients must get the same answer.
//!
//! `EXPLAIN_PAIRS` is the number of questions, `EXPLAIN_SEED` the seed.

use crate::support::client::Client;
use crate::support::name_server::NameServer;
use crate::support::server::{CONFIG, Server, command};
use crate::support::{Files, config_with};
use mail::random::Random;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// The client of `relay_from`.
const FRIEND: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 9);
/// A client on the DNS list.
const LISTED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 7);
const CLIENTS: [Ipv4Addr; 4] = [FRIEND, LISTED, Ipv4Addr::new(127, 0, 1, 2), Ipv4Addr::LOCALHOST];

const HELOS: [&str; 5] = ["mx.far.test", "sub.bad.test", "bare", "good.test", "[127.0.0.1]"];

const SENDERS: [&str; 12] = [
    "",
    "you@far.test",
    "friend@bad.test",
    "x@bad.test",
    "x@sub.bad.test",
    "x@missing.test",
    "x@null.test",
    "x@silent.test",
    "jo@here.test",
    "x@short",
    "news@far.test",
    "vip@far.test",
];

const RECIPIENTS: [&str; 28] = [
    "jo@here.test",
    "jo+tag@here.test",
    "JO@Here.Test",
    "nobody@here.test",
    "closed@here.test",
    "full@here.test",
    "list@here.test",
    "command@here.test",
    "null@here.test",
    "outside@here.test",
    "missing@here.test",
    "circle@here.test",
    "ghost@here.test",
    "bare@here.test",
    "empty@here.test",
    "fwd@here.test",
    "one@here.test",
    "tofull@here.test",
    "any@catch.test",
    "jo@catch.test",
    "jo@drop.test",
    "x@far.test",
    "x%far.test@here.test",
    "postmaster",
    "postmaster@here.test",
    "postmaster@[127.0.0.1]",
    "jo@[127.0.0.1]",
    "spamtrap@here.test",
];

const ALIASES: &str = "\
list@here.test      jo@here.test, ann@here.test, x@far.test
command@here.test   \"|/usr/bin/tickets --queue general\"
null@here.test      /dev/null
outside@here.test   :include:/etc/hosts
missing@here.test   :include:LISTS/none
circle@here.test    elcric@here.test
elcric@here.test    circle@here.test
ghost@here.test     nobody@here.test
bare@here.test      jo
empty@here.test
fwd@here.test       someone@elsewhere.test
one@here.test       jo@here.test
tofull@here.test    full@here.test
";

const SECTIONS: &str = r#"
[[table]]
name = "aliases"
file = { path = "aliases" }
[[table]]
name = "users"
file = { path = "users" }
[[table]]
name = "catch"
inline = { "@catch.test" = "jo@here.test" }
[[table]]
name = "senders"
file = { path = "senders" }
[[table]]
name = "helos"
file = { path = "helos" }
[[table]]
name = "traps"
inline = { "spamtrap@here.test" = "REDIRECT jo@here.test", "jo@drop.test" = "DISCARD spam" }
[[access]]
by = "helo"
table = "helos"
[[access]]
by = "sender"
table = "senders"
[[access]]
by = "recipient"
table = "traps"
clients = "all"
[[route]]
name = "news"
when = { senders = ["news@far.test"] }
smtp = { hosts = ["127.0.0.1:9"] }
[[route]]
name = "here"
domains = ["here.test"]
aliases = { table = "aliases" }
include = ["LISTS"]
recipients = { table = "users" }
maildir = { path = "mail/{local}", quota = "1KiB" }
[[route]]
name = "catch"
domains = ["catch.test"]
aliases = { table = "catch" }
discard = {}
[[route]]
name = "drop"
domains = ["drop.test"]
discard = {}
[[route]]
smtp = { hosts = ["127.0.0.1:9"] }
"#;

/// Names that the checks look up.
fn names() -> NameServer {
    let names = NameServer::start();
    for domain in ["far.test", "bad.test", "sub.bad.test", "here.test"] {
        names.mx(domain, &[(10, "mx.far.test")]);
    }
    names.host("mx.far.test", &["127.0.0.1"]);
    names.mx("null.test", &[(0, ".")]);
    names.fault("silent.test", crate::support::name_server::Fault::Fails);
    let [a, b, c, d] = LISTED.octets();
    names.host(&format!("{d}.{c}.{b}.{a}.list.test"), &["127.0.0.2"]);
    names
}

fn start(files: &Files, names: &NameServer) -> Server {
    let lists = files.path("lists").display().to_string();
    files.write("aliases", &ALIASES.replace("LISTS", &lists));
    files.write(
        "users",
        "jo@here.test 1\nann@here.test 1\nfull@here.test 1\nspamtrap@here.test 1\n",
    );
    files.write(
        "senders",
        "bad.test REJECT\nfriend@bad.test OK\n.sub.test REJECT\nvip@far.test OK\n",
    );
    files.write("helos", "sub.bad.test 450 4.7.1 Later\ngood.test OK\n");
    std::fs::create_dir_all(files.path("lists")).expect("a directory");
    for folder in ["cur", "new", "tmp"] {
        std::fs::create_dir_all(files.path(&format!("mail/full/{folder}"))).expect("a directory");
    }
    files.write("mail/full/new/1.a.b", &"x".repeat(2_000));
    let listener = format!(
        "relay_from = [\"{FRIEND}\"]\ngreeting_delay = \"0s\"\nrefusals_per_minute = 0\n\
         messages_per_minute = 0\nconnections_per_minute = 0\nmax_errors = 1000\n\
         checks = {{ helo_fqdn = \"reject\", sender_fqdn = \"reject\", own_domains = \"reject\", \
         sender_domain = \"reject\", dnsbl = [\"list.test\"] }}\n"
    );
    Server::start(
        files,
        &config_with("", &listener, &(names.section() + &SECTIONS.replace("LISTS", &lists))),
    )
}

/// A client, and what it says.
#[derive(Debug)]
struct Question {
    client: Ipv4Addr,
    helo: &'static str,
    sender: &'static str,
    recipient: &'static str,
}

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

impl Question {
    fn new(random: &mut Random) -> Question {
        Question {
            client: pick(random, &CLIENTS),
            helo: pick(random, &HELOS),
            sender: pick(random, &SENDERS),
            recipient: pick(random, &RECIPIENTS),
        }
    }

    /// The reply of the server that decides.
    fn reply(&self, server: &Server) -> String {
        let mut client = Client::from(IpAddr::V4(self.client), server.address());
        let greeting = client.reply();
        if !greeting.starts_with("220") {
            return greeting;
        }
        client.say(&format!("EHLO {}", self.helo), "250");
        let mail = client.say(&format!("MAIL FROM:<{}>", self.sender), "");
        if !mail.starts_with("250") {
            return mail;
        }
        let reply = client.say(&format!("RCPT TO:<{}>", self.recipient), "");
        client.say("QUIT", "221");
        reply
    }

    fn explained(&self, files: &Files) -> Value {
        let (client, to) = (self.client.to_string(), self.recipient);
        let mut words = vec!["explain", "--json", to, "--client", &client, "--helo", self.helo];
        if !self.sender.is_empty() {
            words.extend(["--from", self.sender]);
        }
        let answer = command(files.dir(), &words);
        assert_eq!(answer.code, 0, "{self:?}: {answer:?}");
        serde_json::from_str(&answer.out).expect("JSON")
    }

    /// The difference between the reply and the explanation, if there is one.
    fn difference(&self, reply: &str, explained: &Value) -> Option<String> {
        let steps = explained["steps"].as_array().expect("steps");
        let acceptance = steps.iter().find(|step| step["what"] == "acceptance");
        let text = acceptance.expect("the acceptance")["value"].as_str().expect("text").to_owned();
        let is_accepted = reply.starts_with("250");
        let agrees = match is_accepted {
            true => explained["accepted"] == true,
            false => explained["accepted"] == false && text.ends_with(reply.trim_end()),
        };
        (!agrees).then(|| format!("{self:?}\nserver: {reply}\nexplain: {text}"))
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn explain_agrees_with_rcpt() {
    let (files, names) = (Files::new(), names());
    let server = start(&files, &names);
    let mut random = Random::new(number("EXPLAIN_SEED", 1));
    let pairs = number("EXPLAIN_PAIRS", 150);
    let (mut codes, mut different) = (BTreeMap::<String, u64>::new(), Vec::new());
    for _ in 0..pairs {
        let question = Question::new(&mut random);
        let reply = question.reply(&server);
        *codes.entry(reply.chars().take(9).collect()).or_default() += 1;
        different.extend(question.difference(&reply, &question.explained(&files)));
    }
    eprintln!("{pairs} questions: {codes:?}");
    let shown = different.iter().take(5).map(|one| format!("{one}\n")).collect::<String>();
    assert!(different.is_empty(), "{} of {pairs}:\n{shown}", different.len());
    if pairs >= 150 {
        assert!(codes.len() >= 8, "too few kinds of replies: {codes:?}");
    }
    server.stop();
}

/// The values of the steps with this name.
fn steps_of(explained: &Value, what: &str) -> Vec<String> {
    let steps = explained["steps"].as_array().expect("steps").iter();
    let named = steps.filter(|step| step["what"] == what);
    named.map(|step| step["value"].as_str().expect("text").to_owned()).collect()
}

#[test]
fn explain_follows_each_member_to_its_route_and_names_what_it_leaves_out() {
    let (files, names) = (Files::new(), names());
    let server = start(&files, &names);
    let asked = |recipient| {
        let client = CLIENTS[2];
        Question { client, helo: "mx.far.test", sender: "you@far.test", recipient }
            .explained(&files)
    };
    let list = asked("list@here.test");
    let members = [
        "jo@here.test by route 2 (maildir)",
        "ann@here.test by route 2 (maildir)",
        "x@far.test by route 5 (smtp)",
    ];
    assert_eq!(steps_of(&list, "delivered to"), members);
    assert_eq!(steps_of(&list, "not asked"), Vec::<String>::new());
    // The line that the server logs, too.
    let command = steps_of(&asked("command@here.test"), "server log");
    assert!(command.iter().any(|line| line.contains("command@here.test")), "{command:?}");
    assert_eq!(steps_of(&asked("jo@drop.test"), "outcome").len(), 1);
    let unknown = command_without_client(&files);
    assert_eq!(steps_of(&unknown, "not asked"), ["checks of the client (--client, --helo)"]);
    assert_eq!(steps_of(&unknown, "delivered to"), members);
    server.stop();
}

fn command_without_client(files: &Files) -> Value {
    let answer = command(files.dir(), &["explain", "--json", "list@here.test"]);
    assert_eq!(answer.code, 0, "{answer:?} of {CONFIG}");
    serde_json::from_str(&answer.out).expect("JSON")
}

const REWRITING: &str = r#"
[[table]]
name = "aliases"
inline = { "list@here.test" = "jo@here.test, x@far.test", "owner-list@here.test" = "jo@here.test" }
[[table]]
name = "canonical"
inline = { "jo@here.test" = "jo.doe@here.test", "old@here.test" = "new@far.test" }
[[table]]
name = "generic"
file = { path = "generic" }
[[rewrite]]
table = "canonical"
[[rewrite]]
table = "generic"
routes = ["out"]
addresses = ["envelope_sender", "from"]
[[route]]
name = "here"
domains = ["here.test"]
aliases = { table = "aliases" }
discard = {}
[[route]]
name = "out"
discard = {}
"#;

#[test]
fn explain_shows_each_address_as_the_server_rewrites_it() {
    let files = Files::new();
    files.write("generic", "@here.test @public.test\n");
    let listener = format!("relay_from = [\"{FRIEND}\"]\n");
    let server = Server::start(&files, &config_with("", &listener, REWRITING));
    let at = |text: &str| {
        let written = std::fs::read_to_string(files.path(CONFIG)).expect("it is there");
        let mut lines = written.lines().enumerate().filter(|(_, line)| *line == "[[rewrite]]");
        let nth = if text == "rewrite 1" { 0 } else { 1 };
        format!("{CONFIG}:{}", lines.nth(nth).expect("a rule").0 + 1)
    };
    let by = |table: &str| format!("by table \"{table}\"");
    let sender = "jo@here.test becomes jo.doe@here.test \
        (envelope_sender, from, sender, reply_to) "
        .to_owned()
        + &by("canonical");
    let public = "jo.doe@here.test becomes jo.doe@public.test (envelope_sender, from) ".to_owned()
        + &by("generic");
    let new = "old@here.test becomes new@far.test (envelope_recipient, to, cc) ".to_owned()
        + &by("canonical");
    let member = "jo@here.test becomes jo.doe@here.test \
        (envelope_recipient, from, sender, reply_to, to, cc) "
        .to_owned()
        + &by("canonical");
    let author = "jo@here.test becomes jo.doe@here.test (from, sender, reply_to) ".to_owned()
        + &by("canonical");
    let owner = "owner-list@here.test becomes owner-list@public.test (envelope_sender) ".to_owned()
        + &by("generic");
    let from = "jo.doe@here.test becomes jo.doe@public.test (from) ".to_owned() + &by("generic");
    let far = "new@far.test by route 2 (discard)";
    let members = ["jo.doe@here.test by route 1 (discard)", "x@far.test by route 2 (discard)"];
    let rows = [
        ("x@here.test", [vec![&sender], vec![]], vec![]),
        ("old@here.test", [vec![&sender, &new], vec![&public]], vec![far]),
        ("list@here.test", [vec![&member, &author], vec![&owner, &from]], members.into()),
    ];
    for (recipient, [first, second], delivered) in rows {
        let client = FRIEND;
        let explained = Question { client, helo: "me.test", sender: "jo@here.test", recipient }
            .explained(&files);
        assert_eq!(steps_of(&explained, "rewrite 1").iter().collect::<Vec<_>>(), first);
        assert_eq!(steps_of(&explained, "rewrite 2").iter().collect::<Vec<_>>(), second);
        assert_eq!(steps_of(&explained, "delivered to"), delivered, "{explained:#}");
        for step in explained["steps"].as_array().expect("steps") {
            let what = step["what"].as_str().expect("text");
            if what.starts_with("rewrite ") {
                assert_eq!(step["decided_by"], at(what), "{step}");
            }
        }
    }
    // The server does the same.
    let mut friend = Client::from(IpAddr::V4(FRIEND), server.address());
    friend.reply();
    friend.say("EHLO me.test", "250");
    friend.say("MAIL FROM:<jo@here.test>", "250");
    friend.say("RCPT TO:<old@here.test>", "250");
    friend.say("DATA", "354");
    friend.say("From: jo@here.test\r\n\r\n.", "250");
    let received = files.wait_events("received", 1).remove(0);
    assert_eq!(received["sender"], "jo.doe@public.test");
    assert_eq!(received["recipients"], serde_json::json!(["new@far.test"]));
    server.stop();
}

const CONDITIONS: &str = r#"
[[table]]
name = "nets"
inline = { "127.0.1" = "1" }
[[table]]
name = "t"
inline = { "@x.test" = "@y.test" }
[[table]]
name = "down"
socketmap = { server = "127.0.0.1:1", map = "m" }
[[rewrite]]
table = "t"
when = { clients = { table = "nets" }, senders = ["@x.test"] }
[[route]]
when = { clients = { table = "nets" }, senders = ["@x.test"] }
smtp = { hosts = ["127.0.0.1:9"] }
[[route]]
when = { recipients = ["@down.test"], senders = { table = "down" } }
smtp = { hosts = ["127.0.0.1:9"] }
[[route]]
discard = {}
"#;

#[test]
fn explain_shows_the_condition_that_fails() {
    let files = Files::new();
    let listener = format!("relay_from = [\"{FRIEND}\"]\n");
    files.write(CONFIG, &config_with("", &listener, CONDITIONS));
    let ask = |sender, recipient| {
        Question { client: FRIEND, helo: "me.test", sender, recipient }.explained(&files)
    };
    let to_all = ask("jo@z.test", "a@far.test");
    let holds = format!("holds for {FRIEND}");
    assert_eq!(steps_of(&to_all, "route 1: clients"), [&*holds]);
    assert_eq!(steps_of(&to_all, "route 1: senders"), ["does not hold for jo@z.test"]);
    let unmet = "not applied: senders does not hold for jo@z.test";
    assert_eq!(steps_of(&to_all, "rewrite 1"), [unmet]);
    let unanswered = ask("jo@z.test", "a@down.test");
    assert_eq!(steps_of(&unanswered, "route 2: recipients"), ["holds for a@down.test"]);
    assert_eq!(steps_of(&unanswered, "route 2: senders"), ["has no answer for jo@z.test"]);
}
