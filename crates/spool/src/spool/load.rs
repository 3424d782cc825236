//! Messages and pieces of blobs that are read back.

use super::{BulkPurpose, Spool};
use crate::codec;
use crate::disk::{DiskError, DiskErrorKind};
use crate::io::{Op, OpResult};
use crate::name::SegmentKey;
use crate::record::LoadError;
use crate::request::{Completion, Loaded, Ticket};
use bytes::Bytes;
use mail::MessageId;

impl Spool {
    pub(super) fn handle_load(&mut self, ticket: Ticket, id: MessageId, bytes_max: u64) {
        let place = self.live.index.get(id.0).map(|e| (e.segment, e.offset, e.length));
        let Some((generation, offset, length)) = place else {
            return self.complete(ticket, Completion::LoadFailed(LoadError::NotFound));
        };
        if u64::from(length) > bytes_max {
            return self.complete(ticket, Completion::TooLong(u64::from(length)));
        }
        let offset = u64::from(offset);
        let unwritten = self.commit.as_ref().map(|commit| commit.offset);
        let is_active = generation == self.writer.key.generation;
        let Some(segment) = self
            .live
            .segments
            .get_mut(generation)
            .filter(|_| !is_active || unwritten.is_none_or(|end| offset < end))
        else {
            // It is in the batch being written: compaction is moving it at present.
            self.parked_loads.push((ticket, id, bytes_max));
            return;
        };
        segment.readers_count += 1;
        let op = Op::Read { file: segment.file.clone(), offset, bytes: length as usize };
        self.push_bulk(op, BulkPurpose::Load { ticket, id, segment: generation, offset });
    }

    pub(super) fn handle_loaded(
        &mut self,
        ticket: Ticket,
        id: MessageId,
        place: (u32, u64),
        result: Result<OpResult, DiskError>,
    ) {
        let Some(segment) = self.live.segments.get_mut(place.0) else { return };
        segment.readers_count = segment.readers_count.saturating_sub(1);
        let key = segment.key;
        let completion = match result {
            Ok(OpResult::Data(data)) => match decode(&data, key, place.1, id) {
                Some(mut loaded) => {
                    let entry = self.live.index.get(id.0);
                    let reason = entry.and_then(|entry| entry.reason(&self.live.reasons));
                    loaded.last_reason = reason.map(Box::from);
                    loaded.overrides = entry.and_then(|entry| entry.overrides()).map(Box::from);
                    Completion::Loaded(Box::new(loaded))
                }
                None => {
                    let what = format!("{} at {}: bad checksum or form", key.name(), place.1);
                    Completion::LoadFailed(LoadError::Damaged(what.into()))
                }
            },
            Ok(_) => Completion::LoadFailed(LoadError::NotFound),
            Err(error) => Completion::LoadFailed(LoadError::Disk(error.text)),
        };
        self.complete(ticket, completion);
    }
}

/// Completion of a blob read.
pub(super) fn blob_data(result: Result<OpResult, DiskError>) -> Completion {
    match result {
        Ok(OpResult::Data(data)) => Completion::BlobData(data),
        Ok(OpResult::Wrong(what)) => Completion::LoadFailed(LoadError::Damaged(what)),
        Err(error) if error.kind == DiskErrorKind::NotFound => {
            Completion::LoadFailed(LoadError::Damaged(error.text))
        }
        Err(error) => Completion::LoadFailed(LoadError::Disk(error.text)),
        Ok(_) => Completion::LoadFailed(LoadError::NotFound),
    }
}

/// The message in `data`, which was read at `offset`.
fn decode(data: &Bytes, key: SegmentKey, offset: u64, id: MessageId) -> Option<Loaded> {
    let record = codec::read_record(data, key, offset).ok()?;
    if !matches!(record.kind, codec::kind::ACCEPT | codec::kind::COPY) {
        return None;
    }
    let body = data.slice(codec::RECORD_HEADER_BYTES..record.length as usize);
    codec::read_loaded(&body).filter(|loaded| loaded.id == id)
}
