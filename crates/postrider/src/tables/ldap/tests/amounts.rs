//! Copies of directories that tell of as many changes as may be, and of one more.

use super::peer::{DONE, Peer, element, entry_of, message, outcome, request};
use super::run;
use super::snapshots::{Say, Stand, becomes, text, until};
use crate::tables::ldap::snapshot::{CHANGES_MAX, OVERLAY_MAX};
use ldap::SYNC_OID;
use std::rc::Rc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;

/// Nobody asks whether the server is there while a test lasts.
const MORE: &str = "refresh = \"1h\", timeout = \"10m\"";

/// A server that tells of changes. What it says on each connection: the first when it is asked, the others each when
/// `go` says so. After the last of it it hangs up, but not on the last connection.
async fn telling(connections: Vec<Vec<Say>>, go: &Rc<Notify>) -> Peer {
    let (connections, go) = (Rc::new(connections), Rc::clone(go));
    Peer::new(move |mut stream, number| {
        let (connections, go) = (Rc::clone(&connections), Rc::clone(&go));
        async move {
            let Some((id, _)) = request(&mut stream).await else { return };
            let root = entry_of(&[("supportedControl", SYNC_OID.as_bytes())]);
            let can = [message(id, &root), message(id, &outcome(DONE, 0, b""))].concat();
            if stream.write_all(&can).await.is_err() {
                return;
            }
            let Some((id, _)) = request(&mut stream).await else { return };
            for (at, say) in connections.get(number).into_iter().flatten().enumerate() {
                if at > 0 {
                    go.notified().await;
                }
                if stream.write_all(&say(id)).await.is_err() {
                    return;
                }
            }
            if number + 1 == connections.len() {
                while stream.read_u8().await.is_ok() {}
            }
        }
    })
    .await
}

fn user(id: u8, number: u8, state: u8, value: &str) -> Vec<u8> {
    let mail = format!("user{number}@a.test");
    let entry = entry_of(&[("mail", mail.as_bytes()), ("description", value.as_bytes())]);
    let of_entry = [element(0x0a, &[state]), element(0x04, &[number; 16])].concat();
    let control =
        [element(0x04, b"1.3.6.1.4.1.4203.1.9.1.2"), element(0x04, &element(0x30, &of_entry))];
    let controls = element(0xa0, &element(0x30, &control.concat()));
    message(id, &[entry, controls].concat())
}

/// News between entries (RFC 4533 §2.5).
fn news(id: u8, value: &[u8]) -> Vec<u8> {
    let parts = [element(0x80, b"1.3.6.1.4.1.4203.1.9.1.4"), element(0x81, value)];
    message(id, &element(0x79, &parts.concat()))
}

/// So many entries that nobody knew are gone.
fn strangers_went(id: u8, count: usize) -> Vec<u8> {
    let uuid = |number: usize| element(0x04, &(u128::MAX - number as u128).to_be_bytes());
    let uuids = element(0x31, &(0..count).flat_map(uuid).collect::<Vec<_>>());
    news(id, &element(0xa3, &[element(0x01, &[0xff]), uuids].concat()))
}

/// That was all; from here on changes come as they happen.
fn done(id: u8) -> Vec<u8> {
    news(id, &element(0xa1, &element(0x04, b"cookie")))
}

/// All that there is: three users.
fn all() -> Say {
    Box::new(|id| {
        let users = (0..3).flat_map(|number| user(id, number, 1, "here"));
        users.chain(done(id)).collect()
    })
}

#[test]
fn more_changes_at_once_than_may_be_are_read_as_a_whole_directory() {
    for (count, reads) in [(CHANGES_MAX, 1), (CHANGES_MAX + 1, 2)] {
        run(async move {
            // One of the changes is that of a user.
            let since: Say = Box::new(move |id| {
                let changed = [strangers_went(id, count - 1), user(id, 0, 2, "there")];
                [changed.concat(), done(id)].concat()
            });
            let again: Say = Box::new(|id| {
                let users = (0..2).flat_map(|number| user(id, number, 1, "there"));
                users.chain(done(id)).collect()
            });
            let mut connections = vec![vec![all()], vec![since]];
            connections.extend((reads == 2).then(|| vec![again]));
            let peer = telling(connections, &Rc::default()).await;
            let stand = Stand::new();
            let users = stand.open(&[&peer.url], "(mail=%s)", MORE);
            becomes(&users, "user0@a.test", "there").await;
            assert_eq!(users.metrics().reads.get(), reads, "{count} changes");
            until("it is well", || users.trouble().is_none()).await;
            let others = if reads == 1 { "here" } else { "-" };
            assert_eq!(text(&users, "user2@a.test"), others);
        });
    }
}

#[test]
fn with_so_many_changes_the_file_is_written_anew() {
    run(async {
        let follow: Say = Box::new(|id| user(id, 0, 2, "0"));
        // With the user it is one less than that many.
        let most: Say =
            Box::new(|id| [strangers_went(id, OVERLAY_MAX - 2), user(id, 0, 2, "1")].concat());
        let again: Say = Box::new(|id| user(id, 0, 2, "2"));
        let last: Say = Box::new(|id| user(id, 1, 2, "3"));
        let go = Rc::default();
        let peer = telling(vec![vec![all(), follow, most, again, last]], &go).await;
        let stand = Stand::new();
        let users = stand.open(&[&peer.url], "(mail=%s)", MORE);
        becomes(&users, "user0@a.test", "here").await;
        let file = || std::fs::read(stand.path()).expect("a file");
        let before = file();
        for value in ["0", "1", "2"] {
            go.notify_one();
            becomes(&users, "user0@a.test", value).await;
        }
        assert!(file() == before, "it was written for one change less");
        go.notify_one();
        becomes(&users, "user1@a.test", "3").await;
        until("it is written", || file() != before).await;
        assert_eq!((text(&users, "user0@a.test"), users.status().entries), ("2".into(), 3));
    });
}
