//! Postfix as the judge of access rules: random rules, written as restrictions of its smtpd(8) with maps of
//! access(5) and as `[[access]]`, must give the same reply codes, but for the differences that
//! `docs/from-postfix.md` lists.
//!
//! `ACCESS_SETS` and `ACCESS_TALKS` are the numbers of sets of rules and of conversations with each, `ACCESS_SEED`
//! the first seed.

use super::place::Place;
use super::postfix::launch_with;
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::tool::free_port;
use crate::support::{Files, config_with};
use mail::random::Random;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

/// Sets of rules that one pair of servers has, each at a port of its own.
const BATCH: u64 = 30;

const PAGE: &str = include_str!("../../../../../docs/from-postfix.md");

/// Beginnings of rows of the page that explain a difference.
const CODE: &str = "| code of `REJECT` |";
const RELAY: &str = "| recipients that may not be relayed |";

/// The client of `mynetworks` and `relay_from`.
pub(super) const FRIEND: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 9);
const CLIENTS: [Ipv4Addr; 4] =
    [FRIEND, Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 1, 2), Ipv4Addr::LOCALHOST];

const LISTS: [&str; 4] = ["client", "helo", "sender", "recipient"];

/// Keys of access(5) by the part of the conversation that is looked up.
const KEYS: [&[&str]; 4] = [
    &["127.0.0.1", "127.0.0.2", "127.0.1.9", "127.0.0", "127.0.1", "127.0", "127"],
    &[
        "mail.a.test",
        "a.test",
        ".a.test",
        "b.test",
        "test",
        ".test",
        "127.0.0.2",
        "0.0.2",
        ".0.0.2",
    ],
    &[
        "jo@a.test",
        "jo+x@a.test",
        "sub.a.test",
        "a.test",
        ".a.test",
        "b.test",
        ".test",
        "jo@",
        "jo+x@",
        "<>",
    ],
    &[
        "al@here.test",
        "al+y@here.test",
        "here.test",
        ".here.test",
        "sub.here.test",
        "test",
        "al@",
        "list@",
        "far.test",
    ],
];

const HELOS: [&str; 6] = ["mail.a.test", "x.mail.a.test", "b.test", "B.Test", "test", "127.0.0.2"];
const SENDERS: [&str; 8] = [
    "",
    "jo@a.test",
    "jo+x@a.test",
    "Jo@Sub.A.test",
    "al@sub.a.test",
    "al@b.test",
    "jo@c.example",
    "x@[192.0.2.1]",
];
const RECIPIENTS: [&str; 8] = [
    "al@here.test",
    "al+y@here.test",
    "list@here.test",
    "Jo@Here.Test",
    "al@sub.here.test",
    "list+z@sub.here.test",
    "al@far.test",
    "postmaster",
];

/// `DISCARD` is for sets of its own: in Postfix it ends the checks of the whole message.
const ACTIONS: [&str; 22] = [
    "OK",
    "OK",
    "OK",
    "OK welcome",
    "RELAY",
    "permit",
    "1700000000",
    "DUNNO",
    "DUNNO",
    "REJECT",
    "REJECT Not you",
    "reject 5.1.1 Nobody",
    "DEFER",
    "DEFER_IF_PERMIT Wait",
    "DEFER_IF_REJECT Odd",
    "450 4.2.0 Later",
    "553 5.1.8 No",
    "421 4.7.0 Bye",
    "HOLD",
    "REDIRECT al@here.test",
    "WARN hm",
    "PREPEND X-A: b",
];

/// A rule of a list: whom it is asked for, and the map.
struct Rule {
    list: usize,
    /// Index of the part that is looked up.
    by: usize,
    /// Behind `permit_mynetworks` of its list.
    is_for_strangers: bool,
    entries: BTreeMap<&'static str, &'static str>,
}

struct RuleSet {
    seed: u64,
    port: u16,
    here: u16,
    parent_domains: bool,
    rules: Vec<Rule>,
    discards: bool,
}

pub(super) fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

impl RuleSet {
    fn new(seed: u64) -> RuleSet {
        let mut random = Random::new(seed);
        let discards = random.hits(150);
        let mut rules = Vec::new();
        for list in 0..LISTS.len() {
            let count = random.below(4);
            let permits_from = random.below(count + 2);
            for n in 0..count {
                // Postfix evaluates all at RCPT, so a list may look at what comes later.
                let by = if random.hits(700) { list } else { random.below(4) as usize };
                let entries = 1 + random.below(4);
                let action = |random: &mut Random| match discards && random.hits(200) {
                    true => "DISCARD spam",
                    false => pick(random, &ACTIONS),
                };
                let entries =
                    (0..entries).map(|_| (pick(&mut random, KEYS[by]), action(&mut random)));
                let entries = entries.collect();
                let is_for_strangers = n >= permits_from;
                rules.push(Rule { list, by, is_for_strangers, entries });
            }
        }
        let parent_domains = random.hits(500);
        RuleSet { seed, port: free_port(), here: free_port(), parent_domains, rules, discards }
    }

    /// The map of a rule, in both directories.
    fn map(&self, rule: usize) -> String {
        format!("map-{}-{rule}", self.seed)
    }

    fn text(&self, rule: &Rule) -> String {
        rule.entries.iter().fold(String::new(), |mut text, (key, action)| {
            let _ = writeln!(text, "{key}\t{action}");
            text
        })
    }

    /// The service in master.cf.
    fn service(&self, dir: &str) -> String {
        let mut text = format!("127.0.0.1:{} inet n - n - - smtpd\n", self.port);
        for (list, name) in LISTS.iter().enumerate() {
            let (mut restrictions, mut permits) = (Vec::new(), false);
            for (n, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.list == list) {
                if rule.is_for_strangers && !permits {
                    restrictions.push("permit_mynetworks".to_owned());
                    permits = true;
                }
                let (by, map) = (LISTS[rule.by], self.map(n));
                restrictions.push(format!("check_{by}_access texthash:{dir}/{map}"));
            }
            let all = restrictions.join(", ");
            let _ = writeln!(text, "  -o {{ smtpd_{name}_restrictions = {all} }}");
        }
        let parents = if self.parent_domains { "smtpd_access_maps" } else { "" };
        let _ = writeln!(text, "  -o mynetworks={FRIEND}");
        let _ = writeln!(text, "  -o {{ parent_domain_matches_subdomains = {parents} }}");
        text
    }

    /// The listener and the rules here.
    fn sections(&self) -> String {
        let (seed, port) = (self.seed, self.here);
        let mut text = format!(
            "[[listener]]\nname = \"set-{seed}\"\naddress = \"127.0.0.1:{port}\"\n\
             relay_from = [\"{FRIEND}\"]\nexempt_from_limits = [\"127.0.0.0/8\"]\n\
             greeting_delay = \"0s\"\n"
        );
        for (n, rule) in self.rules.iter().enumerate() {
            let (name, by, list) = (self.map(n), LISTS[rule.by], LISTS[rule.list]);
            let clients = if rule.is_for_strangers { "strangers" } else { "all" };
            let _ = write!(
                text,
                "[[table]]\nname = \"{name}\"\nfile = {{ path = \"{name}\" }}\n\
                 [[access]]\ntable = \"{name}\"\nby = \"{by}\"\nlist = \"{list}\"\n\
                 clients = \"{clients}\"\nlisteners = [\"set-{seed}\"]\nparent_domains = {}\n",
                self.parent_domains
            );
        }
        text
    }
}

/// What a client says.
#[derive(Debug)]
struct Talk {
    client: Ipv4Addr,
    helo: &'static str,
    sender: &'static str,
    recipients: Vec<&'static str>,
}

impl Talk {
    fn new(random: &mut Random, set: &RuleSet) -> Talk {
        let most = if set.discards { 1 } else { 3 };
        let count = 1 + random.below(most);
        Talk {
            client: pick(random, &CLIENTS),
            helo: pick(random, &HELOS),
            sender: pick(random, &SENDERS),
            recipients: (0..count).map(|_| pick(random, &RECIPIENTS)).collect(),
        }
    }

    /// The replies to RCPT, DATA and the content; shorter if the server closes.
    fn play(&self, port: u16) -> Vec<String> {
        let mut client = Client::from(self.client.into(), SocketAddr::from(([127, 0, 0, 1], port)));
        client.expect("220");
        client.say(&format!("EHLO {}", self.helo), "250");
        client.say(&format!("MAIL FROM:<{}>", self.sender), "250");
        let mut replies = Vec::new();
        let rcpt = |to: &&str| format!("RCPT TO:<{to}>");
        let commands = self.recipients.iter().map(rcpt).chain(["DATA".to_owned()]);
        for command in commands {
            let reply = client.say(&command, "");
            let (is_over, goes_on) = (reply.starts_with("421"), reply.starts_with("354"));
            replies.push(reply);
            if is_over {
                return replies;
            }
            if goes_on {
                client.send("Subject: x\r\n\r\nx\r\n");
                replies.push(client.say(".", ""));
            }
        }
        client.say("QUIT", "221");
        replies
    }

    /// The row that explains different replies at a step.
    fn difference(&self, step: usize, postfix: &str, ours: &str) -> Option<&'static str> {
        let code = |reply: &str| reply.get(..3).unwrap_or("").to_owned();
        let to = self.recipients.get(step)?;
        match (&*code(postfix), &*code(ours)) {
            ("554", "550") if postfix.contains("rejected: ") => Some(CODE),
            (_, "550") if ours.contains("Relay") && to.ends_with("@far.test") => Some(RELAY),
            _ => None,
        }
    }
}

/// Lines of main.cf: it keeps no mail. A line that overrides another is warned of by each process, which the log's
/// process can't take when it starts after all of them.
const MAIN_CF: &str = "inet_interfaces = 127.0.0.1
recipient_delimiter = +
relay_domains = here.test, sub.here.test
relay_transport = discard:
default_transport = discard:
smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination
smtpd_reject_unlisted_recipient = no
smtpd_peername_lookup = no
smtpd_error_sleep_time = 0
smtpd_hard_error_limit = 1000
smtpd_client_connection_count_limit = 0
max_idle = 10s
local_recipient_maps =
";

/// Starts Postfix with these sets.
fn start_postfix(sets: &[RuleSet]) -> Place {
    let mut place = Place::new(0);
    let dir = place.dir();
    let mut services = String::new();
    for set in sets {
        services += &set.service(&dir);
        for (n, rule) in set.rules.iter().enumerate() {
            place.write(&set.map(n), &set.text(rule));
        }
    }
    launch_with(&mut place, MAIN_CF, &services);
    for set in sets {
        place.wait_listening(set.port);
    }
    place
}

/// Starts this server with the same sets.
fn start_ours(files: &Files, sets: &[RuleSet]) -> Server {
    let mut sections = String::new();
    for set in sets {
        sections += &set.sections();
        for (n, rule) in set.rules.iter().enumerate() {
            files.write(&set.map(n), &set.text(rule));
        }
    }
    let routes = "[[route]]\ndomains = [\"here.test\", \"sub.here.test\", \"relay.test\"]\ndiscard = {}\n\
                  [[route]]\nname = \"far\"\nsmtp = { hosts = [\"127.0.0.1:9\"] }\n";
    Server::start(files, &config_with("", "", &(sections + routes)))
}

/// What a run has seen.
#[derive(Default)]
struct Seen {
    /// Postfix's codes to RCPT, with their number.
    codes: BTreeMap<String, u64>,
    /// Differences by row of the page.
    rows: BTreeMap<&'static str, u64>,
    unexplained: Vec<String>,
}

impl Seen {
    fn compare(&mut self, set: &RuleSet, talk: &Talk) {
        let (postfix, ours) = (talk.play(set.port), talk.play(set.here));
        let code = |reply: Option<&String>| {
            reply.and_then(|reply| reply.get(..3)).unwrap_or("none").to_owned()
        };
        for step in 0..postfix.len().max(ours.len()) {
            let (there, here) = (code(postfix.get(step)), code(ours.get(step)));
            if step < talk.recipients.len() {
                *self.codes.entry(there.clone()).or_default() += 1;
            }
            if there == here {
                continue;
            }
            let text = |replies: &[String]| replies.get(step).cloned().unwrap_or_default();
            let Some(row) = talk.difference(step, &text(&postfix), &text(&ours)) else {
                let maps: String = set.rules.iter().map(|rule| set.text(rule) + "\n").collect();
                let talk = format!("{talk:?}\nPostfix: {postfix:#?}\nhere: {ours:#?}\n");
                return self.unexplained.push(format!("{talk}{}{maps}", set.sections()));
            };
            *self.rows.entry(row).or_default() += 1;
            // The rest of the conversation differs, too.
            if there.starts_with('2') != here.starts_with('2')
                || [there, here].contains(&"421".to_owned())
            {
                return;
            }
        }
    }
}

pub(super) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

pub(crate) fn rules_mean_what_they_mean_in_postfix() {
    for row in [CODE, RELAY] {
        assert!(PAGE.contains(row), "docs/from-postfix.md lacks {row}");
    }
    let (sets, talks) = (number("ACCESS_SETS", 30), number("ACCESS_TALKS", 20));
    let first = number("ACCESS_SEED", 1);
    let mut seen = Seen::default();
    for begin in (0..sets).step_by(BATCH as usize) {
        let seeds = first + begin..first + sets.min(begin + BATCH);
        let batch: Vec<RuleSet> = seeds.map(RuleSet::new).collect();
        let files = Files::new();
        let (_place, server) = (start_postfix(&batch), start_ours(&files, &batch));
        for set in &batch {
            let mut random = Random::new(!set.seed);
            for _ in 0..talks {
                seen.compare(set, &Talk::new(&mut random, set));
            }
        }
        server.stop();
    }
    let Seen { codes, rows, unexplained } = seen;
    let shown: String = unexplained.iter().take(3).map(|one| one.clone() + "\n").collect();
    assert!(unexplained.is_empty(), "{} of {}:\n{shown}", unexplained.len(), sets * talks);
    eprintln!("{sets} sets of rules: {codes:?}, differences {rows:?}");
    if sets >= 30 && talks >= 20 {
        for code in ["250", "421", "450", "553", "554"] {
            assert!(codes.get(code).is_some_and(|count| *count > 5), "{code}: {codes:?}");
        }
        assert!(rows.len() == 2, "differences that are listed and not there: {rows:?}");
    }
}

/// Names in EHLO, qualified or not.
const NAMES: [&str; 20] = [
    "mail.example.org",
    "mail.example.org.",
    "Mail_1.example",
    "[192.0.2.1]",
    "[IPv6:2001:db8::1]",
    "1.2.3.4.example",
    "desktop",
    "desktop.",
    "localhost",
    "127.0.1.2",
    "2001:db8::1",
    "mail..example",
    "mail.example..",
    ".example",
    "-mail.example",
    "mail-.example",
    "mail.exa!mple",
    "[192.0.2]",
    "[]",
    "[192.0.2.1",
];

/// Status and text of a reply, without the value that Postfix repeats in front of the text.
fn refusal(reply: &str) -> String {
    let status = reply.get(..9).unwrap_or(reply);
    let text = reply.get(9..).unwrap_or("");
    let text = text.split_once(">: ").map_or(text, |(_, rest)| rest);
    if reply.starts_with('2') { status.to_owned() } else { format!("{status} {}", text.trim()) }
}

pub(crate) fn forms_are_refused_as_by_postfix() {
    let mut place = Place::new(0);
    let port = place.port;
    let services = format!(
        "127.0.0.1:{port} inet n - n - - smtpd
  -o mynetworks={FRIEND}
  -o {{ smtpd_helo_restrictions = permit_mynetworks, reject_non_fqdn_helo_hostname }}
  -o {{ smtpd_sender_restrictions = permit_mynetworks, reject_non_fqdn_sender }}
  -o {{ smtpd_data_restrictions = permit_mynetworks, reject_multi_recipient_bounce }}
"
    );
    launch_with(&mut place, MAIN_CF, &services);
    place.wait_listening(port);
    let files = Files::new();
    let listener = format!(
        "relay_from = [\"{FRIEND}\"]\ngreeting_delay = \"0s\"\nchecks = {{ helo_fqdn = \"reject\", \
         sender_fqdn = \"reject\", multi_recipient_bounce = \"reject\" }}"
    );
    let route = "[[route]]\ndomains = [\"here.test\"]\ndiscard = {}\n";
    let server = Server::start(&files, &config_with("", &listener, route));
    let talks = NAMES.iter().map(|name| (*name, "jo@a.test", 1)).chain([
        ("mail.a.test", "jo@localhost", 1),
        ("mail.a.test", "jo@[192.0.2.1]", 1),
        ("desktop", "jo@localhost", 2),
        ("mail.a.test", "", 1),
        ("mail.a.test", "", 2),
        ("mail.a.test", "jo@a.test", 2),
    ]);
    let mut refused = 0;
    for (helo, sender, recipients) in talks {
        for client in [FRIEND, Ipv4Addr::LOCALHOST] {
            let recipients = ["al@here.test", "jo@here.test"][..recipients].to_vec();
            let talk = Talk { client, helo, sender, recipients };
            let of = |port| talk.play(port).iter().map(|reply| refusal(reply)).collect::<Vec<_>>();
            let (postfix, ours) = (of(port), of(server.address().port()));
            let is_refused = postfix.iter().any(|reply| reply.starts_with('5'));
            refused += u32::from(is_refused);
            assert!(!is_refused || client != FRIEND, "{talk:?}: {postfix:?}");
            // `DATA` and the content have texts of their own where they are not refused.
            let codes = |replies: &[String]| -> Vec<String> {
                let begin = |reply: &String| match reply.starts_with('3') {
                    true => reply.get(..3).unwrap_or("").to_owned(),
                    false => reply.clone(),
                };
                replies.iter().map(begin).collect()
            };
            let is_over = |replies: &[String]| replies.iter().any(|it| it.starts_with("554 5.5.1"));
            assert_eq!(is_over(&postfix), is_over(&ours), "{talk:?}: {postfix:?} {ours:?}");
            let most = if is_over(&postfix) { postfix.len() - 1 } else { postfix.len() };
            assert_eq!(codes(&postfix)[..most], codes(&ours)[..most], "{talk:?}");
        }
    }
    assert!(refused > 15, "{refused}");
    server.stop();
}
