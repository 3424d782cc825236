//! Access rules.

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, config, play};
use super::peer::Peer;
use lookup::{LookupError, LookupErrorKind};
use std::path::Path;
use std::time::Duration;

const ROUTES: &str = "[[table]]\nname = \"a\"\ninline = {}\n[[table]]\nname = \"b\"\ninline = {}\n\
                      [[route]]\ndomains = [\"ours.test\"]\nmaildir = { path = \"/mail/{local}\" }\n\
                      [[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }\n";

/// What tables say is scripted: see `TestWorld::set_entry`.
async fn start(rules: &str, entries: &[(&str, &str)]) -> Node {
    let node = Node::start(&config(&format!("{ROUTES}{rules}"))).await;
    for (key, action) in entries {
        node.world.set_entry("a", key, Ok(action));
    }
    node
}

/// A rule for all clients, unless `more` names others.
fn rule(table: &str, by: &str, more: &str) -> String {
    let clients = if more.contains("clients") { "" } else { "clients = \"all\"\n" };
    let more = format!("{clients}{more}");
    format!("[[access]]\ntable = \"{table}\"\nby = \"{by}\"\n{more}\n")
}

async fn begin(node: &Node, sender: &str) -> Client {
    let mut client = Client::connect(node, STRANGER).await;
    client.say(&format!("MAIL FROM:<{sender}>")).await;
    client
}

/// Begins another transaction.
async fn again(client: &mut Client, sender: &str) {
    client.say("RSET").await;
    client.say(&format!("MAIL FROM:<{sender}>")).await;
}

async fn rcpt(client: &mut Client, to: &str) -> String {
    client.say(&format!("RCPT TO:<{to}>")).await
}

#[test]
fn a_table_says_text_and_code_for_each_recipient() {
    play(|| async {
        let entries = [
            ("ok@ours.test", "OK"),
            ("no@ours.test", "REJECT"),
            ("why@ours.test", "REJECT Not for you"),
            ("moved@ours.test", "551 5.1.6 She has moved"),
            ("later@ours.test", "DEFER"),
            ("full@ours.test", "452 4.2.2 Full"),
            ("dunno@ours.test", "DUNNO"),
            ("ours.test", "550 5.1.1 Nobody"),
        ];
        let node = start(&rule("a", "recipient", ""), &entries).await;
        let mut client = begin(&node, "me@source.test").await;
        for (to, reply) in [
            ("ok@ours.test", "250 2.1.5 Recipient ok"),
            ("OK+tag@Ours.Test", "250 2.1.5 Recipient ok"),
            ("no@ours.test", "550 5.7.1 Access denied"),
            ("why@ours.test", "550 5.7.1 Not for you"),
            ("moved@ours.test", "551 5.1.6 She has moved"),
            ("later@ours.test", "450 4.7.1 Try again later"),
            ("full@ours.test", "452 4.2.2 Full"),
            ("dunno@ours.test", "250 2.1.5 Recipient ok"),
            ("other@ours.test", "550 5.1.1 Nobody"),
            ("ok@far.test", "550 5.7.1 Relay access denied"),
        ] {
            assert_eq!(rcpt(&mut client, to).await, reply, "{to}");
        }
        let refused = node.of("refused");
        assert!(refused.iter().any(|event| event["reply"].to_string().contains("She has moved")));
    });
}

#[test]
fn what_a_table_permits_no_later_rule_is_asked_about() {
    play(|| async {
        let rules = rule("a", "sender+recipient", "") + &rule("b", "recipient", "");
        let entries = [
            ("boss@ours.test,all@ours.test", "OK"),
            ("@staff.test,@ours.test", "PERMIT"),
            ("<>,all@ours.test", "DUNNO"),
        ];
        let node = start(&rules, &entries).await;
        node.world.set_entry("b", "all@ours.test", Ok("REJECT 5.7.1 Only for some"));
        let mut client = begin(&node, "").await;
        for (sender, reply) in [
            ("boss@ours.test", "250 2.1.5"),
            ("Boss+x@Ours.Test", "250 2.1.5"),
            ("anyone@staff.test", "250 2.1.5"),
            ("anyone@sub.staff.test", "550 5.7.1 Only for some"),
            ("", "550 5.7.1 Only for some"),
            ("jo@ours.test", "550 5.7.1 Only for some"),
        ] {
            again(&mut client, sender).await;
            let said = rcpt(&mut client, "all@ours.test").await;
            assert!(said.starts_with(reply), "{sender}: {said}");
            let said = rcpt(&mut client, "jo@ours.test").await;
            assert!(said.starts_with("250 "), "{sender}: {said}");
        }
    });
}

#[test]
fn ok_ends_rules_of_its_list_only() {
    for (by, list, reply) in [
        ("client", "", "550 5.7.1"),
        ("helo", "", "550 5.7.1"),
        ("sender", "", "550 5.7.1"),
        ("client+helo", "", "550 5.7.1"),
        ("recipient", "", "250 2.1.5"),
        ("sender+recipient", "", "250 2.1.5"),
        ("recipient+client", "", "250 2.1.5"),
        ("helo", "list = \"recipient\"", "250 2.1.5"),
        ("recipient", "list = \"client\"", "550 5.7.1"),
    ] {
        play(|| async move {
            let rules = rule("a", by, list) + &rule("b", "recipient", "");
            let node = start(&rules, &[]).await;
            for key in [
                "203.0.113.9",
                "client.test",
                "me@source.test",
                "all@ours.test",
                "203.0.113.9,client.test",
                "me@source.test,all@ours.test",
                "all@ours.test,203.0.113.9",
            ] {
                node.world.set_entry("a", key, Ok("OK"));
            }
            node.world.set_entry("b", "all@ours.test", Ok("REJECT"));
            let mut client = begin(&node, "me@source.test").await;
            let said = rcpt(&mut client, "all@ours.test").await;
            assert!(said.starts_with(reply), "{by} {list}: {said}");
        });
    }
}

#[test]
fn rules_for_strangers_skip_clients_that_may_relay() {
    for (clients, friend) in
        [("clients = \"strangers\"", "250 2.1.5"), ("clients = \"all\"", "550 5.7.1")]
    {
        play(|| async move {
            let rules = rule("a", "helo", clients) + &rule("a", "recipient", clients);
            let node = start(&rules, &[("client.test", "DUNNO")]).await;
            node.world.set_entry("a", "all@ours.test", Ok("REJECT"));
            for (ip, reply) in [(STRANGER, "550 5.7.1"), (FRIEND, friend)] {
                let mut client = Client::connect(&node, ip).await;
                client.say("MAIL FROM:<me@source.test>").await;
                let said = rcpt(&mut client, "all@ours.test").await;
                assert!(said.starts_with(reply), "{clients} {ip}: {said}");
            }
        });
    }
    // The default is the former.
    play(|| async {
        let bare = "[[access]]\ntable = \"a\"\nby = \"recipient\"\n";
        let node = start(bare, &[("all@ours.test", "REJECT")]).await;
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test>").await;
        assert!(rcpt(&mut client, "all@ours.test").await.starts_with("250 "));
        let mut client = begin(&node, "me@source.test").await;
        assert!(rcpt(&mut client, "all@ours.test").await.starts_with("550 "));
    });
}

/// As smtpd(8) evaluates its restrictions.
#[test]
fn actions_that_depend_on_later_rules_wait() {
    for (first, list, second, reply) in [
        ("DEFER_IF_PERMIT 4.2.0 Wait", "", "DUNNO", "450 4.2.0 Wait"),
        ("DEFER_IF_PERMIT 4.2.0 Wait", "", "OK", "450 4.2.0 Wait"),
        ("DEFER_IF_PERMIT 4.2.0 Wait", "", "DISCARD", "450 4.2.0 Wait"),
        ("DEFER_IF_PERMIT 4.2.0 Wait", "", "REJECT", "550 5.7.1"),
        ("DEFER_IF_PERMIT 4.2.0 Wait", "", "DEFER_IF_PERMIT 4.2.1 No", "450 4.2.0 Wait"),
        ("DEFER_IF_REJECT 4.2.0 Wait", "", "DUNNO", "250 2.1.5"),
        ("DEFER_IF_REJECT 4.2.0 Wait", "", "REJECT", "550 5.7.1"),
        ("DEFER_IF_REJECT 4.2.0 Wait", "list = \"recipient\"", "REJECT", "450 4.2.0 Wait"),
        ("DEFER_IF_REJECT 4.2.0 Wait", "list = \"recipient\"", "452 4.2.2 Full", "452 4.2.2"),
        (
            "DEFER_IF_REJECT 4.2.0 Wait",
            "list = \"recipient\"",
            "DEFER_IF_PERMIT 4.2.1 No",
            "450 4.2.1",
        ),
        ("REDIRECT new@ours.test", "", "REJECT", "550 5.7.1"),
        ("REDIRECT new@ours.test", "list = \"recipient\"", "REJECT", "550 5.7.1"),
        ("REDIRECT new@ours.test", "", "DEFER_IF_PERMIT 4.2.1 No", "450 4.2.1 No"),
        ("DISCARD", "", "REJECT", "250 2.1.5"),
    ] {
        play(|| async move {
            let rules = rule("a", "sender", list) + &rule("b", "recipient", "");
            let node = start(&rules, &[("me@source.test", first)]).await;
            node.world.set_entry("b", "all@ours.test", Ok(second));
            let mut client = begin(&node, "me@source.test").await;
            let said = rcpt(&mut client, "all@ours.test").await;
            assert!(said.starts_with(reply), "{first}, {list} {second}: {said}");
        });
    }
}

#[test]
fn last_redirect_counts_unless_discarded() {
    for (second, names) in [
        ("REDIRECT last@ours.test", &["/mail/last"][..]),
        ("DUNNO", &["/mail/new"]),
        ("DISCARD", &[]),
    ] {
        play(|| async move {
            let rules = rule("a", "sender", "") + &rule("b", "recipient", "");
            let node = start(&rules, &[("me@source.test", "REDIRECT new@ours.test")]).await;
            node.world.set_entry("b", "all@ours.test", Ok(second));
            let mut client = Client::connect(&node, STRANGER).await;
            let said =
                client.send("me@source.test", &["all@ours.test"], "Subject: x\r\n\r\n").await;
            assert!(said.starts_with("250 2.0.0"), "{second}: {said}");
            let event = if names.is_empty() { "discarded" } else { "delivered" };
            node.wait_for(event, 1).await;
            let mailboxes = node.world.mailboxes();
            let found: Vec<String> =
                mailboxes.keys().map(|path| path.display().to_string()).collect();
            assert_eq!(found, names, "{second}");
        });
    }
}

#[test]
fn clients_names_senders_and_what_lies_above_them_are_looked_up() {
    play(|| async {
        for (by, more, sender, key) in [
            ("client", "", "me@source.test", "203.0.113.9"),
            ("client", "", "me@source.test", "203.0"),
            ("helo", "", "me@source.test", "client.test"),
            ("helo", "parent_domains = true", "me@source.test", "test"),
            ("helo", "", "me@source.test", ".test"),
            ("sender", "", "me@a.source.test", "a.source.test"),
            ("sender", "parent_domains = true", "me@a.source.test", "source.test"),
            ("sender", "", "me@a.source.test", ".source.test"),
            ("sender", "", "me+x@source.test", "me@"),
            ("sender", "", "", "<>"),
            ("client+recipient", "", "", "203.0.113,@ours.test"),
            ("helo+sender", "", "me@source.test", "client.test,@source.test"),
        ] {
            let node = start(&rule("a", by, more), &[(key, "REJECT")]).await;
            let mut client = begin(&node, sender).await;
            let said = rcpt(&mut client, "jo@ours.test").await;
            assert!(said.starts_with("550 5.7.1 Access denied"), "{by} {key}: {said}");
        }
        let node = start(&rule("a", "sender", ""), &[("source.test", "REJECT")]).await;
        let mut client = begin(&node, "me@a.source.test").await;
        let said = rcpt(&mut client, "jo@ours.test").await;
        assert!(said.starts_with("250 "), "without parent_domains it stands for itself: {said}");
    });
}

#[test]
fn whom_a_table_does_not_have_is_refused_where_that_is_said() {
    play(|| async {
        let rules = rule("a", "sender", "default = \"refuse\"\nlisteners = [\"in\"]");
        let node = start(&rules, &[("jo@source.test", "OK"), ("ann@source.test", "DUNNO")]).await;
        let mut client = begin(&node, "").await;
        for (sender, to, reply) in [
            ("jo@source.test", "jo@ours.test", "250 "),
            ("ann@source.test", "jo@ours.test", "250 "),
            ("me@source.test", "jo@ours.test", "550 5.7.1 Access denied"),
            ("me@source.test", "postmaster", "250 "),
            ("me@source.test", "postmaster@ours.test", "550 5.7.1 Access denied"),
        ] {
            again(&mut client, sender).await;
            let said = rcpt(&mut client, to).await;
            assert!(said.starts_with(reply), "{sender} {to}: {said}");
        }
        let other = "[[listener]]\nname = \"out\"\naddress = \"192.0.2.250:587\"\n";
        let rules = rule("a", "sender", "default = \"refuse\"\nlisteners = [\"out\"]");
        let node = start(&format!("{other}{rules}"), &[]).await;
        let mut client = begin(&node, "me@source.test").await;
        let said = rcpt(&mut client, "jo@ours.test").await;
        assert!(said.starts_with("250 "), "not at this listener: {said}");
    });
}

#[test]
fn a_message_is_held_marked_copied_redirected_and_discarded() {
    play(|| async {
        let entries = [
            ("held@ours.test", "HOLD odd"),
            ("marked@ours.test", "PREPEND X-Access: seen"),
            ("copied@ours.test", "BCC archive@far.test"),
            ("moved@ours.test", "REDIRECT new@ours.test"),
            ("gone@ours.test", "DISCARD unread"),
            ("told@ours.test", "WARN somebody writes to told"),
        ];
        let rules = rule("a", "recipient", "");
        let node = start(&rules, &entries).await;
        let peer = Peer::at(&node.world, "192.0.2.1:25");
        let mut client = Client::connect(&node, FRIEND).await;
        let to = ["marked", "copied", "moved", "gone", "told"].map(|to| format!("{to}@ours.test"));
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        let said = client.send("me@source.test", &to, "Subject: x\r\n\r\n").await;
        assert!(said.starts_with("250 2.0.0"), "{said}");
        node.wait_for("delivered", 4).await;
        node.wait_for("relayed", 1).await;
        let mailboxes = node.world.mailboxes();
        let names: Vec<String> = mailboxes.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(names, ["/mail/copied", "/mail/marked", "/mail/new", "/mail/told"]);
        assert!(mailboxes[Path::new("/mail/new")][0].contains("X-Access: seen\r\n"));
        assert_eq!(peer.messages()[0].to, ["archive@far.test"]);
        assert_eq!(node.of("discarded")[0]["reason"], "unread");
        let lines = node.lines();
        assert!(lines.iter().any(|line| line.contains("somebody writes to told")), "{lines:?}");
        client.send("me@source.test", &["held@ours.test"], "Subject: x\r\n\r\n").await;
        node.wait_for("held", 1).await;
        assert_eq!(node.of("held")[0]["reason"], "odd");
    });
}

#[test]
fn a_table_that_speaks_nonsense_or_nothing_puts_recipients_off() {
    play(|| async {
        let entries = [("odd@ours.test", "FILTER smtp:x"), ("empty@ours.test", "")];
        let node = start(&rule("a", "recipient", ""), &entries).await;
        let gone = LookupError::new(LookupErrorKind::Unreachable, "connection refused");
        node.world.set_entry("a", "silent@ours.test", Err(gone));
        let mut client = begin(&node, "me@source.test").await;
        for (to, reply) in [
            ("odd@ours.test", "451 4.3.5 Server configuration error; try again later"),
            ("empty@ours.test", "451 4.3.5 Server configuration error; try again later"),
            ("silent@ours.test", "451 4.4.3 Temporary lookup failure; try again later"),
            ("jo@ours.test", "250 2.1.5 Recipient ok"),
        ] {
            assert_eq!(rcpt(&mut client, to).await, reply, "{to}");
        }
        let lines = node.lines();
        let wanted = "table a: odd@ours.test has \"FILTER smtp:x\": unknown action";
        assert!(lines.iter().any(|line| line.contains(wanted)), "{lines:#?}");
    });
}

#[test]
fn slow_tables_are_waited_for_and_asked_in_their_order() {
    play(|| async {
        let rules = rule("a", "sender", "") + &rule("b", "recipient", "");
        let node = start(&rules, &[("me@source.test", "DUNNO")]).await;
        node.world.set_entry("b", "no@ours.test", Ok("REJECT"));
        let mut client = begin(&node, "me@source.test").await;
        node.world.set_table_delay(Some(Duration::from_millis(100)));
        let before = node.age();
        client.write("RCPT TO:<jo@ours.test>\r\nRCPT TO:<no@ours.test>\r\n").await;
        assert!(client.reply().await.starts_with("250 "));
        assert!(client.reply().await.starts_with("550 5.7.1 Access denied"));
        // One key of the first, four of the second; both recipients at once.
        let took = (node.age() - before).as_millis();
        assert!((400..700).contains(&took), "{took} ms");
        // A reload that takes the rules away is for transactions to come.
        node.reload(&config(ROUTES));
        client.say("RSET").await;
        client.say("MAIL FROM:<me@source.test>").await;
        assert!(rcpt(&mut client, "no@ours.test").await.starts_with("250 "));
    });
}

/// What a client wrote may go on into an address that a rule makes of it, such as `BCC ${1}@backend.test`.
#[test]
fn rules_lead_strangers_nowhere_that_they_may_not_name() {
    play(|| async {
        let routed = "550 5.7.1 Source routing not supported";
        for (keys, from, refusal) in [
            ("", STRANGER, Some(routed)),
            ("", FRIEND, None),
            ("allow_routed_recipients = true", STRANGER, None),
        ] {
            let backend = "[[route]]\ndomains = [\"backend.test\"]\n\
                           smtp = { hosts = [\"192.0.2.9:25\"] }\n[[route]]\nsmtp";
            let routes = ROUTES.replace("[[route]]\nsmtp", backend);
            let text = config(&format!("{routes}{}", rule("a", "recipient", "")));
            let text = text.replacen("name = \"in\"\n", &format!("name = \"in\"\n{keys}\n"), 1);
            let node = Node::start(&text).await;
            let _backend = Peer::at(&node.world, "192.0.2.9:25");
            for word in ["x%far.test", "far.test!x"] {
                for (action, at_rcpt) in [("BCC", false), ("REDIRECT", true)] {
                    let key = format!("{word}-{}@ours.test", action.to_lowercase());
                    let entry = format!("{action} {word}@backend.test");
                    node.world.set_entry("a", &key, Ok(&entry));
                    let mut client = Client::connect(&node, from).await;
                    client.say("MAIL FROM:<me@source.test>").await;
                    let reply = rcpt(&mut client, &key).await;
                    let expected = refusal.filter(|_| at_rcpt).unwrap_or("250 2.1.5");
                    assert!(reply.starts_with(expected), "{keys} {from} {key}: {reply}");
                    if reply.starts_with("250") {
                        client.say("DATA").await;
                        let reply = client.say("Subject: x\r\n\r\nx\r\n.").await;
                        let expected = refusal.unwrap_or("250 2.0.0");
                        assert!(reply.starts_with(expected), "{keys} {from} {key}: {reply}");
                    }
                }
            }
        }
    });
}
