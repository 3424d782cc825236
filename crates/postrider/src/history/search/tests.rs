use super::*;
use mail::MessageId;
use mta::control::{Blocker, BlockerKind, QueueRecipient};

const NOW: Wall = Wall(1_795_262_469_000);

/// Events of message `n`, a second after each other.
fn received(n: u64, sender: &str, recipients: &[&str], more: &str) -> String {
    let recipients: Vec<_> = recipients.iter().map(|to| format!("\"{to}\"")).collect();
    format!(
        r#"{{"time":"{}","event":"received","id":"{}","sender":"{sender}","recipients":[{}]{more}}}"#,
        Wall(NOW.0 + n * 1_000),
        MessageId(n),
        recipients.join(",")
    )
}

fn step(n: u64, event: &str, index: u32, to: &str, more: &str) -> String {
    format!(
        r#"{{"time":"{}","event":"{event}","id":"{}","sender":"me@a.test","recipient":"{to}",
            "recipient_index":{index},"delay_ms":500{more}}}"#,
        Wall(NOW.0 + n * 1_000 + 500),
        MessageId(n)
    )
}

fn search(terms: &str) -> Search {
    Search::new(Terms::parse(&[terms.to_owned()], Wall(NOW.0 + 60_000)).unwrap())
}

fn history() -> Vec<String> {
    let hop = r#","route":"out","next_hop":"mx.b.test[192.0.2.1]:25","status":"2.0.0""#;
    let client = r#","client":"192.0.2.7","login":"jo","headers":{"Message-ID":"<1@a.test>","Subject":"Offer"}"#;
    vec![
        received(1, "me@a.test", &["ann@b.test", "bob@b.test"], client),
        step(1, "relayed", 0, "ann@b.test", hop),
        step(1, "deferred", 1, "bob@b.test", ""),
        step(1, "failed", 1, "bob@b.test", r#","status":"5.1.1","reply":"550 5.1.1 no""#),
        r#"{"time":"2026-11-21T12:01:12.000Z","event":"refused","client":"192.0.2.9","sender":"x@c.test",
            "recipient":"ann@b.test","status":"5.7.1","reply":"550 5.7.1 no"}"#.to_owned(),
        // Its `received` is gone.
        step(5, "delivered", 0, "ann@b.test", ""),
        received(6, "", &["ann@b.test"], ""),
        format!(r#"{{"time":"{}","event":"held","id":"{}","delay_ms":9000,"reason":"look"}}"#,
            Wall(NOW.0 + 15_000), MessageId(6)),
    ]
}

fn found(terms: &str) -> Vec<String> {
    let mut search = search(terms);
    for line in history() {
        search.handle_event(&EventLine::parse(line.as_bytes()).unwrap());
    }
    let row = |row: FoundRow| {
        let id = row.id.map_or(0, |id| u64::from_str_radix(&id, 16).unwrap());
        let to = row.recipient.unwrap_or_default();
        format!("{id} {} {}", to.split('@').next().unwrap_or_default(), row.state.state)
    };
    search.finish(100).0.into_iter().map(row).collect()
}

#[test]
fn all_terms_hold_for_one_recipient() {
    let ann = ["1 ann relayed", "0 ann refused", "5 ann delivered", "6 ann held"];
    for (terms, rows) in [
        ("to:ann@b.test", &ann[..]),
        ("to:ann@b.test from:a.test", &["1 ann relayed", "5 ann delivered"]),
        ("to:b.test status:failed", &["1 bob failed"]),
        ("to:ann@b.test status:failed", &[]),
        ("status:delivered", &["1 ann relayed", "5 ann delivered"]),
        ("status:relayed", &["1 ann relayed"]),
        ("status:refused", &["0 ann refused"]),
        ("from:<>", &["6 ann held"]),
        ("client:192.0.2.7", &["1 ann relayed", "1 bob failed"]),
        ("client:192.0.2.9", &["0 ann refused"]),
        ("login:jo status:failed", &["1 bob failed"]),
        ("message-id:<1@a.test> to:ann@b.test", &["1 ann relayed"]),
        ("subject:offer next-hop:mx.b.test", &["1 ann relayed"]),
        ("route:out", &["1 ann relayed"]),
        ("id:0000000000000005", &["5 ann delivered"]),
        ("0000000000000006", &["6 ann held"]),
        ("x@c.test", &["0 ann refused"]),
        ("to:ann@b.test until:2026-11-21T12:01:10Z", &["1 ann relayed"]),
        ("to:ann@b.test since:2026-11-21T12:01:13Z", &["5 ann delivered", "6 ann held"]),
        ("to:nobody@b.test", &[]),
    ] {
        assert_eq!(found(terms), rows, "{terms}");
    }
}

fn item(n: u64, to: &str, attempts: u16) -> QueueItem {
    let recipient = QueueRecipient {
        index: 0,
        address: to.to_owned(),
        state: RecipientState::Scheduled,
        blocker: Blocker { kind: BlockerKind::Time, text: "its time".to_owned(), until: None },
        expires_at: None,
        attempts,
        next_try: Some(NOW),
        last_failure: None,
        class: None,
        route: Some("out".to_owned()),
        next_hop: Some("smtp:out:mx.b.test:25".to_owned()),
        source: None,
    };
    QueueItem {
        id: MessageId(n),
        sender: "me@a.test".to_owned(),
        unreadable: None,
        body_bytes: 1,
        received_at: Wall(NOW.0 + n * 1_000),
        age_ms: 1,
        shard: 0,
        held: None,
        priority: None,
        headers: BTreeMap::new(),
        moved: None,
        client: Some("192.0.2.7 client.test".to_owned()),
        login: Some("Ann".to_owned()),
        recipients: vec![recipient],
        dialogues: Vec::new(),
        recipients_open: 1,
        recipients_count: 1,
    }
}

#[test]
fn the_queue_completes_what_events_lack() {
    for (terms, count) in [
        ("to:ann@b.test", 1),
        ("status:queued client:client.test route:out next-hop:mx.b.test", 1),
        ("status:delivered", 0),
        // The spool keeps the login, also when the file with its `received` is gone.
        ("login:ann", 1),
        ("login:ann status:deferred", 0),
        ("login:jo", 0),
        ("to:bob@b.test", 0),
        ("from:other@a.test", 0),
    ] {
        let mut search = search(terms);
        search.handle_item(&item(9, "ann@b.test", 0));
        assert_eq!(search.finish(100).0.len(), count, "{terms}");
    }
    // A row of the events gets the state of the queue.
    let mut search = search("login:jo");
    let line = received(9, "me@a.test", &["ann@b.test"], r#","login":"jo""#);
    search.handle_event(&EventLine::parse(line.as_bytes()).unwrap());
    search.handle_item(&item(9, "ann@b.test", 2));
    let (rows, ..) = search.finish(100);
    let text = rows[0].text();
    assert!(
        text.contains(" deferred   id=0000000000000009 from=<me@a.test> to=<ann@b.test>"),
        "{text}"
    );
    assert!(text.contains("waits_for=\"its time\" next_try=2026-11-21T12:01:09.000Z"), "{text}");
}

#[test]
fn the_oldest_give_way_at_the_maximum() {
    let mut search = search("from:a.test");
    search.kept_max = 10;
    for n in 0..11 {
        let line = received(n, "me@a.test", &["ann@b.test"], "");
        search.handle_event(&EventLine::parse(line.as_bytes()).unwrap());
        assert_eq!(search.dropped, u64::from(n == 10));
    }
    let (rows, count, is_cut) = search.finish(3);
    assert_eq!((rows.len(), count, is_cut), (3, 10, true));
    assert_eq!(rows[2].id.as_deref(), Some("000000000000000a"));
}
