//! Who users are, whatever they call themselves, and in whose name they may write.

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, play};
use super::submission::{config, node, plain};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mta::seams::ClientCertificate;

const CONTENT: &str = "Subject: one\r\n\r\nbody\r\n";
const TENANT: &str = "[[tenant]]\nname = \"acme\"\nlogins = [\"Jo\"]\nqueued_max = 1_000\n";
/// For `mx.example.org`.
const CERTIFICATE: &[u8] = include_bytes!("../certificates/host.der");

/// The user and the tenant of the message that was accepted last.
fn known_as(node: &Node) -> (String, String) {
    let received = node.of("received").pop().expect("an event");
    let text = |name: &str| received[name].as_str().unwrap_or("-").to_owned();
    (text("login"), text("tenant"))
}

async fn sent_as(node: &Node, login: &[&str]) -> (String, String) {
    let mut client = Client::connect(node, STRANGER).await;
    let mut reply = String::new();
    for line in login {
        reply = client.say(line).await;
    }
    assert!(reply.starts_with("235"), "{login:?}: {reply}");
    let reply = client.send("jo@x.test", &["a@y.test"], CONTENT).await;
    assert!(reply.starts_with("250 2.0.0"), "{reply}");
    known_as(node)
}

#[test]
fn a_user_has_one_name_however_it_is_spelled() {
    play(|| async {
        let text = format!("{}{TENANT}", config("senders = { table = \"senders\" }"));
        let node = Node::start(&text).await;
        let is_jo = ("jo".to_owned(), "acme".to_owned());
        // As a table that knows no capitals has it, which the scripted one does.
        for spelled in ["jo", "JO", "Jo", "jO"] {
            node.world.set_entry("passwords", spelled, Ok("{PLAIN}right"));
        }
        node.world.set_entry("senders", "jo", Ok("@x.test"));
        for spelled in ["jo", "JO", "Jo", "jO"] {
            assert_eq!(sent_as(&node, &[&plain(spelled, "right")]).await, is_jo, "{spelled}");
            let login = ["AUTH LOGIN", &STANDARD.encode(spelled), &STANDARD.encode("right")]
                .map(String::from);
            let login: Vec<&str> = login.iter().map(String::as_str).collect();
            assert_eq!(sent_as(&node, &login).await, is_jo, "{spelled}");
        }
        // An entry that names its user does so for all spellings.
        for spelled in ["jo smith", "jo@x.test"] {
            let values = [("password", &["{PLAIN}right"][..]), ("user", &["jo"])];
            node.world.set_values("passwords", spelled, &values);
            assert_eq!(sent_as(&node, &[&plain(spelled, "right")]).await, is_jo, "{spelled}");
        }
        // Where capitals make another user, they do.
        node.world.set_entry("passwords", "al", Ok("{PLAIN}right"));
        node.world.set_entry("passwords", "AL", Ok("{PLAIN}wrong"));
        node.world.set_entry("senders", "AL", Ok("@x.test"));
        let other = ("AL".to_owned(), "-".to_owned());
        assert_eq!(sent_as(&node, &[&plain("AL", "wrong")]).await, other);
    });
}

#[test]
fn a_table_that_takes_other_spellings_makes_no_other_user() {
    play(|| async {
        let text = format!("{}{TENANT}", config(""));
        let node = Node::start(&text).await;
        // As a collation or a directory has it: blanks, width, what is not seen, accents.
        let spellings =
            ["jo", " jo ", "jo  ", "\u{ff4a}\u{ff4f}", "jo\u{200b}", "j\u{f3}", "JO\u{301}"];
        for spelled in spellings {
            node.world.set_entry("passwords", spelled, Ok("{PLAIN}right"));
        }
        for spelled in spellings {
            let name = sent_as(&node, &[&plain(spelled, "right")]).await;
            assert_eq!(name, ("jo".to_owned(), "acme".to_owned()), "{spelled:?}");
        }
        // Where an accent makes another user, it does.
        node.world.set_entry("passwords", "j\u{f3}", Ok("{PLAIN}other"));
        let name = sent_as(&node, &[&plain("j\u{f3}", "other")]).await;
        assert_eq!(name, ("j\u{f3}".to_owned(), "-".to_owned()));
        let name = sent_as(&node, &[&plain("jo", "right")]).await;
        assert_eq!(name.0, "jo");
    });
}

#[test]
fn a_directory_that_takes_other_spellings_makes_no_other_user() {
    play(|| async {
        let table = "logins = { table = \"passwords\" }";
        let text = config("").replace(table, "logins = { ldap = \"passwords\" }");
        let node = Node::start(&format!("{text}{TENANT}")).await;
        let is_jo = ("jo".to_owned(), "acme".to_owned());
        for dn in ["uid=Jo,ou=people", "cn=Jo Smith+uid=jo,ou=people", "cn=Jo Smith,ou=people"] {
            let spellings = ["jo", "JO", " jo ", "\u{ff4a}\u{ff4f}", "j\u{f3}", "jo\u{ad}"];
            for spelled in spellings {
                node.world.set_directory_entry(spelled, Some(dn));
            }
            for spelled in spellings {
                let name = sent_as(&node, &[&plain(spelled, "right")]).await;
                assert_eq!(name, is_jo, "{dn} {spelled:?}");
            }
        }
        // Where an accent makes another user, it does.
        node.world.set_directory_entry("j\u{f3}", Some("cn=J\u{f3},ou=people"));
        let name = sent_as(&node, &[&plain("j\u{f3}", "right")]).await;
        assert_eq!(name.0, "j\u{f3}");
    });
}

#[test]
fn what_a_table_rewrites_is_the_name() {
    play(|| async {
        let text = config("").replace(
            "name = \"passwords\"\n",
            "name = \"passwords\"\nrewrite = [\"lower\", \"local\"]\n",
        );
        let node = Node::start(&format!("{text}{TENANT}")).await;
        node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
        for spelled in ["jo", "Jo@x.test", "JO@OTHER.test"] {
            let expected = ("jo".to_owned(), "acme".to_owned());
            assert_eq!(sent_as(&node, &[&plain(spelled, "right")]).await, expected, "{spelled}");
        }
    });
}

#[test]
fn announced_and_certified_users_have_their_one_name_too() {
    play(|| async {
        let keys = "mechanisms = [\"plain\", \"external\"]\nxclient_from = [\"10.0.0.0/8\"]\n\
                    client_certificates = { authorities = \"ca.pem\" }";
        let node = Node::start(&format!("{}{TENANT}", config(keys))).await;
        node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
        for login in ["JO", "Jo", "jo"] {
            let mut proxy = Client::connect(&node, [10, 0, 0, 2].into()).await;
            let said = format!("XCLIENT ADDR=203.0.113.9 LOGIN={login}");
            assert!(proxy.say(&said).await.starts_with("220 "));
            proxy.say("EHLO a.test").await;
            proxy.send("jo@x.test", &["a@y.test"], CONTENT).await;
            assert_eq!(known_as(&node), ("jo".to_owned(), "acme".to_owned()), "{login}");
        }
        let shown = ClientCertificate::new(CERTIFICATE, Some("JO".into()));
        node.world.set_certificate(shown);
        let by_certificate = sent_as(&node, &["AUTH EXTERNAL ="]).await;
        assert_eq!(by_certificate, ("jo".to_owned(), "acme".to_owned()));
        let named = format!("AUTH EXTERNAL {}", STANDARD.encode("Jo"));
        assert_eq!(sent_as(&node, &[&named]).await.0, "jo");
    });
}

#[test]
fn users_write_in_their_own_names_where_authors_are_senders() {
    play(|| async {
        let senders = "senders = { table = \"senders\" }";
        for (keys, tenant, is_checked) in [
            (format!("{senders}\nauthors = \"senders\""), "", true),
            (senders.to_owned(), TENANT, true),
            (format!("{senders}\nauthors = \"any\""), TENANT, false),
            (senders.to_owned(), "", true),
            (String::new(), TENANT, false),
        ] {
            let node = Node::start(&format!("{}{tenant}", config(&keys))).await;
            node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
            node.world.set_entry("senders", "jo", Ok("jo@x.test, @own.test"));
            let mut client = Client::connect(&node, STRANGER).await;
            client.say(&plain("jo", "right")).await;
            for (fields, is_his) in [
                ("From: jo@x.test", true),
                ("From: \"CEO, ceo@z.test\" <JO+list@X.test>", true),
                ("From: any@own.test, jo@x.test\r\nSender: jo@x.test", true),
                ("Subject: no author", true),
                ("From: jo@x.test\r\nReply-To: al@z.test", true),
                ("From: ceo@z.test", false),
                ("From: CEO <ceo@z.test>", false),
                ("From: jo@x.test, ceo@z.test", false),
                ("From: ceo@z.test, jo@x.test", false),
                ("From: jo@x.test\r\nFrom: ceo@z.test", false),
                ("From: jo@x.test\r\nSender: ceo@z.test", false),
                ("From: jo@x.test\r\nResent-From: ceo@z.test", false),
                ("From: jo@x.test\r\nResent-Sender: ceo@z.test", false),
                ("From:\r\n ceo@z.test", false),
                ("FROM : ceo@z.test", false),
                ("From: jo", false),
                ("From: jo@x.test <ceo@z.test>", false),
                ("From: <jo@x.test> <ceo@z.test>", false),
                ("From: group: ceo@z.test;", false),
            ] {
                let content = format!("{fields}\r\n\r\nx\r\n");
                let reply = client.send("jo@x.test", &["a@y.test"], &content).await;
                let expected = if is_his || !is_checked { "250 2.0.0" } else { "550 5.7.1 " };
                assert!(reply.starts_with(expected), "{keys} {tenant} {fields}: {reply}");
            }
            // What is nobody's report is somebody's words.
            let reply = client.send("", &["a@y.test"], "From: ceo@z.test\r\n\r\nx\r\n").await;
            assert!(reply.starts_with(if is_checked { "550 5.7.1 " } else { "250" }), "{reply}");
        }
    });
}

#[test]
fn an_author_who_is_completed_is_looked_at_as_completed() {
    play(|| async {
        let node =
            node("senders = { table = \"senders\" }\nauthors = \"senders\"\norigin = \"x.test\"");
        let node = node.await;
        node.world.set_entry("senders", "jo", Ok("jo@x.test"));
        let mut client = Client::connect(&node, STRANGER).await;
        client.say(&plain("jo", "right")).await;
        for (from, code) in [("jo", "250"), ("Jo <jo>", "250"), ("al", "550 5.7.1")] {
            let content = format!("From: {from}\r\n\r\nx\r\n");
            let reply = client.send("jo@x.test", &["a@y.test"], &content).await;
            assert!(reply.starts_with(code), "{from}: {reply}");
        }
    });
}

/// A listener for servers and devices; [`FRIEND`] may relay.
async fn relay(keys: &str) -> Node {
    Node::start(&format!(
        "hostname = \"relay.test\"\n\
         [[listener]]\nname = \"in\"\naddress = \"192.0.2.250:25\"\n\
         relay_from = [\"198.51.100.0/24\"]\n{keys}\n\
         [[route]]\nmaildir = {{ path = \"/mail/{{local}}\" }}\n"
    ))
    .await
}

/// The message in a mailbox.
fn kept(node: &Node, user: &str) -> String {
    let mailboxes = node.world.mailboxes();
    let messages = &mailboxes[std::path::Path::new(&format!("/mail/{user}"))];
    messages.last().expect("a message").replace("\r\n", "\n")
}

#[test]
fn devices_get_the_fields_that_they_lack_where_that_is_wanted() {
    play(|| async {
        for (keys, from, is_mended) in [
            ("add_missing_fields = true\nremove_bcc = true", FRIEND, true),
            ("add_missing_fields = true\nremove_bcc = true", STRANGER, false),
            ("", FRIEND, false),
        ] {
            let node = relay(keys).await;
            let mut client = Client::connect(&node, from).await;
            for (user, id) in [
                ("none", ""),
                ("empty", "Message-ID:\r\n"),
                ("angles", "Message-ID: <>\r\n"),
                ("bare", "message-id: 1@x.test\r\n"),
                ("at", "Message-ID: <1>\r\n"),
                ("start", "Message-ID: <@x.test>\r\n"),
                ("end", "Message-ID: <1@>\r\n"),
                ("blank", "Message-ID: <1 2@x.test>\r\n"),
                ("two", "Message-ID: <>\r\nMessage-ID: <>\r\n"),
            ] {
                let content = format!("Subject: x\r\nBcc: b@x.test\r\n{id}\r\nbody\r\n");
                client.send("a@x.test", &[&format!("{user}@y.test")], &content).await;
                node.wait_for("delivered", node.of("received").len()).await;
                let text = kept(&node, user).to_lowercase();
                let has_id =
                    text.contains("@relay.test>\n") && text.matches("message-id:").count() == 1;
                assert_eq!(has_id, is_mended, "{user}: {text}");
                assert_eq!(text.contains("\ndate: "), is_mended, "{text}");
                assert_eq!(!text.contains("bcc:"), is_mended, "{text}");
            }
            for id in ["<1@x.test>", "<a.b$c@[192.0.2.1]>", "(c) <1@x>", "\r\n <1@x.test>"] {
                let content = format!("Message-ID: {id}\r\n\r\nbody\r\n");
                client.send("a@x.test", &["good@y.test"], &content).await;
                node.wait_for("delivered", node.of("received").len()).await;
                let text = kept(&node, "good");
                assert!(
                    text.contains(&format!("Message-ID: {}\n", id.replace("\r\n", "\n"))),
                    "{text}"
                );
                assert_eq!(text.matches("Message-ID:").count(), 1, "{text}");
            }
        }
    });
}

#[test]
fn bare_newlines_of_own_clients_are_completed() {
    play(|| async {
        for (keys, from, code) in [
            ("", FRIEND, "250 2.0.0"),
            ("", STRANGER, "550 5.6.0"),
            ("bare_newline = \"reject\"", FRIEND, "550 5.6.0"),
        ] {
            let node = relay(keys).await;
            let mut client = Client::connect(&node, from).await;
            let content = "Subject: x\n\nline\nlast\r\n";
            let reply = client.send("a@x.test", &["b@y.test"], content).await;
            assert!(reply.starts_with(code), "{keys} {from}: {reply}");
            if code.starts_with("250") {
                node.wait_for("delivered", 1).await;
                let mailboxes = node.world.mailboxes();
                let text = &mailboxes[std::path::Path::new("/mail/b")][0];
                assert!(text.ends_with("Subject: x\r\n\r\nline\r\nlast\r\n"), "{text:?}");
            }
            assert_eq!(node.count("received"), usize::from(code.starts_with("250")));
        }
    });
}

#[test]
fn a_header_ends_where_all_readers_see_its_end() {
    play(|| async {
        let node = relay("").await;
        let mut client = Client::connect(&node, FRIEND).await;
        let long = "From root ".to_owned() + &"x".repeat(2_000);
        for (user, content, expected) in [
            ("text", "just text\r\nmore\r\n", "\n\njust text\nmore\n"),
            (
                "blank",
                " from boss ([10.0.0.1])\r\nFrom: a\r\n",
                "\n\n from boss ([10.0.0.1])\nFrom: a\n",
            ),
            (
                "within",
                "A: b\r\nno field\r\nFrom: c\r\n\r\nd\r\n",
                "\nA: b\n\nno field\nFrom: c\n\nd\n",
            ),
            (
                "mbox",
                "From root Mon\r\nA: b\r\n\r\nd\r\n",
                "\nX-Mailbox-Line: From root Mon\nA: b\n\nd\n",
            ),
            ("good", "A: b\r\n c\r\n\r\nd\r\n", "\nA: b\n c\n\nd\n"),
        ] {
            for _ in 0..2 {
                let reply = client.send("a@x.test", &[&format!("{user}@y.test")], content).await;
                assert!(reply.starts_with("250 2.0.0"), "{reply}");
            }
            node.wait_for("delivered", node.of("received").len()).await;
            let text = kept(&node, user);
            assert!(text.ends_with(expected), "{user}: {text:?}");
        }
        let content = format!("{long}\r\nA: b\r\n\r\nd\r\n");
        client.send("a@x.test", &["long@y.test"], &content).await;
        node.wait_for("delivered", node.of("received").len()).await;
        assert!(kept(&node, "long").contains(&format!("\nX-Mailbox-Line: {long}\nA: b\n")));
        // The size that was stored is that of what was stored: it is read back after a restart.
        let node = node.restart().await;
        assert_eq!(node.of("damaged").len(), 0);
    });
}
