//! Copies of a directory that tells of its changes: Debian's slapd with syncprov.

use super::run;
use super::slapd::{Slapd, is_possible};
use super::snapshots::{Stand, becomes, text, until};

const JOE: &str = "uid=joe,ou=people,dc=example,dc=test";
const NEW: &str = "uid=new,ou=people,dc=example,dc=test";
const FIELDS: [(&str, &str); 3] =
    [("uid", "new"), ("mail", "new@example.test"), ("description", "new")];

/// With and without a log of what went: from it the server tells what is gone, without it what is there.
const LOGS: [&str; 2] = ["", "syncprov-sessionlog 1000\n"];

#[test]
fn changes_are_told_as_they_happen() {
    if !is_possible() {
        return;
    }
    let slapd = Slapd::start_telling(LOGS[1]);
    run(async {
        let stand = Stand::new();
        // It is not read a second time while the test lasts.
        let users = stand.open(&[&slapd.url()], "(mail=%s)", "refresh = \"1h\"");
        becomes(&users, "joe@example.test", "/srv/mail/joe").await;
        let entries = users.status().entries;
        until("it is followed", || users.status().mode == "synchronised").await;
        let mut admin = slapd.admin();
        admin.add(NEW, &FIELDS);
        becomes(&users, "new@example.test", "new").await;
        let changed = users.status().changed.unwrap_or_default();
        assert!(changed.ends_with(&format!(": {NEW} came")), "{changed}");
        assert_eq!(users.status().entries, entries + 1);
        admin.replace(JOE, "description", "/srv/mail/elsewhere");
        becomes(&users, "joe@example.test", "/srv/mail/elsewhere").await;
        admin.replace(JOE, "mail", "joseph@example.test");
        becomes(&users, "joseph@example.test", "/srv/mail/elsewhere").await;
        assert_eq!(text(&users, "joe@example.test"), "-");
        admin.delete(NEW);
        becomes(&users, "new@example.test", "-").await;
        assert_eq!(users.status().entries, entries);
        assert_eq!(users.trouble(), None);
    });
}

#[test]
fn what_happened_while_nobody_listened_is_caught_up_with() {
    if !is_possible() {
        return;
    }
    for log in LOGS {
        let slapd = Slapd::start_telling(log);
        run(async {
            let stand = Stand::new();
            let open = || stand.open(&[&slapd.url()], "(mail=%s)", "refresh = \"1h\"");
            let users = open();
            becomes(&users, "joe@example.test", "/srv/mail/joe").await;
            let mut admin = slapd.admin();
            // This is known, and not in the file: a restart learns it again.
            admin.add(NEW, &FIELDS);
            becomes(&users, "new@example.test", "new").await;
            drop(users);
            admin.replace(JOE, "description", "/srv/mail/elsewhere");
            admin.delete("uid=two,ou=people,dc=example,dc=test");
            let users = open();
            // It may be known by now, or not.
            let first = text(&users, "joe@example.test");
            assert!(["/srv/mail/joe", "/srv/mail/elsewhere"].contains(&first.as_str()), "{first}");
            becomes(&users, "joe@example.test", "/srv/mail/elsewhere").await;
            becomes(&users, "zwei@example.test", "-").await;
            assert_eq!(text(&users, "new@example.test"), "new");
            assert_eq!(text(&users, "comma@example.test"), "comma");
            assert_eq!(users.metrics().reads.get(), 0, "all was read again");
        });
    }
}

#[test]
fn changes_go_into_the_file() {
    if !is_possible() {
        return;
    }
    let mut slapd = Slapd::start_telling(LOGS[1]);
    run(async {
        let stand = Stand::new();
        let url = slapd.url();
        let open = || stand.open(&[&url], "(mail=%s)", "refresh = \"1s\"");
        let users = open();
        becomes(&users, "joe@example.test", "/srv/mail/joe").await;
        let before = std::fs::read(stand.path()).expect("a file");
        let mut admin = slapd.admin();
        admin.add(NEW, &FIELDS);
        admin.delete("uid=two,ou=people,dc=example,dc=test");
        until("it is written", || std::fs::read(stand.path()).is_ok_and(|now| now != before)).await;
        until("the last of it", || {
            let seen = stand.open(&[&url], "(mail=%s)", "refresh = \"1h\"");
            text(&seen, "new@example.test") == "new" && text(&seen, "zwei@example.test") == "-"
        })
        .await;
        let entries = users.status().entries;
        drop(users);
        slapd.stop();
        let users = open();
        assert_eq!(text(&users, "new@example.test"), "new");
        assert_eq!(text(&users, "zwei@example.test"), "-");
        assert_eq!(text(&users, "joe@example.test"), "/srv/mail/joe");
        assert_eq!(users.status().entries, entries);
        // It goes on where the file ends.
        slapd.run();
        slapd.admin().replace(JOE, "description", "/srv/mail/back");
        becomes(&users, "joe@example.test", "/srv/mail/back").await;
        assert_eq!(users.metrics().reads.get(), 0, "all was read again");
        until("it is well", || users.trouble().is_none()).await;
    });
}
