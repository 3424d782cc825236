//! Routes with conditions (`when`), at RCPT and in the queue.

use super::client::{Client, FRIEND, STRANGER, submit};
use super::node::{Node, config, play};
use super::peer::Peer;
use super::submission::plain;
use lookup::{LookupError, LookupErrorKind};
use mta::commands::{ControlRequest, QueueWhy};
use mta::seams::DnsError;
use std::time::Duration;

const NEWS: &str = "[[route]]\nname = \"news\"\n\
    when = { senders = [\"@news.example.org\", \"boss@example.org\"] }\n\
    smtp = { hosts = [\"192.0.2.31\"] }\n";
const REST: &str = "[[route]]\nname = \"rest\"\nsmtp = { hosts = [\"192.0.2.32\"] }\n";
const HERE: &str = "[[route]]\nname = \"here\"\ndomains = [\"here.test\"]\n\
    smtp = { hosts = [\"192.0.2.33\"] }\n";

/// The peers behind the routes `news`, `rest` and `here`.
fn peers(node: &Node) -> [Peer; 3] {
    ["192.0.2.31:25", "192.0.2.32:25", "192.0.2.33:25"].map(|at| Peer::at(&node.world, at))
}

/// Numbers of recipients at the peers.
fn counts(peers: &[Peer; 3]) -> [usize; 3] {
    peers.each_ref().map(|peer| peer.messages().iter().map(|message| message.to.len()).sum())
}

fn routes(routes: &[&str]) -> String {
    config(&format!("[retry]\njitter = 0\n{}", routes.concat()))
}

#[test]
fn sender_chooses_route() {
    play(|| async {
        let node = Node::start(&routes(&[NEWS, HERE, REST])).await;
        let peers = peers(&node);
        submit(&node, "a@news.example.org", &["x@far.test", "y@here.test"]).await;
        submit(&node, "Boss@example.org", &["x@far.test"]).await;
        node.wait_for("relayed", 3).await;
        assert_eq!(counts(&peers), [3, 0, 0]);
        submit(&node, "a@sub.news.example.org", &["x@far.test"]).await;
        submit(&node, "", &["x@far.test", "y@here.test"]).await;
        node.wait_for("relayed", 6).await;
        assert_eq!(counts(&peers), [3, 2, 1]);
        assert_eq!(node.of("relayed")[0]["route"], "news");
    });
}

#[test]
fn null_sender_chooses_route() {
    play(|| async {
        let null =
            "[[route]]\nwhen = { senders = [\"<>\"] }\nsmtp = { hosts = [\"192.0.2.31\"] }\n";
        let node = Node::start(&routes(&[null, REST])).await;
        let peers = peers(&node);
        peers[1].always("RCPT", "550 5.1.1 no such user");
        submit(&node, "", &["x@far.test"]).await;
        node.wait_for("relayed", 1).await;
        assert_eq!(counts(&peers), [1, 0, 0]);
        submit(&node, "me@source.test", &["x@far.test"]).await;
        node.wait_for("relayed", 2).await;
        let report = &peers[0].messages()[1];
        assert_eq!((&*report.from, &report.to[..]), ("", &["me@source.test".to_owned()][..]));
    });
}

#[test]
fn forged_sender_opens_no_relay() {
    play(|| async {
        let node = Node::start(&routes(&[NEWS, HERE, REST])).await;
        let peers = peers(&node);
        let mut client = Client::connect(&node, STRANGER).await;
        for sender in ["x@news.example.org", "boss@example.org", ""] {
            client.say(&format!("MAIL FROM:<{sender}>")).await;
            let reply = client.say("RCPT TO:<a@far.test>").await;
            assert_eq!(reply, "550 5.7.1 Relay access denied", "{sender}");
            client.say("RSET").await;
        }
        // Mail for a domain of a later route is for that route.
        let reply =
            client.send("x@news.example.org", &["a@here.test"], "Subject: one\r\n\r\n").await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
        node.wait_for("relayed", 1).await;
        assert_eq!(counts(&peers), [0, 0, 1]);
        // The same without any other route.
        let node = Node::start(&routes(&[NEWS])).await;
        let mut client = Client::connect(&node, STRANGER).await;
        client.say("MAIL FROM:<x@news.example.org>").await;
        let reply = client.say("RCPT TO:<a@far.test>").await;
        assert_eq!(reply, "550 5.7.1 Relay access denied");
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<x@elsewhere.test>").await;
        let reply = client.say("RCPT TO:<a@far.test>").await;
        assert_eq!(reply, "550 5.1.2 No route to this domain");
    });
}

#[test]
fn domains_with_conditions_take_mail_from_all_clients() {
    play(|| async {
        let both = "[[route]]\ndomains = [\"here.test\"]\n\
            when = { clients = [\"203.0.113.0/24\"], listeners = [\"in\"] }\n\
            smtp = { hosts = [\"192.0.2.31\"] }\n";
        let node = Node::start(&routes(&[both, HERE])).await;
        let peers = peers(&node);
        let mut client = Client::connect(&node, STRANGER).await;
        let reply = client.send("x@y.test", &["a@here.test"], "Subject: one\r\n\r\n").await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
        client.say("MAIL FROM:<x@y.test>").await;
        assert_eq!(client.say("RCPT TO:<a@far.test>").await, "550 5.7.1 Relay access denied");
        submit(&node, "x@y.test", &["a@here.test"]).await;
        node.wait_for("relayed", 2).await;
        assert_eq!(counts(&peers), [1, 0, 1]);
    });
}

#[test]
fn listener_chooses_route() {
    play(|| async {
        let other = "[[listener]]\nname = \"other\"\naddress = \"192.0.2.250:26\"\n\
            relay_from = [\"198.51.100.0/24\"]\n[[route]]\nwhen = { listeners = [\"other\"] }\n\
            smtp = { hosts = [\"192.0.2.31\"] }\n";
        let node = Node::start(&routes(&[other, REST])).await;
        let peers = peers(&node);
        for (listener, to) in [(0, "first@far.test"), (1, "other@far.test")] {
            let mut client = Client::connect_at(&node, listener, FRIEND).await;
            let reply = client.send("x@y.test", &[to], "Subject: one\r\n\r\n").await;
            assert!(reply.starts_with("250 2.0.0"), "{reply}");
        }
        node.wait_for("relayed", 2).await;
        assert_eq!(counts(&peers), [1, 1, 0]);
        assert_eq!(peers[0].messages()[0].to, ["other@far.test"]);
    });
}

#[test]
fn recipients_and_login_choose_route() {
    play(|| async {
        let text = "hostname = \"relay.test\"\n\
            [[certificate]]\nnames = [\"relay.test\"]\nchain = \"c.pem\"\nkey = \"c.key\"\n\
            [[listener]]\nname = \"in\"\nkind = \"submission\"\naddress = \"192.0.2.250:587\"\n\
            tls = \"implicit\"\nlogins = { table = \"passwords\" }\n\
            [[table]]\nname = \"passwords\"\nscripted = { fields = [] }\n\
            [[tenant]]\nname = \"acme\"\nlogins = [\"acme-app\"]\n\
            [[route]]\nwhen = { logins = [\"Shop\"], recipients = [\"@*.far.test\"] }\n\
            smtp = { hosts = [\"192.0.2.31\"] }\n\
            [[route]]\nwhen = { tenants = [\"acme\"] }\nsmtp = { hosts = [\"192.0.2.33\"] }\n";
        let node = Node::start(&format!("{text}{REST}")).await;
        let peers = peers(&node);
        for (user, to) in [
            ("shop", "a@x.far.test"),
            ("shop", "a@far.test"),
            ("acme-app", "a@x.far.test"),
            ("jo", "a@x.far.test"),
        ] {
            node.world.set_entry("passwords", user, Ok("{PLAIN}right"));
            let mut client = Client::connect(&node, STRANGER).await;
            assert!(client.say(&plain(user, "right")).await.starts_with("235"));
            let reply = client.send("me@x.test", &[to], "Subject: one\r\n\r\n").await;
            assert!(reply.starts_with("250 2.0.0"), "{reply}");
        }
        node.wait_for("relayed", 4).await;
        assert_eq!(counts(&peers), [1, 2, 1]);
    });
}

#[test]
fn queued_mail_follows_conditions_after_restart() {
    play(|| async {
        let node = Node::start(&routes(&[NEWS, REST])).await;
        submit(&node, "a@news.example.org", &["x@far.test"]).await;
        submit(&node, "a@example.org", &["x@far.test"]).await;
        node.wait_for("suspended", 2).await;
        let node = node.restart().await;
        let peers = peers(&node);
        node.wait_for("relayed", 2).await;
        assert_eq!(counts(&peers), [1, 1, 0]);
        assert_eq!(peers[0].messages()[0].from, "a@news.example.org");
    });
}

#[test]
fn queued_mail_follows_conditions_after_reload() {
    play(|| async {
        let node = Node::start(&routes(&[REST])).await;
        submit(&node, "a@news.example.org", &["x@far.test"]).await;
        submit(&node, "a@example.org", &["x@far.test"]).await;
        node.wait_for("suspended", 1).await;
        // In their place there is one with conditions.
        node.reload(&routes(&[NEWS, REST]));
        let peers = peers(&node);
        node.wait_for("relayed", 2).await;
        assert_eq!(counts(&peers), [1, 1, 0]);
        // And back.
        for peer in &peers {
            peer.always("MAIL", "451 4.3.0 later");
        }
        submit(&node, "a@news.example.org", &["x@far.test"]).await;
        node.wait_for("deferred", 1).await;
        node.reload(&routes(&[REST]));
        for peer in &peers {
            peer.heal();
        }
        node.wait_for("relayed", 3).await;
        assert_eq!(counts(&peers), [1, 2, 0]);
    });
}

#[test]
fn table_decides_condition() {
    play(|| async {
        let table = "[[table]]\nname = \"t\"\nscripted = { fields = [] }\n\
            [[route]]\nname = \"news\"\nwhen = { senders = { table = \"t\" } }\n\
            smtp = { hosts = [\"192.0.2.31\"] }\n";
        let node = Node::start(&routes(&[table, REST])).await;
        let peers = peers(&node);
        node.world.set_entry("t", "@news.example.org", Ok("yes"));
        node.world.set_entry("t", "<>", Ok("yes"));
        node.world.set_table_delay(Some(Duration::from_millis(20)));
        for sender in ["a+tag@news.example.org", "", "a@example.org"] {
            submit(&node, sender, &["x@far.test"]).await;
        }
        node.wait_for("relayed", 3).await;
        assert_eq!(counts(&peers), [2, 1, 0]);
        // Without an answer nothing is accepted, and queued mail waits for one.
        let trouble = LookupError::new(LookupErrorKind::Timeout, "no answer");
        peers[0].always("MAIL", "451 4.3.0 later");
        submit(&node, "a@news.example.org", &["x@far.test"]).await;
        node.wait_for("deferred", 1).await;
        for key in ["a@news.example.org", "@news.example.org"] {
            node.world.set_entry("t", key, Err(trouble.clone()));
        }
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<a@news.example.org>").await;
        let reply = client.say("RCPT TO:<x@far.test>").await;
        assert!(reply.starts_with("451 4.4.3"), "{reply}");
        peers[0].heal();
        let node = node.restart().await;
        node.wait_for("suspended", 1).await;
        assert_eq!(peers[0].messages().len(), 2);
        node.world.remove_entry("t", "a@news.example.org");
        node.world.set_entry("t", "@news.example.org", Ok("yes"));
        node.wait_for("relayed", 1).await;
        assert_eq!(counts(&peers), [3, 1, 0]);
    });
}

#[test]
fn each_condition_may_be_decided_by_a_table() {
    play(|| async {
        let text = "hostname = \"relay.test\"\n\
            [[certificate]]\nnames = [\"relay.test\"]\nchain = \"c.pem\"\nkey = \"c.key\"\n\
            [[listener]]\nname = \"in\"\nkind = \"submission\"\naddress = \"192.0.2.250:587\"\n\
            tls = \"implicit\"\nlogins = { table = \"passwords\" }\n\
            [[table]]\nname = \"passwords\"\nscripted = { fields = [] }\n\
            [[table]]\nname = \"t\"\nscripted = { fields = [] }\n\
            [[tenant]]\nname = \"acme\"\nlogins = [\"jo\"]\n";
        let trouble = LookupError::new(LookupErrorKind::Timeout, "no answer");
        assert_eq!(STRANGER.to_string(), "203.0.113.9");
        for (subject, key) in [
            ("senders", "@x.test"),
            ("recipients", "a@far.test"),
            ("logins", "jo"),
            ("clients", "203.0.113"),
            ("listeners", "in"),
            ("tenants", "acme"),
        ] {
            let route = format!(
                "[[route]]\nwhen = {{ {subject} = {{ table = \"t\" }} }}\n\
                 smtp = {{ hosts = [\"192.0.2.31\"] }}\n"
            );
            let node = Node::start(&format!("{text}{route}{REST}")).await;
            let peers = peers(&node);
            node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
            let mut client = Client::connect(&node, STRANGER).await;
            assert!(client.say(&plain("jo", "right")).await.starts_with("235"));
            for (n, found) in [true, false].into_iter().enumerate() {
                match found {
                    true => node.world.set_entry("t", key, Ok("1")),
                    false => node.world.remove_entry("t", key),
                }
                let reply = client.send("me@x.test", &["a@far.test"], "Subject: x\r\n\r\n").await;
                assert!(reply.starts_with("250 2.0.0"), "{reply}");
                node.wait_for("relayed", n + 1).await;
                assert_eq!(counts(&peers), [1, n, 0], "{subject}");
            }
            node.world.set_entry("t", key, Err(trouble.clone()));
            client.say("MAIL FROM:<me@x.test>").await;
            let reply = client.say("RCPT TO:<a@far.test>").await;
            assert!(reply.starts_with("451 4.4.3"), "{subject} {reply}");
        }
    });
}

#[test]
fn operator_sees_route_by_conditions() {
    play(|| async {
        let node = Node::start(&routes(&[NEWS, REST])).await;
        submit(&node, "a@news.example.org", &["x@far.test"]).await;
        node.wait_for("suspended", 1).await;
        let id = node.last_id();
        let answers = node.ask(ControlRequest::QueueWhy(QueueWhy { id })).await;
        let mut items = answers.into_iter().flat_map(|part| part.items);
        let named = items.next().and_then(|item| item.recipients.into_iter().next()?.route);
        assert_eq!(named.as_deref(), Some("news"));
    });
}

const BY_SENDER: &str = "[[table]]\nname = \"logins\"\nscripted = { fields = [] }\n\
    [[route]]\nsmtp = { hosts = [\"127.0.0.1:2525\"], login = { table = \"logins\", key = \"sender\" } }\n";

/// A relay with logins by sender: `ua` for `a.test`, `ub` for one address of `b.test`, `uh` for all others.
fn relay(node: &Node) -> Peer {
    for (key, login) in [("@a.test", "ua:pa"), ("b@b.test", "ub:pb"), ("127.0.0.1", "uh:ph")] {
        node.world.set_entry("logins", key, Ok(login));
    }
    let peer = Peer::at(&node.world, "127.0.0.1:2525");
    peer.always("EHLO", "250-peer.test\r\n250-AUTH PLAIN\r\n250 PIPELINING");
    peer
}

/// The login that a message of this sender must be sent with.
fn login_of(sender: &str) -> String {
    match sender {
        "a1@a.test" | "a2+tag@a.test" => plain("ua", "pa"),
        "b@b.test" => plain("ub", "pb"),
        _ => plain("uh", "ph"),
    }
}

#[test]
fn each_sender_has_its_own_login() {
    play(|| async {
        let node = Node::start(&routes(&[BY_SENDER])).await;
        let peer = relay(&node);
        let senders = ["a1@a.test", "b@b.test", "c@b.test", "", "a2+tag@a.test"];
        for _ in 0..3 {
            // Connections of the senders before are open and idle.
            for sender in senders {
                submit(&node, sender, &["x@far.test", "y@near.test"]).await;
            }
        }
        node.wait_for("relayed", 30).await;
        let messages = peer.messages();
        assert!(messages.iter().all(|one| one.login == login_of(&one.from)), "{messages:?}");
        assert!(peer.connections() < messages.len(), "connections are used again");
        assert_eq!(node.count("failed") + node.count("deferred"), 0);
    });
}

#[test]
fn queued_mail_keeps_its_login_after_restart_and_reload() {
    play(|| async {
        let node = Node::start(&routes(&[BY_SENDER])).await;
        for sender in ["a1@a.test", "b@b.test", ""] {
            submit(&node, sender, &["x@far.test"]).await;
        }
        node.wait_for("suspended", 3).await;
        let node = node.restart().await;
        node.reload(&routes(&[BY_SENDER, "[log]\nlevel = \"debug\"\n"]));
        let peer = relay(&node);
        node.wait_for("relayed", 3).await;
        let messages = peer.messages();
        assert!(messages.iter().all(|one| one.login == login_of(&one.from)), "{messages:?}");
    });
}

#[test]
fn sender_without_login_waits() {
    play(|| async {
        let node = Node::start(&routes(&[BY_SENDER])).await;
        let peer = relay(&node);
        node.world.remove_entry("logins", "127.0.0.1");
        submit(&node, "a1@a.test", &["x@far.test"]).await;
        submit(&node, "c@c.test", &["x@far.test"]).await;
        node.wait_for("relayed", 1).await;
        node.wait_for("suspended", 1).await;
        let reason = node.of("suspended")[0].to_string();
        assert!(reason.contains("no entry for <c@c.test> or 127.0.0.1"), "{reason}");
        assert_eq!(peer.messages().len(), 1);
    });
}

const BACKUP: &str = "[[route]]\nname = \"main\"\nfallback = \"backup\"\ndomains = [\"far.test\"]\n\
    smtp = { hosts = [\"192.0.2.31\"] }\n\
    [[route]]\nname = \"backup\"\ndomains = []\nsmtp = { hosts = [\"192.0.2.32\"] }\n";

#[test]
fn fallback_takes_mail_while_hosts_are_away() {
    play(|| async {
        let node = Node::start(&routes(&[BACKUP])).await;
        let backup = Peer::at(&node.world, "192.0.2.32:25");
        for _ in 0..3 {
            submit(&node, "a@b.test", &["x@far.test"]).await;
        }
        node.wait_for("relayed", 3).await;
        assert_eq!((backup.messages().len(), node.count("deferred")), (3, 0));
        assert!(node.age() < Duration::from_secs(60), "{:?}", node.age());
        // The hosts are back.
        let main = Peer::at(&node.world, "192.0.2.31:25");
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        submit(&node, "a@b.test", &["x@far.test"]).await;
        node.wait_for("relayed", 4).await;
        assert_eq!((main.messages().len(), backup.messages().len()), (1, 3));
        // It takes no mail by itself.
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<a@b.test>").await;
        assert_eq!(client.say("RCPT TO:<x@y.test>").await, "550 5.1.2 No route to this domain");
    });
}

#[test]
fn greeting_without_service_leads_to_fallback() {
    play(|| async {
        let node = Node::start(&routes(&[BACKUP])).await;
        let [main, backup, _] = peers(&node);
        main.always("CONNECT", "421 4.3.2 closed");
        submit(&node, "a@b.test", &["x@far.test"]).await;
        node.wait_for("relayed", 1).await;
        assert_eq!((main.messages().len(), backup.messages().len()), (0, 1));
    });
}

#[test]
fn rejected_recipient_uses_no_fallback() {
    play(|| async {
        let node = Node::start(&routes(&[BACKUP])).await;
        let [main, backup, _] = peers(&node);
        main.always("RCPT", "550 5.1.1 no such user");
        submit(&node, "", &["x@far.test"]).await;
        node.wait_for("failed", 1).await;
        main.heal();
        main.once("RCPT", "450 4.2.0 later");
        submit(&node, "a@b.test", &["x@far.test"]).await;
        node.wait_for("relayed", 1).await;
        assert_eq!((main.messages().len(), backup.messages().len()), (1, 0));
    });
}

#[test]
fn mail_returns_to_route_when_fallback_is_away_too() {
    play(|| async {
        let node = Node::start(&routes(&[BACKUP])).await;
        submit(&node, "a@b.test", &["x@far.test"]).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        let main = Peer::at(&node.world, "192.0.2.31:25");
        node.wait_for("relayed", 1).await;
        assert_eq!(main.messages().len(), 1);
    });
}

#[test]
fn silent_dns_leads_to_fallback() {
    play(|| async {
        let text = "[[route]]\nfallback = \"backup\"\ndomains = [\"far.test\"]\nmx = {}\n\
            [[route]]\nname = \"backup\"\ndomains = []\nsmtp = { hosts = [\"192.0.2.32\"] }\n";
        let node = Node::start(&routes(&[text])).await;
        let backup = Peer::at(&node.world, "192.0.2.32:25");
        node.world.set_mx("far.test", Err(DnsError::Transient("SERVFAIL".to_owned())));
        submit(&node, "a@b.test", &["x@far.test"]).await;
        node.wait_for("relayed", 1).await;
        assert_eq!(backup.messages().len(), 1);
        // A domain that does not exist is a permanent failure.
        node.world.set_mx("far.test", Err(DnsError::NoSuchDomain));
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        submit(&node, "", &["x@far.test"]).await;
        node.wait_for("failed", 1).await;
        assert_eq!(backup.messages().len(), 1);
    });
}
