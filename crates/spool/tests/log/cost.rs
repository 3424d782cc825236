//! What the log costs: `cargo test --release -p spool --test log cost -- --ignored --nocapture`.

use bytes::Bytes;
use mail::{BodyType, ContentFacts, Envelope, Mailbox, MessageId, Notify, Recipient, Wall};
use spool::memdisk::MemDisk;
use spool::{
    Accept, Body, Completion, Meta, Record, Request, Settle, SettleKind, Spool, SpoolConfig, Ticket,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BATCH: u64 = 100;

fn accept(sequence: u64, envelope: &Arc<Envelope>, body: &Bytes) -> Record {
    Record::Accept(Box::new(Accept {
        id: MessageId::new(0, 0, sequence),
        received_at: Wall(sequence),
        envelope: envelope.clone(),
        meta: Meta {
            fields: vec![
                (spool::record::tag::LISTENER, Bytes::from_static(b"relay")),
                (spool::record::tag::CLIENT_ADDRESS, Bytes::from_static(b"192.0.2.1")),
            ],
        },
        prefix: Bytes::from_static(&[b'r'; 180]),
        body: Body::Memory(vec![body.clone()]),
        facts: ContentFacts { body_bytes: body.len() as u64, ..ContentFacts::default() },
    }))
}

fn envelope(sequence: u64) -> Arc<Envelope> {
    let mailbox = |text: &str| Mailbox::parse(text, false).expect("good");
    let to = mailbox(&format!("user{sequence}@domain{}.example", sequence % 10_000));
    Arc::new(Envelope {
        reverse_path: Some(mailbox("sender@example.org")),
        recipients: vec![Recipient { mailbox: to, notify: Notify::UNSPECIFIED, orcpt: None }],
        body: BodyType::SevenBit,
        smtputf8: false,
        ret: None,
        envid: None,
    })
}

/// Hands in a batch and takes the answers: the time that is not the disk's.
#[allow(clippy::disallowed_methods)]
fn commit(spool: &mut Spool, disk: &MemDisk, requests: Vec<Request>) -> Duration {
    let count = requests.len();
    let mut spent = Duration::ZERO;
    let mut answers = 0;
    let start = Instant::now();
    requests.into_iter().for_each(|request| spool.handle_request(request));
    spent += start.elapsed();
    while answers < count {
        let start = Instant::now();
        let io = spool.poll_io();
        spent += start.elapsed();
        let done = io.expect("something to do").perform(disk);
        let start = Instant::now();
        spool.handle_io_done(done);
        while let Some((_, completion)) = spool.poll_completion() {
            assert!(matches!(completion, Completion::Durable { .. }));
            answers += 1;
        }
        spent += start.elapsed();
    }
    spent
}

#[test]
#[ignore = "takes seconds, and says something only in a release build"]
#[allow(clippy::disallowed_methods)]
fn cost_of_a_message_and_of_a_start() {
    const MESSAGES: u64 = 200_000;
    for body_bytes in [400, 1_024] {
        let disk = MemDisk::new(1, 4 << 30);
        let config = SpoolConfig::default();
        let (mut spool, _) = Spool::open(&disk, config.clone(), &mut |_| ()).expect("opens");
        let body = Bytes::from(vec![b'x'; body_bytes]);
        let mut spent = Duration::ZERO;
        for first in (1..=MESSAGES).step_by(BATCH as usize) {
            let requests = (first..first + BATCH)
                .map(|n| Request::Submit {
                    ticket: Ticket(n),
                    records: vec![accept(n, &envelope(n), &body)],
                })
                .collect();
            spent += commit(&mut spool, &disk, requests);
        }
        println!("{body_bytes} B: {:?} for an accept", spent / MESSAGES as u32);
        println!("{body_bytes} B: index {} bytes a message", spool.status().index_bytes / MESSAGES);
        let start = Instant::now();
        let mut count = 0;
        let (_, report) = Spool::open(&disk, config.clone(), &mut |_| count += 1).expect("opens");
        println!("{body_bytes} B: first start with {count} in {:?}: {report:?}", start.elapsed());
        assert_eq!(count, MESSAGES);
        let start = Instant::now();
        let (mut spool, report) = Spool::open(&disk, config, &mut |_| count -= 1).expect("opens");
        println!("{body_bytes} B: second start in {:?}: {report:?}", start.elapsed());
        assert_eq!(count, 0);
        let mut spent = Duration::ZERO;
        for first in (1..=MESSAGES).step_by(BATCH as usize) {
            let requests = (first..first + BATCH)
                .map(|n| {
                    let settle = Settle {
                        id: MessageId::new(0, 0, n),
                        at: Wall(n),
                        recipients: vec![(0, SettleKind::Relayed)],
                    };
                    Request::Submit { ticket: Ticket(n), records: vec![Record::Settle(settle)] }
                })
                .collect();
            spent += commit(&mut spool, &disk, requests);
        }
        println!("{body_bytes} B: {:?} for a settle", spent / MESSAGES as u32);
        assert_eq!(spool.status().live_count, 0);
    }
}
