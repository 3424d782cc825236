//! Users who log in, and those who try to.

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, play};
use super::peer::Peer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lookup::{LookupError, LookupErrorKind};
use mta::seams::ClientCertificate;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

pub(crate) fn config(keys: &str) -> String {
    format!(
        "hostname = \"relay.test\"\n\
         [[certificate]]\nnames = [\"relay.test\"]\nchain = \"c.pem\"\nkey = \"c.key\"\n\
         [[listener]]\nname = \"in\"\nkind = \"submission\"\naddress = \"192.0.2.250:587\"\n\
         tls = \"implicit\"\nlogins = {{ table = \"passwords\" }}\n{keys}\n\
         [[table]]\nname = \"passwords\"\nscripted = {{ fields = [] }}\n\
         [[table]]\nname = \"senders\"\nscripted = {{ fields = [] }}\n\
         [[route]]\nmaildir = {{ path = \"/mail/{{domain}}/{{local}}\" }}\n"
    )
}

/// A node with one user, `jo`, whose password is `right`.
pub(crate) async fn node(keys: &str) -> Node {
    let node = Node::start(&config(keys)).await;
    node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
    node
}

pub(crate) fn plain(user: &str, password: &str) -> String {
    format!("AUTH PLAIN {}", STANDARD.encode(format!("\0{user}\0{password}")))
}

pub(crate) fn host(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, last))
}

/// The reply to a login in a session of its own.
pub(crate) async fn reply_to(node: &Node, from: IpAddr, user: &str, password: &str) -> String {
    Client::connect(node, from).await.say(&plain(user, password)).await
}

const CONTENT: &str = "Subject: one\r\n\r\nbody\r\n";

#[test]
fn who_has_logged_in_may_send_anywhere_and_is_no_stranger() {
    play(|| async {
        let node = node("").await;
        let mut client = Client::connect(&node, STRANGER).await;
        let reply = client.say("MAIL FROM:<jo@x.test>").await;
        assert_eq!(reply, "530 5.7.0 Authentication required");
        let reply = client.say(&plain("jo", "right")).await;
        assert_eq!(reply, "235 2.7.0 Authentication successful");
        let reply = client.say("MAIL FROM:<jo@x.test> RET=HDRS AUTH=<>").await;
        assert!(reply.starts_with("250"), "{reply}");
        let reply = client.say("RCPT TO:<a@anywhere.test> NOTIFY=SUCCESS").await;
        assert!(reply.starts_with("250"), "{reply}");
        let reply = client.content(CONTENT).await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
        node.wait_for("delivered", 1).await;
        let received = node.of("received");
        assert_eq!(
            (&received[0]["login"], &received[0]["protocol"]),
            (&"jo".into(), &"ESMTPSA".into())
        );
        assert_eq!(node.metrics.logins.get(), 1);
        // He is told, as he asked: no stranger.
        node.wait_for("dsn_queued", 1).await;
    });
}

#[test]
fn what_a_message_lacks_is_added_and_nothing_else() {
    play(|| async {
        let node = node("hide_client = true").await;
        let mut client = Client::connect(&node, STRANGER).await;
        client.say(&plain("jo", "right")).await;
        client.send("jo@x.test", &["a@y.test"], CONTENT).await;
        let whole = "Date: Mon, 1 Jan 2024 00:00:00 +0000\r\nMessage-ID: <1@x>\r\n\r\nbody\r\n";
        client.send("jo@x.test", &["b@y.test"], whole).await;
        node.wait_for("delivered", 2).await;
        let mailboxes = node.world.mailboxes();
        let text = |user: &str| {
            mailboxes[std::path::Path::new(&format!("/mail/y.test/{user}"))][0].clone()
        };
        let (completed, complete) = (text("a"), text("b"));
        let lines: Vec<&str> = completed.lines().collect();
        let at = |start: &str| lines.iter().position(|line| line.starts_with(start));
        assert!(at("Date: ").is_some() && at("Subject: one").is_some(), "{completed}");
        let id = lines[at("Message-ID: <").expect("it has one")];
        assert!(id.ends_with("@relay.test>"), "{id}");
        assert_eq!(complete.matches("Date:").count() + complete.matches("Message-ID:").count(), 2);
        for text in [&completed, &complete] {
            assert!(
                text.contains("Received: by relay.test (Postrider) with ESMTPSA id "),
                "{text}"
            );
            assert!(!text.contains("203.0.113.9") && !text.contains("client.test"), "{text}");
        }
        assert_eq!(node.of("received")[0]["client"], "203.0.113.9");
    });
}

#[test]
fn users_have_their_own_senders() {
    play(|| async {
        let node = node("senders = { table = \"senders\" }").await;
        node.world.set_entry("senders", "jo", Ok("jo@x.test, @own.test"));
        let mut client = Client::connect(&node, STRANGER).await;
        client.say(&plain("jo", "right")).await;
        for (sender, code) in [
            ("jo@x.test", "250"),
            ("JO+list@X.test", "250"),
            ("any@own.test", "250"),
            ("", "250"),
            ("al@x.test", "553 5.7.1"),
            ("jo@sub.own.test", "553 5.7.1"),
        ] {
            let reply = client.say(&format!("MAIL FROM:<{sender}>")).await;
            assert!(reply.starts_with(code), "{sender}: {reply}");
            client.say("RSET").await;
        }
        let gone = LookupError::new(LookupErrorKind::Unreachable, "it is down");
        node.world.set_entry("senders", "jo", Err(gone));
        let reply = client.say("MAIL FROM:<jo@x.test>").await;
        assert!(reply.starts_with("451 4.4.3"), "{reply}");
    });
}

#[test]
fn a_failure_is_answered_late_and_says_not_why() {
    play(|| async {
        let node = node("max_login_failures = 10").await;
        let mut client = Client::connect(&node, STRANGER).await;
        for (user, password) in [("jo", "wrong"), ("nobody", "right")] {
            let before = node.age();
            let reply = client.say(&plain(user, password)).await;
            assert_eq!(reply, "535 5.7.8 Authentication credentials invalid");
            assert_eq!(node.age() - before, Duration::from_secs(2));
        }
        let refused = node.events(&["step", "login", "status", "client"]);
        assert_eq!(
            refused,
            [
                "refused step=AUTH login=jo status=5.7.8 client=203.0.113.9",
                "refused step=AUTH login=nobody status=5.7.8 client=203.0.113.9"
            ]
        );
        let told = node.lines().join("\n");
        assert!(
            told.contains("login failed client=203.0.113.9:40000 listener=in user=\"jo\""),
            "{told}"
        );
        assert!(!told.contains("wrong") && !told.contains("right"), "{told}");
        assert_eq!(node.metrics.login_failures.get(), 2);
        // It may be tried again at once.
        assert!(client.say(&plain("jo", "right")).await.starts_with("235"));
    });
}

#[test]
fn a_client_that_fails_too_often_has_an_hour_to_think() {
    play(|| async {
        let node = node("login_failures_per_hour = 2\nmax_login_failures = 2").await;
        let mut client = Client::connect(&node, STRANGER).await;
        assert!(client.say(&plain("a", "x")).await.starts_with("535 5.7.8"));
        let reply = client.say(&plain("b", "x")).await;
        assert!(
            reply.starts_with("421 4.7.0 relay.test Too many authentication failures"),
            "{reply}"
        );
        // Encrypted from the start: who is turned away would hear a reply only after a handshake.
        assert_eq!(Client::open(&node, STRANGER).reply().await, "");
        let refused = node.of("refused");
        let last = refused.last().expect("it is told");
        assert_eq!((&last["step"], &last["status"]), (&"connect".into(), &"4.7.0".into()));
        assert!(reply_to(&node, FRIEND, "jo", "right").await.starts_with("235"));
        // Each half hour one is forgiven.
        tokio::time::sleep(Duration::from_secs(1_800)).await;
        assert!(reply_to(&node, STRANGER, "jo", "right").await.starts_with("235"));
    });
}

#[test]
fn a_session_that_is_open_is_held_to_the_limit_of_its_client() {
    play(|| async {
        let node = node("login_failures_per_hour = 1").await;
        let mut open = Client::connect(&node, STRANGER).await;
        assert!(reply_to(&node, STRANGER, "a", "x").await.starts_with("535"));
        let reply = open.say(&plain("jo", "right")).await;
        assert!(reply.starts_with("454 4.7.0"), "{reply}");
        assert_eq!(node.metrics.logins_deferred.get(), 1);
    });
}

#[test]
fn a_user_whose_password_is_guessed_from_everywhere_is_closed_for_a_while() {
    play(|| async {
        let node = node("login_failures_per_hour_of_user = 3").await;
        node.world.set_entry("passwords", "al", Ok("{PLAIN}right"));
        for last in 1..=3 {
            assert!(reply_to(&node, host(last), "JO", "x").await.starts_with("535"));
        }
        let reply = reply_to(&node, host(4), "jo", "right").await;
        assert!(
            reply.starts_with("454 4.7.0 Too many authentication failures of this user"),
            "{reply}"
        );
        assert!(reply_to(&node, host(4), "al", "right").await.starts_with("235"));
        tokio::time::sleep(Duration::from_secs(1_200)).await;
        assert!(reply_to(&node, host(4), "jo", "right").await.starts_with("235"));
    });
}

#[test]
fn nobody_is_told_that_a_password_is_wrong_when_nobody_knows() {
    play(|| async {
        let node = node("").await;
        let gone = LookupError::new(LookupErrorKind::Unreachable, "it is down");
        node.world.set_entry("passwords", "jo", Err(gone));
        let mut client = Client::connect(&node, STRANGER).await;
        let later = "454 4.7.0 Temporary authentication failure";
        assert_eq!(client.say(&plain("jo", "right")).await, later);
        node.world.set_entry("passwords", "jo", Ok("{SSHA}c2VjcmV0"));
        assert_eq!(client.say(&plain("jo", "right")).await, later);
        let told = node.lines().join("\n");
        assert!(
            told.contains("bad password entry of \"jo\" in table passwords: unknown scheme"),
            "{told}"
        );
        assert!(!told.contains("c2VjcmV0"), "{told}");
        assert_eq!((node.metrics.login_failures.get(), node.metrics.logins_deferred.get()), (0, 2));
        node.world.set_entry("passwords", "jo", Ok("right"));
        assert_eq!(client.say(&plain("jo", "right")).await, later, "text is no password");
    });
}

#[test]
fn who_is_locked_out_is_told_what_a_wrong_password_is() {
    play(|| async {
        let keys = "mechanisms = [\"plain\", \"scram-sha-256\"]\nmax_login_failures = 100";
        let node = node(keys).await;
        let mut client = Client::connect(&node, STRANGER).await;
        for stored in ["!", "*", "*LK*", "!{PLAIN}right", "!$6$salt$x", "{CRYPT}!"] {
            node.world.set_entry("passwords", "jo", Ok(stored));
            let before = node.age();
            let reply = client.say(&plain("jo", "right")).await;
            assert!(
                reply.starts_with("535 5.7.8 Authentication credentials invalid"),
                "{stored}: {reply}"
            );
            assert_eq!(node.age() - before, Duration::from_secs(2));
        }
        // By SCRAM nothing shows before the proof fails.
        let begin = format!("AUTH SCRAM-SHA-256 {}", STANDARD.encode("n,,n=jo,r=abc"));
        assert!(client.say(&begin).await.starts_with("334 "));
    });
}

#[test]
fn exchanges_may_be_broken_off_and_begun_again() {
    play(|| async {
        let node = node("mechanisms = [\"login\"]").await;
        let mut client = Client::connect(&node, STRANGER).await;
        let base64 = |text: &str| STANDARD.encode(text);
        assert_eq!(client.say("AUTH LOGIN").await, format!("334 {}", base64("Username:")));
        assert_eq!(client.say(&base64("jo")).await, format!("334 {}", base64("Password:")));
        assert_eq!(client.say("*").await, "501 5.7.0 Cancelled");
        assert_eq!(
            client.say(&plain("jo", "right")).await,
            "504 5.5.4 Unrecognized authentication type"
        );
        client.say(&format!("AUTH LOGIN {}", base64("jo"))).await;
        assert!(client.say(&base64("right")).await.starts_with("235"));
        assert!(client.say("AUTH LOGIN").await.starts_with("503 5.5.1"));
    });
}

#[test]
fn a_reload_reaches_the_sessions_that_begin_then() {
    play(|| async {
        let node = node("").await;
        let mut before = Client::connect(&node, STRANGER).await;
        node.reload(&config("mechanisms = [\"login\"]"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(before.say(&plain("jo", "right")).await.starts_with("235"));
        assert!(reply_to(&node, STRANGER, "jo", "right").await.starts_with("504"));
    });
}

/// For `mx.example.org`.
const CERTIFICATE: &[u8] = include_bytes!("../certificates/host.der");

fn certificate(name: &str) -> Option<ClientCertificate> {
    ClientCertificate::new(CERTIFICATE, Some(name.into()))
}

#[test]
fn a_certificate_says_who_the_client_is() {
    play(|| async {
        let node = node(
            "mechanisms = [\"plain\", \"external\"]\n\
             client_certificates = { authorities = \"ca.pem\" }",
        )
        .await;
        let mut nobody = Client::connect(&node, STRANGER).await;
        assert_eq!(
            nobody.say("AUTH EXTERNAL =").await,
            "504 5.5.4 Unrecognized authentication type"
        );
        node.world.set_certificate(certificate("jo@x.test"));
        for (initial, begin) in [
            ("=", "235 2.7.0"),
            (&*STANDARD.encode("jo@x.test"), "235 2.7.0"),
            (&*STANDARD.encode("al@x.test"), "535 5.7.8"),
            (&*STANDARD.encode("a\nb"), "501 5.5.2"),
        ] {
            let mut client = Client::connect(&node, STRANGER).await;
            let reply = client.say(&format!("AUTH EXTERNAL {initial}")).await;
            assert!(reply.starts_with(begin), "{initial}: {reply}");
        }
        let mut client = Client::connect(&node, STRANGER).await;
        assert_eq!(client.say("AUTH EXTERNAL").await, "334 ");
        assert!(client.say("").await.starts_with("235"));
        client.send("jo@x.test", &["a@y.test"], CONTENT).await;
        node.wait_for("delivered", 1).await;
        let received = &node.of("received")[0];
        assert_eq!(
            (&received["login"], &received["tls_client"]),
            (&"jo@x.test".into(), &"jo@x.test".into())
        );
        let mailboxes = node.world.mailboxes();
        let text = &mailboxes[std::path::Path::new("/mail/y.test/a")][0];
        assert!(text.contains("(certificate of jo@x.test); "), "{text}");
        // Who has a password needs no certificate.
        let reply = reply_to(&node, STRANGER, "jo", "right").await;
        assert!(reply.starts_with("235"), "{reply}");
    });
}

#[test]
fn who_has_a_known_certificate_may_relay_where_that_is_so() {
    play(|| async {
        let keys = "name = \"relay\"\nkind = \"smtp\"\naddress = \"192.0.2.250:25\"\n\
             tls = \"implicit\"\nclient_certificates = { identity = \"certificate\", \
             users = { table = \"passwords\" }, relay = true }";
        let text =
            config("").replace("[[listener]]", &format!("[[listener]]\n{keys}\n[[listener]]"));
        let text = text.replace("[[route]]", "[[route]]\ndomains = [\"here.test\"]");
        let far = "[[route]]\nsmtp = { hosts = [\"192.0.2.9\"] }\n";
        let node = Node::start(&(text + far)).await;
        let may_relay = async || {
            let mut client = Client::connect(&node, STRANGER).await;
            client.say("MAIL FROM:<a@x.test>").await;
            client.say("RCPT TO:<b@far.test>").await
        };
        assert!(may_relay().await.starts_with("550 5.7.1"));
        node.world.set_certificate(certificate("jo@x.test"));
        assert!(may_relay().await.starts_with("550 5.7.1"), "nobody knows it");
        let shown = auth::fingerprint::Fingerprint::of(CERTIFICATE).to_string();
        node.world.set_entry("passwords", &shown, Ok("branch"));
        assert!(may_relay().await.starts_with("250"));
        let gone = LookupError::new(LookupErrorKind::Unreachable, "it is down");
        node.world.set_entry("passwords", &shown, Err(gone));
        assert!(may_relay().await.starts_with("550 5.7.1"));
    });
}

/// A node whose mail for hop.test goes to a next hop, and what is longer than 64 KiB to a file.
async fn node_with_hop(keys: &str) -> Node {
    let text = config(keys);
    let hop =
        "[[route]]\ndomains = [\"hop.test\"]\nsmtp = { hosts = [\"192.0.2.1:25\"] }\n[[route]]";
    let text = format!(
        "{}[spool]\nblob_bytes = \"64KiB\"\n[retry]\njitter = 0\n",
        text.replace("[[route]]", hop)
    );
    let node = Node::start(&text).await;
    node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
    node
}

#[test]
fn bcc_is_kept_and_goes_nowhere() {
    play(|| async {
        let node = node_with_hop("").await;
        let mut client = Client::connect(&node, STRANGER).await;
        client.say(&plain("jo", "right")).await;
        let header = "Bcc: a@secret.test\r\nDate: x\r\nSubject: one\r\nMessage-ID: <1@x>\r\n\
                      BCC:\r\n b@secret.test,\r\n c@secret.test\r\nTo: d@y.test\r\n\
                      resent-bcc : e@secret.test\r\n\r\n";
        let sent = "Date: x\r\nSubject: one\r\nMessage-ID: <1@x>\r\nTo: d@y.test\r\n\r\n";
        let (short, long) = ("Bcc: body\r\n", "Bcc: a long body\r\n".repeat(20_000));
        for body in [short, &long] {
            let to = ["a@hop.test", "b@y.test"];
            let reply = client.send("jo@x.test", &to, &format!("{header}{body}")).await;
            assert!(reply.starts_with("250"), "{reply}");
        }
        node.wait_for("delivered", 2).await;
        let mailboxes = node.world.mailboxes();
        let kept = &mailboxes[std::path::Path::new("/mail/y.test/b")];
        let is_as_sent = |content: &str, body: &str| {
            content.ends_with(&format!("{sent}{body}")) && !content.contains("secret")
        };
        for body in [short, &long] {
            let file_body = body.replace("\r\n", "\n");
            let is =
                |text: &String| is_as_sent(&text.replace('\n', "\r\n").replace("\r\r", "\r"), body);
            assert!(kept.iter().any(is), "{} octets", file_body.len());
        }
        // After a restart they are read back, and are what they were.
        let node = node.restart().await;
        let peer = Peer::at(&node.world, "192.0.2.1:25");
        node.wait_for("relayed", 2).await;
        for body in [short, &long] {
            let sent = peer.messages();
            assert!(sent.iter().any(|sent| is_as_sent(&sent.content, body)), "{sent:?}");
        }
    });
}

#[test]
fn a_report_returns_no_bcc() {
    play(|| async {
        let node = node_with_hop("remove_bcc = true").await;
        let peer = Peer::at(&node.world, "192.0.2.1:25");
        peer.always("RCPT", "550 5.1.1 nobody");
        let mut client = Client::connect(&node, STRANGER).await;
        client.say(&plain("jo", "right")).await;
        client.say("MAIL FROM:<jo@y.test> RET=FULL").await;
        client.say("RCPT TO:<a@hop.test>").await;
        let content = "Subject: one\r\nBcc: a@secret.test\r\n\r\nthe body\r\n";
        assert!(client.content(content).await.starts_with("250"));
        node.wait_for("delivered", 1).await;
        let mailboxes = node.world.mailboxes();
        let report = &mailboxes[std::path::Path::new("/mail/y.test/jo")][0];
        assert!(report.contains("Subject: one") && report.contains("the body"), "{report}");
        assert!(!report.contains("secret"), "{report}");
    });
}

#[test]
fn an_author_without_a_domain_gets_one() {
    play(|| async {
        let node = node("origin = \"b\u{fc}ro.example\"").await;
        let mut client = Client::connect(&node, STRANGER).await;
        client.say(&plain("jo", "right")).await;
        let mut sent = async |name: &str, from: &str| {
            let content = format!("Subject: one\r\nFrom: {from}\r\nDate: x\r\n\r\nbody\r\n");
            client.send("jo@x.test", &[&format!("{name}@y.test")], &content).await;
        };
        let long = format!("\"{}\" <jo>", "x".repeat(990));
        for (name, from) in [("a", "Jo\r\n <jo>"), ("b", "Jo <jo@y.test>"), ("c", &long)] {
            sent(name, from).await;
        }
        node.wait_for("delivered", 3).await;
        let mailboxes = node.world.mailboxes();
        let text = |user: &str| {
            mailboxes[std::path::Path::new(&format!("/mail/y.test/{user}"))][0]
                .replace("\r\n", "\n")
        };
        assert!(text("a").contains("\nFrom: Jo <jo@xn--bro-hoa.example>\n"), "{}", text("a"));
        assert_eq!(text("a").matches("From:").count(), 1);
        assert!(text("b").contains("one\nFrom: Jo <jo@y.test>\nDate: x\n"), "{}", text("b"));
        assert!(text("c").contains(&format!("one\nFrom: {long}\n")), "a line would be too long");
    });
}

#[test]
fn a_header_of_too_many_fields_is_refused() {
    play(|| async {
        let node = node("remove_bcc = true").await;
        let mut client = Client::connect(&node, STRANGER).await;
        client.say(&plain("jo", "right")).await;
        for (count, code) in [(100, "250 2.0.0"), (101, "554 5.6.0")] {
            let content = format!("{}\r\nbody\r\n", "Bcc: a@b.test\r\n".repeat(count));
            let reply = client.send("jo@x.test", &["a@y.test"], &content).await;
            assert!(reply.starts_with(code), "{count}: {reply}");
        }
    });
}
