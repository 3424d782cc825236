//! Mailboxes that the recipient's entry in a table names.

use super::client::{Client, STRANGER, submit};
use super::node::{Node, config, play};
use lookup::{LookupError, LookupErrorKind};
use std::path::Path;
use std::time::Duration;

/// A field of an entry, and its values.
type Field<'a> = (&'a str, &'a [&'a str]);

/// Mailboxes by the `mailbox` of the recipient's entry, with more keys.
fn with(keys: &str) -> String {
    config(&format!(
        "[[table]]\nname = \"users\"\nscripted = {{ fields = [\"mailbox\", \"quota\", \"uid\"] }}\n\
         [retry]\njitter = 0\n[[route]]\ndomains = [\"ours.test\"]\n\
         recipients = {{ table = \"users\" }}\nmaildir = {{ path = \"/mail/{{mailbox}}\"{keys} }}\n\
         [[route]]\nsmtp = {{ hosts = [\"192.0.2.1:25\"] }}"
    ))
}

/// Whether a mailbox has so many messages.
fn has(node: &Node, path: &str, count: usize) -> bool {
    node.world.mailboxes().get(Path::new(path)).map_or(0, Vec::len) == count
}

/// A message that was accepted but for its content, after which the recipient's entry changes.
async fn accepted(node: &Node, to: &[&str]) -> Client {
    let mut client = Client::connect(node, STRANGER).await;
    client.say("MAIL FROM:<me@source.test>").await;
    for to in to {
        let said = client.say(&format!("RCPT TO:<{to}>")).await;
        assert!(said.starts_with("250 "), "{to}: {said}");
    }
    client
}

const CONTENT: &str = "Subject: x\r\n\r\nbody\r\n";

#[test]
fn an_entry_names_the_mailbox_its_quota_and_its_user() {
    play(|| async {
        let keys = ", quota = \"{Quota}\", user = \"{uid}\", group = \"mail\", folders = \"tag\"";
        let node = Node::start(&with(keys)).await;
        let values: &[(&str, &[&str])] =
            &[("mailbox", &["example/j/jo/Maildir/"]), ("quota", &["5MiB"]), ("uid", &["5001"])];
        node.world.set_values("users", "jo@ours.test", values);
        submit(&node, "me@source.test", &["Jo+Lists@Ours.test"]).await;
        node.wait_for("delivered", 1).await;
        let place = node.world.last_mailbox().expect("one");
        assert_eq!(place.path(), Path::new("/mail/example/j/jo/Maildir"));
        assert_eq!(place.root, Path::new("/mail/"));
        assert_eq!(place.folder.map(|folder| folder.name).as_deref(), Some(".Lists"));
        assert_eq!(place.quota_bytes, Some(5 << 20));
        let (user, group) = (&place.keeping.user, &place.keeping.group);
        let named = |account: &Option<mta::seams::SystemAccount>| {
            account.as_ref().map(|account| (account.name.clone(), account.by_table))
        };
        assert_eq!(named(user), Some(("5001".to_owned(), true)));
        assert_eq!(named(group), Some(("mail".to_owned(), false)));
        // Without a quota there is none, by an entry for everybody.
        let values: &[(&str, &[&str])] = &[("mailbox", &["all"]), ("uid", &["vmail"])];
        node.world.set_values("users", "@ours.test", values);
        submit(&node, "me@source.test", &["ann@ours.test"]).await;
        node.wait_for("delivered", 2).await;
        let place = node.world.last_mailbox().expect("one");
        assert_eq!((place.path().as_path(), place.quota_bytes), (Path::new("/mail/all"), None));
    });
}

#[test]
fn the_text_of_an_entry_without_values_names_the_mailbox() {
    play(|| async {
        let text = with("")
            .replace("scripted = { fields = [\"mailbox\", \"quota\", \"uid\"] }", "inline = {}");
        let node = Node::start(&text.replace("{mailbox}", "{value}")).await;
        node.world.set_entry("users", "jo@ours.test", Ok("j/jo"));
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        node.wait_for("delivered", 1).await;
        assert!(has(&node, "/mail/j/jo", 1));
    });
}

#[test]
fn what_the_entry_says_at_the_delivery_counts() {
    play(|| async {
        let node = Node::start(&with("")).await;
        node.world.set_values("users", "jo@ours.test", &[("mailbox", &["before"])]);
        let mut client = accepted(&node, &["jo@ours.test"]).await;
        node.world.set_values("users", "jo@ours.test", &[("mailbox", &["after"])]);
        client.content(CONTENT).await;
        node.wait_for("delivered", 1).await;
        assert!(has(&node, "/mail/after", 1) && has(&node, "/mail/before", 0));
        // So does a table that is told otherwise.
        let renamed = with("").replace("{mailbox}", "x/{uid}");
        node.world.set_values("users", "jo@ours.test", &[("uid", &["7"])]);
        node.reload(&renamed);
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        node.wait_for("delivered", 2).await;
        assert!(has(&node, "/mail/x/7", 1));
    });
}

#[test]
fn values_that_name_no_mailbox_put_mail_off_until_they_do() {
    play(|| async {
        let node = Node::start(&with(", user = \"{uid}\", quota = \"{quota}\"")).await;
        let (long, longer) = ("x".repeat(256), "x/".repeat(2_048));
        let (long, longer) = ([&*long], [&*longer]);
        let uid: (&str, &[&str]) = ("uid", &["5001"]);
        let good: (&str, &[&str]) = ("mailbox", &["jo"]);
        let mailbox = |value: &'static [&'static str]| vec![("mailbox", value), uid];
        let bad: Vec<(Vec<Field<'_>>, &str)> = vec![
            (mailbox(&[".."]), "contains `.`"),
            (mailbox(&["a/../../../etc"]), "contains `.`"),
            (mailbox(&["/etc"]), "absolute path"),
            (mailbox(&[""]), "is empty"),
            (mailbox(&["a\0b"]), "contains NUL"),
            (mailbox(&["a", "b"]), "`mailbox` of the recipient's entry has 2 values"),
            (vec![("mailbox", &long), uid], "too long"),
            (vec![("mailbox", &longer), uid], "too long"),
            (vec![uid], "the recipient's entry has no `mailbox`"),
            (vec![good, ("uid", &["0"])], "`uid` of the recipient's entry is root's"),
            (vec![good, ("uid", &["a b"])], "names no user"),
            (vec![good], "has no `uid`"),
            (
                vec![good, uid, ("quota", &["much"])],
                "`quota` of the recipient's entry is not a size",
            ),
        ];
        for (n, (values, told)) in bad.iter().enumerate() {
            let count = node.count("deferred");
            node.world.set_values("users", "jo@ours.test", values);
            submit(&node, "me@source.test", &["jo@ours.test"]).await;
            node.wait_for("deferred", count + 1).await;
            let deferred = node.of("deferred").pop().expect("one");
            assert_eq!(deferred["status"], "4.2.0", "{deferred}");
            let reason = deferred["reason"].to_string();
            assert!(reason.contains(told), "{values:?}: {reason}");
            assert_eq!(node.world.mailboxes().values().map(Vec::len).sum::<usize>(), n);
            node.world.set_values("users", "jo@ours.test", &[good, uid]);
            node.wait_for("delivered", n + 1).await;
        }
        assert!(has(&node, "/mail/jo", bad.len()));
        assert_eq!(node.count("failed"), 0);
    });
}

#[test]
fn a_table_that_gives_no_answer_puts_its_recipients_off_and_no_others() {
    play(|| async {
        let node = Node::start(&with("")).await;
        let world = &node.world;
        let mut silent = Vec::new();
        for n in 0..50 {
            let address = format!("u{n}@ours.test");
            world.set_values("users", &address, &[("mailbox", &[&*format!("u{n}")])]);
            silent.push(address);
        }
        world.set_values("users", "ann@ours.test", &[("mailbox", &["ann"])]);
        let addresses: Vec<&str> = silent.iter().map(String::as_str).collect();
        let mut client = accepted(&node, &addresses).await;
        for address in &silent {
            let gone = LookupError::new(LookupErrorKind::Unreachable, "connection refused");
            world.set_entry("users", address, Err(gone));
        }
        client.content(CONTENT).await;
        node.wait_for("deferred", 50).await;
        let deferred = node.of("deferred").remove(0);
        assert_eq!((&deferred["status"], &deferred["culprit"]), (&"4.4.3".into(), &"local".into()));
        let reason = deferred["reason"].to_string();
        assert!(reason.contains("no answer from table users: connection refused"), "{reason}");
        submit(&node, "me@source.test", &["ann@ours.test"]).await;
        node.wait_for("delivered", 1).await;
        assert_eq!(node.count("suspended"), 0, "the mailboxes are well");
        // An answer that comes late is an answer.
        world.set_table_delay(Some(Duration::from_secs(20)));
        for (n, address) in silent.iter().enumerate() {
            world.set_values("users", address, &[("mailbox", &[&*format!("u{n}")])]);
        }
        node.wait_for("delivered", 51).await;
        assert!(has(&node, "/mail/u49", 1));
        assert_eq!((node.count("failed"), node.count("suspended")), (0, 0));
    });
}

#[test]
fn mail_for_who_is_no_longer_in_the_table_is_returned() {
    play(|| async {
        let node = Node::start(&with("")).await;
        for name in ["jo", "ann"] {
            let address = format!("{name}@ours.test");
            node.world.set_values("users", &address, &[("mailbox", &[name])]);
        }
        let mut client = accepted(&node, &["jo@ours.test", "ann@ours.test"]).await;
        node.world.remove_entry("users", "jo@ours.test");
        client.content(CONTENT).await;
        node.wait_for("failed", 1).await;
        node.wait_for("delivered", 1).await;
        let failed = node.of("failed").remove(0);
        assert_eq!(
            (&failed["recipient"], &failed["status"]),
            (&"jo@ours.test".into(), &"5.1.1".into())
        );
        let reason = failed["reason"].to_string();
        assert!(reason.contains("jo@ours.test is no longer in table users"), "{reason}");
        assert!(has(&node, "/mail/ann", 1));
    });
}

#[test]
fn without_values_no_table_is_asked_at_the_delivery() {
    play(|| async {
        let node = Node::start(&with("").replace("{mailbox}", "{local}")).await;
        node.world.set_values("users", "jo@ours.test", &[("mailbox", &["x"])]);
        let mut client = accepted(&node, &["jo@ours.test"]).await;
        node.world.remove_entry("users", "jo@ours.test");
        client.content(CONTENT).await;
        node.wait_for("delivered", 1).await;
        assert!(has(&node, "/mail/jo", 1));
    });
}

#[test]
fn mail_that_waits_over_a_restart_goes_where_the_entry_says_then() {
    play(|| async {
        let node = Node::start(&with("")).await;
        node.world.set_values("users", "jo@ours.test", &[("mailbox", &[".."])]);
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        node.wait_for("deferred", 1).await;
        let node = node.restart().await;
        node.world.set_values("users", "jo@ours.test", &[("mailbox", &["moved"])]);
        node.wait_for("delivered", 1).await;
        assert!(has(&node, "/mail/moved", 1));
    });
}
