//! Conversions between X.400 and internet mail: the shard makes those that are short; others wait for what is long no more
//! than its memory asks for.

use super::client::{Client, FRIEND};
use super::node::{Node, play, wait_until};
use super::outbound_pools::{network, set_host};
use super::peer::{Peer, Sent};
use super::pools::{SOON, hundred_soon};
use super::x400::{Answer, Caller, Hub};
use bytes::Bytes;
use mta::delivery::CONVERTED_HERE_MAX;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;
use x400::content::heading::{Heading, OrDescriptor, RecipientSpecifier};
use x400::content::{BodyPart, Content, Ipm};
use x400::mts::envelope::message_prefix;
use x400::mts::recipient::ReportRequest;
use x400::mts::{
    ContentType, GlobalDomain, MtsIdentifier, Recipient, RecipientIndicators, TraceElement,
    TransferEnvelope,
};
use x400::or_name::{OrAddress, OrName};

const MAIL_LISTENER: &str = r#"
[[listener]]
name = "in"
address = "192.0.2.250:25"
relay_from = ["198.51.100.0/24"]
"#;
const P1_LISTENER: &str = r#"
[[listener]]
kind = "p1"
name = "p1"
address = "192.0.2.250:102"
"#;
/// A gateway, and a peer, whose further keys may follow.
pub(crate) const GATEWAY: &str = r#"
[x400]
mta = "relay"
domain = "/PRMD=Ours/ADMD= /C=GB/"
gateway = { address = "/O=gw/PRMD=Ours/ADMD= /C=GB/", domain = "gw.test" }
[[x400.peer]]
name = "hub"
hosts = ["198.51.100.2:102"]
their_name = "mta.hub"
their_password = "theirs"
our_password = "ours"
"#;
const OTHERS: &str = r#"max_associations = 4
[[route]]
domains = ["gw.test"]
x400 = { peer = "hub" }
[[route]]
domains = ["far.test"]
smtp = { hosts = ["192.0.2.1:25"] }
"#;

/// Clients come to `listener`.
fn config(listener: &str) -> String {
    format!("hostname = \"relay.test\"\n{listener}{GATEWAY}{OTHERS}")
}

/// The two sides of the limit, with room for header and envelope.
const SHORT_BYTES: usize = CONVERTED_HERE_MAX as usize - 4_096;
const LONG_BYTES: usize = CONVERTED_HERE_MAX as usize;

fn mail(bytes: usize) -> String {
    let line = format!("{}\r\n", "x".repeat(70));
    format!("Subject: x\r\n\r\n{}", line.repeat(bytes / line.len() + 1))
}

/// An interpersonal message for bob@far.test.
fn message(number: usize, name: Bytes, body: BodyPart) -> Vec<u8> {
    message_to("far.test", number, name, body)
}

/// The same for bob at another domain.
fn message_to(domain: &str, number: usize, name: Bytes, body: BodyPart) -> Vec<u8> {
    let to = format!("/DD.RFC-822=bob(a){domain}/O=gw/PRMD=Ours/ADMD= /C=GB/");
    message_for(&to, number, name, body)
}

/// The same for an O/R address.
pub(crate) fn message_for(to: &str, number: usize, name: Bytes, body: BodyPart) -> Vec<u8> {
    let to: OrName = OrAddress::parse(to).expect("an address").into();
    let from: OrName = OrAddress::parse("/S=ann/PRMD=Far/ADMD= /C=GB/").expect("an address").into();
    let domain = GlobalDomain { country: "GB".into(), admd: " ".into(), prmd: Some("Far".into()) };
    let recipient = Recipient {
        name: to.clone(),
        number: 1,
        indicators: RecipientIndicators::new(true, ReportRequest::NonDelivery),
        ..Recipient::default()
    };
    let envelope = TransferEnvelope {
        identifier: MtsIdentifier { domain: domain.clone(), local: format!("{number}").into() },
        originator: from,
        content_type: ContentType::P22,
        trace: vec![TraceElement { domain, ..TraceElement::default() }],
        recipients: vec![recipient],
        ..TransferEnvelope::default()
    };
    let addressee =
        OrDescriptor { formal_name: Some(to), free_form_name: Some(name), telephone: None };
    let heading = Heading {
        primary_recipients: vec![RecipientSpecifier {
            recipient: addressee,
            ..RecipientSpecifier::default()
        }],
        ..Heading::default()
    };
    let content = Content::Message(Box::new(Ipm { heading, body: vec![body] })).encode();
    [message_prefix(&envelope.encode(), content.len() as u64), content].concat()
}

#[test]
fn long_mail_is_converted_elsewhere_and_others_are_served_meanwhile() {
    play(|| async {
        let node = Node::start(&config(MAIL_LISTENER)).await;
        let hub = Hub::at(&node, |_| Answer::Take);
        let to = &["\"/S=bob/PRMD=Far/ADMD= /C=GB/\"@gw.test"];
        let mut client = Client::connect(&node, FRIEND).await;
        node.world.set_long_work_stands(true);
        assert!(client.send("a@far.test", to, &mail(LONG_BYTES)).await.starts_with("250 "));
        for _ in 0..3 {
            assert!(client.send("a@far.test", to, &mail(SHORT_BYTES)).await.starts_with("250 "));
        }
        node.wait_for("relayed", 3).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((hub.taken().len(), node.world.long_work_done()), (3, 0));
        node.world.set_long_work_stands(false);
        node.wait_for("relayed", 4).await;
        assert_eq!((hub.taken().len(), node.world.long_work_done()), (4, 1));
    });
}

#[test]
fn long_contents_and_names_of_x400_are_converted_elsewhere() {
    play(|| async {
        let node = Node::start(&config(P1_LISTENER)).await;
        let next = Peer::at(&node.world, "192.0.2.1:25");
        let mut caller = Caller::bound(&node).await;
        let text = |text: &'static [u8]| Bytes::from_static(text);
        let short = || BodyPart::Ia5 { repertoire: None, text: text(b"short") };
        let t61 = || Bytes::from(b"\xc8u".repeat(LONG_BYTES / 2));
        node.world.set_long_work_stands(true);
        let long = [
            (text(b"Bob"), BodyPart::Teletex(vec![t61()])),
            (t61(), short()),
            (text(b"Bob"), BodyPart::Bilateral(Bytes::from(vec![0; LONG_BYTES]))),
        ];
        let count = long.len();
        for (number, (name, body)) in long.into_iter().enumerate() {
            caller.transfer(&message(number, name, body)).await;
        }
        for number in count..count + 3 {
            caller.transfer(&message(number, text(b"Bob"), short())).await;
        }
        wait_until("short ones go out", || next.messages().len() == 3).await;
        assert_eq!(node.world.long_work_done(), 0);
        node.world.set_long_work_stands(false);
        wait_until("long ones follow", || next.messages().len() == 3 + count).await;
        assert_eq!(node.world.long_work_done(), count);
    });
}

/// How a hundred hosts behave.
#[derive(Clone, Copy, Debug)]
enum Hosts {
    /// They are silent at this step.
    Silent(&'static str),
    /// They take mail for a moment, and are silent at this step for another.
    Alternate(&'static str),
}

/// Interpersonal messages for new domains of a hundred zones, each with a host in a network of its own, again and again.
fn flood(node: &Rc<Node>, hosts: Hosts) {
    let peers: Vec<Peer> =
        (0..100).map(|n| Peer::at(&node.world, &format!("[{}]:25", network(n)))).collect();
    let node = Rc::clone(node);
    tokio::task::spawn_local(async move {
        let mut caller = Caller::bound(&node).await;
        for number in (0..).step_by(100) {
            let (Hosts::Silent(step) | Hosts::Alternate(step)) = hosts;
            let is_well = matches!(hosts, Hosts::Alternate(_)) && number % 200 == 0;
            for (n, peer) in peers.iter().enumerate() {
                match is_well {
                    true => peer.heal(),
                    false => _ = peer.always(step, "silence"),
                }
                let domain = format!("d{number}.evil{n}.test");
                set_host(&node, &domain, network(n as u16));
                let name = Bytes::from_static(b"Bob");
                caller.transfer(&message_to(&domain, 1_000 + number + n, name, text())).await;
            }
            sleep(Duration::from_secs(1)).await;
            if node.is_quiet() {
                return;
            }
        }
    });
}

/// Of which eleven are converted at once.
fn text() -> BodyPart {
    BodyPart::Ia5 { repertoire: None, text: Bytes::from(vec![b'x'; 4_000]) }
}

#[test]
fn domains_that_nobody_knows_find_memory_for_conversions_beside_a_hundred_zones_of_silent_hosts() {
    let silent = ["MAIL", "DATA", "content"].map(Hosts::Silent);
    for hosts in silent.into_iter().chain([Hosts::Alternate("MAIL")]) {
        play(|| async {
            let spool = "[spool]\nbody_memory_bytes = \"1MiB\"\n[retry]\njitter = 0\n";
            let text_of = format!("{}[[route]]\nmx = {{}}\n{spool}", config(P1_LISTENER));
            let node = Rc::new(Node::start(&text_of).await);
            // No content goes out unread.
            node.world.set_pipe_bytes(1_024);
            let good = Peer::at(&node.world, "192.0.2.7:25");
            flood(&node, hosts);
            // Each host was silent once by then.
            sleep(Duration::from_secs(8)).await;
            let mut caller = Caller::bound(&node).await;
            let mut longest = Duration::ZERO;
            let shown = hundred_soon(&node, "conversion_memory", SOON, async |n| {
                let domain = format!("good{n}.test");
                set_host(&node, &domain, [192, 0, 2, 7].into());
                let name = Bytes::from_static(b"Bob");
                let begun = node.age();
                caller.transfer(&message_to(&domain, usize::from(n), name, text())).await;
                wait_until("it is taken", || good.contents() > usize::from(n)).await;
                longest = longest.max(node.age() - begun);
            })
            .await;
            // Nothing is held while the last 64 KiB are written, and little by hosts that take mail now and then.
            let is_pressed = matches!(hosts, Hosts::Silent("MAIL" | "DATA"));
            assert!(shown >= 95 || !is_pressed, "{hosts:?}: it was shown {shown} times");
            // Of the five that may be late none waits for long.
            assert!(longest < Duration::from_secs(5), "{hosts:?}: {longest:?}");
            node.be_quiet();
        });
    }
}

#[test]
fn a_conversion_that_is_let_go_is_made_again_and_comes_to_the_same() {
    play(|| async {
        let spool = "[spool]\nbody_memory_bytes = \"1MiB\"\n[retry]\njitter = 0\n";
        let routes = "[[route]]\nmx = {}\n";
        let node = Node::start(&format!("{}{routes}{spool}", config(P1_LISTENER))).await;
        node.world.set_pipe_bytes(1_024);
        let mut peers = Vec::new();
        let mut caller = Caller::bound(&node).await;
        // Two for each: one alone, and one beside those of others.
        for round in 0..2 {
            for n in 0..40 {
                // Nothing is known of it, however well the other did.
                let domain = format!("slow{round}-{n}.test");
                set_host(&node, &domain, network(n));
                if round == 0 {
                    peers.push(Peer::at(&node.world, &format!("[{}]:25", network(n))));
                } else {
                    peers[usize::from(n)].always("DATA", "late 354 go on");
                }
                let body = format!("{n} {}", "0123456789\r\n".repeat(2_000));
                let body = BodyPart::Ia5 { repertoire: None, text: Bytes::from(body) };
                let (number, name) = (usize::from(n), Bytes::from_static(b"Bob"));
                caller.transfer(&message_to(&domain, number, name, body)).await;
                if round == 0 {
                    node.wait_for("relayed", number + 1).await;
                }
            }
        }
        node.wait_for("relayed", 80).await;
        assert!(node.metrics.conversions_again.get() > 10, "some were let go");
        for peer in peers {
            let [alone, beside] = &peer.messages()[..] else { panic!("two for each") };
            let body = |sent: &Sent| sent.content.split_once("\r\n\r\n").unwrap().1.to_owned();
            assert_eq!(body(alone), body(beside));
        }
    });
}
