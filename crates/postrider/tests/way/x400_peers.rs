//! Who may speak over X.400, and for how long: strangers who don't bind, guesses at passwords, peers that a reload
//! changes, and the O/R addresses that strangers reach through the gateway.

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, play, wait_until};
use super::x400::{Answer, CONFIG, Caller, Hub, MESSAGE};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use x400::association::Event;

fn lines_of<'a>(lines: &'a [String], text: &str) -> Vec<&'a String> {
    lines.iter().filter(|line| line.contains(text)).collect()
}

#[test]
fn strangers_who_do_not_bind_give_way_and_peers_bind() {
    play(|| async {
        let node = Node::start(CONFIG).await;
        let mut silent = Vec::new();
        for number in 0..300_u16 {
            let network = u8::try_from(number % 100).unwrap_or(0);
            let address = IpAddr::from([203, 0, 113, network]);
            silent.push(node.accept(SocketAddr::new(address, 10_000 + number)));
            tokio::task::yield_now().await;
        }
        // From an address that nobody knows.
        Caller::bound_from(&node, [192, 0, 2, 77].into()).await.transfer(MESSAGE).await;
        assert!(node.pressure("unbound_associations").is_some());
        let mut open = 0;
        for stream in &mut silent {
            let end = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut [0])).await;
            open += usize::from(end.is_err());
        }
        assert_eq!(open, 63, "the peer had the last place");
        let lines = node.lines();
        assert!(!lines_of(&lines, "unbound association closed: ").is_empty(), "{lines:?}");
    });
}

#[test]
fn the_last_tenth_of_the_sessions_is_kept_for_peers_addresses() {
    play(|| async {
        let few = "kind = \"p1\"\nmax_sessions = 20";
        let node = Node::start(&CONFIG.replace("kind = \"p1\"", few)).await;
        let silent: Vec<_> = (0..40)
            .map(|network| node.accept(SocketAddr::new([203, 0, 113, network].into(), 1_000)))
            .collect();
        // One of `hosts`.
        let mut peer = Caller::bound_from(&node, [198, 51, 100, 2].into()).await;
        peer.transfer(MESSAGE).await;
        drop(silent);
    });
}

#[test]
fn of_one_network_strangers_have_few_and_peers_as_many_as_they_like() {
    play(|| async {
        let node = Node::start(CONFIG).await;
        let address = IpAddr::from([203, 0, 113, 9]);
        let mut silent: Vec<_> =
            (0..40).map(|port| node.accept(SocketAddr::new(address, 1_000 + port))).collect();
        let mut bound = Vec::new();
        for _ in 0..120 {
            bound.push(Caller::bound_from(&node, address).await);
        }
        let mut open = 0;
        for stream in &mut silent {
            let end = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut [0])).await;
            open += usize::from(end.is_err());
        }
        assert!(open <= 16, "{open}");
        for caller in &mut bound {
            caller.transfer(MESSAGE).await;
        }
    });
}

#[test]
fn guesses_are_counted_and_where_it_was_right_before_others_guesses_don_t_count() {
    play(|| async {
        let node = Node::start(CONFIG).await;
        Caller::bound_from(&node, FRIEND).await.transfer(MESSAGE).await;
        // How many are looked at before one is told to come later.
        let guesses = async |client: IpAddr| {
            for count in 0..70 {
                let (_, event) = Caller::calls_from(&node, client, "guess").await;
                let event = format!("{event:?}");
                if event.contains("Busy") {
                    return count;
                }
                assert!(event.contains("Authentication"), "{event}");
            }
            panic!("all are looked at");
        };
        // Each is answered two seconds later, and one is forgiven within a minute.
        let of_one = guesses(STRANGER).await;
        assert!((60..=64).contains(&of_one), "{of_one}");
        let (_, event) = Caller::calls_from(&node, STRANGER, "theirs").await;
        assert!(format!("{event:?}").contains("Busy"), "{event:?}");
        // Others go on guessing at the name: those for whom it was never right wait.
        let of_others =
            guesses([192, 0, 2, 98].into()).await + guesses([192, 0, 2, 99].into()).await;
        assert!((120..=132).contains(&(of_one + of_others)), "{of_one} {of_others}");
        let (_, event) = Caller::calls_from(&node, [192, 0, 2, 100].into(), "theirs").await;
        assert!(format!("{event:?}").contains("Busy"), "{event:?}");
        Caller::bound_from(&node, FRIEND).await.transfer(MESSAGE).await;
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        Caller::bound_from(&node, STRANGER).await.transfer(MESSAGE).await;
    });
}

/// How many wrong passwords of a peer's are looked at before one is told to come later.
async fn guesses_at(node: &Node, client: IpAddr, name: &str, most: usize) -> usize {
    for count in 0..most {
        let event = format!("{:?}", Caller::shows(node, client, name, "guess").await.1);
        if event.contains("Busy") {
            return count;
        }
        assert!(event.contains("Authentication"), "{event}");
    }
    most
}

#[test]
fn guesses_keep_no_peer_out_that_comes_from_an_address_of_its_own() {
    let text = |keys: &str| CONFIG.replace("our_password", &format!("{keys}\nour_password"));
    let home: IpAddr = [198, 51, 100, 2].into();
    for (keys, is_home) in [
        ("", true),
        ("from = [\"198.51.100.2\", \"2001:db8::/32\"]", true),
        ("from = [\"198.51.100.0/24\"]", true),
        ("hosts = [\"hub.test:102\"]", false),
        ("hosts = [\"hub.test:102\"]\nfrom = [\"198.51.100.2\"]", true),
        // Others have addresses in it, too.
        ("hosts = [\"hub.test:102\"]\nfrom = [\"198.51.100.0/24\"]", false),
    ] {
        let config = match keys.contains("hosts") {
            true => text(keys).replace("hosts = [\"198.51.100.2:102\"]\n", ""),
            false => text(keys),
        };
        play(|| async move {
            let node = Node::start(&config).await;
            // At other names, with which no peer is called.
            let of_others = guesses_at(&node, home, "mta.nobody", 100).await;
            assert!((60..=64).contains(&of_others), "{keys}: {of_others}");
            let of_its_own = guesses_at(&node, home, "mta.hub", 300).await;
            let expected = if is_home { 300 } else { 0 };
            assert_eq!(of_its_own, expected, "{keys}");
            let (_, event) = Caller::calls_from(&node, home, "theirs").await;
            assert_eq!(matches!(event, Event::Bound(_)), is_home, "{keys}: {event:?}");
        });
    }
}

#[test]
fn of_an_address_of_its_own_a_peer_has_a_bound_of_wrong_passwords_too() {
    play(|| async {
        let node = Node::start(CONFIG).await;
        let home: IpAddr = [198, 51, 100, 2].into();
        let guesses = guesses_at(&node, home, "mta.hub", 2_000).await;
        // Six hundred in an hour, and a guess takes two seconds: of those many are forgiven meanwhile.
        assert!((899..=902).contains(&guesses), "{guesses}");
        // From then on one in six seconds, as long as it goes on.
        let mut looked_at = 0;
        for _ in 0..30 {
            let event = Caller::calls_from(&node, home, "guess").await.1;
            looked_at += usize::from(!format!("{event:?}").contains("Busy"));
        }
        assert!((9..=11).contains(&looked_at), "{looked_at}");
        tokio::time::sleep(Duration::from_secs(7)).await;
        Caller::bound_from(&node, home).await.transfer(MESSAGE).await;
    });
}

#[test]
fn a_peer_binds_from_where_it_may() {
    play(|| async {
        let from = "our_password = \"ours\"\nfrom = [\"198.51.100.0/24\", \"2001:db8::/32\"]";
        let node = Node::start(&CONFIG.replace("our_password = \"ours\"", from)).await;
        for (client, is_taken) in
            [("198.51.100.7", true), ("2001:db8::9", true), ("198.51.101.7", false), ("::1", false)]
        {
            let client = client.parse().expect("an address");
            let (_, event) = Caller::calls_from(&node, client, "theirs").await;
            assert_eq!(matches!(event, Event::Bound(_)), is_taken, "{client}: {event:?}");
        }
    });
}

#[test]
fn an_association_ends_once_its_peer_is_another() {
    for (what, changed) in [
        ("removed", CONFIG.replace("their_name = \"mta.hub\"", "their_name = \"mta.other\"")),
        ("re-keyed", CONFIG.replace("\"theirs\"", "\"others\"")),
        ("called otherwise", CONFIG.replace("\"ours\"", "\"of us\"")),
        ("elsewhere", CONFIG.replace("our_password", "from = [\"192.0.2.0/24\"]\nour_password")),
    ] {
        play(|| async move {
            let node = Node::start(CONFIG).await;
            let _hub = Hub::at(&node, |_| Answer::Take);
            let mut caller = Caller::bound(&node).await;
            caller.transfer(MESSAGE).await;
            // What is left as it was goes on.
            node.reload(&CONFIG.replace("/PRMD=Ours/", "/PRMD=Ours2/"));
            caller.transfer(MESSAGE).await;
            node.wait_for("received", 2).await;
            node.reload(&changed);
            caller.offer(MESSAGE).await;
            let event = caller.event().await;
            assert!(matches!(event, Event::Ended(_)), "{what}: {event:?}");
            assert_eq!(node.count("received"), 2, "{what}");
            let is_told = || !lines_of(&node.lines(), "peer hub was removed").is_empty();
            wait_until("a line", is_told).await;
        });
    }
}

#[test]
fn an_attempt_ends_after_an_hour_or_with_its_message() {
    let patient = CONFIG.replace("our_password", "answer_timeout = \"5h\"\nour_password");
    for (keys, minutes, event) in
        [("", 60, "deferred"), ("[retry]\ngive_up_after = \"20m\"\n", 20, "expired")]
    {
        let config = patient.clone() + keys;
        play(|| async move {
            let node = Node::start(&config).await;
            let hub = Hub::at(&node, |apdu| match apdu.first() {
                // The report about it.
                Some(0xa1) => Answer::Take,
                _ => Answer::Silence,
            });
            let begun = node.age();
            Caller::bound(&node).await.transfer(MESSAGE).await;
            node.wait_for(event, 1).await;
            let took = node.age() - begun;
            let least = Duration::from_secs(minutes * 60);
            assert!((least..least + Duration::from_secs(120)).contains(&took), "{took:?}");
            if event == "expired" {
                wait_until("a report", || !hub.taken().is_empty()).await;
            }
        });
    }
}

const GATEWAY: &str = r#"hostname = "relay.test"
[[listener]]
name = "in"
address = "192.0.2.250:25"
relay_from = ["198.51.100.0/24"]
[x400]
mta = "relay"
domain = "/PRMD=Ours/ADMD= /C=GB/"
[x400.gateway]
address = "/O=gw/PRMD=Ours/ADMD= /C=GB/"
domain = "gw.test"
strangers = ["/O=Beta/PRMD=TestB/ADMD= /C=GB/", "/PRMD=Open/C=FR/"]
[[x400.peer]]
name = "hub"
hosts = ["198.51.100.2:102"]
their_name = "mta.hub"
their_password = "theirs"
[[route]]
domains = ["gw.test", "far.test"]
x400 = { peer = "hub" }
"#;

#[test]
fn rules_know_what_the_gateway_sends_to_by_its_o_r_address() {
    let rule =
        "[[table]]\nname = \"a\"\ninline = {}\n[[access]]\ntable = \"a\"\nclients = \"all\"\n";
    for (by, key, default, refused, taken) in [
        ("recipient", "/O=beta/PRMD=testb/ADMD= /C=gb/", "refuse", "Gamma", "Beta"),
        ("recipient", "/O=gamma/PRMD=testb/ADMD= /C=gb/", "pass", "Gamma", "Beta"),
        (
            "client+recipient",
            "198.51.100.7,/S=b/O=gamma/PRMD=testb/ADMD= /C=gb/",
            "pass",
            "Gamma",
            "Beta",
        ),
    ] {
        play(|| async move {
            let config = format!("{GATEWAY}{rule}by = \"{by}\"\ndefault = \"{default}\"\n");
            let node = Node::start(&config).await;
            let action = if default == "refuse" { "OK" } else { "REJECT" };
            node.world.set_entry("a", key, Ok(action));
            let mut session = Client::connect(&node, FRIEND).await;
            session.say("MAIL FROM:<a@x.test>").await;
            for (organization, reply) in [(refused, "550 5.7.1"), (taken, "250")] {
                let to = format!("\"/S=b/O={organization}/PRMD=TestB/ADMD= /C=GB/\"@gw.test");
                let said = session.say(&format!("RCPT TO:<{to}>")).await;
                assert!(said.starts_with(reply), "{by} {organization}: {said}");
            }
        });
    }
}

#[test]
fn strangers_reach_through_the_gateway_what_the_configuration_names() {
    let (taken, forbidden, nowhere) = ("250", "550 5.7.1", "550 5.1.3");
    let rows = [
        ("\"/S=b/O=Beta/PRMD=TestB/ADMD= /C=GB/\"@gw.test", taken, taken),
        ("\"/S=b/OU1=x/O=BETA/PRMD=testb/C=gb/\"@gw.test", taken, taken),
        ("\"/S=b/O=x/ADMD=atlas/PRMD=open/C=fr/\"@gw.test", taken, taken),
        ("\"/S=b/O=Gamma/PRMD=TestB/ADMD= /C=GB/\"@gw.test", forbidden, taken),
        ("\"/S=b/O=Beta/PRMD=TestB/ADMD=MCI/C=GB/\"@gw.test", forbidden, taken),
        ("\"/S=CEO/O=Bank/PRMD=Foreign/ADMD=MCI/C=US/\"@gw.test", forbidden, taken),
        ("\"/X121=23421234/ADMD= /C=GB/\"@gw.test", forbidden, taken),
        ("\"/PD-S=Doe/PD-CODE=1/PD-C=US/ADMD=MCI/C=US/\"@gw.test", forbidden, taken),
        ("\"/S=CEO/O=Bank/PRMD=Foreign/ADMD=MCI/C=US/\"@far.test", forbidden, taken),
        ("\"/DD.RFC-822=x(a)y.test/O=gw/PRMD=Ours/ADMD= /C=GB/\"@gw.test", forbidden, forbidden),
        ("\"/RFC-822=x(a)y.test/O=Beta/PRMD=TestB/ADMD= /C=GB/\"@gw.test", forbidden, forbidden),
        ("bob@gw.test", nowhere, nowhere),
        ("john.smith@gw.test", nowhere, nowhere),
        ("\"R400=AAAAAAAAAA=AAAAAAAAAA=/S=b/C=US/ADMD=MCI/\"@gw.test", nowhere, nowhere),
        ("\"/S=b/O=Beta/Nowhere/\"@gw.test", nowhere, nowhere),
        ("postmaster@gw.test", taken, taken),
        // Its domain leads there, whoever it is.
        ("bob@far.test", taken, taken),
    ];
    play(|| async move {
        let node = Node::start(GATEWAY).await;
        for client in [STRANGER, FRIEND] {
            let mut session = Client::connect(&node, client).await;
            let reply = session.say("MAIL FROM:<a@x.test>").await;
            assert!(reply.starts_with("250"), "{reply}");
            for (recipient, stranger, friend) in rows {
                let reply = session.say(&format!("RCPT TO:<{recipient}>")).await;
                let expected = if client == STRANGER { stranger } else { friend };
                assert!(reply.starts_with(expected), "{client} {recipient}: {reply}");
            }
        }
    });
}
