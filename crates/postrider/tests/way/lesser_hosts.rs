//! What one host lacks is no verdict on a message while another may have it, whether the host's offers show it, or
//! its words; when all lack it, that is final at once.

use super::client::{Client, FRIEND};
use super::node::{Node, config, play};
use super::peer::Peer;
use mta::seams::Mx;
use std::time::Duration;

const ONE: &str = "192.0.2.1";
const TWO: &str = "192.0.2.2";

const ALL: [&str; 4] = ["SIZE 0", "SMTPUTF8", "8BITMIME", "REQUIRETLS"];

const SIGNED: &str = "MIME-Version: 1.0\r\nContent-Type: multipart/signed; boundary=b\r\n\r\n\
                      --b\r\n\r\n\u{e9}\r\n--b--\r\n";

/// How a host shows that it can't take the message.
#[derive(Clone, Copy, Debug)]
enum Lack {
    /// It does not offer this.
    Offer(&'static str),
    /// It says so, at this step.
    Word(&'static str, &'static str),
}

const LACKS: [(Lack, &str); 14] = [
    (Lack::Offer("SIZE 0"), "5.3.4"),
    (Lack::Offer("SMTPUTF8"), "5.6.7"),
    (Lack::Offer("8BITMIME"), "5.6.3"),
    (Lack::Offer("REQUIRETLS"), "5.7.30"),
    (Lack::Word("MAIL", "552 5.3.4 larger than I take"), "5.3.4"),
    (Lack::Word("MAIL", "552 larger than I take"), "5.0.0"),
    (Lack::Word("MAIL", "550 5.6.7 no such senders"), "5.6.7"),
    (Lack::Word("MAIL", "550 5.7.30 no REQUIRETLS"), "5.7.30"),
    (Lack::Word("MAIL", "555 5.5.4 what is this parameter?"), "5.5.4"),
    (Lack::Word("RCPT", "552 5.3.4 larger than this one takes"), "5.3.4"),
    (Lack::Word("RCPT", "553 5.6.7 no such recipients"), "5.6.7"),
    (Lack::Word("DATA", "554 5.6.3 no 8-bit here"), "5.6.3"),
    (Lack::Word(".", "552 5.3.4 larger than I take"), "5.3.4"),
    (Lack::Word(".", "554 5.6.9 no such header"), "5.6.9"),
];

impl Lack {
    /// What is told while the other host is away: whoever asks for REQUIRETLS gets no session that has none.
    fn put_off(self) -> &'static str {
        match self {
            Lack::Offer("REQUIRETLS") => "suspended",
            _ => "deferred",
        }
    }

    fn show(self, peer: &Peer) {
        let mut ehlo = "250-peer.test\r\n250-STARTTLS\r\n".to_owned();
        for offer in ALL.iter().filter(|offer| !matches!(self, Lack::Offer(it) if it == **offer)) {
            ehlo += &format!("250-{offer}\r\n");
        }
        if matches!(self, Lack::Offer("SIZE 0")) {
            ehlo += "250-SIZE 50\r\n";
        }
        peer.always("EHLO", &(ehlo + "250 ENHANCEDSTATUSCODES"));
        if let Lack::Word(verb, reply) = self {
            peer.always(verb, reply);
        }
    }
}

/// A peer that takes anything.
fn shows_all(peer: &Peer) {
    Lack::Offer("nothing").show(peer);
}

/// By an `mx` route, or with the hosts that the file names.
async fn started(hosts: &[&str], by_mx: bool) -> Node {
    started_with(hosts, by_mx, "first = \"1m\"").await
}

async fn started_with(hosts: &[&str], by_mx: bool, retry: &str) -> Node {
    let certificate =
        "[[certificate]]\nnames = [\"relay.test\"]\nchain = \"c.pem\"\nkey = \"c.key\"\n";
    let retry = format!("[retry]\njitter = 0\n{retry}\n{certificate}");
    let route = match by_mx {
        true => "mx = {}".to_owned(),
        false => {
            let hosts: Vec<String> = hosts.iter().map(|host| format!("\"{host}:25\"")).collect();
            format!("smtp = {{ hosts = [{}], balance = \"failover\" }}", hosts.join(", "))
        }
    };
    let node = Node::start(&config(&format!("{retry}[[route]]\n{route}\n"))).await;
    node.world.speak_tls();
    let mut mx = Vec::new();
    for (n, ip) in (1_u16..).zip(hosts) {
        let host = format!("mx{n}.far.test");
        node.world.set_addresses(&host, Ok(vec![ip.parse().expect("an address")]));
        mx.push(Mx { preference: n * 10, host });
    }
    node.world.set_mx("far.test", Ok(mx));
    node
}

/// A message that needs all that hosts may lack.
async fn submit(node: &Node, lack: Lack) {
    let mut client = Client::connect(node, FRIEND).await;
    client.say("STARTTLS").await;
    client.say("EHLO client.test").await;
    let mut sender = "MAIL FROM:<me@source.test> BODY=8BITMIME".to_owned();
    match lack {
        Lack::Offer("REQUIRETLS") => sender += " REQUIRETLS",
        Lack::Offer("SMTPUTF8") => sender = "MAIL FROM:<m\u{e9}@source.test> SMTPUTF8".into(),
        _ => {}
    }
    for command in [&*sender, "RCPT TO:<u@far.test>"] {
        let reply = client.say(command).await;
        assert!(reply.starts_with("250"), "{reply}");
    }
    let reply = client.content(SIGNED).await;
    assert!(reply.starts_with("250"), "{reply}");
}

fn at(node: &Node, ip: &str) -> Peer {
    Peer::at(&node.world, &format!("{ip}:25"))
}

async fn check(lack: Lack, status: &str, by_mx: bool) {
    let case = format!("{lack:?} by_mx={by_mx}");
    // The first lacks it: the other is asked at once.
    let node = started(&[ONE, TWO], by_mx).await;
    let (one, two) = (at(&node, ONE), at(&node, TWO));
    lack.show(&one);
    shows_all(&two);
    submit(&node, lack).await;
    node.wait_for("relayed", 1).await;
    assert_eq!((node.count("deferred"), two.messages().len()), (0, 1), "{case}");
    assert_eq!(node.count("suspended"), 0, "{case}");
    // The backup lacks it, while the first is away.
    let node = started(&[ONE, TWO], by_mx).await;
    let two = at(&node, TWO);
    lack.show(&two);
    submit(&node, lack).await;
    node.wait_for(lack.put_off(), 1).await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(node.count("failed"), 0, "{case}: {:?}", node.of("failed"));
    let one = at(&node, ONE);
    shows_all(&one);
    node.wait_for("relayed", 1).await;
    assert_eq!(one.messages().len(), 1, "{case}");
    assert!(one.connections() < 3, "{case}: {}", one.connections());
    back_within_seconds(lack, &case, by_mx).await;
    // All lack it, or there is one only.
    for hosts in [&[ONE, TWO][..], &[ONE]] {
        let node = started(hosts, by_mx).await;
        for host in hosts {
            lack.show(&at(&node, host));
        }
        submit(&node, lack).await;
        node.wait_for("failed", 1).await;
        let failed = node.of("failed").remove(0);
        assert_eq!(failed["status"], status, "{case}: {failed}");
        assert_eq!(node.count("deferred"), 0, "{case}: {:?}", node.of("deferred"));
    }
}

/// The first is back before it would be tried again for the sake of other mail.
async fn back_within_seconds(lack: Lack, case: &str, by_mx: bool) {
    let node = started_with(&[ONE, TWO], by_mx, "first = \"1s\"\nlongest = \"2s\"").await;
    let two = at(&node, TWO);
    lack.show(&two);
    submit(&node, lack).await;
    node.wait_for(lack.put_off(), 1).await;
    let one = at(&node, ONE);
    shows_all(&one);
    let before = node.age();
    node.wait_for("relayed", 1).await;
    assert!(node.age() - before < Duration::from_secs(10), "{case}: {:?}", node.age() - before);
    assert_eq!(one.messages().len(), 1, "{case}");
}

#[test]
fn what_one_host_lacks_another_is_asked_for_and_what_all_lack_is_final() {
    for (lack, status) in LACKS {
        for by_mx in [true, false] {
            // Who vouches for MX hosts is the affair of DNSSEC and MTA-STS, which are not here.
            if by_mx && matches!(lack, Lack::Offer("REQUIRETLS")) {
                continue;
            }
            play(|| check(lack, status, by_mx));
        }
    }
}

#[test]
fn hosts_that_lack_different_things_can_none_of_them_have_a_message_that_needs_both() {
    play(|| async {
        let node = started(&[ONE, TWO], true).await;
        let (one, two) = (at(&node, ONE), at(&node, TWO));
        Lack::Offer("SIZE 0").show(&one);
        Lack::Word("MAIL", "550 5.6.7 no such senders").show(&two);
        submit(&node, Lack::Offer("nothing")).await;
        node.wait_for("failed", 1).await;
        assert_eq!(node.count("deferred"), 0);
    });
}

#[test]
fn a_session_without_ehlo_gives_no_verdict_and_the_next_one_is_asked() {
    play(|| async {
        for refusal in ["550 5.1.1 who?", "550 5.7.1 not you", "553 5.6.7 no", "555 what?"] {
            let node = started(&[ONE, TWO], true).await;
            let (one, two) = (at(&node, ONE), at(&node, TWO));
            one.once("EHLO", "500 what?").once("MAIL", refusal);
            two.always("CONNECT", "421 later");
            submit(&node, Lack::Offer("nothing")).await;
            shows_all(&two);
            node.wait_for("deferred", 1).await;
            one.heal();
            shows_all(&one);
            node.wait_for("relayed", 1).await;
            assert_eq!(node.count("failed"), 0, "{refusal}");
        }
    });
}
