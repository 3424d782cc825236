//! Characters that begin a tag in recipients.

use super::*;

#[test]
fn tags_begin_with_any_of_the_delimiters() {
    play(|| async {
        let text = format!("recipient_delimiter = \"-+\"\n{}", config(TABLES));
        let node = Node::start(&text).await;
        entries(&node.world, "users", &[("jo@ours.test", "x"), ("list@ours.test", "x")]);
        entries(&node.world, "aliases", &[("al@ours.test", "jo@ours.test")]);
        let mut client = begin(&node, STRANGER).await;
        for (to, reply) in [
            ("jo-news@ours.test", "250 2.1.5"),
            ("jo+news-a@ours.test", "250 2.1.5"),
            ("al-news@ours.test", "250 2.1.5"),
            ("jo=news@ours.test", "550 5.1.1"),
            ("owner-list@ours.test", "550 5.1.1"),
            ("list-request@ours.test", "550 5.1.1"),
        ] {
            let said = rcpt(&mut client, to).await;
            assert!(said.starts_with(reply), "{to}: {said}");
        }
        drop(client);
        // The member of an alias keeps the tag, with its delimiter.
        submit(&node, "me@source.test", &["al-news@ours.test"]).await;
        node.wait_for("delivered", 1).await;
        let events = node.events(&["recipient"]).join("\n");
        assert!(events.contains("delivered recipient=jo-news@ours.test"), "{events}");
        let none = format!("recipient_delimiter = \"\"\n{}", config(TABLES));
        let node = Node::start(&none).await;
        entries(&node.world, "users", &[("jo@ours.test", "x")]);
        let mut client = begin(&node, STRANGER).await;
        let said = rcpt(&mut client, "jo+news@ours.test").await;
        assert!(said.starts_with("550 5.1.1"), "{said}");
    });
}
