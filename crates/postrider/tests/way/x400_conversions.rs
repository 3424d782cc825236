//! Conversions between X.400 and internet mail: the shard makes those that are short; others wait for what is long no more
//! than its memory asks for.

use super::client::{Client, FRIEND};
use super::node::{Node, play, wait_until};
use super::outbound_pools::{network, set_host};
use super::peer::Peer;
use super::pools::{SOON, hundred};
use super::x400::{Answer, Caller, Hub};
use bytes::Bytes;
use mta::delivery::CONVERTED_HERE_MAX;
use std::time::Duration;
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
const OTHERS: &str = r#"
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
max_associations = 4
[[route]]
domains = ["gw.test"]
x400 = { peer = "hub" }
[[route]]
domains = ["far.test"]
smtp = { hosts = ["192.0.2.1:25"] }
"#;

/// Clients come to `listener`.
fn config(listener: &str) -> String {
    format!("hostname = \"relay.test\"\n{listener}{OTHERS}")
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
    let to: OrName = OrAddress::parse(&to).expect("an address").into();
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

#[test]
fn silent_hosts_of_a_hundred_domains_leave_memory_for_conversions_to_others() {
    play(|| async {
        // An eighth of it is for conversions: eleven such messages as they come.
        let spool = "[spool]\nbody_memory_bytes = \"1MiB\"\n[retry]\njitter = 0\n";
        let text = format!("{}[[route]]\nmx = {{}}\n{spool}", config(P1_LISTENER));
        let node = Node::start(&text).await;
        let _peer = Peer::at(&node.world, "192.0.2.1:25");
        let body = || BodyPart::Ia5 { repertoire: None, text: Bytes::from(vec![b'x'; 4_000]) };
        let mut caller = Caller::bound(&node).await;
        for n in 0..100 {
            Peer::at(&node.world, &format!("[{}]:25", network(n))).always("MAIL", "silence");
            let domain = format!("evil{n}.test");
            set_host(&node, &domain, network(n));
            let name = Bytes::from_static(b"Bob");
            caller.transfer(&message_to(&domain, usize::from(n), name, body())).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        hundred(&node, "conversion_memory", SOON, async |n| {
            let number = 100 + usize::from(n);
            caller.transfer(&message(number, Bytes::from_static(b"Bob"), body())).await;
            node.wait_for("relayed", usize::from(n) + 1).await;
        })
        .await;
    });
}
