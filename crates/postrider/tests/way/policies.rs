//! Policy services.

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, config, play};
use super::world::TestWorld;
use spool::memdisk::MemDisk;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

const ROUTES: &str = "[[route]]\ndomains = [\"ours.test\"]\nmaildir = { path = \"/mail/{local}\" }";
pub(crate) const SERVICE: &str = "192.0.2.10:10023";

/// A service that does what the recipient's local part says, and what became of it.
#[derive(Clone, Default)]
pub(crate) struct Script {
    questions: Rc<RefCell<Vec<String>>>,
    connections: Rc<Cell<usize>>,
    open: Rc<Cell<usize>>,
    open_max: Rc<Cell<usize>>,
}

impl Script {
    pub(crate) fn serve(&self, world: &TestWorld) {
        let script = self.clone();
        let address: SocketAddr = SERVICE.parse().expect("an address");
        world.serve(address, move |stream| {
            script.connections.set(script.connections.get() + 1);
            let script = script.clone();
            tokio::task::spawn_local(async move { script.answer(stream).await });
        });
    }

    async fn answer(&self, mut stream: DuplexStream) {
        let mut text = String::new();
        let mut buffer = [0; 4096];
        loop {
            while !text.ends_with("\n\n") {
                match stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(n) => text += std::str::from_utf8(&buffer[..n]).expect("text"),
                }
            }
            let question = std::mem::take(&mut text);
            let recipient = value(&question, "recipient");
            let local = recipient.split('@').next().unwrap_or_default();
            self.questions.borrow_mut().push(question.clone());
            self.open.set(self.open.get() + 1);
            self.open_max.set(self.open_max.get().max(self.open.get()));
            let answer = match local.split('-').next().unwrap_or_default() {
                "grey" => "action=DEFER_IF_PERMIT Greylisted\n\n",
                "bad" => "action=REJECT 5.7.1 Not with us\n\n",
                "marked" => "action=PREPEND X-Policy: seen\n\n",
                "held" => "action=HOLD odd\n\n",
                "gone" => "action=DISCARD unwanted\n\n",
                "slow" => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    "action=DUNNO\n\n"
                }
                "mute" => {
                    tokio::time::sleep(Duration::from_secs(3600)).await;
                    "action=DUNNO\n\n"
                }
                "cut" => "",
                "odd" => "action=FILTER smtp:x\n\n",
                _ => "action=DUNNO\n\n",
            };
            self.open.set(self.open.get() - 1);
            if answer.is_empty() || stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
            if local == "last" {
                return;
            }
        }
    }
}

fn value(question: &str, name: &str) -> String {
    let line = question.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
    line.unwrap_or("absent").to_owned()
}

async fn start(keys: &str) -> (Node, Script) {
    let world = TestWorld::new();
    let script = Script::default();
    script.serve(&world);
    let disk = Rc::new(MemDisk::new(1, 1 << 30));
    let text = config(&format!("{ROUTES}\n[[policy]]\nservice = \"{SERVICE}\"\n{keys}"));
    (Node::start_on(world, disk, &text).await, script)
}

async fn begun(node: &Node) -> Client {
    let mut client = Client::connect(node, STRANGER).await;
    client.say("MAIL FROM:<me@source.test> SIZE=77").await;
    client
}

async fn rcpt(client: &mut Client, local: &str) -> String {
    client.say(&format!("RCPT TO:<{local}@ours.test>")).await
}

#[test]
fn a_service_is_asked_about_what_the_routes_take_and_what_it_says_is_done() {
    play(|| async {
        let (node, script) = start("").await;
        let mut client = begun(&node).await;
        assert_eq!(rcpt(&mut client, "grey").await, "450 4.7.1 Greylisted");
        assert_eq!(rcpt(&mut client, "bad").await, "550 5.7.1 Not with us");
        let reply = client.say("RCPT TO:<you@elsewhere.test>").await;
        assert_eq!(reply, "550 5.7.1 Relay access denied");
        for taken in ["fine", "marked", "gone"] {
            assert_eq!(rcpt(&mut client, taken).await, "250 2.1.5 Recipient ok");
        }
        let reply = client.content("Subject: x\r\n\r\n").await;
        assert!(reply.starts_with("250 2.0.0 Ok: queued"), "{reply}");
        node.wait_for("delivered", 2).await;
        assert_eq!(node.of("discarded")[0]["reason"], "unwanted");
        let mailboxes = node.world.mailboxes();
        let content = &mailboxes[std::path::Path::new("/mail/fine")][0];
        assert!(content.contains("X-Policy: seen\r\nReceived:"), "{content}");
        let questions = script.questions.borrow();
        assert_eq!((questions.len(), script.connections.get()), (5, 1), "one connection for all");
        let first = &questions[0];
        for (name, expected) in [
            ("request", "smtpd_access_policy"),
            ("protocol_state", "RCPT"),
            ("protocol_name", "ESMTP"),
            ("client_address", "203.0.113.9"),
            ("helo_name", "client.test"),
            ("sender", "me@source.test"),
            ("recipient", "grey@ours.test"),
            ("size", "77"),
        ] {
            assert_eq!(value(first, name), expected, "{name}");
        }
        let instances: Vec<String> = questions.iter().map(|q| value(q, "instance")).collect();
        assert!(instances.iter().all(|instance| *instance == instances[0]), "{instances:?}");
    });
}

#[test]
fn clients_that_may_relay_are_asked_about_only_where_that_is_said() {
    play(|| async {
        let (node, script) = start("").await;
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test>").await;
        assert!(rcpt(&mut client, "bad").await.starts_with("250"));
        assert_eq!(script.connections.get(), 0);
        node.reload(&config(&format!(
            "{ROUTES}\n[[policy]]\nservice = \"{SERVICE}\"\nclients = \"all\""
        )));
        client.say("RSET").await;
        client.say("MAIL FROM:<me@source.test>").await;
        assert!(rcpt(&mut client, "bad").await.starts_with("550"));
    });
}

#[test]
fn without_an_answer_recipients_are_put_off_or_taken() {
    play(|| async {
        for (keys, expected) in [("", "451 4.3.5"), ("on_failure = \"accept\"", "250 2.1.5")] {
            let (node, _) = start(&format!("timeout = \"5s\"\n{keys}")).await;
            let mut client = begun(&node).await;
            for (local, seconds) in [("cut", 0), ("odd", 0), ("mute", 5)] {
                let before = node.age();
                let reply = rcpt(&mut client, local).await;
                assert!(reply.starts_with(expected), "{local}: {reply}");
                assert_eq!((node.age() - before).as_secs(), seconds, "{local}");
            }
            node.world.unserve(SERVICE.parse().expect("an address"));
            let reply = rcpt(&mut client, "cut-2").await;
            assert!(reply.starts_with(expected), "{reply}");
            assert_eq!(node.lines().len(), 1, "{:?}", node.lines());
        }
    });
}

#[test]
fn a_service_that_gives_no_answer_is_told_of_once() {
    play(|| async {
        let (node, _) = start("").await;
        let mut client = begun(&node).await;
        for local in ["odd", "odd", "cut", "fine", "fine", "odd"] {
            rcpt(&mut client, local).await;
        }
        let lines = node.lines();
        let told: Vec<bool> = lines.iter().map(|line| line.contains("recovered")).collect();
        assert_eq!(told, [false, true, false], "{lines:#?}");
    });
}

#[test]
fn a_connection_that_the_service_closed_meanwhile_is_no_failure() {
    play(|| async {
        let (node, script) = start("").await;
        let mut client = begun(&node).await;
        for local in ["fine", "last", "fine2"] {
            let reply = rcpt(&mut client, local).await;
            assert_eq!(reply, "250 2.1.5 Recipient ok", "{local}");
        }
        assert_eq!((script.connections.get(), node.lines().len()), (2, 0));
    });
}

#[test]
fn recipients_are_asked_about_at_once_as_far_as_connections_go() {
    play(|| async {
        let (node, script) = start("max_connections = 20").await;
        let mut client = begun(&node).await;
        let commands = (0..100).map(|n| format!("RCPT TO:<slow-{n}@ours.test>\r\n"));
        let before = node.age();
        client.write(&commands.collect::<String>()).await;
        for _ in 0..100 {
            assert_eq!(client.reply().await, "250 2.1.5 Recipient ok");
        }
        let took = (node.age() - before).as_millis();
        assert!((250..270).contains(&took), "{took} ms");
        assert_eq!((script.open_max.get(), script.connections.get()), (20, 20));
    });
}
