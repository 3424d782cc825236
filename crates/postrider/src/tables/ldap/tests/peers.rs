//! Servers that answer garbage, never, half, or that they can't.

use super::peer::{DONE, Peer, answer_each, element, entry, message, outcome, request};
use super::{LdapBackend, ask, backend, becomes, kind, run, text};
use lookup::LookupErrorKind;
use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;

fn users(peer: &Peer) -> LdapBackend {
    backend(&[&peer.url], "(mail=%s)", "timeout = \"300ms\", connect_timeout = \"300ms\"")
}

/// An answer to the search `id`: this value.
fn found(id: u8, value: &[u8]) -> Vec<u8> {
    [message(id, &entry(value)), message(id, &outcome(DONE, 0, b""))].concat()
}

/// A server that gives each search this answer.
async fn always(answer: impl Fn(u8) -> Vec<u8> + Clone + 'static) -> Peer {
    Peer::new(move |stream, _| answer_each(stream, answer.clone())).await
}

#[test]
fn garbage_is_no_answer() {
    run(async {
        let entry_cut = element(0x64, &element(0x04, b"cn=x"));
        let no_code = element(DONE, &element(0x04, b""));
        let cases: Vec<(&str, Vec<u8>)> = vec![
            ("another protocol", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
            ("zeros", vec![0; 64]),
            ("an endless length", b"\x30\x80\x02\x01\x03".to_vec()),
            ("a message of 4 GiB", b"\x30\x84\xff\xff\xff\xff\x02".to_vec()),
            ("nothing in it", element(0x30, b"")),
            ("no number", element(0x30, &element(0x04, b"x"))),
            ("half an entry", message(3, &entry_cut)),
            ("no code", message(3, &no_code)),
            ("elements longer than the message", b"\x30\x05\x02\x01\x03\x64\x7f".to_vec()),
        ];
        for (name, bytes) in cases {
            let peer = always(move |_| bytes.clone()).await;
            let answer = ask(&users(&peer), "joe").await;
            assert_eq!(kind(&answer), Some(LookupErrorKind::Wrong), "{name}: {answer:?}");
            let text = answer.unwrap_err().text;
            assert!(text.starts_with(&peer.url), "{name}: {text}");
        }
    });
}

#[test]
fn words_that_are_no_utf_8_are_shown_as_far_as_they_are() {
    run(async {
        let peer = always(|id| message(id, &outcome(DONE, 1, b"\xff\r\n250 Ok"))).await;
        let answer = text(&users(&peer), "joe").await;
        let wanted = "operationsError (1): \u{fffd}  250 Ok";
        assert!(answer.ends_with(wanted) && answer.starts_with("Wrong: ldap://"), "{answer}");
        let peer = always(|id| found(id, b"\xff")).await;
        let answer = text(&users(&peer), "joe").await;
        assert_eq!(answer, "Key: cn=x: description: the answer is not UTF-8");
    });
}

#[test]
fn a_server_that_says_nothing_is_waited_for_so_long() {
    run(async {
        let silent = Peer::new(|stream, _| async move {
            let _stream = stream;
            pending().await
        })
        .await;
        let started = Instant::now();
        let answer = ask(&users(&silent), "joe").await;
        // At each chance: the connection may have been to blame.
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        assert!(
            matches!(kind(&answer), Some(LookupErrorKind::Timeout | LookupErrorKind::Unreachable)),
            "{answer:?}"
        );
        let text = answer.unwrap_err().text.to_string();
        assert!(text.contains("no answer within"), "{text}");

        // The same where TLS or the bind is waited for.
        for (more, step) in [
            ("start_tls = true", "StartTLS: no answer within 300ms"),
            ("bind = { dn = \"cn=a\", password = \"b\" }", "the bind: no answer within 300ms"),
        ] {
            let more = format!("{more}, connect_timeout = \"300ms\"");
            let answer = super::text(&backend(&[&silent.url], "(mail=%s)", &more), "joe").await;
            assert!(answer.contains(step), "{answer}");
        }
    });
}

#[test]
fn half_an_answer_is_none() {
    run(async {
        // The entry, and then nothing.
        let half = always(|id| message(id, &entry(b"x"))).await;
        let answer = ask(&users(&half), "joe").await;
        assert_eq!(kind(&answer), Some(LookupErrorKind::Timeout), "{answer:?}");
        // The entry, and the connection ends within the next message.
        let cut = Peer::new(|mut stream, _| async move {
            if let Some((id, _)) = request(&mut stream).await {
                let whole = found(id, b"x");
                let _ = stream.write_all(&whole[..whole.len() - 1]).await;
            }
        })
        .await;
        let answer = ask(&users(&cut), "joe").await;
        assert_eq!(kind(&answer), Some(LookupErrorKind::Unreachable), "{answer:?}");
        assert!(answer.unwrap_err().text.contains("closed the connection"));
    });
}

#[test]
fn a_connection_that_dies_is_replaced() {
    run(async {
        // Each connection answers once; the next search finds it dead.
        let peer = Peer::new(|mut stream, _| async move {
            if let Some((id, _)) = request(&mut stream).await {
                let _ = stream.write_all(&found(id, b"x")).await;
                request(&mut stream).await;
            }
        })
        .await;
        let users = users(&peer);
        for _ in 0..5 {
            assert_eq!(text(&users, "joe").await, "x");
        }
        // Farewell, and why.
        let farewell = outcome(0x78, 52, b"going down");
        let peer = always(move |_| message(0, &farewell)).await;
        let answer = text(&self::users(&peer), "joe").await;
        assert!(answer.contains("ended the connection: unavailable (52): going down"), "{answer}");
    });
}

#[test]
fn a_silent_connection_is_waited_on_once() {
    run(async {
        // The first connection says nothing, those after it answer.
        let peer = Peer::new(|stream, number| async move {
            if number == 0 {
                let _stream = stream;
                return pending().await;
            }
            answer_each(stream, |id| found(id, b"x")).await;
        })
        .await;
        let users = backend(&[&peer.url], "(mail=%s)", "timeout = \"20s\"");
        let wait = Duration::from_millis(1_200);
        assert!(tokio::time::timeout(wait, ask(&users, "joe")).await.is_err());
        becomes(&users, "joe", "x").await;
    });
}

#[test]
fn a_server_that_can_not_is_left_for_another() {
    run(async {
        for (code, name) in [(51, "busy"), (52, "unavailable"), (53, "unwillingToPerform")] {
            let busy = always(move |id| message(id, &outcome(DONE, code, b"not now"))).await;
            let answer = text(&users(&busy), "joe").await;
            let wanted = format!("Wrong: {}: {name} ({code}): not now", busy.url);
            assert_eq!(answer, wanted);
            let well = always(|id| found(id, b"x")).await;
            let both = backend(&[&busy.url, &well.url], "(mail=%s)", "");
            assert_eq!(text(&both, "joe").await, "x");
        }
        // It comes to itself.
        let is_well = Rc::new(Cell::new(false));
        let known = Rc::clone(&is_well);
        let peer = always(move |id| {
            if known.get() { found(id, b"x") } else { message(id, &outcome(DONE, 51, b"")) }
        })
        .await;
        let users = users(&peer);
        assert!(ask(&users, "joe").await.is_err());
        is_well.set(true);
        becomes(&users, "joe", "x").await;
    });
}

#[test]
fn referrals_are_not_followed() {
    run(async {
        let reference = element(0x73, &element(0x04, b"ldap://elsewhere.test/"));
        let peer = always(move |id| [message(id, &reference), found(id, b"x")].concat()).await;
        assert_eq!(text(&users(&peer), "joe").await, "x");
        let peer = always(|id| message(id, &outcome(DONE, 10, b""))).await;
        let answer = text(&users(&peer), "joe").await;
        assert!(answer.ends_with("referral (10)"), "{answer}");
    });
}

#[test]
fn more_than_was_asked_for_is_no_answer() {
    run(async {
        // One entry more than may be, and no end.
        let endless = |n: usize| move |id| message(id, &entry(b"x")).repeat(n);
        let peer = always(endless(101)).await;
        let answer = ask(&users(&peer), "joe").await;
        assert_eq!(kind(&answer), Some(LookupErrorKind::Key), "{answer:?}");
        // What came before the first answer could be anybody's.
        let peer = Peer::new(|mut stream, _| async move {
            if let Some((id, _)) = request(&mut stream).await {
                let well = message(id, &outcome(0x78, 0, b""));
                let _ = stream.write_all(&[well, found(3, b"x")].concat()).await;
                pending::<()>().await;
            }
        })
        .await;
        let answer = text(&backend(&[&peer.url], "(mail=%s)", "start_tls = true"), "joe").await;
        assert!(answer.contains("StartTLS: unsolicited data"), "{answer}");
    });
}

#[test]
fn a_search_that_nobody_waits_for_is_abandoned() {
    run(async {
        let abandoned = Rc::new(Cell::new(false));
        let known = Rc::clone(&abandoned);
        let peer = Peer::new(move |mut stream, _| {
            let known = Rc::clone(&known);
            async move {
                while let Some((_, tag)) = request(&mut stream).await {
                    known.set(known.get() || tag == 0x50);
                }
            }
        })
        .await;
        let users = backend(&[&peer.url], "(mail=%s)", "");
        let given_up = tokio::time::timeout(Duration::from_millis(200), ask(&users, "joe")).await;
        assert!(given_up.is_err());
        for _ in 0..100 {
            if abandoned.get() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server was not told");
    });
}
