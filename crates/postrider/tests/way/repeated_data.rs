//! DATA that is said again after it was refused, which leaves the transaction open.

use super::node::{Node, config, play};
use super::stages::{ROUTES, Scripted, begun};
use super::world::TestWorld;
use spool::memdisk::MemDisk;
use std::path::Path;
use std::rc::Rc;

/// Three stages in a row, the second of which refuses content once for each that is asked for.
async fn three() -> (Node, Scripted) {
    let world = TestWorld::new();
    let stages = [("First", 1), ("Second", 2), ("Third", 3)];
    let [first, second, third] = stages.map(|(name, line)| Scripted::new(&world, name, line));
    for stage in [first, second.clone(), third] {
        world.add_stage(stage);
    }
    let disk = Rc::new(MemDisk::new(1, 1 << 30));
    (Node::start_on(world, disk, &config(ROUTES)).await, second)
}

#[test]
fn data_that_is_said_again_is_seen_by_all_stages_and_takes_no_more_room() {
    play(|| async {
        let (node, second) = three().await;
        second.refusals_left.set(2);
        let mut client = begun(&node).await;
        client.say("RCPT TO:<a@ours.test>").await;
        for _ in 0..2 {
            assert_eq!(client.say("DATA").await, "451 4.3.0 No content yet");
        }
        assert!(client.say("DATA").await.starts_with("354"));
        assert_eq!(node.shared.queue_slots.used(), 1);
        client.write("Subject: x\r\n\r\nbody\r\n").await;
        assert!(client.say(".").await.starts_with("250 2.0.0 Ok: queued as"));
        node.wait_for("delivered", 1).await;
        let content = node.world.mailboxes()[Path::new("/mail/a")][0].clone();
        let fields: Vec<&str> = content.lines().skip(2).take(3).collect();
        assert_eq!(fields, ["X-Third: 20 bytes", "X-Second: 20 bytes", "X-First: 20 bytes"]);
        assert_eq!((node.shared.queue_slots.used(), node.shared.body_memory.used()), (0, 0));
    });
}

#[test]
fn data_that_is_said_again_for_others_brings_them_the_content() {
    play(|| async {
        let (node, second) = three().await;
        second.refusals_left.set(1);
        let mut client = begun(&node).await;
        client.say("RCPT TO:<nobody@ours.test>").await;
        assert_eq!(client.say("DATA").await, "451 4.3.0 No content yet");
        client.say("RCPT TO:<a@ours.test>").await;
        let reply = client.content("Subject: x\r\n\r\nbody\r\n").await;
        assert!(reply.starts_with("250 2.0.0 Ok: queued as"), "{reply}");
        node.wait_for("delivered", 1).await;
        let content = node.world.mailboxes()[Path::new("/mail/a")][0].clone();
        assert!(content.ends_with("\r\n\r\nbody\r\n"), "{content}");
    });
}
