//! Steps before a message is durable: what they may do, and how long they are waited for.

use super::client::{Client, FRIEND, STRANGER, submit};
use super::node::{Node, config, play, wait_until};
use super::world::TestWorld;
use config::Config;
use mail::{Mailbox, Notify, Recipient, Refusal};
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{
    Draft, Observer, Placed, Resolved, Routed, Session, Stage, StageKind, TransactionView,
};
use mta::pressure::Pressures;
use mta::seams::{Time as _, World as _};
use spool::memdisk::MemDisk;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

pub(crate) const ROUTES: &str = "[[route]]\ndomains = [\"ours.test\"]\nmaildir = { path = \"/mail/{local}\" }\n\
                      [[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }";

/// Does what local parts say; keeps what it was asked.
#[derive(Clone)]
pub(crate) struct Scripted {
    name: &'static str,
    line: u32,
    world: TestWorld,
    asked: Rc<RefCell<Vec<String>>>,
    open: Rc<Cell<usize>>,
    open_max: Rc<Cell<usize>>,
    /// How often it still refuses content.
    pub(crate) refusals_left: Rc<Cell<u32>>,
}

impl Scripted {
    pub(crate) fn new(world: &TestWorld, name: &'static str, line: u32) -> Scripted {
        Scripted {
            name,
            line,
            world: world.clone(),
            asked: Rc::default(),
            open: Rc::default(),
            open_max: Rc::default(),
            refusals_left: Rc::default(),
        }
    }

    fn note(&self, what: &str) {
        self.asked.borrow_mut().push(format!("{} {what}", self.name));
    }

    /// After a time, which other recipients may take at once.
    fn after<T: 'static>(&self, time: Duration, answer: T) -> Answer<'static, T> {
        let script = self.clone();
        script.open.set(script.open.get() + 1);
        script.open_max.set(script.open_max.get().max(script.open.get()));
        let guard = Open(Rc::clone(&script.open));
        Answer::later(async move {
            let time = script.world.time().now() + time;
            script.world.time().sleep_until(time).await;
            drop(guard);
            answer
        })
    }
}

/// Counts a question that is open.
struct Open(Rc<Cell<usize>>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl StageKind<TestWorld> for Scripted {
    fn stages(
        &self,
        _config: &Config,
        _world: &TestWorld,
        _console: &Rc<dyn Console>,
        _pools: &Pressures,
    ) -> Vec<Placed> {
        vec![Placed { line: self.line, stage: Rc::new(self.clone()) }]
    }
}

fn recipient(mailbox: &str) -> Recipient {
    let mailbox = Mailbox::parse(mailbox, false).expect("an address");
    Recipient { mailbox, notify: Notify::UNSPECIFIED, orcpt: None }
}

impl Stage for Scripted {
    fn name(&self) -> &'static str {
        self.name
    }

    fn connect<'a>(&'a self, session: &'a Rc<Session>) -> Decision<'a, ()> {
        match session.client().address.ip() == STRANGER {
            true => Answer::Now(Err(Refusal::permanent((7, 1), "No strangers here"))),
            false => Decision::pass(),
        }
    }

    fn sender<'a>(&'a self, transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        let local = transaction.sender.as_ref().map_or("", |sender| sender.local());
        self.note(&format!("sender {local} size {:?}", transaction.size));
        let blocked = Refusal::permanent((7, 1), "Not you");
        match local {
            "blocked" => Answer::Now(Err(blocked)),
            "late" => self.after(Duration::from_secs(1), Err(blocked)),
            "never" => Answer::later(std::future::pending()),
            _ => Decision::pass(),
        }
    }

    fn recipient(
        &self,
        transaction: &Rc<TransactionView>,
        to: &Recipient,
        routed: Routed<'_>,
    ) -> Decision<'static, Option<Resolved>> {
        self.note(&format!("recipient {} routed {}", to.mailbox.local(), routed.is_taken));
        match to.mailbox.local().split('-').next().unwrap_or_default() {
            "refused" => Answer::Now(Err(Refusal::permanent((1, 1), "Nobody of this name"))),
            "list" => {
                let members =
                    ["a@ours.test", "b@ours.test", "a@ours.test"].map(|to| recipient(to).into());
                Answer::Now(Ok(Some(Resolved::Replaced(members.into()))))
            }
            "crowd" => {
                let count = to.mailbox.local().split('-').nth(1).and_then(|n| n.parse().ok());
                let member = |n: u32| recipient(&format!("c{n}@ours.test")).into();
                let members = (0..count.expect("how many")).map(member).collect();
                Answer::Now(Ok(Some(Resolved::Replaced(members))))
            }
            "nobody" => Answer::Now(Ok(Some(Resolved::Dropped("nobody reads it".into())))),
            "slow" => self.after(Duration::from_millis(50), Ok(None)),
            "slower" => {
                let refused = Refusal::transient((2, 0), "Come again");
                self.after(Duration::from_millis(80), Err(refused))
            }
            "never" => Answer::later(std::future::pending()),
            "marked" => {
                transaction.prepend("X-Marked: yes");
                Answer::Now(Ok(None))
            }
            _ => Answer::Now(Ok(None)),
        }
    }

    fn data<'a>(&'a self, _transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        let left = self.refusals_left.get();
        self.refusals_left.set(left.saturating_sub(1));
        match left {
            0 => Decision::pass(),
            _ => Answer::Now(Err(Refusal::transient((3, 0), "No content yet"))),
        }
    }

    fn observe(&self, _transaction: &Rc<TransactionView>) -> Option<Box<dyn Observer>> {
        Some(Box::new(Seen(0)))
    }

    fn content<'a>(
        &'a self,
        transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        let observer: Box<dyn Any> = observer.expect("the one that was given");
        let Seen(bytes) = *observer.downcast::<Seen>().expect("of this stage");
        draft.prepend(&format!("X-{}: {bytes} bytes", self.name));
        match transaction.sender.as_ref().map_or("", |sender| sender.local()) {
            "spam" => Answer::Now(Err(Refusal::permanent((7, 1), "Spam"))),
            "stuck" => Answer::later(std::future::pending()),
            "odd" => {
                draft.hold("odd content");
                Decision::pass()
            }
            "generous" => {
                draft.add_recipient(recipient("more@ours.test"));
                Decision::pass()
            }
            _ => Decision::pass(),
        }
    }
}

/// Counts content.
struct Seen(usize);

impl Observer for Seen {
    fn push(&mut self, piece: &[u8]) {
        self.0 += piece.len();
    }
}

async fn start() -> (Node, Scripted) {
    let world = TestWorld::new();
    let stage = Scripted::new(&world, "One", 1);
    world.add_stage(stage.clone());
    let disk = Rc::new(MemDisk::new(1, 1 << 30));
    (Node::start_on(world, disk, &config(ROUTES)).await, stage)
}

pub(crate) async fn begun(node: &Node) -> Client {
    let mut client = Client::connect(node, FRIEND).await;
    let reply = client.say("MAIL FROM:<me@source.test> SIZE=100").await;
    assert!(reply.starts_with("250"), "{reply}");
    client
}

#[test]
fn a_client_is_turned_away_and_a_sender_refused_now_or_later() {
    play(|| async {
        let (node, _) = start().await;
        let mut stranger = Client::open(&node, STRANGER);
        let greeting = stranger.reply().await;
        assert_eq!(greeting, "554 5.7.1 relay.test No strangers here");
        let mut client = Client::connect(&node, FRIEND).await;
        let reply = client.say("MAIL FROM:<blocked@source.test>").await;
        assert_eq!(reply, "550 5.7.1 Not you");
        let before = node.age();
        let reply = client.say("MAIL FROM:<late@source.test>").await;
        assert_eq!(reply, "550 5.7.1 Not you");
        assert_eq!(node.age() - before, Duration::from_secs(1));
        let reply = client.say("MAIL FROM:<fine@source.test>").await;
        assert_eq!(reply, "250 2.1.0 Sender ok");
        let refused = node.events(&["step", "status"]);
        let expected =
            ["connect", "MAIL", "MAIL"].map(|s| format!("refused step={s} status=5.7.1"));
        assert_eq!(refused, expected);
    });
}

#[test]
fn recipients_are_refused_replaced_or_dropped() {
    play(|| async {
        let (node, stage) = start().await;
        let mut client = begun(&node).await;
        let reply = client.say("RCPT TO:<refused@ours.test>").await;
        assert_eq!(reply, "550 5.1.1 Nobody of this name");
        for taken in ["list", "a", "nobody", "marked"] {
            let reply = client.say(&format!("RCPT TO:<{taken}@ours.test>")).await;
            assert_eq!(reply, "250 2.1.5 Recipient ok", "{taken}");
        }
        let reply = client.content("Subject: x\r\n\r\nbody\r\n").await;
        assert!(reply.starts_with("250 2.0.0 Ok: queued as"), "{reply}");
        node.wait_for("delivered", 3).await;
        let mailboxes = node.world.mailboxes();
        let names: Vec<String> = mailboxes.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(names, ["/mail/a", "/mail/b", "/mail/marked"]);
        assert!(mailboxes.values().all(|messages| messages.len() == 1), "{mailboxes:?}");
        let content = &mailboxes[std::path::Path::new("/mail/a")][0];
        // Behind those of the mailbox.
        let fields: Vec<&str> = content.lines().skip(2).take(2).collect();
        assert_eq!(fields, ["X-One: 20 bytes", "X-Marked: yes"]);
        assert_eq!(stage.asked.borrow()[0], "One sender me size Some(100)");
        assert_eq!(node.shared.queue_slots.used(), 0);
    });
}

#[test]
fn a_message_that_nobody_is_to_get_is_not_written() {
    play(|| async {
        let (node, _) = start().await;
        submit(&node, "me@source.test", &["a@ours.test"]).await;
        node.wait_for("delivered", 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let written = node.disk.written_bytes();
        let mut client = begun(&node).await;
        client.say("RCPT TO:<nobody@ours.test>").await;
        let large = format!("\r\n{}", "x\r\n".repeat(1 << 20));
        let reply = client.content(&large).await;
        assert_eq!(reply, "250 2.0.0 Ok: discarded");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(node.disk.written_bytes(), written);
        let discarded = &node.of("discarded")[0];
        assert_eq!(discarded["recipient"], "nobody@ours.test");
        assert_eq!(discarded["reason"], "nobody reads it");
        assert_eq!(discarded["size"], large.len());
        assert_eq!(node.shared.body_memory.used(), 0);
        client.say("MAIL FROM:<me@source.test>").await;
        client.say("RCPT TO:<a@ours.test>").await;
        let reply = client.content("x\r\n").await;
        assert!(reply.starts_with("250 2.0.0 Ok: queued as"), "the next one is: {reply}");
    });
}

#[test]
fn a_route_that_discards_before_the_queue_has_nothing_written() {
    play(|| async {
        let text = config(
            "[[route]]\nname = \"hole\"\ndomains = [\"hole.test\"]\ndiscard = { before_queue = true }\n\
             [[route]]\ndomains = [\"later.test\"]\ndiscard = {}",
        );
        let node = Node::start(&text).await;
        submit(&node, "me@source.test", &["a@later.test"]).await;
        node.wait_for("delivered", 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let written = node.disk.written_bytes();
        let mut client = Client::connect(&node, FRIEND).await;
        let to = ["a@hole.test", "b@hole.test"];
        let reply = client.send("me@source.test", &to, "Subject: x\r\n\r\n").await;
        assert_eq!(reply, "250 2.0.0 Ok: discarded");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((node.disk.written_bytes(), node.count("received")), (written, 1));
        let to = ["a@hole.test", "a@later.test"];
        let reply = client.send("me@source.test", &to, "Subject: x\r\n\r\n").await;
        assert!(reply.starts_with("250 2.0.0 Ok: queued as"), "{reply}");
        node.wait_for("delivered", 2).await;
        let told = node.events(&["recipient", "reason"]);
        let discarded = told.iter().filter(|line| line.starts_with("discarded"));
        let expected = ["a", "b", "a"].map(|name| {
            format!("discarded recipient={name}@hole.test reason=discarded by route hole")
        });
        assert_eq!(discarded.collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
        assert_eq!(node.of("received")[1]["recipients"], serde_json::json!(["a@later.test"]));
        assert_eq!(node.shared.queue_slots.used(), 0);
    });
}

#[test]
fn what_an_address_stands_for_needs_a_route() {
    play(|| async {
        let world = TestWorld::new();
        world.add_stage(Scripted::new(&world, "One", 1));
        let routes = "[[route]]\ndomains = [\"other.test\"]\ndiscard = {}";
        let disk = Rc::new(MemDisk::new(1, 1 << 30));
        let node = Node::start_on(world, disk, &config(routes)).await;
        let mut client = begun(&node).await;
        let reply = client.say("RCPT TO:<list@other.test>").await;
        assert!(reply.starts_with("451 4.3.5"), "{reply}");
        let reply = client.say("RCPT TO:<you@ours.test>").await;
        assert_eq!(reply, "550 5.1.2 No route to this domain");
    });
}

#[test]
fn content_is_seen_whole_also_what_goes_to_disk_and_may_be_refused() {
    play(|| async {
        let (node, _) = start().await;
        let mut client = Client::connect(&node, FRIEND).await;
        let large = format!("\r\n{}", "x\r\n".repeat(1 << 20));
        let reply = client.send("me@source.test", &["a@ours.test"], &large).await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
        node.wait_for("delivered", 1).await;
        let mailboxes = node.world.mailboxes();
        let content = &mailboxes[std::path::Path::new("/mail/a")][0];
        assert!(content.contains(&format!("X-One: {} bytes", large.len())));
        for body in ["x\r\n", &large] {
            let reply = client.send("spam@source.test", &["a@ours.test"], body).await;
            assert_eq!(reply, "550 5.7.1 Spam");
        }
        assert_eq!(node.count("received"), 1);
        assert_eq!((node.shared.queue_slots.used(), node.shared.body_memory.used()), (0, 0));
    });
}

#[test]
fn a_message_that_is_held_waits_also_over_a_restart() {
    play(|| async {
        let (node, _) = start().await;
        submit(&node, "odd@source.test", &["a@ours.test", "b@ours.test"]).await;
        node.wait_for("held", 1).await;
        assert_eq!(node.events(&["reason"]), ["received", "held reason=odd content"]);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let node = node.restart().await;
        submit(&node, "me@source.test", &["c@ours.test"]).await;
        node.wait_for("delivered", 1).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(node.world.mailboxes().len(), 1);
    });
}

#[test]
fn stages_go_in_the_order_of_the_file() {
    play(|| async {
        let world = TestWorld::new();
        let first = Scripted::new(&world, "First", 3);
        let mut second = Scripted::new(&world, "Second", 7);
        second.asked = Rc::clone(&first.asked);
        world.add_stage(second);
        world.add_stage(first.clone());
        let disk = Rc::new(MemDisk::new(1, 1 << 30));
        let node = Node::start_on(world, disk, &config(ROUTES)).await;
        submit(&node, "me@source.test", &["slow@ours.test"]).await;
        let expected = ["sender me size None", "recipient slow routed true"]
            .iter()
            .flat_map(|what| ["First", "Second"].map(|name| format!("{name} {what}")));
        assert_eq!(*first.asked.borrow(), expected.collect::<Vec<_>>());
    });
}

#[test]
fn stages_add_no_recipients_beyond_what_a_message_may_have() {
    play(|| async {
        let (node, _) = start().await;
        for (crowd, sender, reply) in [
            ("crowd-65535", "me", "250 2.0.0 Ok: queued as"),
            ("crowd-65534", "generous", "250 2.0.0 Ok: queued as"),
            ("crowd-65535", "generous", "452 4.5.3 Too many recipients"),
        ] {
            let mut client = Client::connect(&node, FRIEND).await;
            let (sender, to) = (format!("{sender}@source.test"), format!("{crowd}@ours.test"));
            let said = client.send(&sender, &[&to], "x\r\n").await;
            assert!(said.starts_with(reply), "{crowd} {sender}: {said}");
        }
        let mut client = begun(&node).await;
        let reply = client.say("RCPT TO:<crowd-65536@ours.test>").await;
        assert!(reply.starts_with("451 4.3.5"), "no transaction has room for it: {reply}");
    });
}

#[test]
fn nothing_is_waited_for_longer_than_its_time() {
    play(|| async {
        let (node, stage) = start().await;
        let before = node.age();
        let mut client = Client::connect(&node, FRIEND).await;
        let reply = client.say("MAIL FROM:<never@source.test>").await;
        assert!(reply.starts_with("451 4.3.0"), "{reply}");
        assert_eq!(node.age() - before, Duration::from_secs(100));
        client.say("MAIL FROM:<stuck@source.test>").await;
        let reply = client.say("RCPT TO:<never@ours.test>").await;
        assert!(reply.starts_with("451 4.3.0"), "{reply}");
        assert_eq!(node.age() - before, Duration::from_secs(200));
        client.say("RCPT TO:<a@ours.test>").await;
        let reply = client.content("x\r\n").await;
        assert!(reply.starts_with("451 4.3.0"), "{reply}");
        assert_eq!(node.age() - before, Duration::from_secs(300));
        assert_eq!(node.count("received"), 0);
        assert_eq!((node.shared.queue_slots.used(), stage.open.get()), (0, 0));
    });
}

/// Says RCPT for all of them at once; the replies, and how long they took.
async fn pipelined(node: &Node, client: &mut Client, locals: &[String]) -> (Vec<String>, Duration) {
    let commands = locals.iter().map(|local| format!("RCPT TO:<{local}@ours.test>\r\n"));
    let before = node.age();
    client.write(&commands.collect::<String>()).await;
    let mut replies = Vec::new();
    for _ in locals {
        replies.push(client.reply().await);
    }
    (replies, node.age() - before)
}

fn numbered(kind: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{kind}-{n}")).collect()
}

#[test]
fn a_hundred_recipients_are_asked_about_at_once_and_no_more() {
    play(|| async {
        let (node, stage) = start().await;
        for (count, took_ms) in [(100, 50), (101, 100), (250, 150)] {
            let mut client = begun(&node).await;
            let (replies, took) = pipelined(&node, &mut client, &numbered("slow", count)).await;
            assert!(replies.iter().all(|reply| reply == "250 2.1.5 Recipient ok"), "{replies:?}");
            let took = took.as_millis();
            assert!((took_ms..took_ms + 10).contains(&took), "{count}: {took} ms");
            assert_eq!(stage.open_max.get(), 100);
            let reply = client.content("Subject: x\r\n\r\n").await;
            assert!(reply.starts_with("250 2.0.0 Ok: queued as"), "{reply}");
        }
        node.wait_for("delivered", 451).await;
        assert_eq!((node.shared.queue_slots.used(), stage.open.get()), (0, 0));
    });
}

#[test]
fn replies_keep_the_order_of_the_commands() {
    play(|| async {
        let (node, _) = start().await;
        let mut client = begun(&node).await;
        let locals = ["slower-1", "a", "slow-2", "refused", "slower-3", "slow-4"].map(String::from);
        let (replies, took) = pipelined(&node, &mut client, &locals).await;
        let codes: Vec<&str> = replies.iter().map(|reply| &reply[..3]).collect();
        assert_eq!(codes, ["450", "250", "250", "550", "450", "250"]);
        assert!((80..90).contains(&took.as_millis()), "{took:?}");
        // DATA waits for what is open.
        client.write("RCPT TO:<slow-5@ours.test>\r\nDATA\r\n").await;
        assert_eq!(client.reply().await, "250 2.1.5 Recipient ok");
        assert!(client.reply().await.starts_with("354"));
        client.write("x\r\n.\r\n").await;
        assert!(client.reply().await.starts_with("250 2.0.0"));
        let received = &node.of("received")[0]["recipients"];
        let expected: Vec<String> =
            ["a", "slow-2", "slow-4", "slow-5"].map(|local| format!("{local}@ours.test")).into();
        assert_eq!(*received, serde_json::json!(expected));
    });
}

#[test]
fn what_is_not_decided_in_time_is_put_off_all_of_it() {
    play(|| async {
        let (node, _) = start().await;
        let mut client = begun(&node).await;
        let (replies, took) = pipelined(&node, &mut client, &numbered("never", 5)).await;
        assert!(replies.iter().all(|reply| reply.starts_with("451 4.3.0")), "{replies:?}");
        assert_eq!(took.as_secs(), 100);
        let reply = client.say("DATA").await;
        assert!(reply.starts_with("554"), "{reply}");
        assert_eq!(node.of("refused").len(), 6);
    });
}

#[test]
fn nothing_is_asked_any_more_for_a_client_that_has_gone() {
    play(|| async {
        let (node, stage) = start().await;
        let mut client = begun(&node).await;
        let commands = numbered("slow", 20);
        let commands = commands.iter().map(|local| format!("RCPT TO:<{local}@ours.test>\r\n"));
        client.write(&commands.collect::<String>()).await;
        wait_until("they are asked about", || stage.open.get() == 20).await;
        drop(client);
        let before = node.age();
        wait_until("the session ends", || node.metrics.sessions_open.get() == 0).await;
        assert_eq!(stage.open.get(), 0);
        assert!(node.age() - before < Duration::from_millis(50));
        assert_eq!((node.count("received"), node.shared.body_memory.used()), (0, 0));
    });
}

#[test]
fn a_stop_ends_what_is_waited_for() {
    play(|| async {
        let (node, _) = start().await;
        let mut at_mail = Client::connect(&node, FRIEND).await;
        at_mail.write("MAIL FROM:<never@source.test>\r\n").await;
        let mut at_rcpt = begun(&node).await;
        at_rcpt.write("RCPT TO:<never@ours.test>\r\n").await;
        let mut at_end = Client::connect(&node, FRIEND).await;
        at_end.say("MAIL FROM:<stuck@source.test>").await;
        at_end.say("RCPT TO:<a@ours.test>").await;
        at_end.say("DATA").await;
        at_end.write("x\r\n.\r\n").await;
        wait_until("all are asked", || node.metrics.sessions_open.get() == 3).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let before = node.age();
        let clients = async {
            for (client, grace_s) in [(&mut at_mail, 0), (&mut at_rcpt, 10), (&mut at_end, 10)] {
                let reply = client.reply().await;
                assert!(reply.starts_with("451 4.3.2"), "{reply}");
                assert_eq!((node.age() - before).as_secs(), grace_s);
                let reply = client.reply().await;
                assert!(reply.starts_with("421 4.3.2"), "{reply}");
            }
        };
        tokio::join!(node.stop(Duration::from_secs(10)), clients);
        assert_eq!(node.count("received"), 0);
    });
}
