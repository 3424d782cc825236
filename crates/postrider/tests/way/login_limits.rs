//! How often clients and users may fail to log in, however many try at once and however they spell.

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, play};
use super::submission::{config, host, node, plain, reply_to};
use auth::password::{HASHED_BYTES_MAX, PASSWORD_BYTES_MAX};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lookup::{LookupError, LookupErrorKind};
use mta::metrics::HistogramSnapshot;
use mta::seams::Lane;
use std::net::IpAddr;
use std::time::Duration;

/// What so many clients are told who say this in the same moment.
async fn at_once(
    node: &Node,
    many: u8,
    from: impl Fn(u8) -> IpAddr,
    said: impl Fn(u8) -> String,
) -> Vec<String> {
    let mut clients = Vec::new();
    for nth in 0..many {
        clients.push(Client::connect(node, from(nth)).await);
    }
    for (nth, client) in (0..).zip(&mut clients) {
        client.write(&format!("{}\r\n", said(nth))).await;
    }
    let mut replies = Vec::new();
    for client in &mut clients {
        replies.push(client.reply().await);
    }
    replies
}

fn beginning(replies: &[String], with: &str) -> usize {
    replies.iter().filter(|reply| reply.starts_with(with)).count()
}

#[test]
fn guesses_of_one_client_that_come_at_once_are_no_more_than_may_fail() {
    play(|| async {
        let node = node("max_sessions_per_address = 1000\nlogin_failures_per_hour = 5").await;
        node.world.set_table_delay(Some(Duration::from_millis(100)));
        let replies = at_once(&node, 100, |_| STRANGER, |nth| plain(&format!("u{nth}"), "x")).await;
        assert_eq!(beginning(&replies, "535 5.7.8"), 5, "{replies:?}");
        assert_eq!(beginning(&replies, "454 4.7.0 Too many authentication failures from your"), 95);
        let asked = node.metrics.login_failures.get();
        assert_eq!((asked, node.metrics.logins_deferred.get()), (5, 95));
        node.world.set_table_delay(None);
        assert!(reply_to(&node, FRIEND, "jo", "right").await.starts_with("235"));
    });
}

#[test]
fn guesses_of_one_user_that_come_at_once_are_no_more_than_may_fail() {
    play(|| async {
        let node = node("login_failures_per_hour_of_user = 5").await;
        node.world.set_table_delay(Some(Duration::from_millis(100)));
        let replies = at_once(&node, 100, host, |nth| plain("jo", &format!("x{nth}"))).await;
        assert_eq!(beginning(&replies, "535 5.7.8"), 5, "{replies:?}");
        assert_eq!(
            beginning(&replies, "454 4.7.0 Too many authentication failures of this user"),
            95
        );
        assert_eq!(node.metrics.login_failures.get(), 5);
    });
}

#[test]
fn any_number_may_log_in_at_once_who_are_right() {
    play(|| async {
        let keys = "max_sessions_per_address = 1000\nlogin_failures_per_hour = 5\n\
                    login_failures_per_hour_of_user = 3";
        let node = node(keys).await;
        node.world.set_table_delay(Some(Duration::from_millis(100)));
        let replies = at_once(&node, 100, |_| STRANGER, |_| plain("jo", "right")).await;
        assert_eq!(beginning(&replies, "235"), 100, "{replies:?}");
        assert_eq!(node.metrics.logins_deferred.get(), 0);
    });
}

#[test]
fn lack_of_ours_is_no_failure_of_theirs() {
    play(|| async {
        let node = node("max_sessions_per_address = 1000\nlogin_failures_per_hour = 5").await;
        let gone = LookupError::new(LookupErrorKind::Unreachable, "it is down");
        node.world.set_entry("passwords", "jo", Err(gone));
        let replies = at_once(&node, 100, |_| STRANGER, |_| plain("jo", "right")).await;
        assert_eq!(
            beginning(&replies, "454 4.7.0 Temporary authentication failure"),
            100,
            "{replies:?}"
        );
        node.world.set_entry("passwords", "jo", Ok("{PLAIN}right"));
        assert!(reply_to(&node, STRANGER, "jo", "right").await.starts_with("235"));
    });
}

#[test]
fn an_exchange_that_is_left_open_has_room_for_its_failure() {
    play(|| async {
        let keys = "mechanisms = [\"plain\", \"scram-sha-256\"]\nlogin_failures_per_hour = 3";
        let node = node(keys).await;
        let begin = format!("AUTH SCRAM-SHA-256 {}", STANDARD.encode("n,,n=jo,r=abc"));
        let mut open = Vec::new();
        for _ in 0..3 {
            let mut client = Client::connect(&node, STRANGER).await;
            assert!(client.say(&begin).await.starts_with("334 "));
            open.push(client);
        }
        let mut late = Client::connect(&node, STRANGER).await;
        let before = node.age();
        let reply = late.say(&plain("jo", "right")).await;
        assert!(
            reply.starts_with("454 4.7.0 Too many authentication failures from your"),
            "{reply}"
        );
        assert_eq!(node.age() - before, Duration::from_secs(10), "one of them may be right");
        // Broken off or left, they have failed: twenty minutes for each.
        assert!(open[0].say("*").await.starts_with("501 5.7.0"));
        drop(open);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = node.age();
        let reply = Client::open(&node, STRANGER).reply().await;
        assert_eq!((&*reply, node.age() - before), ("", Duration::ZERO));
        tokio::time::sleep(Duration::from_secs(1_200)).await;
        assert!(reply_to(&node, STRANGER, "jo", "right").await.starts_with("235"));
    });
}

/// Where passwords wait to be checked.
#[test]
fn whoever_was_the_user_lately_waits_behind_nobody() {
    play(|| async {
        let node = node("").await;
        let lane = async |from, user: &'static str, password: &'static str| {
            reply_to(&node, from, user, password).await;
            *node.world.hashed().last().unwrap()
        };
        let (home, elsewhere) = (host(1), host(2));
        assert_eq!(lane(home, "jo", "right").await, (Lane::Stranger, false));
        assert_eq!(lane(home, "jo", "right").await, (Lane::Known, false));
        assert_eq!(lane(elsewhere, "jo", "right").await, (Lane::Stranger, false));
        // Others guess his password: he is not held up by that at home.
        assert_eq!(lane(host(3), "jo", "x").await, (Lane::Stranger, true));
        assert_eq!(lane(host(4), "jo", "x").await, (Lane::Suspect, true));
        // There is nobody of this name: it waits as another would, and nothing is hashed.
        reply_to(&node, host(3), "nobody", "x").await;
        assert_eq!(node.world.turns(), [Lane::Suspect], "as his client");
        assert_eq!(lane(home, "jo", "right").await, (Lane::Known, false));
        assert_eq!(lane(host(5), "jo", "right").await, (Lane::Suspect, false));
        assert_eq!(lane(host(5), "jo", "right").await, (Lane::Known, false));
        // A client that is known as one user is none of another's.
        reply_to(&node, home, "al", "x").await;
        assert_eq!(node.world.turns(), [Lane::Suspect, Lane::Stranger]);
        // Nor his any more once it has failed.
        assert_eq!(lane(home, "jo", "x").await, (Lane::Known, true));
        assert_eq!(lane(home, "jo", "right").await, (Lane::Suspect, false));
        // An hour later all is forgiven, and what is known is known.
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(lane(host(6), "jo", "right").await, (Lane::Stranger, false));
        assert_eq!(lane(elsewhere, "jo", "right").await, (Lane::Known, false));
        let count = |histogram: HistogramSnapshot| histogram.counts.iter().sum::<u64>();
        let metrics = &node.metrics;
        assert_eq!(count(metrics.password_checks[Lane::Known].snapshot()), 5);
        assert_eq!(count(metrics.password_checks[Lane::Stranger].snapshot()), 4);
        assert_eq!(count(metrics.password_checks[Lane::Suspect].snapshot()), 3);
    });
}

#[test]
fn a_proof_by_scram_is_known_like_a_password() {
    play(|| async {
        let node = node("mechanisms = [\"plain\", \"scram-sha-256\"]").await;
        let begin = format!("AUTH SCRAM-SHA-256 {}", STANDARD.encode("n,,n=jo,r=abc"));
        let mut client = Client::connect(&node, STRANGER).await;
        assert!(client.say(&begin).await.starts_with("334 "));
        // What may be a guess counts as one until it is known better.
        assert_eq!(node.world.hashed(), [(Lane::Stranger, true)]);
        drop(client);
        assert!(reply_to(&node, FRIEND, "jo", "right").await.starts_with("235"));
        let mut client = Client::connect(&node, FRIEND).await;
        assert!(client.say(&begin).await.starts_with("334 "));
        assert_eq!(node.world.hashed().last(), Some(&(Lane::Known, true)));
    });
}

#[test]
fn a_user_is_one_however_he_is_spelled() {
    play(|| async {
        let rewrite = "name = \"passwords\"\nrewrite = [\"lower\", \"drop_tag\"]\n";
        let text = config("login_failures_per_hour_of_user = 4\nmax_login_failures = 100")
            .replace("name = \"passwords\"\n", rewrite);
        let node = Node::start(&text).await;
        for key in ["jones", "jone\u{17f}"] {
            node.world.set_entry("passwords", key, Ok("{PLAIN}right"));
        }
        for (last, user) in ["jones+1", "JONES+2", "jone\u{17f}", "jones@"].into_iter().enumerate()
        {
            let reply = reply_to(&node, host(last as u8), user, "x").await;
            assert!(reply.starts_with("535"), "{user}: {reply}");
        }
        // The last was somebody else.
        assert!(reply_to(&node, host(9), "jones", "x").await.starts_with("535"));
        let reply = reply_to(&node, host(10), "jones", "right").await;
        assert!(
            reply.starts_with("454 4.7.0 Too many authentication failures of this user"),
            "{reply}"
        );
        assert!(reply_to(&node, host(10), "nobody", "x").await.starts_with("535"));
    });
}

/// What a server makes of a key is its own matter: it finds the same entry.
#[test]
fn a_user_is_one_by_whatever_keys_a_table_finds_him() {
    play(|| async {
        let node = node("login_failures_per_hour_of_user = 3").await;
        let stored = "{BLF-CRYPT}$2b$05$abcdefghijklmnopqrstuu680Yiaj5hFUaJTH/rTAcbA2PQEGfiZu";
        let spellings = ["jo", "jo@x.test", "x\\jo", "jo#1", "jo#2"];
        for user in spellings {
            node.world.set_entry("passwords", user, Ok(stored));
        }
        for (last, user) in (0..).zip(spellings) {
            let reply = reply_to(&node, host(last), user, "x").await;
            let code = if last < 3 { "535" } else { "454 4.7.0" };
            assert!(reply.starts_with(code), "{user}: {reply}");
        }
        assert_eq!(node.metrics.login_failures.get(), 3);
    });
}

#[test]
fn guesses_at_nobody_hash_nothing_and_look_like_others() {
    play(|| async {
        let node = node("").await;
        let mut replies = Vec::new();
        for (user, password) in [("jo", "x"), ("nobody", "x")] {
            let before = node.age();
            replies.push((reply_to(&node, host(1), user, password).await, node.age() - before));
        }
        assert_eq!(replies[0], replies[1]);
        assert_eq!((node.world.hashed().len(), node.world.turns().len()), (1, 1));
        // A password that is longer than any that is hashed is as wrong, and as late.
        for bytes in [HASHED_BYTES_MAX, HASHED_BYTES_MAX + 1, PASSWORD_BYTES_MAX] {
            let before = node.age();
            let reply = reply_to(&node, host(2), "jo", &"x".repeat(bytes)).await;
            assert_eq!((reply, node.age() - before), replies[0], "{bytes}");
        }
        assert_eq!((node.world.hashed().len(), node.world.turns().len()), (2, 3));
        // Where nothing hides how long a check takes, all are checked.
        node.reload(&config("login_failure_delay = \"0s\""));
        reply_to(&node, host(3), "nobody", "x").await;
        assert_eq!(node.world.hashed().len(), 3);
    });
}

#[test]
fn a_hundred_networks_of_guessers_close_no_account_to_its_owner() {
    play(|| async {
        let node = node("").await;
        let home = host(250);
        assert!(reply_to(&node, home, "jo", "right").await.starts_with("235"));
        for nth in 0..200 {
            let said = reply_to(&node, host(nth % 100), "jo", &format!("x{nth}")).await;
            let is_limit =
                said.starts_with("454 4.7.0 Too many authentication failures of this user");
            assert!(said.starts_with("535 ") || is_limit, "{said}");
        }
        for _ in 0..100 {
            let before = node.age();
            assert!(reply_to(&node, home, "jo", "right").await.starts_with("235"));
            assert!(node.age() - before < Duration::from_secs(1));
        }
        assert!(node.world.hashed().ends_with(&[(Lane::Known, false)]));
        let elsewhere = reply_to(&node, host(251), "jo", "right").await;
        assert!(elsewhere.starts_with("454 4.7.0 Too many authentication failures of this user"));
        // Its own failures count, and one makes it a stranger.
        assert!(reply_to(&node, home, "jo", "x").await.starts_with("535"));
        let said = reply_to(&node, home, "jo", "right").await;
        assert!(
            said.starts_with("454 4.7.0 Too many authentication failures of this user"),
            "{said}"
        );
    });
}
