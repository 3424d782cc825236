//! Memory for what goes to MTAs of X.400: those that are silent, or slow, hold none that others need.

use super::client::{Client, FRIEND};
use super::node::{Node, play, wait_until};
use super::x400::{Caller, Hub};
use super::x400_conversions::{GATEWAY, message_for};
use bytes::Bytes;
use std::time::Duration;
use x400::content::BodyPart;

/// Two peers beside a third one, and little memory. What is read back has four megabytes.
const CONFIG: &str = r#"hostname = "relay.test"
[spool]
body_memory_bytes = "16MiB"
[retry]
jitter = 0
"#;

/// Never, as far as a test is concerned.
const SILENCE: Duration = Duration::from_secs(1_000_000);

fn config(came: Came) -> String {
    let listener = match came {
        Came::AsX400 => "kind = \"p1\"\nname = \"p1\"\naddress = \"192.0.2.250:102\"\n",
        Came::AsMail => {
            "name = \"in\"\naddress = \"192.0.2.250:25\"\nrelay_from = [\"198.51.100.0/24\"]\n"
        }
    };
    let peer = |(name, host): (&str, u8)| {
        format!(
            "[[x400.peer]]\nname = \"{name}\"\nhosts = [\"192.0.2.{host}:102\"]\ntheir_name = \"mta.{name}\"\n\
             their_password = \"theirs\"\nour_password = \"ours\"\nmax_associations = 4\n\
             [[route]]\ndomains = [\"{name}.test\"]\nor_addresses = [\"/PRMD={name}/ADMD= /C=GB/\"]\n\
             x400 = {{ peer = \"{name}\" }}\n"
        )
    };
    let peers = [("one", 11), ("two", 12), ("good", 13)].map(peer).concat();
    format!("{CONFIG}{GATEWAY}{peers}[[listener]]\n{listener}")
}

/// How messages come: as they leave, or as internet mail.
#[derive(Clone, Copy, Debug)]
enum Came {
    AsX400,
    AsMail,
}

/// Text of so many lines, other than that of other numbers.
fn text(number: usize, lines: usize) -> String {
    (0..lines).map(|n| format!("{:06} {}\r\n", n + number, "x".repeat(68))).collect()
}

/// Hands in messages to these peers, with so many lines each.
async fn hand_in(node: &Node, came: Came, messages: impl Iterator<Item = (&'static str, usize)>) {
    let mut client = match came {
        Came::AsX400 => Err(Caller::bound(node).await),
        Came::AsMail => Ok(Client::connect(node, FRIEND).await),
    };
    for (number, (peer, lines)) in messages.enumerate() {
        let (to, text) = (format!("/S=bob/PRMD={peer}/ADMD= /C=GB/"), text(number, lines));
        match &mut client {
            Err(caller) => {
                let body = BodyPart::Ia5 { repertoire: None, text: Bytes::from(text) };
                let message = message_for(&to, number, Bytes::from_static(b"Bob"), body);
                caller.transfer(&message).await;
            }
            Ok(client) => {
                let to = format!("bob@{peer}.test");
                let content = format!("Subject: x\r\n\r\n{text}");
                let reply = client.send("a@source.test", &[&to], &content).await;
                assert!(reply.starts_with("250 "), "{reply}");
            }
        }
    }
}

/// Large messages wait for two peers, others, which find no room beside two of them, for a third one, and all must be
/// read back.
async fn with_two(came: Came, lines: usize, pause: Duration) -> (Node, [Hub; 3]) {
    let node = Node::start(&config(came)).await;
    let of_round = |_| [("one", lines), ("two", lines), ("good", 8_000)];
    hand_in(&node, came, (0..6).flat_map(of_round)).await;
    let node = node.restart().await;
    // No content goes out unread.
    node.world.set_pipe_bytes(1_024);
    let good = Duration::ZERO;
    let hubs = [("mta.one", 11, pause), ("mta.two", 12, pause), ("mta.good", 13, good)];
    let hubs = hubs.map(|(name, host, pause)| {
        Hub::slow_at(&node, name, &format!("192.0.2.{host}:102"), pause)
    });
    (node, hubs)
}

#[test]
fn peers_that_are_silent_leave_memory_for_another() {
    for (came, lines) in [(Came::AsX400, 24_000), (Came::AsMail, 5_000)] {
        play(|| async {
            let (node, [one, two, good]) = with_two(came, lines, SILENCE).await;
            let begun = node.age();
            wait_until("all for the other one", || good.taken().len() == 6).await;
            let took = node.age() - begun;
            assert!(took < Duration::from_secs(60), "{came:?}: {took:?}");
            assert!(one.taken().is_empty() && two.taken().is_empty());
        });
    }
}

#[test]
fn what_is_written_holds_no_memory_while_its_acknowledgement_is_waited_for() {
    for (came, lines) in [(Came::AsX400, 24_000), (Came::AsX400, 10), (Came::AsMail, 5_000)] {
        play(|| async {
            let node = Node::start(&config(came)).await;
            hand_in(&node, came, [("one", lines); 3].into_iter()).await;
            let node = node.restart().await;
            let hub = Hub::silent_at(&node, "mta.one", "192.0.2.11:102");
            wait_until("all are written", || hub.offered() == 3).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let held = (node.shared.reads.used(), node.shared.conversions.used());
            assert_eq!(held, (0, 0), "{came:?} {lines}");
        });
    }
}

#[test]
fn a_peer_that_reads_slowly_gets_all_of_what_was_let_go_meanwhile() {
    for (came, lines) in [(Came::AsX400, 24_000), (Came::AsMail, 5_000)] {
        play(|| async {
            let (node, [one, two, good]) = with_two(came, lines, Duration::from_millis(100)).await;
            let taken = || [&one, &two, &good].map(|hub| hub.taken().len());
            wait_until("all of them", || taken() == [6; 3]).await;
            let again = match came {
                Came::AsX400 => node.metrics.messages_read_back.get() > 18,
                Came::AsMail => node.metrics.conversions_again.get() > 0,
            };
            assert!(again, "{came:?}: some were let go");
            for (hub, first) in [(one, 0), (two, 1)] {
                let mut taken = hub.taken();
                for number in (0..6).map(|round| 3 * round + first) {
                    let text = text(number, lines).into_bytes();
                    let has = |apdu: &Vec<u8>| apdu.windows(text.len()).any(|part| part == text);
                    let at = taken.iter().position(has);
                    taken.remove(at.unwrap_or_else(|| panic!("{came:?} {number} is whole")));
                }
            }
        });
    }
}
