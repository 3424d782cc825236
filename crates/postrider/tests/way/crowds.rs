//! Clients in crowds: a stranger with a hundred networks at full effort keeps nobody from being served.

use super::client::{Client, FRIEND};
use super::node::{Node, config, play};
use super::pools::hundred;
use super::rights;
use super::submission::{self, plain};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

const ROUTES: &str = "[[route]]\ndomains = [\"ours.test\"]\nmaildir = { path = \"/mail/{local}\" }\n\
                      [[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }\n";

/// A hundred networks: /64s of one /48, and IPv4 addresses far apart.
pub(crate) fn hostile(n: u16) -> IpAddr {
    match n % 2 {
        0 => Ipv6Addr::new(0x2001, 0xdb8, 7, n / 2 % 50, 0, 0, 0, 9).into(),
        _ => Ipv4Addr::new(198, 18, (n / 2 % 50) as u8, 9).into(),
    }
}

pub(crate) fn healthy(n: u8) -> IpAddr {
    Ipv4Addr::new(203, 0, n, 7).into()
}

pub(crate) fn with(listener: &str) -> String {
    config(ROUTES).replace("relay_from", &format!("{listener}\nrelay_from"))
}

const CONTENT: &str = "Subject: x\r\n\r\nbody\r\n";

#[test]
fn idle_sessions_of_a_hundred_networks_give_way_to_others() {
    play(|| async {
        let node = Node::start(&with("max_sessions = 200")).await;
        // Strangers may have nine in ten.
        let mut idle = Vec::new();
        for n in 0..180 {
            idle.push(Client::connect(&node, hostile(n)).await);
        }
        for n in 0..100 {
            // The stranger comes again and again, five times a second.
            for again in 0..5 {
                // It displaces its own, or none.
                let mut one = Client::open(&node, hostile(n * 5 + again));
                one.reply().await;
                idle.push(one);
            }
            let before = node.age();
            let mut client = Client::connect(&node, healthy(n as u8)).await;
            let said = client.send("a@s.test", &["jo@ours.test"], CONTENT).await;
            assert!(said.starts_with("250 2.0.0"), "{n}: {said}");
            assert!(node.age() - before < Duration::from_secs(1));
            client.say("QUIT").await;
            sleep(Duration::from_millis(200)).await;
        }
        // The first that came gave way first, and heard so.
        assert_eq!(
            idle[0].reply().await,
            "421 4.3.2 relay.test Too many sessions; try again later"
        );
        assert!(node.metrics.sessions_displaced.get() >= 20);
        let shown = node.pressure("sessions").expect("it is shown");
        assert!(shown.contains("holds most"), "{shown}");
        // Clients that may relay have a tenth, whatever strangers do.
        let mut friend = Client::connect(&node, FRIEND).await;
        let said = friend.send("me@s.test", &["x@far.test"], CONTENT).await;
        assert!(said.starts_with("250 2.0.0"), "{said}");
    });
}

#[test]
fn those_in_a_transaction_and_those_whose_mail_was_accepted_stay() {
    play(|| async {
        let node = Node::start(&with("max_sessions = 20")).await;
        let mut well = Client::connect(&node, healthy(1)).await;
        assert!(well.send("a@s.test", &["jo@ours.test"], CONTENT).await.starts_with("250 2.0.0"));
        let mut begun = Client::connect(&node, healthy(2)).await;
        begun.say("MAIL FROM:<a@s.test>").await;
        let mut idle = Vec::new();
        for n in 0..100 {
            idle.push(Client::open(&node, hostile(n)));
        }
        sleep(Duration::from_millis(1)).await;
        assert!(begun.say("RCPT TO:<jo@ours.test>").await.starts_with("250 "));
        assert!(begun.content(CONTENT).await.starts_with("250 2.0.0"));
        assert!(well.send("a@s.test", &["jo@ours.test"], CONTENT).await.starts_with("250 2.0.0"));
        // Others come all the same, and are proven by their mail.
        for n in 50..60 {
            let mut client = Client::connect(&node, healthy(n)).await;
            let said = client.send("a@s.test", &["jo@ours.test"], CONTENT).await;
            assert!(said.starts_with("250 2.0.0"), "{said}");
            idle.push(client);
        }
        assert!(well.say("NOOP").await.starts_with("250 "));
    });
}

/// Strangers of as many networks, each in a group of its own, who take all places one after the other.
fn crowd(node: &Node) -> Vec<Client> {
    (0..100).map(|n| Client::open(node, [198, 18, n, 9].into())).collect()
}

/// How a client comes by the right to send to anybody.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Nothing,
    Network,
    Login,
    Certificate,
    AnnouncedNetwork,
    AnnouncedLogin,
}

/// Returns true if another has the place of a session that waits.
async fn is_called_off(client: &mut Client) -> bool {
    match tokio::time::timeout(Duration::from_secs(1), client.reply()).await {
        Ok(said) => {
            assert!(said.starts_with("421 4.3.2"), "{said}");
            true
        }
        Err(_) => false,
    }
}

const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

async fn with_right(by: By) -> (Node, Client) {
    let keys = "max_sessions = 20\nxclient_from = [\"10.0.0.0/8\"]";
    let network = format!("{keys}\nrelay_from = [\"203.0.2.0/24\"]");
    let shown = "client_certificates = { authorities = \"ca.pem\", relay = true }";
    let text = match by {
        By::Network | By::AnnouncedNetwork => rights::relay(&network),
        By::Certificate => rights::relay(&format!("{keys}\ntls = \"implicit\"\n{shown}")),
        _ => rights::submission(&format!("{}\n{keys}", rights::TABLE)),
    };
    let node = Node::start(&text).await;
    node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
    if by == By::Certificate {
        node.world.set_certificate(rights::certificate("mx.x.test"));
    }
    let announced = format!("XCLIENT ADDR={}", healthy(2));
    let mut client = match by {
        By::AnnouncedNetwork | By::AnnouncedLogin => Client::connect(&node, PROXY).await,
        _ => Client::connect(&node, healthy(2)).await,
    };
    match by {
        By::Login => drop(client.say(&plain("jo", "right")).await),
        By::AnnouncedNetwork => drop(client.say(&announced).await),
        By::AnnouncedLogin => drop(client.say(&format!("{announced} LOGIN=jo")).await),
        // Nobody else has one.
        By::Certificate => node.world.set_certificate(None),
        By::Nothing | By::Network => {}
    }
    (node, client)
}

#[test]
fn whoever_may_relay_keeps_its_place_however_it_came_by_that_right() {
    for by in [
        By::Nothing,
        By::Network,
        By::Login,
        By::Certificate,
        By::AnnouncedNetwork,
        By::AnnouncedLogin,
    ] {
        play(|| async {
            let (node, mut client) = with_right(by).await;
            let _crowd = crowd(&node);
            sleep(Duration::from_millis(1)).await;
            assert_eq!(is_called_off(&mut client).await, by == By::Nothing, "{by:?}");
        });
    }
}

#[test]
fn whoever_may_relay_no_longer_gives_way_like_any_other() {
    play(|| async {
        let (node, mut client) = with_right(By::Network).await;
        node.reload(&rights::relay("max_sessions = 20"));
        sleep(Duration::from_secs(1)).await;
        assert!(client.say("MAIL FROM:<a@s.test>").await.starts_with("250 "));
        assert!(client.say("RSET").await.starts_with("250 "));
        let _crowd = crowd(&node);
        sleep(Duration::from_millis(1)).await;
        assert!(is_called_off(&mut client).await);
    });
}

#[test]
fn handshakes_of_a_hundred_networks_give_way_to_others() {
    play(|| async {
        let text = format!("{}[tls]\nmax_handshakes = 100\n", submission::config(""));
        let node = Node::start(&text).await;
        node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
        node.world.wait_for_hello();
        let mut idle = Vec::new();
        for n in 0..1_000 {
            idle.push(Client::open(&node, hostile(n)));
        }
        sleep(Duration::from_millis(1)).await;
        assert_eq!(node.shared.handshakes.count(), 90);
        for n in 0..100 {
            for again in 0..5 {
                idle.push(Client::open(&node, hostile(n * 5 + again)));
            }
            let before = node.age();
            let mut client = Client::open(&node, healthy(n as u8));
            // Its ClientHello, as far as this world knows one.
            client.write("hello\r\n").await;
            let greeting = client.reply().await;
            assert!(greeting.starts_with("220 "), "{n}: {greeting:?}");
            client.say("EHLO client.test").await;
            assert!(client.say(&plain("jo", "right")).await.starts_with("235"));
            assert!(node.age() - before < Duration::from_secs(1));
            sleep(Duration::from_millis(200)).await;
        }
        assert!(node.pressure("tls_handshakes").is_some());
        // A network has ten at most, whoever it is.
        let before = node.shared.handshakes.count();
        let own: Vec<Client> = (0..30).map(|_| Client::open(&node, healthy(200))).collect();
        sleep(Duration::from_millis(1)).await;
        assert!(node.shared.handshakes.count() <= before.max(90) + 10);
        drop((own, idle));
        sleep(Duration::from_secs(30)).await;
        assert_eq!(node.pressure("tls_handshakes"), None);
    });
}

/// A listener that checks strangers.
fn checking(checks: &str) -> String {
    let listener = format!("max_sessions_per_address = 1000\nchecks = {{ {checks} }}");
    with(&listener)
}

pub(crate) async fn rcpt(node: &Node, from: IpAddr, sender: &str) -> String {
    let mut client = Client::connect(node, from).await;
    client.say(&format!("MAIL FROM:<{sender}>")).await;
    client.say("RCPT TO:<jo@ours.test>").await
}

#[test]
fn senders_of_slow_zones_keep_nobody_else_waiting() {
    play(|| async {
        let node = Node::start(&checking("sender_domain = \"reject\"")).await;
        // A hundred networks, six sessions of each, and as many zones whose servers are silent.
        let mut hostile_ones = Vec::new();
        for n in 0..600 {
            let zone = format!("d{n}.slow{}.test", n % 100);
            node.world.set_silent(&zone);
            let mut client = Client::connect(&node, hostile(n)).await;
            client.say(&format!("MAIL FROM:<a@{zone}>")).await;
            client.write("RCPT TO:<jo@ours.test>\r\n").await;
            hostile_ones.push(client);
        }
        let mut late = 0;
        for n in 0..100_u8 {
            let domain = format!("good{n}.test");
            let host = mta::seams::Mx { preference: 10, host: format!("mx.{domain}") };
            node.world.set_mx(&domain, Ok(vec![host]));
            let before = node.age();
            let said = rcpt(&node, healthy(n), &format!("a@{domain}")).await;
            assert!(said.starts_with("250 "), "{said}");
            late += usize::from(node.age() - before > Duration::from_secs(1));
            // Those that were not known come again.
            for (again, client) in
                hostile_ones.iter_mut().enumerate().skip(usize::from(n) * 6).take(6)
            {
                let said = client.reply().await;
                assert!(said.starts_with("450 4.4.3"), "{said}");
                let zone = format!("e{again}.slow{}.test", again % 100);
                node.world.set_silent(&zone);
                client.say("RSET").await;
                client.say(&format!("MAIL FROM:<a@{zone}>")).await;
                client.write("RCPT TO:<jo@ours.test>\r\n").await;
            }
        }
        assert!(late <= 5, "{late} of 100 waited for more than a second");
    });
}

#[test]
fn questions_to_a_slow_list_take_turns_by_network() {
    play(|| async {
        let node = Rc::new(Node::start(&checking("dnsbl = [\"slow.example\"]")).await);
        node.world.set_slow("slow.example", Duration::from_millis(500));
        // A hundred networks, two sessions of each at a time.
        for n in 0..200_u16 {
            let node = Rc::clone(&node);
            tokio::task::spawn_local(async move {
                for again in 0..120 {
                    // From another address each time: what was asked is remembered.
                    let [site, host] = [(n / 2) as u8, (again * 2 + n % 2) as u8];
                    rcpt(&node, [198, 18, site, host].into(), "a@s.test").await;
                    if node.is_quiet() {
                        return;
                    }
                }
            });
        }
        sleep(Duration::from_secs(5)).await;
        hundred(&node, "list_questions", Duration::from_secs(2), async |n| {
            let said = rcpt(&node, healthy(n), "a@s.test").await;
            assert!(said.starts_with("250 "), "{said}");
        })
        .await;
        node.be_quiet();
    });
}

#[test]
fn questions_to_lists_end_with_the_client_for_whom_they_are() {
    play(|| async {
        let node = Node::start(&checking("dnsbl = [\"slow.example\"]")).await;
        for n in 0..2_000 {
            let IpAddr::V4(ip) = healthy((n % 250) as u8) else { continue };
            let [a, b, c, d] = ip.octets();
            node.world.set_silent(&format!("{d}.{c}.{b}.{a}.slow.example"));
        }
        // Connections that are closed at once, from as many networks.
        for n in 0..2_000_u16 {
            let ip = IpAddr::from([198, 19, (n / 250) as u8, (n % 250) as u8]);
            let IpAddr::V4(four) = ip else { continue };
            let [a, b, c, d] = four.octets();
            node.world.set_silent(&format!("{d}.{c}.{b}.{a}.slow.example"));
            drop(Client::open(&node, ip));
        }
        sleep(Duration::from_millis(10)).await;
        let before = node.age();
        let ip = IpAddr::from([203, 1, 113, 7]);
        assert!(rcpt(&node, ip, "a@s.test").await.starts_with("250 "));
        assert!(node.age() - before < Duration::from_secs(1), "{:?}", node.age() - before);
    });
}
