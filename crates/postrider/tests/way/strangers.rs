//! Strangers, and what is checked of them before their message.

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, play};
use auth::greylist;
use mta::metrics::StrangersCheck;
use mta::seams::{DnsError, Mx};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

const CONTENT: &str = "Subject: one\r\n\r\nbody\r\n";

fn config(checks: &str) -> String {
    format!(
        "hostname = \"relay.test\"\n\
         [[listener]]\nname = \"in\"\naddress = \"192.0.2.250:25\"\n\
         relay_from = [\"198.51.100.0/24\"]\nexempt_from_limits = [\"203.0.113.99\"]\n\
         checks = {{ {checks} }}\n\
         [[table]]\nname = \"clients\"\nscripted = {{ fields = [] }}\n\
         [[table]]\nname = \"recipients\"\nscripted = {{ fields = [] }}\n\
         [[route]]\ndomains = [\"here.test\"]\nmaildir = {{ path = \"/mail/{{local}}\" }}\n\
         [[route]]\nmx = {{}}\n"
    )
}

fn host(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, last))
}

/// The name of a client of the strangers' network in a list.
fn name(last: u8, zone: &str) -> String {
    format!("{last}.113.0.203.{zone}")
}

fn list(node: &Node, name: &str, answers: &[&str]) {
    let answers = answers.iter().map(|answer| answer.parse().expect("an address")).collect();
    node.world.set_addresses(name, Ok(answers));
}

/// The reply to a recipient, in a session of its own.
async fn rcpt(node: &Node, from: IpAddr, sender: &str, recipient: &str) -> String {
    let mut client = Client::connect(node, from).await;
    let reply = client.say(&format!("MAIL FROM:<{sender}>")).await;
    assert!(reply.starts_with("250"), "{reply}");
    client.say(&format!("RCPT TO:<{recipient}>")).await
}

const SENDER: &str = "a@far.test";
const READER: &str = "b@here.test";

/// What a mailbox got first.
fn got(node: &Node, mailbox: &str) -> String {
    let path = std::path::PathBuf::from(format!("/mail/{mailbox}"));
    node.world.mailboxes().get(&path).and_then(|mail| mail.first().cloned()).unwrap_or_default()
}

#[test]
fn who_is_on_a_list_is_told_by_which_and_why() {
    play(|| async {
        let node = Node::start(&config("dnsbl = [\"zen.example\", \"b.example\"]")).await;
        list(&node, &name(9, "zen.example"), &["127.0.0.4"]);
        node.world.set_txt(&name(9, "zen.example"), b"see\r\n250 https://zen.example/9\xff");
        let mut client = Client::connect(&node, STRANGER).await;
        client.say(&format!("MAIL FROM:<{SENDER}>")).await;
        let reply = client.say(&format!("RCPT TO:<{READER}>")).await;
        assert_eq!(
            reply,
            "550 5.7.1 [203.0.113.9] is listed by zen.example: see??250 https://zen.example/9?"
        );
        // A refused client may ask the bare postmaster, and what no route takes is refused as ever.
        let reply = client.say("RCPT TO:<Postmaster@here.test>").await;
        assert!(reply.starts_with("550 5.7.1 [203"), "{reply}");
        let reply = client.say("RCPT TO:<Postmaster>").await;
        assert!(reply.starts_with("250"), "{reply}");
        let reply = client.say("RCPT TO:<x@nowhere.test>").await;
        assert_eq!(reply, "550 5.7.1 Relay access denied");
        // Lists were asked once, when the client came; and what zen.example would never have.
        let reply = client.say("RCPT TO:<c@here.test>").await;
        assert!(reply.starts_with("550 5.7.1 [203"), "{reply}");
        let of_lists = |name: &String| name.ends_with(".example");
        let mut asked: Vec<String> = node.world.asked().into_iter().filter(of_lists).collect();
        asked.sort();
        let wanted = [
            "1.0.0.127.zen.example".to_owned(),
            name(9, "b.example"),
            name(9, "zen.example"),
            name(9, "zen.example"),
        ];
        assert_eq!(asked, wanted);
        assert_eq!(node.metrics.strangers_refused[StrangersCheck::Dnsbl].get(), 3);
        // Neither those on no list nor those who are no strangers.
        for from in [host(10), host(99), FRIEND] {
            let reply = rcpt(&node, from, SENDER, READER).await;
            assert!(reply.starts_with("250"), "{reply}");
        }
        assert_eq!(node.world.asked().iter().filter(|name| of_lists(name)).count(), 6);
    });
}

#[test]
fn lists_weigh_for_and_against() {
    play(|| async {
        let node = Node::start(&config(
            "dnsbl = { lists = [\"a.example=127.0.0.[2..4]*2\", \"b.example\", \"ok.example*-2\"], \
             threshold = 4, action = \"mark\", helo_lists = [\"names.example\"], \
             sender_lists = [\"names.example\"] }",
        ))
        .await;
        for (last, zones) in
            [(1, &["a.example", "b.example"][..]), (2, &["a.example"]), (3, &["ok.example"])]
        {
            for zone in zones {
                list(&node, &name(last, zone), &["127.0.0.3"]);
            }
        }
        list(&node, "client.test.names.example", &["127.0.0.2"]);
        for (last, verdict) in [(1, "listed"), (2, "below"), (3, "allowed"), (4, "below")] {
            let mut client = Client::connect(&node, host(last)).await;
            let reply = client.send(SENDER, &[&format!("r{last}@here.test")], CONTENT).await;
            assert!(reply.starts_with("250"), "{reply}");
            assert_eq!(node.of("received").last().unwrap()["dnsbl"], verdict, "{last}");
        }
        node.wait_for("delivered", 4).await;
        let listed = got(&node, "r1");
        for line in [
            "X-RBL-Warning: [203.0.113.1] is listed by a.example (127.0.0.3)\n",
            "X-RBL-Warning: [203.0.113.1] is listed by b.example (127.0.0.3)\n",
            "X-RBL-Warning: HELO name client.test is listed by names.example (127.0.0.2)\n",
        ] {
            assert!(listed.replace("\r\n", "\n").contains(line), "{line} in {listed}");
        }
        let allowed = got(&node, "r3").replace("\r\n", "\n");
        let field = "Authentication-Results: relay.test;\n\
                     \tdnswl=pass dns.zone=ok.example policy.ip=127.0.0.3\n";
        assert!(allowed.contains(field), "{allowed}");
        assert_eq!(node.metrics.checked_dnsbl[auth::dnsbl::DnsblResult::Listed].get(), 1);
        assert_eq!(node.metrics.checked_dnsbl[auth::dnsbl::DnsblResult::Below].get(), 2);
    });
}

#[test]
fn a_list_that_fails_lies_or_is_dead_counts_for_nothing() {
    play(|| async {
        let lists =
            ["silent", "failing", "wrong", "sold", "dead"].map(|n| format!("\"{n}.example\""));
        let node = Node::start(&config(&format!("dnsbl = [{}]", lists.join(", ")))).await;
        node.world.set_silent(&name(9, "silent.example"));
        let failed = Err(DnsError::Transient("SERVFAIL".into()));
        node.world.set_addresses(&name(9, "failing.example"), failed);
        list(&node, &name(9, "wrong.example"), &["127.255.255.254"]);
        list(&node, &name(9, "sold.example"), &["198.51.100.80"]);
        list(&node, &name(9, "dead.example"), &["127.0.0.2"]);
        list(&node, "1.0.0.127.dead.example", &["127.0.0.2"]);
        let begun = node.age();
        for _ in 0..2 {
            let reply = rcpt(&node, STRANGER, SENDER, READER).await;
            assert!(reply.starts_with("250"), "{reply}");
        }
        // It is waited for three seconds, once, however many ask.
        let took = node.age() - begun;
        assert!((3..4).contains(&took.as_secs()), "{took:?}");
        let lines: Vec<String> =
            node.lines().into_iter().filter(|line| line.contains("list ignored")).collect();
        assert_eq!(lines.len(), 5, "{lines:#?}");
        for (zone, why) in [
            ("silent", "lookup failed: timeout"),
            ("failing", "lookup failed: SERVFAIL"),
            ("wrong", "reply 127.255.255.254 is not a listing"),
            ("sold", "reply 198.51.100.80 is not a listing"),
            ("dead", "it lists the RFC 5782"),
        ] {
            let line = lines.iter().find(|line| line.contains(&format!("{zone}.example")));
            assert!(line.is_some_and(|line| line.contains(why)), "{zone}: {lines:#?}");
        }
    });
}

/// One of many clients, which a list may have.
fn crowd(node: &Node, n: u16, zone: Option<&str>) -> IpAddr {
    let ip = Ipv4Addr::new(10, (n / 250) as u8, (n % 250) as u8, 7);
    if let Some(zone) = zone {
        let [a, b, c, d] = ip.octets();
        list(node, &format!("{d}.{c}.{b}.{a}.{zone}"), &["127.0.0.2"]);
    }
    ip.into()
}

/// The replies to all of these clients, which come at once.
async fn replies_to(node: &Rc<Node>, clients: Vec<IpAddr>) -> Vec<String> {
    let ask = |ip| {
        let node = Rc::clone(node);
        tokio::task::spawn_local(async move { rcpt(&node, ip, SENDER, READER).await })
    };
    let asked: Vec<_> = clients.into_iter().map(ask).collect();
    let mut replies = Vec::new();
    for reply in asked {
        replies.push(reply.await.expect("no panic"));
    }
    replies
}

#[test]
fn whom_lists_had_no_time_for_is_put_off_and_not_taken() {
    for action in ["reject", "hold", "mark"] {
        play(|| async {
            let lists = format!("dnsbl = {{ lists = [\"slow.example\"], action = \"{action}\" }}");
            let node = Rc::new(Node::start(&config(&lists)).await);
            node.world.set_slow("slow.example", Duration::from_secs(2));
            // All of them are listed, and more than have their turn within ten seconds.
            let clients = (0..1_000).map(|n| crowd(&node, n, Some("slow.example"))).collect();
            let replies = replies_to(&node, clients).await;
            let count = |reply: &str| replies.iter().filter(|said| said.starts_with(reply)).count();
            let put_off = count("450 4.4.3 Temporary DNSBL lookup failure");
            let found = count(if action == "reject" { "550 5.7.1" } else { "250 " });
            assert_eq!(put_off + found, replies.len(), "{action}: {replies:#?}");
            assert!(found > 0 && (put_off > 0) == (action != "mark"), "{action}: {put_off}");
        });
    }
}

#[test]
fn a_list_that_is_silent_holds_up_none_that_answers() {
    play(|| async {
        let node = Node::start(&config("dnsbl = [\"silent.example\", \"zen.example\"]")).await;
        let node = Rc::new(node);
        node.world.set_unanswered("silent.example");
        let is_listed = |n| n % 2 == 0;
        let client = |n| crowd(&node, n, is_listed(n).then_some("zen.example"));
        let clients = (0..1_000).map(client).collect();
        let begun = node.age();
        let replies = replies_to(&node, clients).await;
        for (n, reply) in (0..).zip(&replies) {
            let expected = if is_listed(n) { "550 5.7.1" } else { "250 " };
            assert!(reply.starts_with(expected), "{n}: {reply}");
        }
        let took = node.age() - begun;
        assert!(took < Duration::from_secs(10), "{took:?}");
    });
}

#[test]
fn tables_say_whom_nothing_concerns() {
    play(|| async {
        let node = Node::start(&config(
            "dnsbl = [\"zen.example\"], exempt_clients = { table = \"clients\" }, \
             exempt_recipients = { table = \"recipients\" }",
        ))
        .await;
        for last in [1, 2, 9] {
            list(&node, &name(last, "zen.example"), &["127.0.0.2"]);
        }
        node.world.set_entry("clients", "203.0.113.1", Ok("yes"));
        node.world.set_entry("recipients", "abuse@here.test", Ok("yes"));
        for (last, recipient, reply) in [
            (1, READER, "250"),
            (2, "Abuse@here.test", "250"),
            (2, READER, "550 5.7.1 [203.0.113.2] is listed by zen.example"),
        ] {
            let said = rcpt(&node, host(last), SENDER, recipient).await;
            assert!(said.starts_with(reply), "{last} {recipient}: {said}");
        }
        node.world.set_table_delay(Some(Duration::from_secs(1)));
        let said = rcpt(&node, host(1), SENDER, READER).await;
        assert!(said.starts_with("250"), "{said}");
    });
}

#[test]
fn a_sender_must_be_one_that_could_be_answered() {
    play(|| async {
        let node = Node::start(&config("sender_domain = \"reject\"")).await;
        let host = |host: &str| Mx { preference: 10, host: host.into() };
        node.world.set_mx("mx.test", Ok((0..1_000).map(|n| host(&format!("m{n}.test"))).collect()));
        node.world.set_mx("null.test", Ok(vec![Mx { preference: 0, host: String::new() }]));
        node.world.set_mx("a.test", Err(DnsError::NoRecords));
        list(&node, "a.test", &["192.0.2.1"]);
        node.world.set_mx("six.test", Err(DnsError::NoRecords));
        list(&node, "six.test", &["2001:db8::1"]);
        node.world.set_mx("text.test", Err(DnsError::NoRecords));
        node.world.set_addresses("text.test", Err(DnsError::NoRecords));
        node.world.set_mx("failing.test", Err(DnsError::Transient("SERVFAIL".into())));
        node.world.set_silent("silent.test");
        let missing = "550 5.1.8 Sender address rejected: domain not found";
        let unanswered = "450 4.4.3 Temporary DNS failure: sender domain; try again later";
        for (sender, reply) in [
            ("x@mx.test", "250"),
            ("x@a.test", "250"),
            ("x@six.test", "250"),
            ("", "250"),
            ("x@[192.0.2.1]", "250"),
            ("x@null.test", "550 5.7.27 Sender domain has a null MX"),
            ("x@text.test", missing),
            ("x@nowhere.test", missing),
            ("x@failing.test", unanswered),
            ("x@silent.test", unanswered),
        ] {
            let said = rcpt(&node, STRANGER, sender, READER).await;
            assert!(said.starts_with(reply), "{sender}: {said}");
            let said = rcpt(&node, STRANGER, sender, "postmaster").await;
            assert!(said.starts_with("250"), "{sender}: {said}");
            let said = rcpt(&node, FRIEND, sender, READER).await;
            assert!(said.starts_with("250"), "{sender}: {said}");
        }
        assert_eq!(node.metrics.strangers_refused[StrangersCheck::SenderDomain].get(), 5);
    });
}

#[test]
fn what_may_only_mark_or_hold_does_so() {
    play(|| async {
        let node = Node::start(&config("sender_domain = \"hold\", own_domains = \"mark\"")).await;
        node.world.set_mx("failing.test", Err(DnsError::Transient("SERVFAIL".into())));
        for sender in ["x@failing.test", "x@nowhere.test", "x@here.test"] {
            let mut client = Client::connect(&node, STRANGER).await;
            let reply = client.send(sender, &[READER], CONTENT).await;
            assert!(reply.starts_with("250"), "{sender}: {reply}");
        }
        // here.test does not exist either, as far as this world's DNS knows.
        assert_eq!(node.count("held"), 2, "{:#?}", node.events(&["sender", "reason"]));
        let held = &node.of("held")[0];
        let why = "Sender address rejected: domain not found";
        assert_eq!((&held["sender"], &held["reason"]), (&"x@nowhere.test".into(), &why.into()));
        node.wait_for("delivered", 1).await;
        assert!(got(&node, "b").contains("X-Sender-Warning: Temporary DNS failure"));
    });
}

#[test]
fn nobody_outside_is_one_of_us() {
    play(|| async {
        let node = Node::start(&config("own_domains = \"reject\"")).await;
        let text = "550 5.7.1 Sender address rejected: authentication required for this domain";
        for (from, sender, reply) in [
            (STRANGER, "boss@Here.test", text),
            (STRANGER, "x@relay.test", text),
            (STRANGER, "x@far.test", "250"),
            (STRANGER, "", "250"),
            (FRIEND, "boss@here.test", "250"),
            (host(99), "boss@here.test", "250"),
        ] {
            let said = rcpt(&node, from, sender, READER).await;
            assert!(said.starts_with(reply), "{sender}: {said}");
        }
        assert_eq!(node.metrics.strangers_refused[StrangersCheck::OwnDomains].get(), 2);
    });
}

#[test]
fn a_reload_changes_what_is_asked() {
    play(|| async {
        let node = Node::start(&config("")).await;
        list(&node, &name(9, "zen.example"), &["127.0.0.2"]);
        let mut client = Client::connect(&node, STRANGER).await;
        client.say(&format!("MAIL FROM:<{SENDER}>")).await;
        assert!(client.say(&format!("RCPT TO:<{READER}>")).await.starts_with("250"));
        assert!(node.world.asked().is_empty());
        node.reload(&config("dnsbl = [\"zen.example\"]"));
        client.say("RSET").await;
        client.say(&format!("MAIL FROM:<{SENDER}>")).await;
        let reply = client.say(&format!("RCPT TO:<{READER}>")).await;
        assert_eq!(reply, "550 5.7.1 [203.0.113.9] is listed by zen.example");
    });
}

/// A listener that puts off for a minute.
fn greylist(keys: &str) -> String {
    config(&format!("greylist = {{ delay = \"1m\", {keys} }}"))
}

const PUT_OFF: &str = "450 4.7.1 Greylisted; try again in 60 seconds";

#[test]
fn who_is_new_is_put_off_and_known_when_it_comes_again() {
    play(|| async {
        let node = Node::start(&greylist("retry_window = \"1h\", clients_after = 2")).await;
        let mut client = Client::connect(&node, STRANGER).await;
        client.say(&format!("MAIL FROM:<{SENDER}>")).await;
        let rcpt_to = format!("RCPT TO:<{READER}>");
        assert_eq!(client.say(&rcpt_to).await, PUT_OFF);
        assert!(client.say("RCPT TO:<postmaster>").await.starts_with("250"));
        tokio::time::sleep(Duration::from_millis(59_200)).await;
        let early = "450 4.7.1 Greylisted; try again in 1 seconds";
        assert_eq!(client.say(&rcpt_to).await, early);
        tokio::time::sleep(Duration::from_secs(1)).await;
        // From the neighbour, by another session.
        let reply = rcpt(&node, host(77), SENDER, READER).await;
        assert!(reply.starts_with("250"), "{reply}");
        assert!(client.say(&rcpt_to).await.starts_with("250"));
        assert_eq!(rcpt(&node, STRANGER, SENDER, "c@here.test").await, PUT_OFF);
        assert_eq!(rcpt(&node, STRANGER, "", READER).await, PUT_OFF);
        // Too late.
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(rcpt(&node, STRANGER, "", READER).await, PUT_OFF);
        // The second that comes again, an hour after the first: the client is known now.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(rcpt(&node, STRANGER, "", READER).await.starts_with("250"));
        for _ in 0..2 {
            let reply = rcpt(&node, STRANGER, "new@far.test", READER).await;
            assert!(reply.starts_with("250"), "{reply}");
        }
        for from in [FRIEND, host(99)] {
            assert!(rcpt(&node, from, SENDER, "d@here.test").await.starts_with("250"));
        }
        let metrics = &node.metrics;
        let wait = Duration::ZERO;
        let verdicts = [
            greylist::GreylistResult::New(wait),
            greylist::GreylistResult::Early(wait),
            greylist::GreylistResult::Passed(wait),
            greylist::GreylistResult::Known,
            greylist::GreylistResult::Client,
        ];
        let counts = verdicts.map(|verdict| metrics.greylist[verdict].get());
        assert_eq!(counts, [4, 1, 2, 1, 2]);
        assert_eq!(metrics.strangers_refused[StrangersCheck::Greylist].get(), 5);
        let refused = node.of("refused");
        assert_eq!(refused.len(), 5, "{refused:#?}");
    });
}

#[test]
fn pools_that_may_send_for_their_domain_are_one_client() {
    play(|| async {
        let node = Node::start(&greylist("")).await;
        node.world.set_txt("pool.test", b"v=spf1 ip4:203.0.113.0/28 ip4:198.18.0.0/15 -all");
        let far = IpAddr::V4(Ipv4Addr::new(198, 18, 7, 1));
        assert_eq!(rcpt(&node, host(9), "bounce-1@pool.test", READER).await, PUT_OFF);
        tokio::time::sleep(Duration::from_secs(61)).await;
        let reply = rcpt(&node, far, "bounce-2@pool.test", READER).await;
        assert!(reply.starts_with("250"), "{reply}");
        // Who may not send for it is none of them.
        assert_eq!(rcpt(&node, host(40), "bounce-3@pool.test", READER).await, PUT_OFF);
        let by_network = greylist("by_spf = false");
        node.reload(&by_network);
        let far = IpAddr::V4(Ipv4Addr::new(198, 18, 8, 1));
        assert_eq!(rcpt(&node, far, "bounce-4@pool.test", READER).await, PUT_OFF);
    });
}

#[test]
fn whom_lists_or_tables_speak_for_is_not_put_off() {
    play(|| async {
        let node = Node::start(&config(
            "dnsbl = [\"zen.example\", \"ok.example*-1\"], greylist = { delay = \"1m\", \
             exempt_clients = { table = \"clients\" }, \
             exempt_recipients = { table = \"recipients\" } }",
        ))
        .await;
        list(&node, &name(1, "ok.example"), &["127.0.0.2"]);
        list(&node, &name(2, "zen.example"), &["127.0.0.2"]);
        node.world.set_entry("clients", "203.0.113.3", Ok("x"));
        node.world.set_entry("recipients", "here.test", Ok("x"));
        assert!(rcpt(&node, host(4), SENDER, READER).await.starts_with("250"));
        node.world.remove_entry("recipients", "here.test");
        for (last, reply) in [(1, "250"), (2, "550 5.7.1 [203.0.113.2]"), (3, "250"), (4, PUT_OFF)]
        {
            let said = rcpt(&node, host(last), SENDER, READER).await;
            assert!(said.starts_with(reply), "{last}: {said}");
        }
    });
}

#[test]
fn names_and_bounces_of_wrong_form_are_refused() {
    play(|| async {
        let checks = "helo_fqdn = \"reject\", sender_fqdn = \"reject\", \
                      multi_recipient_bounce = \"reject\", \
                      exempt_clients = { table = \"clients\" }";
        let node = Node::start(&config(checks)).await;
        node.world.set_entry("clients", "203.0.113.50", Ok("x"));
        let helo = "504 5.5.2 Helo command rejected: need fully-qualified hostname";
        let literal = "501 5.5.2 Helo command rejected: invalid ip address";
        let from = "504 5.5.2 Sender address rejected: need fully-qualified address";
        let bounce = "550 5.5.3 Data command rejected: Multi-recipient bounce";
        let (right, data) = ("250 2.1.5 Recipient ok", "354 End the message with <CRLF>.<CRLF>");
        for (ip, name, sender, to, expected) in [
            (STRANGER, "mx.far.test", SENDER, 2, [right, data]),
            (STRANGER, "desktop", SENDER, 1, [helo, ""]),
            (STRANGER, "203.0.113.9", SENDER, 1, [helo, ""]),
            (STRANGER, "[203.0.113.9]", SENDER, 1, [right, data]),
            (STRANGER, "[203.0.113.900]", SENDER, 1, [literal, ""]),
            (STRANGER, "mx.far.test", "a@localhost", 1, [from, ""]),
            (STRANGER, "mx.far.test", "", 1, [right, data]),
            (STRANGER, "mx.far.test", "", 2, [right, bounce]),
            (host(50), "desktop", "a@localhost", 2, [right, data]),
            (host(50), "desktop", "", 2, [right, data]),
            (host(99), "desktop", "", 2, [right, data]),
            (FRIEND, "desktop", "", 2, [right, data]),
        ] {
            let mut client = Client::connect(&node, ip).await;
            client.say(&format!("EHLO {name}")).await;
            client.say(&format!("MAIL FROM:<{sender}>")).await;
            for n in 0..to {
                let reply = client.say(&format!("RCPT TO:<r{n}@here.test>")).await;
                assert_eq!(reply, expected[0], "{name} <{sender}>");
            }
            if !expected[1].is_empty() {
                let reply = client.say("DATA").await;
                assert_eq!(reply, expected[1], "{name} <{sender}> {to}");
            }
        }
        // A recipient that is named again counts again.
        let mut client = Client::connect(&node, STRANGER).await;
        client.say("EHLO mx.far.test").await;
        client.say("MAIL FROM:<>").await;
        for to in ["b@here.test", "B@here.test", "b@Here.test"] {
            assert_eq!(client.say(&format!("RCPT TO:<{to}>")).await, right, "{to}");
        }
        assert_eq!(client.say("DATA").await, bounce);
        client.say("RSET").await;
        client.say("MAIL FROM:<>").await;
        client.say("RCPT TO:<b@here.test>").await;
        client.say("RCPT TO:<b@here.test>").await;
        assert_eq!(client.say("DATA").await, bounce);
        // A refused sender reaches the bare postmaster only.
        let mut client = Client::connect(&node, STRANGER).await;
        client.say("EHLO desktop").await;
        client.say("MAIL FROM:<a@localhost>").await;
        assert!(client.say("RCPT TO:<postmaster@here.test>").await.starts_with("504 5.5.2"));
        assert!(client.say("RCPT TO:<postmaster>").await.starts_with("250"));
        let refused = &node.metrics.strangers_refused;
        let counts = [
            StrangersCheck::HeloFqdn,
            StrangersCheck::SenderFqdn,
            StrangersCheck::MultiRecipientBounce,
        ];
        assert_eq!(counts.map(|check| refused[check].get()), [4, 1, 3]);
    });
}

#[test]
fn names_and_bounces_of_wrong_form_are_marked_or_held() {
    play(|| async {
        for (action, event) in [("mark", "delivered"), ("hold", "held")] {
            let checks = format!(
                "helo_fqdn = \"{action}\", sender_fqdn = \"{action}\", \
                 multi_recipient_bounce = \"{action}\""
            );
            let node = Node::start(&config(&checks)).await;
            let mut client = Client::connect(&node, STRANGER).await;
            client.say("EHLO desktop").await;
            let reply = client.send("", &["b@here.test", "c@here.test"], CONTENT).await;
            assert!(reply.starts_with("250"), "{reply}");
            node.wait_for(event, 1).await;
            if event == "held" {
                let reason = node.of("held")[0]["reason"].to_string();
                assert!(reason.contains("need fully-qualified hostname"), "{reason}");
                continue;
            }
            let mail = got(&node, "b");
            for warning in ["need fully-qualified hostname", "Multi-recipient bounce"] {
                let is_warned = mail
                    .lines()
                    .any(|line| line.starts_with("X-Sender-Warning: ") && line.ends_with(warning));
                assert!(is_warned, "{warning}: {mail}");
            }
        }
    });
}
