//! Who a client is: announced by others, with a PROXY header or XCLIENT, or called by the DNS.

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, play, wait_until};
use mta::ingress::PROXY_HEADER_TIME_MAX;
use mta::seams::DnsError;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;

/// Passes connections on.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const CONTENT: &str = "Subject: one\r\n\r\nbody\r\n";

/// A listener that believes [`PROXY`], and lets [`FRIEND`] relay.
async fn node(keys: &str) -> Node {
    Node::start(&format!(
        "hostname = \"relay.test\"\n\
         [[listener]]\nname = \"in\"\naddress = \"192.0.2.250:25\"\n\
         relay_from = [\"198.51.100.0/24\"]\n{keys}\n\
         [[route]]\ndomains = [\"ours.test\"]\nmaildir = {{ path = \"/mail/{{local}}\" }}\n\
         [[route]]\nsmtp = {{ hosts = [\"192.0.2.1:25\"] }}\n"
    ))
    .await
}

const PROXIED: &str = "proxy_protocol_from = [\"10.0.0.0/8\"]";
const BELIEVED: &str = "xclient_from = [\"10.0.0.0/8\"]";

/// A connection that the proxy passes on.
async fn passed_on(node: &Node, header: &str) -> Client {
    let mut client = Client::open(node, PROXY);
    client.write(header).await;
    client
}

fn of(client: IpAddr) -> String {
    format!("PROXY TCP4 {client} 192.0.2.250 4711 25\r\n")
}

/// The proxy's own session, in which it may speak for others.
async fn believed(node: &Node) -> Client {
    Client::connect(node, PROXY).await
}

#[test]
fn whose_connection_a_proxy_passes_on_is_the_client_everywhere() {
    play(|| async {
        let node = node(PROXIED).await;
        let mut client = passed_on(&node, &of(FRIEND)).await;
        assert_eq!(client.reply().await, "220 relay.test ESMTP Postrider");
        client.say("EHLO friend.test").await;
        let reply = client.send("me@source.test", &["you@ours.test"], CONTENT).await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
        let reply = client.say("MAIL FROM:<me@source.test>").await;
        assert!(reply.starts_with("250"), "{reply}");
        let reply = client.say("RCPT TO:<you@elsewhere.test>").await;
        assert!(reply.starts_with("250"), "it may relay: {reply}");
        let events = node.events(&["client", "client_port", "proxy"]);
        assert_eq!(events[0], "received client=198.51.100.7 client_port=4711 proxy=10.0.0.2");
        let stored = node.world.mailboxes().into_values().flatten().next().expect("a message");
        assert!(stored.contains("from friend.test ([198.51.100.7])"), "{stored}");
        let mut client = passed_on(&node, &of(STRANGER)).await;
        let before = node.age();
        client.reply().await;
        assert!(node.age() > before, "it waits for its greeting");
        client.say("EHLO stranger.test").await;
        client.say("MAIL FROM:<me@source.test>").await;
        let reply = client.say("RCPT TO:<you@elsewhere.test>").await;
        assert_eq!(reply, "550 5.7.1 Relay access denied");
    });
}

#[test]
fn limits_are_those_of_the_client_behind_the_proxy() {
    play(|| async {
        let node = node(&format!("{PROXIED}\nmax_sessions_per_address = 1")).await;
        let host = |last| IpAddr::V4(Ipv4Addr::new(203, 0, 113, last));
        let mut open = Vec::new();
        for last in 1..=5 {
            let mut client = passed_on(&node, &of(host(last))).await;
            assert!(client.reply().await.starts_with("220 "));
            open.push(client);
        }
        let full = "421 4.7.0 relay.test Too many sessions from your address";
        let mut again = passed_on(&node, &of(host(3))).await;
        assert_eq!(again.reply().await, full);
        open.remove(2).say("QUIT").await;
        let mut free = passed_on(&node, &of(host(3))).await;
        assert!(free.reply().await.starts_with("220 "));
    });
}

#[test]
fn a_proxy_that_speaks_for_itself_is_itself() {
    play(|| async {
        let node = node(&format!("{PROXIED}\ngreeting_delay = \"0s\"")).await;
        for header in ["PROXY UNKNOWN\r\n", "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
            let mut client = passed_on(&node, header).await;
            assert!(client.reply().await.starts_with("220 "), "{header:?}");
            client.say("EHLO proxy.test").await;
            client.say("MAIL FROM:<me@source.test>").await;
            client.say("RCPT TO:<you@elsewhere.test>").await;
        }
        let refused = "refused client=10.0.0.2";
        assert_eq!(node.events(&["client", "proxy"]), [refused, refused]);
    });
}

#[test]
fn a_header_that_is_none_or_never_ends_closes_the_connection_unheard() {
    play(|| async {
        let node = node(PROXIED).await;
        let long = format!("PROXY UNKNOWN {}", "x".repeat(200));
        for bad in ["EHLO proxy.test\r\n", "PROXY TCP4 1.1.1 1.1.1.1 1 1\r\n", &long] {
            let mut client = passed_on(&node, bad).await;
            assert_eq!(client.reply().await, "", "{bad:?}");
        }
        assert_eq!(node.metrics.proxy_headers_refused.get(), 3);
        let begun = node.age();
        let mut slow = passed_on(&node, "PROXY TCP4 192.0.2.1").await;
        assert_eq!(slow.reply().await, "");
        let waited = node.age() - begun;
        assert!(waited >= PROXY_HEADER_TIME_MAX && waited.as_secs() < 6, "{waited:?}");
        assert_eq!(node.metrics.proxy_headers_refused.get(), 4);
        // A look whether somebody listens is nothing bad.
        drop(Client::open(&node, PROXY));
        let gone = || node.shared.sessions[0].load(Ordering::Relaxed) == 0;
        wait_until("all are gone", gone).await;
        assert_eq!(node.metrics.proxy_headers_refused.get(), 4);
        assert_eq!(node.metrics.sessions.get(), 0, "none was a client's");
        let said = node.lines();
        let of = |what: &str| said.iter().filter(|line| line.contains(what)).count();
        assert_eq!(of("invalid PROXY header proxy=10.0.0.2:40000 listener=in: "), 4, "{said:?}");
    });
}

#[test]
fn a_strangers_header_is_not_read() {
    play(|| async {
        let node = node(&format!("{PROXIED}\nearly_talkers = \"accept\"")).await;
        let mut client = Client::open(&node, STRANGER);
        client.write(&of(FRIEND)).await;
        assert!(client.reply().await.starts_with("220 "));
        assert_eq!(client.reply().await, "500 5.5.2 Command unrecognized");
        assert_eq!(node.events(&["client"]), ["refused client=203.0.113.9"]);
    });
}

const REFUSED: &str = "550 5.7.0 Insufficient authorization";

#[test]
fn who_is_believed_may_speak_for_others_and_nobody_else() {
    play(|| async {
        let node = node(BELIEVED).await;
        let mut stranger = Client::connect(&node, STRANGER).await;
        let offered = stranger.say("EHLO stranger.test").await;
        assert!(!offered.contains("XCLIENT"), "{offered}");
        assert_eq!(stranger.say("XCLIENT ADDR=198.51.100.7").await, REFUSED);
        let reply = stranger.say("MAIL FROM:<me@source.test>").await;
        assert!(reply.starts_with("250"), "nothing else has changed: {reply}");

        let mut proxy = believed(&node).await;
        let offered = proxy.say("EHLO proxy.test").await;
        let attributes = "250-XCLIENT NAME ADDR PORT PROTO HELO DESTADDR DESTPORT 250 HELP";
        assert!(offered.ends_with(attributes), "{offered}");
        let reply = proxy.say("XCLIENT ADDR=198.51.100.7 PORT=4711 HELO=friend.test").await;
        assert_eq!(reply, "220 relay.test ESMTP Postrider");
        // It has said HELO already, as it was told.
        let reply = proxy.send("me@source.test", &["you@ours.test"], CONTENT).await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
        let fields = ["client", "client_port", "proxy", "helo", "protocol"];
        let received = "received client=198.51.100.7 client_port=4711 proxy=10.0.0.2 \
                        helo=friend.test protocol=SMTP";
        assert_eq!(node.events(&fields).into_iter().nth(1).as_deref(), Some(received));
        let offered = proxy.say("EHLO friend.test").await;
        assert!(offered.contains("250-DSN"), "{offered}");
        // It was asked of the announced address, which is not in `xclient_from`: the client behind a proxy
        // that passes its octets on would choose its own address otherwise.
        assert!(!offered.contains("XCLIENT"), "{offered}");
        assert_eq!(proxy.say("XCLIENT ADDR=198.51.100.8").await, REFUSED);
        let reply = proxy.send("me@source.test", &["you@elsewhere.test"], CONTENT).await;
        assert!(reply.starts_with("250 2.0.0"), "it goes on as announced: {reply}");
    });
}

/// Whether EHLO offers XCLIENT and XCLIENT is obeyed; they must agree.
async fn may_announce(client: &mut Client) -> bool {
    let offered = client.say("EHLO a.test").await.contains("XCLIENT");
    let reply = client.say("XCLIENT NAME=[UNAVAILABLE]").await;
    assert_eq!(offered, reply.starts_with("220 "), "{reply}");
    assert!(offered || reply == REFUSED, "{reply}");
    offered
}

#[test]
fn belief_ends_with_the_first_address_that_is_not_believed() {
    play(|| async {
        let node = node(BELIEVED).await;
        for (said, is_believed) in [
            // Nobody else was named.
            (&["HELO=a.test PROTO=ESMTP"][..], true),
            (&["ADDR=10.0.0.3"], true),
            (&["ADDR=IPV6:::ffff:10.0.0.3"], true),
            (&["ADDR=10.0.0.3", "ADDR=10.0.0.4"], true),
            // A client on the proxy's own machine.
            (&["ADDR=10.0.0.2"], false),
            (&["ADDR=IPV6:::ffff:10.0.0.2"], false),
            (&["ADDR=10.0.0.3", "ADDR=10.0.0.3"], false),
            (&["ADDR=203.0.113.9"], false),
            (&["ADDR=IPV6:2001:db8::1"], false),
            (&["ADDR=[UNAVAILABLE]"], false),
            (&["ADDR=10.0.0.3", "ADDR=203.0.113.9"], false),
            (&["ADDR=203.0.113.9 NAME=filter.test HELO=filter.test"], false),
        ] {
            let mut proxy = believed(&node).await;
            proxy.say("EHLO a.test").await;
            for said in said {
                let reply = proxy.say(&format!("XCLIENT {said}")).await;
                assert!(reply.starts_with("220 "), "{said}: {reply}");
            }
            assert_eq!(may_announce(&mut proxy).await, is_believed, "{said:?}");
            // Nothing that the client may say brings it back.
            for said in ["RSET", "EHLO b.test", "HELO c.test", "NOOP"] {
                proxy.say(said).await;
            }
            assert_eq!(may_announce(&mut proxy).await, is_believed, "{said:?}");
        }
        let mut proxy = believed(&node).await;
        proxy.say("EHLO a.test").await;
        proxy.say("MAIL FROM:<me@source.test>").await;
        let reply = proxy.say("XCLIENT ADDR=203.0.113.9").await;
        assert_eq!(reply, "503 5.5.1 XCLIENT not allowed during a mail transaction");
        // What is pipelined behind it is the next client's.
        let mut proxy = believed(&node).await;
        proxy.write("XCLIENT ADDR=203.0.113.9\r\nXCLIENT ADDR=198.51.100.7\r\n").await;
        assert!(proxy.reply().await.starts_with("220 "));
        assert_eq!(proxy.reply().await, REFUSED);
    });
}

#[test]
fn who_is_spoken_for_has_the_limits_of_his_own() {
    play(|| async {
        let keys = "max_sessions_per_address = 1\nmessages_per_minute = 2";
        let node = node(&format!("{BELIEVED}\n{keys}")).await;
        let mut first = believed(&node).await;
        let mut second = believed(&node).await;
        assert!(first.say("XCLIENT ADDR=203.0.113.1").await.starts_with("220 "));
        let reply = second.say("XCLIENT ADDR=203.0.113.1").await;
        assert_eq!(reply, "421 4.7.0 relay.test Too many sessions from your address");
        assert_eq!(second.reply().await, "");
        first.say("EHLO a.test").await;
        for expected in ["250", "250", "450 4.7.1"] {
            let reply = first.say("MAIL FROM:<me@source.test>").await;
            assert!(reply.starts_with(expected), "{reply}");
            first.say("RSET").await;
        }
        drop(first);
        let left = || node.shared.sessions[0].load(Ordering::Relaxed) == 0;
        wait_until("both are gone", left).await;
        let mut third = believed(&node).await;
        assert!(third.say("XCLIENT ADDR=203.0.113.1").await.starts_with("220 "));
        let refused = node.events(&["step", "client", "proxy"]);
        assert_eq!(refused[0], "refused step=connect client=203.0.113.1 proxy=10.0.0.2");
    });
}

#[test]
fn what_is_pipelined_behind_xclient_is_said_by_whom_it_names() {
    play(|| async {
        let node = node(&format!("{BELIEVED}\nmax_sessions_per_address = 1")).await;
        let mut proxy = believed(&node).await;
        proxy
            .write(
                "NOOP\r\nXCLIENT ADDR=203.0.113.9\r\nEHLO a.test\r\nMAIL FROM:<a@a.test>\r\n\
                 RCPT TO:<you@elsewhere.test>\r\nQUIT\r\n",
            )
            .await;
        for expected in ["250 2.0.0", "220 ", "250-relay", "250 2.1.0", "550 5.7.1", "221 "] {
            let reply = proxy.reply().await;
            assert!(reply.starts_with(expected), "{reply} instead of {expected}");
        }
        assert_eq!(node.events(&["client"]), ["refused client=203.0.113.9"]);
        // One that may not proceed is not heard.
        let mut held = believed(&node).await;
        held.say("XCLIENT ADDR=203.0.113.1").await;
        let mut proxy = believed(&node).await;
        proxy.write("NOOP\r\nXCLIENT ADDR=203.0.113.1\r\nEHLO a.test\r\n").await;
        assert!(proxy.reply().await.starts_with("250 2.0.0"));
        assert!(proxy.reply().await.starts_with("421 4.7.0"));
        assert_eq!(proxy.reply().await, "");
    });
}

#[test]
fn a_client_without_an_address_is_nobody_known() {
    play(|| async {
        // The proxy itself may relay; whom it does not know may not.
        let node = node("xclient_from = [\"198.51.100.0/24\"]").await;
        let mut proxy = Client::connect(&node, FRIEND).await;
        let reply = proxy.say("XCLIENT NAME=[UNAVAILABLE] ADDR=[UNAVAILABLE]").await;
        assert!(reply.starts_with("220 "), "{reply}");
        proxy.say("EHLO a.test").await;
        proxy.say("MAIL FROM:<me@source.test>").await;
        let reply = proxy.say("RCPT TO:<you@elsewhere.test>").await;
        assert_eq!(reply, "550 5.7.1 Relay access denied");
        assert_eq!(
            node.events(&["client", "client_port"]),
            ["refused client=0.0.0.0 client_port=0"]
        );
    });
}

#[test]
fn a_proxy_that_is_announced_itself_is_believed_as_that() {
    play(|| async {
        let node = node(&format!("{PROXIED}\nxclient_from = [\"203.0.113.9\"]")).await;
        let mut client = passed_on(&node, &of(STRANGER)).await;
        client.reply().await;
        client.say("EHLO filter.test").await;
        assert!(client.say("XCLIENT ADDR=192.0.2.7").await.starts_with("220 "));
        client.say("EHLO a.test").await;
        client.say("MAIL FROM:<me@source.test>").await;
        client.say("RCPT TO:<you@elsewhere.test>").await;
        assert_eq!(node.events(&["client", "proxy"]), ["refused client=192.0.2.7 proxy=10.0.0.2"]);
    });
}

#[test]
fn a_login_is_believed_where_users_log_in() {
    play(|| async {
        let node = Node::start(
            "hostname = \"relay.test\"\n\
             [[certificate]]\nnames = [\"relay.test\"]\nchain = \"c.pem\"\nkey = \"c.key\"\n\
             [[listener]]\nname = \"in\"\nkind = \"submission\"\naddress = \"192.0.2.250:587\"\n\
             logins = { table = \"passwords\" }\nsenders = { table = \"senders\" }\n\
             xclient_from = [\"10.0.0.2\", \"10.0.0.3\"]\n\
             [[table]]\nname = \"passwords\"\nscripted = { fields = [] }\n\
             [[table]]\nname = \"senders\"\nscripted = { fields = [] }\n\
             [[route]]\nmaildir = { path = \"/mail/{domain}/{local}\" }\n",
        )
        .await;
        node.world.set_entry("senders", "jo@x.test", Ok("jo@x.test"));
        let mut proxy = believed(&node).await;
        let offered = proxy.say("EHLO proxy.test").await;
        assert!(offered.contains("250-XCLIENT NAME ADDR PORT PROTO HELO LOGIN "), "{offered}");
        let reply = proxy.say("XCLIENT ADDR=203.0.113.9 LOGIN=jo+40x.test").await;
        assert!(reply.starts_with("220 "), "{reply}");
        proxy.say("EHLO a.test").await;
        let reply = proxy.say("MAIL FROM:<al@x.test>").await;
        assert!(reply.starts_with("553 5.7.1"), "his senders are his: {reply}");
        let reply = proxy.send("jo@x.test", &["you@anywhere.test"], CONTENT).await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
        let received = "received client=203.0.113.9 login=jo@x.test protocol=ESMTPA";
        assert!(
            node.events(&["client", "login", "protocol"]).iter().any(|event| event == received)
        );
        // A user speaks for himself, whatever his address.
        let said = ["LOGIN=al", "ADDR=203.0.113.10", "ADDR=10.0.0.3 LOGIN=al", "NAME=a.test"];
        for said in said {
            assert_eq!(proxy.say(&format!("XCLIENT {said}")).await, REFUSED, "{said}");
        }
        for (said, is_believed) in [
            ("ADDR=10.0.0.2 LOGIN=jo", false),
            ("LOGIN=jo", false),
            ("ADDR=10.0.0.2 LOGIN=[UNAVAILABLE]", false),
            ("ADDR=10.0.0.3 LOGIN=[UNAVAILABLE]", true),
        ] {
            let mut proxy = believed(&node).await;
            proxy.say("EHLO a.test").await;
            assert!(proxy.say(&format!("XCLIENT {said}")).await.starts_with("220 "), "{said}");
            assert_eq!(may_announce(&mut proxy).await, is_believed, "{said}");
        }
        // Without a login nothing is sent.
        let mut proxy = believed(&node).await;
        proxy.say("XCLIENT ADDR=203.0.113.10").await;
        proxy.say("EHLO b.test").await;
        let reply = proxy.say("MAIL FROM:<jo@x.test>").await;
        assert_eq!(reply, "530 5.7.0 Must issue a STARTTLS command first");
    });
}

/// STRANGER's name in the DNS, and where that leads.
fn call(node: &Node, address: IpAddr) {
    node.world.set_names(STRANGER, Some(Ok(vec!["mail.stranger.test".to_owned()])));
    node.world.set_addresses("mail.stranger.test", Ok(vec![address]));
}

/// The reply to RCPT, and whatever the client may be told before it.
async fn asked(client: &mut Client, to: &str) -> String {
    client.say("RSET").await;
    let reply = client.say("MAIL FROM:<me@source.test>").await;
    assert!(reply.starts_with("250"), "{reply}");
    client.say(&format!("RCPT TO:<{to}>")).await
}

#[test]
fn a_client_is_called_what_both_ways_agree_about() {
    play(|| async {
        let node = node("checks = { client_name = \"mark\" }").await;
        call(&node, STRANGER);
        let mut client = Client::connect(&node, STRANGER).await;
        let reply = client.send("me@source.test", &["you@ours.test"], CONTENT).await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
        let stored = node.world.mailboxes().into_values().flatten().next().expect("a message");
        let named = "\tiprev=pass policy.iprev=203.0.113.9 (mail.stranger.test)";
        assert!(stored.contains(named), "{stored}");
        assert!(stored.contains("from client.test (mail.stranger.test [203.0.113.9])"), "{stored}");
        let received = "received client=203.0.113.9 client_name=mail.stranger.test iprev=pass";
        assert_eq!(node.events(&["client", "client_name", "iprev"])[0], received);
        assert_eq!(node.metrics.checked_iprev[auth::iprev::IprevResult::Pass].get(), 1);
        // Who may relay is not looked up.
        let mut friend = Client::connect(&node, FRIEND).await;
        friend.send("me@source.test", &["you@ours.test"], CONTENT).await;
        assert!(!node.of("received").iter().any(|event| event["iprev"] == "permerror"));
    });
}

#[test]
fn a_client_without_a_name_is_refused_or_put_off_or_held_as_the_listener_says() {
    play(|| async {
        let rejects = "checks = { client_name = \"reject\" }";
        let defers = "checks = { client_name = \"reject\", temporary = \"defer\" }";
        let no_name = "550 5.7.25 Client host rejected: cannot find your hostname";
        let wrong = "550 5.7.25 Client host rejected: forward and reverse DNS do not match";
        for (keys, found, expected) in [
            (rejects, None, no_name),
            (rejects, Some(Ok(PROXY)), wrong),
            (rejects, Some(Ok(STRANGER)), "250 "),
            (rejects, Some(Err(())), "250 "),
            (defers, Some(Err(())), "450 4.7.25 Temporary DNS failure: client host name"),
        ] {
            let node = node(keys).await;
            match found {
                Some(Ok(address)) => call(&node, address),
                Some(Err(())) => {
                    let error = Err(DnsError::Transient("timeout".into()));
                    node.world.set_names(STRANGER, Some(error));
                }
                None => {}
            }
            let mut client = Client::connect(&node, STRANGER).await;
            let reply = asked(&mut client, "you@ours.test").await;
            assert!(reply.starts_with(expected), "{keys}: {reply}");
            assert!(asked(&mut client, "postmaster").await.starts_with("250"));
        }
        let node = node("checks = { client_name = \"hold\" }").await;
        let mut client = Client::connect(&node, STRANGER).await;
        let reply = client.send("me@source.test", &["you@ours.test"], CONTENT).await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
        assert_eq!(node.count("held"), 1);
    });
}

#[test]
fn a_name_that_does_not_come_is_waited_for_once_and_ten_seconds() {
    play(|| async {
        let keys = "checks = { client_name = \"reject\", temporary = \"defer\" }";
        let node = node(keys).await;
        node.world.set_names(STRANGER, None);
        let mut client = Client::connect(&node, STRANGER).await;
        for seconds in [10, 0] {
            let begun = node.age();
            let reply = asked(&mut client, "you@ours.test").await;
            assert!(reply.starts_with("450 4.7.25"), "{reply}");
            assert_eq!((node.age() - begun).as_secs(), seconds);
        }
    });
}

#[test]
fn a_name_that_is_said_is_not_looked_up() {
    play(|| async {
        let keys = format!("{BELIEVED}\nchecks = {{ client_name = \"reject\" }}");
        let node = node(&keys).await;
        for (name, expected) in [
            ("NAME=said.test", "250 "),
            ("NAME=[UNAVAILABLE]", "550 5.7.25"),
            ("NAME=[TEMPUNAVAIL]", "250 "),
            ("PORT=1", "550 5.7.25"),
        ] {
            let mut proxy = believed(&node).await;
            let reply = proxy.say(&format!("XCLIENT ADDR=203.0.113.9 {name}")).await;
            assert!(reply.starts_with("220 "), "{reply}");
            proxy.say("EHLO a.test").await;
            let reply = asked(&mut proxy, "you@ours.test").await;
            assert!(reply.starts_with(expected), "{name}: {reply}");
        }
    });
}
