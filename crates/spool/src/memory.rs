//! Replacement of a log in memory: `durability = "memory"`.

use crate::codec::AcceptHead;
use crate::live::Live;
use crate::record::{Accept, BlobId, Body, LoadError, Record};
use crate::request::{Completion, Loaded, LoadedBody, Refusal, Request, Ticket};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};

/// All messages and blobs; replaces a log on disk.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    accepts: BTreeMap<u64, Box<Accept>>,
    blobs: BTreeMap<u64, BytesMut>,
    position: u64,
}

impl Memory {
    pub(crate) fn handle_request(
        &mut self,
        live: &mut Live,
        request: Request,
        completions: &mut VecDeque<(Ticket, Completion)>,
    ) {
        let (ticket, completion) = match request {
            Request::Submit { ticket, records } => (ticket, self.submit(live, records)),
            Request::Load { ticket, id, bytes_max } => {
                let overrides = live.index.get(id.0).and_then(|entry| entry.overrides());
                let completion = match self.accepts.get(&id.0) {
                    None => Completion::LoadFailed(LoadError::NotFound),
                    Some(accept) if bytes_of(accept) > bytes_max => {
                        Completion::TooLong(bytes_of(accept))
                    }
                    Some(accept) => Completion::Loaded(Box::new(load(accept, overrides))),
                };
                (ticket, completion)
            }
            Request::BlobAppend { ticket, blob, data } => {
                live.next_blob = live.next_blob.max(blob.0.saturating_add(1));
                self.blobs.entry(blob.0).or_default().extend_from_slice(&data);
                (ticket, Completion::BlobDone)
            }
            Request::BlobSeal { ticket, blob } => {
                let known = self.blobs.contains_key(&blob.0);
                let refused = Refusal::Misuse("unknown blob");
                (ticket, if known { Completion::BlobDone } else { Completion::Refused(refused) })
            }
            Request::BlobRead { ticket, blob, offset, piece } => {
                (ticket, self.read(blob, offset, piece.bytes))
            }
            Request::BlobDrop { blob } => {
                self.blobs.remove(&blob.0);
                return;
            }
        };
        completions.push_back((ticket, completion));
    }

    fn read(&self, blob: BlobId, offset: u64, bytes: usize) -> Completion {
        let Some(content) = self.blobs.get(&blob.0) else {
            return Completion::LoadFailed(LoadError::NotFound);
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let to = from.saturating_add(bytes).min(content.len());
        Completion::BlobData(Bytes::copy_from_slice(content.get(from..to).unwrap_or(&[])))
    }

    fn submit(&mut self, live: &mut Live, records: Vec<Record>) -> Completion {
        let used = |record: &Record| {
            matches!(record, Record::Accept(accept) if live.index.get(accept.id.0).is_some()
                || accept.envelope.recipients.is_empty()
                || accept.envelope.recipients.len() > crate::RECIPIENTS_MAX)
        };
        if records.iter().any(used) {
            return Completion::Refused(Refusal::Misuse("a message id was used twice"));
        }
        let position = self.position + 1;
        for record in records {
            self.position += 1;
            self.apply(live, record);
        }
        Completion::Durable { position }
    }

    fn apply(&mut self, live: &mut Live, record: Record) {
        let (id, dropped) = match record {
            Record::Accept(accept) => {
                let blob = match accept.body {
                    Body::Blob { blob, .. } => Some(blob),
                    Body::Memory(_) => None,
                };
                let head = AcceptHead {
                    id: accept.id,
                    recipients_count: accept.envelope.recipients.len() as u32,
                    blob,
                    copied: false,
                    offset: 0,
                    length: 0,
                };
                live.accept(0, &head);
                self.accepts.insert(accept.id.0, accept);
                return;
            }
            Record::Attempt(attempt) => return live.tried(&attempt),
            Record::State(state) => return live.state(&state),
            Record::Settle(settle) => (settle.id, live.settle(&settle)),
        };
        if live.index.get(id.0).is_none() {
            self.accepts.remove(&id.0);
        }
        if let Some(blob) = dropped {
            self.blobs.remove(&blob.0);
        }
    }
}

/// Bytes of a message's record on a disk, without its envelope.
fn bytes_of(accept: &Accept) -> u64 {
    let body = match &accept.body {
        Body::Memory(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
        Body::Blob { .. } => 0,
    };
    accept.prefix.len() as u64 + body
}

fn load(accept: &Accept, overrides: Option<&str>) -> Loaded {
    let body = match &accept.body {
        Body::Memory(pieces) => match pieces.as_slice() {
            [piece] => LoadedBody::Memory(piece.clone()),
            pieces => LoadedBody::Memory(pieces.concat().into()),
        },
        Body::Blob { blob, body_bytes } => {
            LoadedBody::Blob { blob: *blob, body_bytes: *body_bytes }
        }
    };
    Loaded {
        id: accept.id,
        received_at: accept.received_at,
        envelope: accept.envelope.clone(),
        meta: accept.meta.clone(),
        prefix: accept.prefix.clone(),
        body,
        facts: accept.facts,
        last_reason: None,
        overrides: overrides.map(Box::from),
    }
}
