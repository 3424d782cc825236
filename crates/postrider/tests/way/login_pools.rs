//! Strangers who guess passwords with a hundred networks, and users who log in meanwhile.

use super::client::Client;
use super::crowds::{healthy, hostile};
use super::node::{Node, play};
use super::pools::{SOON, calm, hundred};
use super::submission::{config, plain, reply_to};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

/// What checking a password takes.
const HASHING: Duration = Duration::from_millis(50);

/// So many sessions of strangers who guess passwords of users that there are, and that there are not, again and again.
fn guess(node: &Rc<Node>, sessions: u16) {
    for n in 0..sessions {
        let node = Rc::clone(node);
        tokio::task::spawn_local(async move {
            let mut guesses = usize::from(n);
            while !node.is_quiet() {
                let mut client = Client::open(&node, hostile(n));
                let mut said = client.reply().await;
                if !said.starts_with("220 ") {
                    // It failed too often.
                    sleep(Duration::from_secs(1)).await;
                    continue;
                }
                said = client.try_say("EHLO guesser.test").await;
                while !node.is_quiet() && !said.is_empty() && !said.starts_with("421 ") {
                    guesses += usize::from(sessions);
                    let user = match guesses % 3 {
                        0 => format!("nobody{guesses}"),
                        _ => format!("victim{}", guesses % 2_000),
                    };
                    said = client.try_say(&plain(&user, "wrong")).await;
                    assert!(!said.starts_with("235 "), "{said}");
                    if said.starts_with("454 ") {
                        sleep(Duration::from_millis(250)).await;
                    }
                }
            }
        });
    }
}

#[test]
fn passwords_of_a_hundred_networks_of_guessers_keep_nobody_else_waiting() {
    play(|| async {
        let node = Node::start(&config("max_sessions_per_address = 1000")).await;
        node.world.set_hashing_time(HASHING, &node.shared.pressures);
        for n in 0..2_000 {
            node.world.set_entry("passwords", &format!("victim{n}"), Ok("{PLAIN}right"));
        }
        let home = healthy(200);
        for n in 0..100 {
            let user = format!("user{n}");
            node.world.set_entry("passwords", &user, Ok("{PLAIN}right"));
            let said = reply_to(&node, home, &user, "right").await;
            assert!(said.starts_with("235 "), "{said}");
        }
        let node = Rc::new(node);
        guess(&node, 400);
        sleep(Duration::from_secs(1)).await;
        hundred(&node, "passwords", SOON, async |n| {
            let user = format!("user{n}");
            // From where nobody knows him yet, and from home.
            let said = reply_to(&node, healthy(n), &user, "right").await;
            assert!(said.starts_with("235 "), "{user}: {said}");
            let said = reply_to(&node, home, &user, "right").await;
            assert!(said.starts_with("235 "), "{user} at home: {said}");
        })
        .await;
        let shown = node.pressure("passwords").expect("they wait still");
        assert!(shown.contains("2001:db8:7:: holds most: "), "{shown}");
        node.be_quiet();
        calm(&node, "passwords").await;
    });
}
