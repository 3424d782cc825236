//! Limits of what is accepted from each login.

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, play};
use super::submission::{config, plain};
use lookup::{LookupError, LookupErrorKind};
use std::time::Duration;

const CONTENT: &str = "Subject: one\r\n\r\nbody\r\n";
const HOUR: Duration = Duration::from_secs(3_600);
const SIXTH: Duration = Duration::from_secs(600);

/// A node with these limits and the users `jo` and `al`.
async fn node(limits: &str) -> Node {
    let text = format!("{}{limits}", config("max_sessions_per_address = 1000"));
    let node = Node::start(&text).await;
    for user in ["jo", "al"] {
        node.world.set_entry("passwords", user, Ok("{PLAIN}right"));
    }
    node
}

async fn session(node: &Node, user: &str) -> Client {
    let mut client = Client::connect(node, STRANGER).await;
    let reply = client.say(&plain(user, "right")).await;
    assert!(reply.starts_with("235"), "{reply}");
    client
}

/// Sends messages to one recipient each, until one is not accepted. Returns their number and the reply to the last.
async fn send(client: &mut Client, max: usize) -> (usize, String) {
    for sent in 0..max {
        let reply = client.say("MAIL FROM:<jo@x.test>").await;
        if !reply.starts_with("250") {
            return (sent, reply);
        }
        let reply = client.say("RCPT TO:<a@y.test>").await;
        if !reply.starts_with("250") {
            client.say("RSET").await;
            return (sent, reply);
        }
        let reply = client.content(CONTENT).await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
    }
    (max, String::new())
}

const FULL: &str = "450 4.7.1 Message limit reached; try again later";
const NO_MORE_RECIPIENTS: &str = "450 4.7.1 Recipient limit reached; try again later";

#[test]
fn limit_of_a_listener_leaves_others_alone() {
    play(|| async {
        for key in ["listeners = [\"other\"]", "when = { listeners = [\"other\"] }"] {
            let text = super::node::config(&format!(
                "[[listener]]\nname = \"other\"\naddress = \"192.0.2.250:26\"\n\
                 relay_from = [\"198.51.100.0/24\"]\n\
                 [[limit]]\nby = \"sender\"\nmessages = \"2/h\"\n{key}\n[[route]]\ndiscard = {{}}"
            ));
            let node = Node::start(&text).await;
            let mut other = Client::connect_at(&node, 1, FRIEND).await;
            assert_eq!(send(&mut other, 5).await, (2, FULL.to_owned()), "{key}");
            let mut first = Client::connect_at(&node, 0, FRIEND).await;
            assert_eq!(send(&mut first, 5).await, (5, String::new()), "{key}");
        }
    });
}

#[test]
fn login_without_limits_of_its_own_has_those_by_default() {
    play(|| async {
        let node = node("").await;
        let mut jo = session(&node, "jo").await;
        assert_eq!(send(&mut jo, 300).await, (200, FULL.to_owned()));
        // Another session is the same login, another login is not.
        assert_eq!(send(&mut session(&node, "jo").await, 1).await.1, FULL);
        assert_eq!(send(&mut session(&node, "al").await, 1).await.0, 1);
        let limited = node.of("limited");
        assert_eq!(limited.len(), 1, "{limited:?}");
        assert_eq!((&limited[0]["by"], &limited[0]["value"]), (&"login".into(), &"jo".into()));
        assert_eq!((&limited[0]["limit"], &limited[0]["login"]), (&"200/h".into(), &"jo".into()));
        let problems = node.problems();
        let problem = problems.iter().find(|problem| problem.kind == "limit").expect("a problem");
        assert_eq!(problem.about, "login jo");
        let line = node.lines().into_iter().find(|line| line.contains("limit reached"));
        assert!(line.expect("a line").contains("by=login value=\"jo\" limit=200/h unit=messages"));
        // All at once, and all again when they have left the hour.
        tokio::time::sleep(HOUR + SIXTH).await;
        assert!(node.problems().iter().all(|problem| problem.kind != "limit"));
        let mut jo = session(&node, "jo").await;
        assert_eq!(send(&mut jo, 300).await, (200, FULL.to_owned()));
        assert_eq!(node.of("limited").len(), 2);
    });
}

#[test]
fn recipients_are_counted_with_those_of_other_sessions() {
    play(|| async {
        let node = node("").await;
        let mut rcpts = 0;
        let mut refused = String::new();
        for _ in 0..4 {
            let mut jo = session(&node, "jo").await;
            jo.say("MAIL FROM:<jo@x.test>").await;
            for n in 0..90 {
                let reply = jo.say(&format!("RCPT TO:<a{n}@y.test>")).await;
                match reply.starts_with("250") {
                    true => rcpts += 1,
                    false => refused = reply,
                }
            }
            assert!(jo.content(CONTENT).await.starts_with("250 2.0.0"));
        }
        assert_eq!((rcpts, refused.as_str()), (300, NO_MORE_RECIPIENTS));
    });
}

#[test]
fn message_that_is_not_accepted_counts_nothing() {
    play(|| async {
        let node =
            node("[[limit]]\nby = \"login\"\nmessages = \"2/h\"\nrecipients = \"3/h\"\n").await;
        let mut jo = session(&node, "jo").await;
        for _ in 0..5 {
            assert!(jo.say("MAIL FROM:<jo@x.test>").await.starts_with("250"));
            for n in 0..3 {
                let reply = jo.say(&format!("RCPT TO:<a{n}@y.test>")).await;
                assert!(reply.starts_with("250"), "{reply}");
            }
            assert_eq!(jo.say("RCPT TO:<b@y.test>").await, NO_MORE_RECIPIENTS);
            assert!(jo.say("RSET").await.starts_with("250"));
        }
        // Open transactions count, so that a hundred sessions send no more.
        let mut open = Vec::new();
        for _ in 0..2 {
            let mut client = session(&node, "jo").await;
            assert!(client.say("MAIL FROM:<jo@x.test>").await.starts_with("250"));
            open.push(client);
        }
        assert_eq!(jo.say("MAIL FROM:<jo@x.test>").await, FULL);
        drop(open);
        super::node::wait_until("the sessions are over", || node.metrics.sessions_open.get() == 1)
            .await;
        assert_eq!(send(&mut jo, 9).await, (2, FULL.to_owned()));
    });
}

#[test]
fn limit_with_names_precedes_that_for_all() {
    play(|| async {
        let limits = "[[tenant]]\nname = \"t\"\nlogins = [\"jo\"]\n\
                      [[limit]]\nby = \"login\"\nmessages = \"2/h\"\n\
                      [[limit]]\nby = \"login\"\nnames = [\"AL\"]\nmessages = \"unlimited\"\n";
        let node = node(limits).await;
        // A limit of the operator's applies to logins of tenants too.
        assert_eq!(send(&mut session(&node, "jo").await, 9).await, (2, FULL.to_owned()));
        assert_eq!(send(&mut session(&node, "al").await, 250).await.0, 250);
    });
}

#[test]
fn default_spares_logins_of_tenants() {
    play(|| async {
        let node = node("[[tenant]]\nname = \"t\"\nlogins = [\"jo\"]\n").await;
        assert_eq!(send(&mut session(&node, "jo").await, 250).await.0, 250);
        assert_eq!(send(&mut session(&node, "al").await, 250).await.0, 200);
    });
}

#[test]
fn excess_is_held_for_the_operator() {
    play(|| async {
        let node = node("[[limit]]\nby = \"login\"\nmessages = \"2/h\"\nover = \"hold\"\n").await;
        assert_eq!(send(&mut session(&node, "jo").await, 5).await.0, 5);
        node.wait_for("held", 3).await;
        node.wait_for("delivered", 2).await;
        let reason = node.of("held")[0]["reason"].as_str().unwrap_or_default().to_owned();
        assert_eq!(reason, "login jo has reached its limit of 2/h messages: more is held");
        assert_eq!(node.of("limited").len(), 1);
    });
}

#[test]
fn spellings_of_a_sender_are_one_and_strangers_are_counted() {
    play(|| async {
        let text = super::node::config("[[route]]\nmaildir = { path = \"/mail/{local}\" }\n")
            + "[[limit]]\nby = \"sender\"\nmessages = \"2/h\"\n\
               [[limit]]\nby = \"sender_domain\"\nmessages = \"4/h\"\n";
        let node = Node::start(&text).await;
        let mut client = Client::connect(&node, FRIEND).await;
        for (sender, reply) in [
            ("jo@x.test", "250"),
            ("JO+1@X.test", "250"),
            ("jo+2@x.test", FULL),
            ("", "250"),
            ("al@x.test", "250"),
            ("bo@x.test", "250"),
            ("cy@x.test", FULL),
            ("cy@y.test", "250"),
        ] {
            let said = client.say(&format!("MAIL FROM:<{sender}>")).await;
            assert!(said.starts_with(reply), "{sender}: {said}");
            if said.starts_with("250") {
                client.say("RCPT TO:<a@y.test>").await;
                client.content(CONTENT).await;
            }
        }
    });
}

#[test]
fn reload_keeps_the_counts() {
    play(|| async {
        let limit =
            |max: &str| format!("{}[[limit]]\nby = \"login\"\nmessages = {max}\n", config(""));
        let node = Node::start(&limit("\"3/h\"")).await;
        node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
        assert_eq!(send(&mut session(&node, "jo").await, 9).await.0, 3);
        node.reload(&limit("[\"5/h\", \"9/d\"]"));
        assert_eq!(send(&mut session(&node, "jo").await, 9).await.0, 2);
    });
}

#[test]
fn limits_have_conditions_and_the_first_that_holds_applies() {
    play(|| async {
        let node = node(
            "[[limit]]\nby = \"login\"\nmessages = \"2/h\"\nwhen = { senders = [\"jo@x.test\"], logins = [\"jo\"] }\n\
             [[limit]]\nby = \"login\"\nmessages = \"3/h\"\nwhen = { clients = [\"0.0.0.0/0\", \"::/0\"] }\n\
             [[limit]]\nby = \"login\"\nmessages = \"4/h\"\n",
        )
        .await;
        assert_eq!(send(&mut session(&node, "jo").await, 9).await, (2, FULL.to_owned()));
        assert_eq!(send(&mut session(&node, "al").await, 9).await, (3, FULL.to_owned()));
    });
}

#[test]
fn table_of_a_limit_that_gives_no_answer_defers() {
    play(|| async {
        let node = node(
            "[[limit]]\nby = \"login\"\nmessages = \"1/h\"\nwhen = { senders = { table = \"senders\" } }\n\
             [[limit]]\nby = \"login\"\nmessages = \"3/h\"\n",
        )
        .await;
        let mut jo = session(&node, "jo").await;
        node.world.set_entry(
            "senders",
            "jo@x.test",
            Err(LookupError::new(LookupErrorKind::Unreachable, "down")),
        );
        assert!(send(&mut jo, 1).await.1.starts_with("451 4.4.3"));
        node.world.set_entry("senders", "jo@x.test", Ok("1"));
        assert_eq!(send(&mut jo, 9).await, (1, FULL.to_owned()));
        assert_eq!(send(&mut session(&node, "al").await, 9).await, (1, FULL.to_owned()));
    });
}

#[test]
fn all_logins_of_a_listener_share_its_limit() {
    play(|| async {
        let node = node(
            "[[limit]]\nby = \"listener\"\nmessages = \"3/h\"\n\
             [[limit]]\nby = \"login\"\nmessages = \"unlimited\"\n",
        )
        .await;
        assert_eq!(send(&mut session(&node, "jo").await, 2).await.0, 2);
        assert_eq!(send(&mut session(&node, "al").await, 9).await, (1, FULL.to_owned()));
        let limited = node.of("limited");
        assert_eq!((&limited[0]["by"], &limited[0]["value"]), (&"listener".into(), &"in".into()));
    });
}
