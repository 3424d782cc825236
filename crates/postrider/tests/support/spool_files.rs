//! Spools that were written without a server.

use bytes::Bytes;
use mail::{BodyType, ContentFacts, Envelope, Mailbox, MessageId, Notify, Recipient, Wall};
use spool::memdisk::MemDisk;
use spool::record::tag;
use spool::{Accept, Body, Completion, Disk as _, Meta, Record, Request, Spool, Ticket};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub fn wall_now() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Wall(since.as_millis() as u64)
}

/// A message of 400 B.
pub fn accept(id: MessageId, now: Wall) -> Record {
    let mailbox = |text: &str| Mailbox::parse(text, false).expect("good");
    let to = mailbox(&format!("user{}@far.test", id.sequence()));
    let envelope = Envelope {
        reverse_path: Some(mailbox("sender@source.test")),
        recipients: vec![Recipient { mailbox: to, notify: Notify::UNSPECIFIED, orcpt: None }],
        body: BodyType::SevenBit,
        smtputf8: false,
        ret: None,
        envid: None,
    };
    Record::Accept(Box::new(Accept {
        id,
        received_at: now,
        envelope: Arc::new(envelope),
        meta: Meta {
            fields: vec![
                (tag::LISTENER, Bytes::from_static(b"relay")),
                (tag::CLIENT_ADDRESS, Bytes::from_static(b"192.0.2.1")),
            ],
        },
        prefix: Bytes::from_static(&[b'r'; 180]),
        body: Body::Memory(vec![Bytes::from_static(&[b'x'; 400])]),
        facts: ContentFacts { body_bytes: 400, ..ContentFacts::default() },
    }))
}

/// Makes submits durable.
pub fn submit(spool: &mut Spool, disk: &MemDisk, submits: impl Iterator<Item = Vec<Record>>) {
    let mut waiting = 0;
    for (n, records) in (0..).zip(submits) {
        spool.handle_request(Request::Submit { ticket: Ticket(n), records });
        waiting += 1;
    }
    while waiting > 0 {
        let io = spool.poll_io().expect("something to do");
        spool.handle_io_done(io.perform(disk));
        while let Some((_, completion)) = spool.poll_completion() {
            assert!(matches!(completion, Completion::Durable { .. }));
            waiting -= 1;
        }
    }
}

/// Puts the files of a log into a directory, which is made.
pub fn write(disk: &MemDisk, directory: &Path) {
    std::fs::create_dir(directory).expect("a directory");
    for name in disk.list().expect("lists") {
        let content = disk.content(&name).expect("there");
        let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        let file = File::create(directory.join(name)).expect("a file");
        file.set_len(content.len() as u64).expect("room");
        file.write_all_at(&content[..used], 0).expect("room");
    }
}
