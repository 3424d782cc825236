//! What a stranger's message needs, and the hosts of its recipients have, have not, or may have: nothing is accepted
//! that is known to come back to whoever the stranger says it is.

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, config, play};
use super::peer::{Peer, Sent};
use std::time::Duration;

const CERTIFICATE: &str =
    "[[certificate]]\nnames = [\"relay.test\"]\nchain = \"c.pem\"\nkey = \"c.key\"\n";
const HOP: &str = "[[route]]\ndomains = [\"hop.test\"]\nsmtp = { hosts = [\"192.0.2.1:25\"], idle_timeout = \"1s\" }\n";
const BOX: &str = "[[table]]\nname = \"aliases\"\ninline = {}\n\
                   [[route]]\ndomains = [\"box.test\"]\naliases = { table = \"aliases\" }\n\
                   maildir = { path = \"/mail/{local}\" }\n";

/// 8-bit within a signature, which can't be encoded.
const SIGNED: &str = "MIME-Version: 1.0\r\nContent-Type: multipart/signed; boundary=b\r\n\r\n\
                      --b\r\n\r\n\u{e9}\r\n--b--\r\n";
const PLAIN: &str = "Subject: one\r\n\r\nbody\r\n";

/// What one message needs of a host.
#[derive(Clone, Copy, Debug)]
struct Want {
    mail: &'static str,
    /// Local part of the recipient.
    to: &'static str,
    content: &'static str,
    /// More octets of content.
    bytes: usize,
    /// What a host must say to EHLO to have it.
    offer: &'static str,
    /// How it is refused, and whether that is before the content.
    refusal: &'static str,
    at_rcpt: bool,
}

const WANTS: [Want; 10] = [
    Want {
        mail: "<me@source.test> REQUIRETLS",
        offer: "REQUIRETLS",
        refusal: "550 5.7.30",
        ..USUAL
    },
    Want { mail: "<m\u{e9}@source.test> SMTPUTF8", offer: "SMTPUTF8", ..USUAL },
    Want { mail: "<me@source.test> SMTPUTF8", to: "\u{fc}", offer: "SMTPUTF8", ..USUAL },
    Want { mail: "<> SMTPUTF8", to: "\u{fc}", offer: "SMTPUTF8", ..USUAL },
    // Several at once.
    Want {
        mail: "<me@source.test> SMTPUTF8 REQUIRETLS",
        to: "\u{fc}",
        offer: "REQUIRETLS",
        refusal: "550 5.7.30",
        ..USUAL
    },
    Want { mail: "<me@source.test> SMTPUTF8 REQUIRETLS", to: "\u{fc}", offer: "SMTPUTF8", ..USUAL },
    Want {
        mail: "<me@source.test> SMTPUTF8 BODY=8BITMIME",
        content: "Subject: \u{fc}\r\n\r\nbody\r\n",
        offer: "SMTPUTF8",
        refusal: "554 5.6.7",
        at_rcpt: false,
        ..USUAL
    },
    Want {
        mail: "<me@source.test> BODY=8BITMIME",
        content: SIGNED,
        offer: "8BITMIME",
        refusal: "554 5.6.3",
        at_rcpt: false,
        ..USUAL
    },
    Want {
        mail: "<me@source.test> SIZE=30000",
        bytes: 29_000,
        offer: "SIZE 0",
        refusal: "552 5.3.4",
        ..USUAL
    },
    Want { bytes: 29_000, offer: "SIZE 0", refusal: "552 5.3.4", at_rcpt: false, ..USUAL },
];

const USUAL: Want = Want {
    mail: "<me@source.test>",
    to: "u",
    content: PLAIN,
    bytes: 0,
    offer: "",
    refusal: "553 5.6.7",
    at_rcpt: true,
};

/// A reply to EHLO with all that there is, but for what such a message needs.
fn ehlo(lacking: Option<&Want>) -> String {
    let all = ["REQUIRETLS", "SMTPUTF8", "8BITMIME", "SIZE 0"];
    let mut text = "250-peer.test\r\n250-STARTTLS\r\n".to_owned();
    for offer in all.into_iter().filter(|offer| lacking.is_none_or(|want| want.offer != *offer)) {
        text += &format!("250-{offer}\r\n");
    }
    if lacking.is_some_and(|want| want.offer == "SIZE 0") {
        text += "250-SIZE 9000\r\n";
    }
    text + "250 PIPELINING"
}

async fn started(text: &str) -> (Node, Peer) {
    let node = Node::start(&config(&format!("{CERTIFICATE}{text}"))).await;
    node.world.speak_tls();
    let peer = Peer::at(&node.world, "192.0.2.1:25");
    (node, peer)
}

/// Has the host of hop.test shown what it offers.
async fn learn(node: &Node) {
    let before = node.count("relayed");
    let mut client = Client::connect(node, FRIEND).await;
    let reply = client.send("me@source.test", &["first@hop.test"], PLAIN).await;
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for("relayed", before + 1).await;
    // Its connection is idle no longer.
    tokio::time::sleep(Duration::from_secs(5)).await;
}

/// A session over TLS, and what is offered in it.
async fn encrypted(node: &Node) -> (Client, String) {
    let mut client = Client::connect(node, STRANGER).await;
    let reply = client.say("STARTTLS").await;
    assert!(reply.starts_with("220"), "{reply}");
    let offered = client.say("EHLO client.test").await;
    (client, offered)
}

/// The replies to MAIL, RCPT and the content, as far as it comes.
async fn send(node: &Node, want: &Want, domain: &str) -> Vec<String> {
    let (mut client, _) = encrypted(node).await;
    let mut replies = vec![client.say(&format!("MAIL FROM:{}", want.mail)).await];
    let rcpt = format!("RCPT TO:<{}@{domain}>", want.to);
    for command in [&*rcpt, "DATA"] {
        if replies.last().is_some_and(|reply| reply.starts_with('2')) {
            replies.push(client.say(command).await);
        }
    }
    if replies.last().is_some_and(|reply| reply.starts_with("354")) {
        let more = "x".repeat(70) + "\r\n";
        let content = want.content.to_owned() + &more.repeat(want.bytes / more.len());
        client.write(&content).await;
        *replies.last_mut().expect("a reply") = client.say(".").await;
    }
    replies
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    Lacking,
    Having,
    Not,
}

async fn check(want: &Want, known: Known, to: &str) {
    let (node, peer) = started(&format!("{HOP}{BOX}")).await;
    let lacks = known != Known::Having;
    peer.always("EHLO", &ehlo(lacks.then_some(want)));
    if known != Known::Not {
        learn(&node).await;
    }
    let relayed = node.count("relayed");
    let domain = match to {
        "alias" => {
            let (of, leads_to) = (format!("{}@box.test", want.to), format!("{}@hop.test", want.to));
            node.world.set_entry("aliases", &of, Ok(&leads_to));
            "box.test"
        }
        "mailbox" => "box.test",
        _ => "hop.test",
    };
    let replies = send(&node, want, domain).await;
    let last = replies.last().expect("a reply");
    if known == Known::Lacking && to != "mailbox" {
        assert!(last.starts_with(want.refusal), "{want:?} {to}: {replies:?}");
        assert_eq!(replies.len(), if want.at_rcpt { 2 } else { 3 }, "{want:?} {to}: {replies:?}");
        assert_eq!(node.count("refused"), 1, "{want:?} {to}");
    } else {
        assert!(last.starts_with("250 2.0.0"), "{want:?} {known:?} {to}: {replies:?}");
        match (to, lacks) {
            ("mailbox", _) => node.wait_for("delivered", 1).await,
            (_, false) => node.wait_for("relayed", relayed + 1).await,
            (_, true) => node.wait_for("failed", 1).await,
        }
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        node.count("dsn_queued"),
        0,
        "{want:?} {known:?} {to}: nothing goes to a stranger's victim"
    );
}

#[test]
fn what_is_known_not_to_be_had_is_refused_before_it_is_accepted() {
    for want in &WANTS {
        for known in [Known::Lacking, Known::Having, Known::Not] {
            for to in ["mailbox", "hop", "alias"] {
                play(|| check(want, known, to));
            }
        }
    }
}

#[test]
fn what_no_route_has_is_refused_at_mail_and_not_offered() {
    let far = "[[route]]\nmx = {}\n";
    for (more, is_offered) in [("", false), (far, false), (BOX, true)] {
        play(|| async {
            let (node, peer) = started(&format!("{HOP}{more}")).await;
            peer.always("EHLO", "250-peer.test\r\n250 SIZE 9000");
            let (mut client, offered) = encrypted(&node).await;
            assert!(offered.contains("REQUIRETLS"), "nothing is known: {offered}");
            learn(&node).await;
            for want in WANTS.iter().filter(|want| want.at_rcpt && want.to == "u") {
                let reply = client.say(&format!("MAIL FROM:{}", want.mail)).await;
                let expected = if is_offered { "250" } else { want.refusal };
                assert!(reply.starts_with(expected), "{more} {want:?}: {reply}");
                client.say("RSET").await;
            }
            let (_, offered) = encrypted(&node).await;
            assert_eq!(offered.contains("REQUIRETLS"), is_offered, "{more}");
            // Whoever may send to anybody may send by MX, and gets its reports.
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            let (_, offered) = encrypted(&node).await;
            assert!(offered.contains("REQUIRETLS"), "what was known is long ago: {more}");
        });
    }
}

#[test]
fn one_message_in_vain_shows_the_others_what_a_host_lacks() {
    for ehlo in ["250-peer.test\r\n250 SMTPUTF8", "250-peer.test\r\n250-SMTPUTF8\r\n250 STARTTLS"] {
        play(|| async {
            let (node, peer) = started(&format!("{HOP}{BOX}")).await;
            peer.always("EHLO", ehlo);
            let replies = send(&node, &WANTS[0], "hop.test").await;
            assert!(replies.last().is_some_and(|it| it.starts_with("250 2.0.0")), "{replies:?}");
            node.wait_for("failed", 1).await;
            let replies = send(&node, &WANTS[0], "hop.test").await;
            assert!(replies.last().is_some_and(|it| it.starts_with("550 5.7.30")), "{replies:?}");
            assert_eq!(node.count("dsn_queued"), 0);
        });
    }
}

#[test]
fn what_stands_for_an_address_counts_and_not_the_address() {
    play(|| async {
        let (node, peer) = started(&format!("{HOP}{BOX}")).await;
        peer.always("EHLO", "250-peer.test\r\n250 8BITMIME");
        learn(&node).await;
        let alias = |of: &str, to: &str| node.world.set_entry("aliases", of, Ok(to));
        alias("\u{fc}@box.test", "u@hop.test");
        alias("all@box.test", "jo@box.test, \u{fc}@hop.test");
        alias("list@box.test", "jo@box.test, \u{fc}@hop.test");
        alias("owner-list@box.test", "jo@box.test");
        let utf8 = Want { mail: "<me@source.test> SMTPUTF8", ..USUAL };
        for (to, reply) in [
            ("\u{fc}", "250 2.0.0"),
            ("all", "553 5.6.7"),
            // Its owner gets the report.
            ("list", "250 2.0.0"),
        ] {
            let replies = send(&node, &Want { to, ..utf8 }, "box.test").await;
            assert!(replies.last().is_some_and(|it| it.starts_with(reply)), "{to}: {replies:?}");
        }
    });
}

#[test]
fn eight_bit_that_can_be_sent_all_the_same_is_taken() {
    for (eight_bit, content, reply) in [
        ("encode", "Subject: one\r\n\r\n\u{e9}\r\n", "250 2.0.0"),
        ("encode", "Subject: \u{fc}\r\n\r\nbody\r\n", "250 2.0.0"),
        ("encode", SIGNED, "554 5.6.3"),
        ("fail", "Subject: one\r\n\r\n\u{e9}\r\n", "554 5.6.3"),
        ("as_is", SIGNED, "250 2.0.0"),
    ] {
        play(|| async {
            let key = format!("eight_bit = \"{eight_bit}\", idle_timeout");
            let (node, peer) = started(&HOP.replace("idle_timeout", &key)).await;
            peer.always("EHLO", "250-peer.test\r\n250 SMTPUTF8");
            learn(&node).await;
            let want = Want { mail: "<me@source.test> BODY=8BITMIME", content, ..USUAL };
            let replies = send(&node, &want, "hop.test").await;
            assert!(
                replies.last().is_some_and(|it| it.starts_with(reply)),
                "{eight_bit}: {replies:?}"
            );
            if reply.starts_with("250") {
                node.wait_for("relayed", 2).await;
            }
            // A report goes as it is, where that is not forbidden.
            let replies = send(&node, &Want { mail: "<> BODY=8BITMIME", ..want }, "hop.test").await;
            let is_taken = replies.last().is_some_and(|it| it.starts_with("250 2.0.0"));
            assert_eq!(is_taken, eight_bit != "fail", "{eight_bit}: {replies:?}");
        });
    }
}

#[test]
fn hosts_that_lack_different_things_lack_a_message_that_needs_both() {
    play(|| async {
        let hop = HOP.replace("192.0.2.1:25\"", "192.0.2.1:25\", \"192.0.2.2:25\"");
        let (node, one) = started(&hop).await;
        let two = Peer::at(&node.world, "192.0.2.2:25");
        one.always("EHLO", "250-peer.test\r\n250 SMTPUTF8").always("CONNECT", "421 later");
        two.always("EHLO", "250-peer.test\r\n250 REQUIRETLS");
        learn(&node).await;
        one.heal();
        one.always("EHLO", "250-peer.test\r\n250 SMTPUTF8");
        two.always("CONNECT", "421 later");
        tokio::time::sleep(Duration::from_secs(600)).await;
        learn(&node).await;
        let both = Want { mail: "<m\u{e9}@source.test> SMTPUTF8 REQUIRETLS", ..USUAL };
        let replies = send(&node, &both, "hop.test").await;
        assert!(replies[0].starts_with('5'), "{replies:?}");
        let one_of_them = Want { mail: "<m\u{e9}@source.test> SMTPUTF8", ..USUAL };
        let replies = send(&node, &one_of_them, "hop.test").await;
        assert!(replies.last().is_some_and(|it| it.starts_with("250 2.0.0")), "{replies:?}");
    });
}

/// What is sent back about a message that asks for much, to a sender whose host offers this: it asks for no more than it
/// needs itself.
async fn report(mail: &str, to: &str, offers: &str) -> Option<Sent> {
    let back = "[[route]]\ndomains = [\"source.test\"]\nsmtp = { hosts = [\"192.0.2.3:25\"] }\n";
    let (node, peer) = started(&format!("{HOP}{back}")).await;
    peer.always("EHLO", "250-peer.test\r\n250-STARTTLS\r\n250 SIZE 0");
    let source = Peer::at(&node.world, "192.0.2.3:25");
    source.always("EHLO", &format!("250-peer.test\r\n250-STARTTLS{offers}\r\n250 SIZE 0"));
    let mut client = Client::connect(&node, FRIEND).await;
    client.say("STARTTLS").await;
    client.say("EHLO client.test").await;
    for command in
        [format!("MAIL FROM:{mail} RET=FULL"), format!("RCPT TO:<{to}@hop.test> NOTIFY=FAILURE")]
    {
        let reply = client.say(&command).await;
        assert!(reply.starts_with("250"), "{command}: {reply}");
    }
    let reply = client.content("Subject: secret\r\n\r\nthe body\r\n").await;
    assert!(reply.starts_with("250 2.0.0"), "{reply}");
    node.wait_for("failed", 1).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(node.count("dsn_queued") == 1, "{mail} {to} {offers}");
    source.messages().pop()
}

#[test]
fn reports_about_what_a_host_lacks_ask_their_own_way_for_no_more_than_they_need() {
    let (me, umlaut) = ("<me@source.test>", "<m\u{e9}@source.test>");
    let (none, utf8, tls) = ("", "\r\n250-SMTPUTF8", "\r\n250-REQUIRETLS");
    let both = "\r\n250-SMTPUTF8\r\n250-REQUIRETLS";
    for (mail, to, offers, asks) in [
        // A recipient that needs it is within a part, which is encoded.
        (format!("{me} SMTPUTF8"), "\u{fc}", none, Some("")),
        (format!("{me} SMTPUTF8"), "\u{fc}", utf8, Some("")),
        (format!("{me} SMTPUTF8 REQUIRETLS"), "\u{fc}", utf8, Some("")),
        (format!("{me} SMTPUTF8 REQUIRETLS"), "\u{fc}", none, Some("")),
        (format!("{me} REQUIRETLS"), "u", none, Some("")),
        (format!("{me} REQUIRETLS"), "u", tls, Some("")),
        (format!("{umlaut} SMTPUTF8"), "u", utf8, Some("SMTPUTF8")),
        (format!("{umlaut} SMTPUTF8 REQUIRETLS"), "u", both, Some("SMTPUTF8")),
        // Nobody can be told.
        (format!("{umlaut} SMTPUTF8"), "u", none, None),
    ] {
        play(|| async move {
            let sent = report(&mail, to, offers).await;
            let said = sent.as_ref().map(|sent| sent.said.as_str());
            assert_eq!(said.is_some(), asks.is_some(), "{mail} {to} {offers}: {said:?}");
            let Some(sent) = sent else { return };
            assert!(sent.said.starts_with("MAIL FROM:<>"), "{}", sent.said);
            let asked = sent.said.contains("SMTPUTF8");
            assert_eq!(asked, asks == Some("SMTPUTF8"), "{mail} {to} {offers}: {}", sent.said);
            assert_eq!(sent.content.is_ascii(), !asked, "{mail} {to} {offers}: {}", sent.content);
            // RFC 8689 §5: what asked for TLS goes back without its body.
            let is_whole = sent.content.contains("the body");
            assert_eq!(is_whole, !mail.contains("REQUIRETLS"), "{mail}: {}", sent.content);
        });
    }
}
