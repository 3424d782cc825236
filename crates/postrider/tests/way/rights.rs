//! Rights of open sessions: each is taken away by a reload or a change of a table, and is gone at the next MAIL.

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, play};
use super::submission::plain;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mta::ingress::{LOGIN_CHECK_INTERVAL, PASSWORD_CHECK_INTERVAL, SERVER_LOGIN_MAX};
use mta::seams::ClientCertificate;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const CONTENT: &str = "Subject: one\r\n\r\nbody\r\n";
const LEAVES: &str = "421 4.7.0 Access rights changed; reconnect";

/// A listener for servers with these keys.
pub(super) fn relay(keys: &str) -> String {
    format!(
        "hostname = \"relay.test\"\n\
         [[certificate]]\nnames = [\"relay.test\"]\nchain = \"c.pem\"\nkey = \"c.key\"\n\
         [[listener]]\nname = \"in\"\naddress = \"192.0.2.250:25\"\n{keys}\n{REST}"
    )
}

/// A listener for users with these keys.
pub(super) fn submission(keys: &str) -> String {
    relay(&format!("kind = \"submission\"\ntls = \"implicit\"\n{keys}"))
}

const REST: &str = "[[table]]\nname = \"passwords\"\nscripted = { fields = [] }\n\
                    [[table]]\nname = \"others\"\nscripted = { fields = [] }\n\
                    [[route]]\ndomains = [\"ours.test\"]\nmaildir = { path = \"/mail/{local}\" }\n\
                    [[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }\n";

pub(super) const TABLE: &str = "logins = { table = \"passwords\" }";

async fn node(text: &str) -> Node {
    let node = Node::start(text).await;
    node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
    node.world.set_entry("passwords", "al", Ok("{PLAIN}right"));
    node
}

async fn reload(node: &Node, text: &str) {
    node.reload(text);
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// The first refusal of a transaction with a foreign domain, if there is one.
async fn relayed(client: &mut Client) -> Result<(), String> {
    for command in ["MAIL FROM:<me@source.test>", "RCPT TO:<you@far.test>", "RSET"] {
        let reply = client.say(command).await;
        if !reply.starts_with("250") {
            client.say("RSET").await;
            return Err(reply);
        }
    }
    Ok(())
}

#[test]
fn networks_that_may_relay_are_those_of_the_configuration_in_force() {
    play(|| async {
        let friends = relay("relay_from = [\"198.51.100.0/24\"]");
        let node = node(&friends).await;
        let mut friend = Client::connect(&node, FRIEND).await;
        let mut stranger = Client::connect(&node, STRANGER).await;
        let refused = Err("550 5.7.1 Relay access denied".to_owned());
        for _ in 0..2 {
            assert_eq!(relayed(&mut friend).await, Ok(()));
            assert_eq!(relayed(&mut stranger).await, refused);
            reload(&node, &relay("relay_from = [\"203.0.113.0/24\"]")).await;
            assert_eq!(relayed(&mut friend).await, refused);
            assert_eq!(relayed(&mut stranger).await, Ok(()));
            // Mail for here is still accepted.
            let reply = friend.send("me@source.test", &["you@ours.test"], CONTENT).await;
            assert!(reply.starts_with("250 2.0.0"), "{reply}");
            reload(&node, &friends).await;
        }
    });
}

#[test]
fn a_client_that_loses_its_rights_is_checked_like_any_other() {
    play(|| async {
        let listed = "checks = { dnsbl = [\"list.test\"] }";
        let node = node(&relay(&format!("relay_from = [\"203.0.113.0/24\"]\n{listed}"))).await;
        node.world.set_addresses(
            "9.113.0.203.list.test",
            Ok(vec![IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))]),
        );
        let mut client = Client::connect(&node, STRANGER).await;
        assert_eq!(relayed(&mut client).await, Ok(()));
        reload(&node, &relay(listed)).await;
        client.say("MAIL FROM:<me@source.test>").await;
        let reply = client.say("RCPT TO:<you@ours.test>").await;
        assert!(reply.starts_with("550 5.7.1"), "it is listed: {reply}");
    });
}

#[test]
fn a_transaction_goes_on_with_the_rights_that_it_began_with() {
    play(|| async {
        let node = node(&relay("relay_from = [\"198.51.100.0/24\"]")).await;
        let mut friend = Client::connect(&node, FRIEND).await;
        friend.say("MAIL FROM:<me@source.test>").await;
        reload(&node, &relay("")).await;
        assert!(friend.say("RCPT TO:<you@far.test>").await.starts_with("250"));
        assert!(friend.content(CONTENT).await.starts_with("250 2.0.0"));
        assert_eq!(relayed(&mut friend).await, Err("550 5.7.1 Relay access denied".to_owned()));
    });
}

#[test]
fn who_is_announced_is_so_as_long_as_the_announcer_is_believed() {
    play(|| async {
        let with = |keys: &str| relay(&format!("relay_from = [\"198.51.100.0/24\"]\n{keys}"));
        let (believes, proxied) =
            ("xclient_from = [\"10.0.0.0/8\"]", "proxy_protocol_from = [\"10.0.0.0/8\"]");
        for (keys, is_proxied) in [(believes, false), (proxied, true)] {
            let node = node(&with(keys)).await;
            let mut client = if is_proxied {
                let mut client = Client::open(&node, PROXY);
                client.write(&format!("PROXY TCP4 {FRIEND} 192.0.2.250 4711 25\r\n")).await;
                client.reply().await;
                client
            } else {
                let mut client = Client::connect(&node, PROXY).await;
                client.say(&format!("XCLIENT ADDR={FRIEND}")).await;
                client
            };
            client.say("EHLO a.test").await;
            assert_eq!(relayed(&mut client).await, Ok(()));
            reload(&node, &with(keys)).await;
            assert_eq!(relayed(&mut client).await, Ok(()), "nothing has changed");
            reload(&node, &with("")).await;
            assert_eq!(client.say("MAIL FROM:<a@x.test>").await, LEAVES, "{keys}");
            assert_eq!(client.reply().await, "", "the session is over");
        }
        // Who has not yet spoken for anybody may not begin.
        let node = node(&with(believes)).await;
        let mut proxy = Client::connect(&node, PROXY).await;
        reload(&node, &with("")).await;
        proxy.say("MAIL FROM:<a@x.test>").await;
        proxy.say("RSET").await;
        let reply = proxy.say(&format!("XCLIENT ADDR={FRIEND}")).await;
        assert_eq!(reply, "550 5.7.0 Insufficient authorization");
        // Who does before the next MAIL is not believed at that.
        drop(node);
        let node = Node::start(&with(believes)).await;
        let mut proxy = Client::connect(&node, PROXY).await;
        reload(&node, &with("")).await;
        proxy.say(&format!("XCLIENT ADDR={FRIEND}")).await;
        proxy.say("EHLO a.test").await;
        assert_eq!(proxy.say("MAIL FROM:<a@x.test>").await, LEAVES);
    });
}

#[test]
fn who_is_announced_by_name_is_so_as_long_as_he_is_the_same_user() {
    play(|| async {
        let text = submission(&format!("{TABLE}\nxclient_from = [\"10.0.0.0/8\"]"));
        for (user, entry, is_kept) in [
            ("jo", Some("{PLAIN}right"), true),
            ("jo", Some("{PLAIN}another"), false),
            ("jo", Some("!"), false),
            ("jo", None, false),
            // Whom nobody knows here, nobody takes away; that somebody knows him now does not matter.
            ("nobody", None, true),
            ("nobody", Some("{PLAIN}right"), true),
        ] {
            let node = node(&text).await;
            let mut client = Client::connect(&node, PROXY).await;
            client.say(&format!("XCLIENT ADDR=203.0.113.9 LOGIN={user}")).await;
            client.say("EHLO a.test").await;
            assert_eq!(relayed(&mut client).await, Ok(()), "{user}");
            match entry {
                Some(entry) => node.world.set_entry("passwords", user, Ok(entry)),
                None => node.world.remove_entry("passwords", user),
            }
            tokio::time::sleep(LOGIN_CHECK_INTERVAL + Duration::from_secs(1)).await;
            let reply = client.say("MAIL FROM:<jo@x.test>").await;
            let said = if reply.starts_with("250") { Ok(()) } else { Err(reply) };
            let expected = if is_kept { Ok(()) } else { Err(LEAVES.to_owned()) };
            assert_eq!(said, expected, "{user} {entry:?}");
        }
    });
}

async fn logged_in(node: &Node) -> Client {
    let mut client = Client::connect(node, STRANGER).await;
    let reply = client.say(&plain("jo", "right")).await;
    assert!(reply.starts_with("235"), "{reply}");
    assert_eq!(relayed(&mut client).await, Ok(()));
    client
}

#[test]
fn a_login_holds_as_long_as_its_entry_stays_the_same() {
    play(|| async {
        for (entry, is_kept) in [
            (Some("{PLAIN}right"), true),
            (Some("{PLAIN}another"), false),
            (Some("!"), false),
            (None, false),
        ] {
            for by_reload in [true, false] {
                let node = node(&submission(TABLE)).await;
                let mut client = logged_in(&node).await;
                match entry {
                    Some(entry) => node.world.set_entry("passwords", "jo", Ok(entry)),
                    None => node.world.remove_entry("passwords", "jo"),
                }
                if by_reload {
                    reload(&node, &submission(TABLE)).await;
                } else {
                    // Nobody notifies of what is kept elsewhere.
                    assert_eq!(relayed(&mut client).await, Ok(()));
                    tokio::time::sleep(LOGIN_CHECK_INTERVAL - Duration::from_secs(2)).await;
                    assert_eq!(relayed(&mut client).await, Ok(()));
                    tokio::time::sleep(Duration::from_secs(3)).await;
                }
                if is_kept {
                    assert_eq!(relayed(&mut client).await, Ok(()));
                    continue;
                }
                assert_eq!(client.say("MAIL FROM:<jo@x.test>").await, LEAVES, "{entry:?}");
                assert_eq!(client.reply().await, "", "the session is over");
                let line = "the login is no longer valid client=203.0.113.9:40000 listener=in \
                            user=\"jo\"";
                assert!(node.lines().iter().any(|said| said.contains(line)), "{:?}", node.lines());
            }
        }
    });
}

#[test]
fn a_login_holds_as_long_as_users_log_in_by_the_same_source() {
    play(|| async {
        let others = "logins = { table = \"others\" }";
        for (after, entry, is_kept) in [
            (submission(TABLE), None, true),
            (submission(others), None, false),
            (submission(others), Some("{PLAIN}right"), true),
            (submission(others), Some("{PLAIN}another"), false),
            (submission("logins = { dovecot = \"/run/dovecot\" }"), None, false),
            (relay(""), None, false),
        ] {
            let node = node(&submission(TABLE)).await;
            let mut client = logged_in(&node).await;
            if let Some(entry) = entry {
                node.world.set_entry("others", "jo", Ok(entry));
            }
            reload(&node, &after).await;
            let expected = if is_kept { Ok(()) } else { Err(LEAVES.to_owned()) };
            let reply = client.say("MAIL FROM:<jo@x.test>").await;
            let said = if reply.starts_with("250") { Ok(()) } else { Err(reply) };
            assert_eq!(said, expected, "{after}");
        }
    });
}

#[test]
fn a_login_that_nobody_can_look_up_waits() {
    play(|| async {
        let node = node(&submission(TABLE)).await;
        let mut client = logged_in(&node).await;
        let down = lookup::LookupError::new(lookup::LookupErrorKind::Unreachable, "it is down");
        node.world.set_entry("passwords", "jo", Err(down));
        reload(&node, &submission(TABLE)).await;
        let reply = client.say("MAIL FROM:<jo@x.test>").await;
        assert!(reply.starts_with("454 4.7.0"), "{reply}");
        node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
        assert_eq!(relayed(&mut client).await, Ok(()));
    });
}

/// Logs in by this source and command; MAIL after what `change` does, and some time.
async fn after(keys: &str, login: &str, change: impl FnOnce(&Node)) -> Vec<String> {
    let node = Node::start(&submission(keys)).await;
    node.world.set_directory_entry("jo", Some("uid=jo,ou=people"));
    node.world.set_token(Some("jo"));
    let mut client = Client::connect(&node, STRANGER).await;
    let reply = client.say(login).await;
    assert!(reply.starts_with("235"), "{reply}");
    assert_eq!(relayed(&mut client).await, Ok(()));
    change(&node);
    let mut replies = Vec::new();
    for _ in 0..2 {
        tokio::time::sleep(LOGIN_CHECK_INTERVAL + Duration::from_secs(1)).await;
        replies.push(client.say("MAIL FROM:<jo@x.test>").await);
        if replies.contains(&LEAVES.to_owned()) {
            replies.push(client.reply().await);
            break;
        }
        client.say("RSET").await;
        node.world.set_authenticators_away(false);
    }
    replies
}

#[test]
fn logins_that_servers_know_of_hold_as_long_as_these_know_them() {
    play(|| async {
        let directory = ("logins = { ldap = \"passwords\" }", plain("jo", "right"));
        let bearer = STANDARD.encode("n,,\x01auth=Bearer token\x01\x01");
        let token = (
            "mechanisms = [\"oauthbearer\"]\n\
             logins = { introspection = { url = \"https://id.test/introspect\", \
             client_id = \"us\", secret_file = \"secret\" } }",
            format!("AUTH OAUTHBEARER {bearer}"),
        );
        type Change = fn(&Node);
        let changes: [(&(&str, String), Change, &str); 8] = [
            (&directory, |_| {}, "250"),
            (&directory, |node| node.world.set_directory_entry("jo", None), LEAVES),
            (&directory, |node| node.world.set_directory_entry("jo", Some("uid=al")), LEAVES),
            (&directory, |node| node.world.set_authenticators_away(true), "454"),
            (&token, |_| {}, "250"),
            (&token, |node| node.world.set_token(None), LEAVES),
            (&token, |node| node.world.set_token(Some("al")), LEAVES),
            (&token, |node| node.world.set_authenticators_away(true), "454"),
        ];
        for (number, ((keys, login), change, expected)) in changes.into_iter().enumerate() {
            let replies = after(keys, login, change).await;
            assert!(replies[0].starts_with(expected), "{number}: {replies:?}");
            // Who could not be looked up is, when there are answers again.
            let is_over = replies[1].is_empty();
            assert_eq!(is_over, expected == LEAVES, "{number}: {replies:?}");
            assert!(is_over || replies[1].starts_with("250"), "{number}: {replies:?}");
        }
    });
}

/// Clients that do nothing for so long, but show now and then that they are there.
async fn idle(clients: &mut [Client], time: Duration) {
    for _ in 0..4 {
        tokio::time::sleep(time / 4).await;
        for client in &mut *clients {
            client.say("NOOP").await;
        }
    }
}

#[test]
fn a_password_that_a_server_has_checked_is_shown_to_it_again() {
    play(|| async {
        for source in ["ldap = \"passwords\"", "dovecot = \"/run/dovecot\""] {
            let text = submission(&format!("logins = {{ {source} }}"));
            let node = Node::start(&text).await;
            node.world.set_directory_entry("jo", Some("uid=jo,ou=people"));
            let mut clients = [logged_in(&node).await, logged_in(&node).await];
            let minute = LOGIN_CHECK_INTERVAL + Duration::from_secs(1);
            for _ in 0..30 {
                tokio::time::sleep(minute).await;
                assert_eq!(relayed(&mut clients[0]).await, Ok(()), "{source}");
                clients[1].say("NOOP").await;
            }
            let checked = node.world.checked_passwords();
            assert!((4..=5).contains(&checked), "two logins, and not at each MAIL: {checked}");
            // Nobody is let in, and nobody is turned away, by the lack of an answer.
            idle(&mut clients, PASSWORD_CHECK_INTERVAL).await;
            node.world.set_authenticators_away(true);
            let reply = clients[0].say("MAIL FROM:<jo@x.test>").await;
            assert!(reply.starts_with("454 4.7.0"), "{source}: {reply}");
            node.world.set_authenticators_away(false);
            assert_eq!(relayed(&mut clients[0]).await, Ok(()), "{source}");
            node.world.set_directory_password("another");
            assert_eq!(relayed(&mut clients[0]).await, Ok(()), "nobody notifies of it");
            idle(&mut clients, PASSWORD_CHECK_INTERVAL).await;
            assert_eq!(clients[0].say("MAIL FROM:<jo@x.test>").await, LEAVES, "{source}");
            assert_eq!(clients[1].say("MAIL FROM:<jo@x.test>").await, LEAVES, "{source}");
        }
    });
}

#[test]
fn a_reload_has_passwords_checked_at_once() {
    play(|| async {
        let text = submission("logins = { ldap = \"passwords\" }");
        for is_changed in [false, true] {
            let node = Node::start(&text).await;
            node.world.set_directory_entry("jo", Some("uid=jo,ou=people"));
            let mut client = logged_in(&node).await;
            if is_changed {
                node.world.set_directory_password("another");
            }
            reload(&node, &text).await;
            let reply = client.say("MAIL FROM:<jo@x.test>").await;
            assert_eq!(reply == LEAVES, is_changed, "{reply}");
        }
    });
}

#[test]
fn a_login_that_can_not_be_asked_about_again_ends_after_an_hour() {
    play(|| async {
        let keys = "logins = { dovecot = \"/run/dovecot\" }\nmechanisms = [\"scram-sha-256\"]";
        let node = Node::start(&submission(keys)).await;
        let mut client = Client::connect(&node, STRANGER).await;
        let reply = client.say("AUTH SCRAM-SHA-256 biwsbj1qbyxyPXg=").await;
        assert!(reply.starts_with("235"), "{reply}");
        let clients = std::slice::from_mut(&mut client);
        for _ in 0..6 {
            assert_eq!(relayed(&mut clients[0]).await, Ok(()));
            idle(clients, SERVER_LOGIN_MAX / 6 - Duration::from_secs(1)).await;
        }
        assert_eq!(relayed(&mut clients[0]).await, Ok(()), "at its edge");
        idle(clients, LOGIN_CHECK_INTERVAL + Duration::from_secs(8)).await;
        assert_eq!(client.say("MAIL FROM:<jo@x.test>").await, LEAVES);
    });
}

#[test]
fn settings_of_users_are_those_in_force() {
    play(|| async {
        let node = node(&submission(TABLE)).await;
        let mut client = logged_in(&node).await;
        node.world.set_entry("others", "jo", Ok("jo@x.test"));
        reload(&node, &submission(&format!("{TABLE}\nsenders = {{ table = \"others\" }}"))).await;
        assert!(client.say("MAIL FROM:<al@x.test>").await.starts_with("553 5.7.1"));
        assert!(client.say("MAIL FROM:<jo@x.test>").await.starts_with("250"));
    });
}

/// For `mx.example.org`.
const CERTIFICATE: &[u8] = include_bytes!("../certificates/host.der");

pub(super) fn certificate(name: &str) -> Option<ClientCertificate> {
    ClientCertificate::new(CERTIFICATE, Some(name.into()))
}

#[test]
fn a_certificate_counts_as_long_as_authorities_and_tables_have_it() {
    play(|| async {
        let asked = |more: &str| {
            relay(&format!(
                "tls = \"implicit\"\nclient_certificates = {{ authorities = \"ca.pem\"{more} }}"
            ))
        };
        let (relays, users) = (", relay = true", ", relay = true, users = { table = \"others\" }");
        let refused = || Err("550 5.7.1 Relay access denied".to_owned());
        for (before, after, shown, entry, expected) in [
            (relays, asked(relays), Some("mx.x.test"), None, Ok(())),
            // The authorities are others now: what was shown does not count by them.
            (relays, asked(relays), None, None, refused()),
            (relays, asked(""), Some("mx.x.test"), None, refused()),
            (relays, relay("tls = \"implicit\""), Some("mx.x.test"), None, refused()),
            (relays, asked(users), Some("mx.x.test"), None, refused()),
            (users, asked(users), Some("mx.x.test"), Some("branch"), Ok(())),
            (users, asked(users), Some("mx.x.test"), None, refused()),
            ("", asked(relays), Some("mx.x.test"), None, Ok(())),
        ] {
            let node = node(&asked(before)).await;
            node.world.set_certificate(certificate("mx.x.test"));
            node.world.set_entry("others", "mx.x.test", Ok("branch"));
            let mut client = Client::connect(&node, STRANGER).await;
            let may = if before.is_empty() { refused() } else { Ok(()) };
            assert_eq!(relayed(&mut client).await, may);
            node.world.set_certificate(shown.and_then(certificate));
            match entry {
                Some(entry) => node.world.set_entry("others", "mx.x.test", Ok(entry)),
                None => node.world.remove_entry("others", "mx.x.test"),
            }
            reload(&node, &after).await;
            assert_eq!(relayed(&mut client).await, expected, "{before} then {after}");
        }
        // Without the certificate that a listener requires nobody stays.
        let required = asked(", required = true");
        let node = node(&required).await;
        node.world.set_certificate(certificate("mx.x.test"));
        let mut client = Client::connect(&node, STRANGER).await;
        node.world.set_certificate(None);
        reload(&node, &required).await;
        assert_eq!(client.say("MAIL FROM:<a@x.test>").await, LEAVES);
    });
}

#[test]
fn a_login_by_certificate_ends_with_it() {
    play(|| async {
        let keys = "mechanisms = [\"external\"]\n\
                    client_certificates = { authorities = \"ca.pem\" }";
        let node = node(&submission(keys)).await;
        for (shown, is_kept) in
            [(Some("JO@x.test"), true), (Some("al@x.test"), false), (None, false)]
        {
            node.world.set_certificate(certificate("jo@x.test"));
            let mut client = Client::connect(&node, STRANGER).await;
            assert!(client.say("AUTH EXTERNAL =").await.starts_with("235"));
            assert_eq!(relayed(&mut client).await, Ok(()));
            node.world.set_certificate(shown.and_then(certificate));
            reload(&node, &submission(keys)).await;
            let reply = client.say("MAIL FROM:<jo@x.test>").await;
            assert_eq!(reply.starts_with("250"), is_kept, "{shown:?}: {reply}");
        }
    });
}

#[test]
fn a_listener_that_is_left_out_serves_nobody_any_more() {
    play(|| async {
        let friends = relay("relay_from = [\"198.51.100.0/24\"]");
        let node = node(&friends).await;
        let mut friend = Client::connect(&node, FRIEND).await;
        assert_eq!(relayed(&mut friend).await, Ok(()));
        let other = friends.replace("name = \"in\"", "name = \"other\"");
        reload(&node, &other.replace(":25\"\nrelay", ":2525\"\nrelay")).await;
        let reply = friend.say("MAIL FROM:<me@source.test>").await;
        assert_eq!(reply, "421 4.3.2 Listener closed; server configuration changed");
        assert_eq!(friend.reply().await, "", "the session is over");
        let mut late = Client::open(&node, FRIEND);
        assert_eq!(
            late.reply().await,
            "421 4.3.2 relay.test Listener closed; server configuration changed"
        );
        reload(&node, &friends).await;
        let mut friend = Client::connect(&node, FRIEND).await;
        assert_eq!(relayed(&mut friend).await, Ok(()), "it is back");
    });
}

/// RFC 5321 §4.5.1: the postmaster at an address literal of this server. No other mailbox is there, and mail must not go
/// out to come back.
#[test]
fn postmaster_of_own_literals_is_the_configured_one() {
    play(|| async {
        let text = relay(&format!("relay_from = [\"{FRIEND}\"]"));
        let any = text.replace("192.0.2.250:25", "0.0.0.0:25");
        for (text, literal) in [(&text, "192.0.2.250"), (&any, "127.0.0.1"), (&any, "192.0.2.9")] {
            for from in [STRANGER, FRIEND] {
                let text = format!("postmaster = \"root@ours.test\"\n{text}");
                let node = Node::start(&text).await;
                let is_known = literal != "192.0.2.9";
                let mut client = Client::connect(&node, from).await;
                client.say("MAIL FROM:<me@source.test>").await;
                let reply = client.say(&format!("RCPT TO:<al@[{literal}]>")).await;
                let refusal = match (is_known, from == FRIEND) {
                    (true, _) => "550 5.1.2 Address literals of this server not supported",
                    (false, false) => "550 5.7.1 Relay access denied",
                    (false, true) => "250 2.1.5 Recipient ok",
                };
                assert_eq!(reply, refusal, "{from} {literal}");
                if !is_known && from == FRIEND {
                    continue;
                }
                client.say(&format!("RCPT TO:<Postmaster@[{literal}]>")).await;
                assert!(client.content(CONTENT).await.starts_with("250 "), "{from} {literal}");
                node.wait_for("delivered", 1).await;
                let mailboxes = node.world.mailboxes();
                let names: Vec<_> =
                    mailboxes.keys().map(|path| path.display().to_string()).collect();
                assert_eq!(names, ["/mail/root"], "{from} {literal}");
            }
        }
    });
}
