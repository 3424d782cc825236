//! A hundred networks of strangers press on a pool: of a hundred requests of others none is refused, 95 are served soon,
//! and the pressure shows for as long as it lasts.

use super::client::{Client, FRIEND};
use super::crowds::{healthy, hostile, rcpt, with};
use super::node::{Node, play};
use super::policies::{SERVICE, Script};
use std::io::ErrorKind;
use std::time::Duration;
use tokio::time::sleep;

/// No request waits longer, but for five of a hundred.
pub(crate) const SOON: Duration = Duration::from_secs(1);

/// A hundred requests, one after the other; `ask` sees to it that none is refused.
pub(crate) async fn hundred(node: &Node, pool: &str, soon: Duration, ask: impl AsyncFnMut(u8)) {
    let shown = hundred_soon(node, pool, soon, ask).await;
    assert!(shown >= 95, "{pool}: the pressure was shown {shown} times");
}

/// The same of a pool for which nobody may have to wait. How often its pressure was shown.
pub(crate) async fn hundred_soon(
    node: &Node,
    pool: &str,
    soon: Duration,
    mut ask: impl AsyncFnMut(u8),
) -> usize {
    let (mut late, mut shown) = (Vec::new(), 0);
    for n in 0..100 {
        let before = node.age();
        ask(n).await;
        let took = node.age() - before;
        late.extend((took > soon).then_some((n, took)));
        shown += usize::from(node.pressure(pool).is_some());
        sleep(Duration::from_millis(50)).await;
    }
    assert!(late.len() <= 5, "{pool}: these waited for more than {soon:?}: {late:?}");
    shown
}

pub(crate) async fn calm(node: &Node, pool: &str) {
    sleep(Duration::from_secs(150)).await;
    assert_eq!(node.pressure(pool), None);
}

/// So many sessions of strangers, each of which does the same again and again.
fn press(
    node: &std::rc::Rc<Node>,
    count: u16,
    again: impl AsyncFn(&mut Client, u64) + Clone + 'static,
) {
    for n in 0..count {
        let (node, again) = (std::rc::Rc::clone(node), again.clone());
        tokio::task::spawn_local(async move {
            let mut client = Client::connect(&node, hostile(n)).await;
            for turn in 0.. {
                again(&mut client, turn * u64::from(count) + u64::from(n)).await;
                if node.is_quiet() {
                    return;
                }
            }
        });
    }
}

#[test]
fn questions_to_a_policy_service_take_turns_by_network() {
    play(|| async {
        let policy = format!("[[policy]]\nservice = \"{SERVICE}\"\nmax_connections = 10\n");
        let listener = "max_sessions_per_address = 1000\nrecipients_per_minute = 0";
        let node = Node::start(&format!("{}{policy}", with(listener))).await;
        Script::default().serve(&node.world);
        let node = std::rc::Rc::new(node);
        // Each question takes the service 50 ms.
        press(&node, 100, async |client, turn| {
            if turn < 100 {
                client.say("MAIL FROM:<a@s.test>").await;
            }
            client.say(&format!("RCPT TO:<slow-{turn}@ours.test>")).await;
        });
        sleep(Duration::from_secs(5)).await;
        hundred(&node, "policy_questions", SOON, async |n| {
            let said = rcpt(&node, healthy(n), "a@s.test").await;
            assert!(said.starts_with("250 "), "{said}");
        })
        .await;
        node.be_quiet();
        calm(&node, "policy_questions").await;
    });
}

#[test]
fn expansion_of_large_lists_keeps_nobody_else_waiting() {
    play(|| async {
        let listener = "max_sessions_per_address = 1000\nrecipients_per_minute = 0";
        let text = with(listener).replacen(
            "maildir =",
            "aliases = { table = \"aliases\" }\nrecipients = { table = \"users\" }\nmaildir =",
            1,
        );
        let tables = "[[table]]\nname = \"aliases\"\nscripted = { fields = [] }\n\
                      [[table]]\nname = \"users\"\nscripted = { fields = [] }\n";
        let node = Node::start(&format!("{text}{tables}")).await;
        let members: Vec<String> = (0..510).map(|n| format!("m{n}@ours.test")).collect();
        // What was expanded is remembered.
        for n in 0..500 {
            node.world.set_entry("aliases", &format!("all{n}@ours.test"), Ok(&members.join(",")));
        }
        for n in 0..100 {
            node.world.set_entry("aliases", &format!("ours{n}@ours.test"), Ok(&members.join(",")));
        }
        for member in &members {
            node.world.set_entry("users", member, Ok(""));
        }
        let mut strangers = Vec::new();
        for n in 0..100 {
            strangers.push(Client::connect(&node, hostile(n)).await);
        }
        let mut late = 0;
        for round in 0..5 {
            for (n, client) in strangers.iter_mut().enumerate() {
                client.say("RSET").await;
                client.say("MAIL FROM:<a@s.test>").await;
                let list = usize::from(round) * 100 + n;
                client.write(&format!("RCPT TO:<all{list}@ours.test>\r\n")).await;
            }
            sleep(Duration::from_micros(100)).await;
            assert!(node.pressure("expansions").is_some(), "{round}");
            for n in 0..20 {
                let before = node.age();
                let mut client = Client::connect(&node, healthy(round * 20 + n)).await;
                client.say("MAIL FROM:<a@s.test>").await;
                let said = client.say(&format!("RCPT TO:<ours{}@ours.test>", round * 20 + n)).await;
                assert!(said.starts_with("250 "), "{said}");
                late += usize::from(node.age() - before > SOON);
            }
            for client in &mut strangers {
                assert!(client.reply().await.starts_with("250 "));
            }
        }
        assert!(late <= 5, "{late} of 100 waited for more than {SOON:?}");
        calm(&node, "expansions").await;
    });
}

/// A route with aliases, which anybody may write to as often as he likes.
fn aliases(listener: &str) -> String {
    let text =
        with(listener).replacen("maildir =", "aliases = { table = \"aliases\" }\nmaildir =", 1);
    format!("{text}[[table]]\nname = \"aliases\"\nscripted = {{ fields = [] }}\n")
}

#[test]
fn a_list_that_a_hundred_networks_name_by_as_many_tags_is_expanded_once() {
    play(|| async {
        let listener = "max_sessions_per_address = 1000\nrecipients_per_minute = 0";
        let node = Node::start(&aliases(listener)).await;
        let members = |count: usize| -> String {
            let all: Vec<String> = (0..count).map(|n| format!("m{n}@ours.test")).collect();
            all.join(",")
        };
        // One that expands to too many addresses is looked at no more often.
        let lists = [("all", 3_000, "250 "), ("broken", 20_001, "451 4.3.5")];
        for (list, count, said) in lists {
            let address = format!("{list}@ours.test");
            node.world.set_entry("aliases", &address, Ok(&members(count)));
            let (before, start) = (node.world.table_questions(), node.age());
            let mut strangers = Vec::new();
            for n in 0..100 {
                let mut client = Client::connect(&node, hostile(n)).await;
                client.say("MAIL FROM:<a@s.test>").await;
                client.write(&format!("RCPT TO:<{list}+{n}@ours.test>\r\n")).await;
                strangers.push(client);
            }
            sleep(Duration::from_micros(100)).await;
            // Those who go, the first among them, keep nobody waiting.
            strangers.drain(..50);
            for n in 0..100 {
                let begun = node.age();
                let mut client = Client::connect(&node, healthy(n)).await;
                client.say("MAIL FROM:<a@s.test>").await;
                let reply = client.say(&format!("RCPT TO:<{list}+h{n}@ours.test>")).await;
                assert!(reply.starts_with(said), "{list} {n}: {reply}");
                assert!(node.age() - begun <= SOON, "{list} {n}: {:?}", node.age() - begun);
            }
            for client in &mut strangers {
                let reply = client.reply().await;
                assert!(reply.starts_with(said), "{list}: {reply}");
            }
            let asked = node.world.table_questions() - before;
            // Two for each member, once in five seconds, and for each of those who name the list.
            let times = (node.age() - start).as_secs() as usize / 5 + 1;
            assert!(asked <= 2 * count * times + 200 * 4, "{list}: {asked}, {times} times");
        }
    });
}

#[test]
fn who_owes_for_the_members_of_lists_has_no_more_expanded() {
    play(|| async {
        let text = with("recipients_per_minute = 500").replacen(
            "maildir =",
            "aliases = { table = \"aliases\" }\nmaildir =",
            1,
        );
        let tables = "[[table]]\nname = \"aliases\"\nscripted = { fields = [] }\n";
        let node = Node::start(&format!("{text}{tables}")).await;
        let members: Vec<String> = (0..2_000).map(|n| format!("m{n}@ours.test")).collect();
        node.world.set_entry("aliases", "all@ours.test", Ok(&members.join(",")));
        let mut sessions = Vec::new();
        for n in 0..5 {
            let mut client = Client::connect(&node, hostile(0)).await;
            client.say("MAIL FROM:<a@s.test>").await;
            client.write(&format!("RCPT TO:<all+{n}@ours.test>\r\n")).await;
            sessions.push(client);
        }
        let mut taken = 0;
        for client in &mut sessions {
            let said = client.reply().await;
            taken += usize::from(said.starts_with("250 "));
            assert!(said.starts_with("250 ") || said.starts_with("450 4.7.1"), "{said}");
        }
        assert!(taken >= 1, "the first may go beyond what is its network's");
        // Nothing is looked up any more for who is refused in the end.
        let asked = || node.world.table_questions();
        let before = asked();
        for n in 0..10 {
            let said = rcpt(&node, hostile(0), &format!("a{n}@s.test")).await;
            assert!(said.starts_with("450 4.7.1"), "{said}");
            let mut client = Client::connect(&node, hostile(0)).await;
            client.say("MAIL FROM:<a@s.test>").await;
            let said = client.say(&format!("RCPT TO:<all+again{n}@ours.test>")).await;
            assert!(said.starts_with("450 4.7.1"), "{said}");
        }
        assert!(asked() - before < 200, "{}", asked() - before);
    });
}

/// The last reply to a message.
async fn offer(client: &mut Client, to: &str) -> String {
    client.say("MAIL FROM:<a@s.test>").await;
    client.say(&format!("RCPT TO:<{to}>")).await;
    let said = client.say("DATA").await;
    if said.starts_with("354") {
        return client.say("Subject: x\r\n\r\nbody\r\n.").await;
    }
    client.say("RSET").await;
    said
}

#[test]
fn strangers_fill_no_more_of_the_queue_than_is_theirs() {
    play(|| async {
        let spool = "[spool]\nqueue_recipients_max = 2000\n";
        let node = Node::start(&format!(
            "{}{spool}",
            with("messages_per_minute = 0\nrefusals_per_minute = 0\nmax_errors = 100000")
        ))
        .await;
        // Mail for our mailboxes stays in the queue.
        node.world.set_mailbox_failure(Some(ErrorKind::PermissionDenied));
        let mut refused = 0;
        for n in 0..100 {
            let mut client = Client::connect(&node, hostile(n)).await;
            for _ in 0..25 {
                let said = offer(&mut client, "jo@ours.test").await;
                refused += usize::from(said.starts_with("452 4.3.1"));
                assert!(said.starts_with("250 ") || said.starts_with("452 4.3.1"), "{said}");
            }
        }
        assert!(refused > 1_000, "{refused}");
        let shown = node.pressure("queue").expect("it is shown");
        assert!(shown.contains(&format!("{refused} were rejected")), "{shown}");
        let mut stranger = Client::connect(&node, hostile(0)).await;
        hundred(&node, "queue", SOON, async |n| {
            let said = offer(&mut stranger, "jo@ours.test").await;
            assert!(said.starts_with("452 4.3.1"), "{said}");
            let mut client = Client::connect(&node, healthy(n)).await;
            let said = offer(&mut client, "jo@ours.test").await;
            assert!(said.starts_with("250 2.0.0"), "{n}: {said}");
        })
        .await;
        // Clients that may relay have a tenth, whatever strangers do.
        let mut friend = Client::connect(&node, FRIEND).await;
        for _ in 0..150 {
            let said = offer(&mut friend, "x@far.test").await;
            assert!(said.starts_with("250 2.0.0"), "{said}");
        }
        calm(&node, "queue").await;
    });
}
