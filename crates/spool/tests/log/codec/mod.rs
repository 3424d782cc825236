//! What is submitted comes back the same, through the log and through its index; and no garbage on
//! the disk makes recovery panic or lose what is elsewhere.

mod blobs;
mod damage;
mod setup;

use bytes::Bytes;
use damage::costs_one_message_at_most;
use mail::dsn::xtext::Envid;
use mail::{BodyType, ContentFacts, Envelope, Mailbox, MessageId, Notify, Recipient, Ret, Wall};
use proptest::prelude::*;
use setup::{filled, load, open, segment_names, small, submit};
use spool::memdisk::MemDisk;
use spool::{Accept, Attempt, Body, Completion, LoadedBody, Meta, Record, State};
use std::sync::Arc;

fn mailbox() -> impl Strategy<Value = Mailbox> {
    let text = prop_oneof![
        "[a-z]{1,20}@[a-z]{1,10}\\.(Example|org)",
        Just("postmaster".to_string()),
        Just("\"odd @ one\"@example.com".to_string()),
        Just("ü@exämple.org".to_string()),
        Just("user@[192.0.2.7]".to_string()),
    ];
    text.prop_map(|text| Mailbox::parse(&text, true).expect("good"))
}

fn accept() -> impl Strategy<Value = Accept> {
    let optional = || prop::option::of("[a-zA-Z0-9+;=]{0,60}");
    let recipient = (mailbox(), any::<u8>(), optional()).prop_map(|(mailbox, notify, orcpt)| {
        Recipient { mailbox, notify: Notify(notify), orcpt: orcpt.map(Into::into) }
    });
    let envelope = (
        prop::option::of(mailbox()),
        prop::collection::vec(recipient, 1..150),
        any::<(bool, bool)>(),
        prop::option::of(any::<bool>()),
        optional(),
    )
        .prop_map(|(reverse_path, recipients, (eight, utf8), ret, envid)| Envelope {
            reverse_path,
            recipients,
            body: if eight { BodyType::EightBit } else { BodyType::SevenBit },
            smtputf8: utf8,
            ret: ret.map(|full| if full { Ret::Full } else { Ret::Headers }),
            envid: envid.and_then(|text| Envid::of_text(&text)),
        });
    let bytes = |max| prop::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from);
    let meta = prop::collection::btree_map(any::<u16>(), bytes(40), 0..6);
    let facts = (any::<(u64, bool, bool, u32, bool, u64)>()).prop_map(|f| ContentFacts {
        body_bytes: f.0,
        has_8bit: f.1,
        has_nul: f.2,
        longest_line: f.3,
        ends_with_crlf: f.4,
        dot_lines: f.5,
    });
    let body = prop::collection::vec(bytes(6_000), 0..4);
    (envelope, meta, bytes(300), body, facts, any::<u64>()).prop_map(
        |(envelope, meta, prefix, body, facts, at)| Accept {
            id: MessageId::new(0, 0, 5),
            received_at: Wall(at),
            envelope: Arc::new(envelope),
            meta: Meta { fields: meta.into_iter().collect() },
            prefix,
            body: Body::Memory(body),
            facts,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_come_back_as_they_were(accept in accept(), wait in any::<u64>(), reason: String, hold: String) {
        let disk = MemDisk::new(1, 1 << 30);
        let (mut spool, _, _) = open(&disk, small());
        let id = accept.id;
        let last = accept.envelope.recipients.len() as u32 - 1;
        submit(&mut spool, &disk, vec![Record::Accept(Box::new(accept.clone()))]);
        let next_try = Wall(wait >> 17);
        let tried = Attempt {
            id, at: Wall(1), recipients: vec![last], attempts: 7, next_try, reason: reason.clone().into(),
        };
        let state = State {
            id,
            hold: Some(Some(hold.clone().into())),
            next_try: None,
            overrides: Some(Some("a route".into())),
            delay_notice_sent: Some(true),
        };
        submit(&mut spool, &disk, vec![Record::Attempt(tried), Record::State(state)]);
        // Twice: read from the log, then from the index that the first recovery wrote.
        for round in 0..2 {
            let (again, report, found) = open(&disk, small());
            spool = again;
            prop_assert_eq!(report.damaged_count, 0);
            prop_assert_eq!(report.indexed_segments_count, round);
            let [message] = &found[..] else { panic!("{found:?}") };
            let domains: Vec<_> = accept.envelope.recipients.iter().map(|r| r.mailbox.domain()).collect();
            prop_assert!(message.open.iter().map(|r| &r.domain).eq(&domains));
            prop_assert!(message.open.iter().map(|r| r.index).eq(0..=last));
            let tried = message.open.last().expect("one");
            prop_assert_eq!((tried.attempts, tried.next_try), (7, Some(next_try)));
            prop_assert_eq!(message.received_at, accept.received_at);
            prop_assert_eq!(&message.meta, &accept.meta);
            prop_assert_eq!(message.reverse_path_is_null, accept.envelope.reverse_path.is_none());
            prop_assert_eq!(message.body_bytes, accept.facts.body_bytes);
            let kept = message.last_reason.as_deref().unwrap_or("");
            prop_assert!(reason.starts_with(kept) && (kept.len() > 508 || kept == reason));
            prop_assert!(hold.starts_with(message.hold.as_deref().expect("held")));
            prop_assert_eq!(message.overrides.as_deref(), Some("a route"));
            prop_assert!(message.delay_notice_sent);
        }
        let Completion::Loaded(loaded) = load(&mut spool, &disk, id) else { panic!("not loaded") };
        prop_assert_eq!(&loaded.envelope, &accept.envelope);
        prop_assert_eq!(loaded.overrides.as_deref(), Some("a route"));
        prop_assert_eq!((&loaded.meta, &loaded.prefix), (&accept.meta, &accept.prefix));
        prop_assert_eq!((loaded.facts, loaded.received_at), (accept.facts, accept.received_at));
        let (LoadedBody::Memory(read), Body::Memory(pieces)) = (loaded.body, accept.body) else {
            panic!("a blob")
        };
        prop_assert_eq!(&read[..], &pieces.concat()[..]);
    }

    #[test]
    fn a_flipped_bit_costs_one_message_at_most(seed: u64, flips in prop::collection::vec(any::<u64>(), 1..3)) {
        costs_one_message_at_most(seed, &flips);
    }

    #[test]
    fn garbage_is_survived(
        seed: u64,
        garbage in prop::collection::vec(any::<u8>(), 1..3_000),
        at in any::<u64>(),
        cut in any::<bool>(),
    ) {
        let (disk, count) = filled(seed);
        let names = segment_names(&disk);
        let name = &names[at as usize % names.len()];
        let mut content = disk.content(name).expect("there");
        let from = (at >> 8) as usize % content.len();
        if cut {
            content.truncate(from);
        } else {
            let to = (from + garbage.len()).min(content.len());
            content[from..to].copy_from_slice(&garbage[..to - from]);
        }
        disk.put(name, content);
        disk.put("00000fff-00000000000000ab.segment", garbage.clone());
        disk.put("00000ffe-zz.segment", garbage);
        let (_, report, found) = open(&disk, small());
        // What is in the other segments is all there; sixteen messages of three kilobytes each.
        prop_assert!(found.len() + 20 >= count, "{} of {count}: {report:?}", found.len());
        let _ = spool::verify(&disk).expect("reads on");
    }
}
