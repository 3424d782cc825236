//! The second pass: each message that has open recipients is handed over.

use super::read::Recovery;
use crate::codec::{self, AcceptHead, AcceptSummary, RawRecord, kind};
use crate::disk::{Disk, DiskError};
use crate::index::IndexEntry;
use crate::live::Live;
use crate::name::{SegmentKey, blob_name};
use crate::record::BlobId;
use crate::request::{RecoveredMessage, RecoveredRecipient};
use crate::scan::{self, ScanItem};
use mail::{Domain, Mailbox, MessageId};
use std::collections::{BTreeMap, BTreeSet};

impl Recovery {
    /// The second pass: hands over each live message, segment by segment.
    pub(crate) fn hand_over(
        &mut self,
        disk: &dyn Disk,
        recovered: &mut dyn FnMut(RecoveredMessage),
    ) -> Result<(), DiskError> {
        let mut domains = Domains::default();
        let generations: Vec<u32> = self.live.segments.map.keys().copied().collect();
        for generation in generations {
            let Some(segment) = self.live.segments.get(generation) else { continue };
            if segment.live_count == 0 {
                continue;
            }
            let (key, length) = (segment.key, segment.length);
            let mut count = 0;
            let (mut malformed, mut short_blobs) = (Vec::new(), Vec::new());
            let mut visit = |record: &RawRecord<'_>| match self.message(record, key, &mut domains) {
                Some(Some(message)) => {
                    short_blobs.extend(self.short_blob(disk, &message));
                    count += 1;
                    recovered(message);
                }
                Some(None) => {}
                None => malformed.push(record.offset),
            };
            let is_indexed = self.indexed.contains(&generation);
            let end = self.ends.get(&generation).copied();
            visit_segment(disk, (key, length), is_indexed, end, &mut visit)?;
            self.report.live_count += count;
            for offset in malformed {
                self.damage(&key.name(), offset, 0, "malformed accept record");
            }
            for (id, blob, what) in short_blobs {
                self.note_lost_body(id, blob, &what);
            }
        }
        Ok(())
    }

    /// Checks that the blob of a message has the length in its record; returns the blob and the text of the error if
    /// not.
    fn short_blob(
        &self,
        disk: &dyn Disk,
        message: &RecoveredMessage,
    ) -> Option<(u64, BlobId, String)> {
        let id = message.id;
        let &blob = self.live.blobs.get(&id.0)?;
        let found = disk.length(&blob_name(blob.0)).ok()?;
        let what = wrong_length(id, message.body_bytes, found)?;
        Some((id.0, blob, what))
    }

    /// Reads the record if it is the newest accept of a message; the outer `None` is damage.
    fn message(
        &self,
        record: &RawRecord<'_>,
        key: SegmentKey,
        domains: &mut Domains,
    ) -> Option<Option<RecoveredMessage>> {
        if !matches!(record.kind, kind::ACCEPT | kind::COPY | kind::INDEXED) {
            return Some(None);
        }
        let head = codec::read_head(record)?;
        let Some(entry) = self.live.index.get(head.id.0) else { return Some(None) };
        let is_newest = (entry.segment, u64::from(entry.offset)) == (key.generation, head.offset);
        if !is_newest {
            return Some(None);
        }
        let summary = codec::read_summary(record, &mut |text| domains.get(text))?;
        Some(Some(recovered_message(&head, summary, entry, &self.live)))
    }
}

/// Visits the accepts of a segment: those in its index if it was read by index, otherwise all records up to `end`.
fn visit_segment(
    disk: &dyn Disk,
    (key, length): (SegmentKey, u64),
    is_indexed: bool,
    end: Option<u64>,
    visit: &mut dyn FnMut(&RawRecord<'_>),
) -> Result<(), DiskError> {
    let file = key.name();
    let (_, footer) = scan::read_ends(disk, &file, key, length)?;
    let index = match footer.filter(|_| is_indexed) {
        Some(footer) => scan::find_index(disk, &file, key, footer)?,
        None => None,
    };
    if let Some(index) = index {
        return index.iter().try_for_each(|place| place.visit(disk, &file, key, visit));
    }
    scan::scan(disk, &file, key, length, end, &mut |found| {
        if let ScanItem::Record(record) | ScanItem::LoneCopy(record) = found {
            visit(&record);
        }
    })?;
    Ok(())
}

/// Returns an error text if a blob of `found` bytes has the wrong length.
pub(crate) fn wrong_length(id: MessageId, body_bytes: u64, found: u64) -> Option<String> {
    (found != body_bytes)
        .then(|| format!("the body of message {id} has {found} bytes instead of {body_bytes}"))
}

fn recovered_message(
    head: &AcceptHead,
    summary: AcceptSummary,
    entry: &IndexEntry,
    live: &Live,
) -> RecoveredMessage {
    let open = entry
        .open()
        .filter_map(|index| {
            let domain = summary.domains.get(index as usize)?.clone();
            let retry = entry.retry(index);
            let (attempts, next_try) = (retry.attempts, retry.next_try);
            Some(RecoveredRecipient { index, domain, attempts, next_try })
        })
        .collect();
    RecoveredMessage {
        id: head.id,
        received_at: summary.received_at,
        meta: summary.meta,
        reverse_path_is_null: summary.reverse_path_is_null,
        open,
        hold: entry.hold(&live.reasons).map(Box::from),
        overrides: entry.overrides().map(Box::from),
        delay_notice_sent: entry.delay_notice_sent(),
        last_reason: entry.reason(&live.reasons).map(Box::from),
        body_bytes: summary.body_bytes,
    }
}

/// Domains by their text in addresses, allocated once each.
#[derive(Default)]
struct Domains(BTreeMap<Box<str>, Domain>);

impl Domains {
    fn get(&mut self, text: &str) -> Option<Domain> {
        if let Some(domain) = self.0.get(text) {
            return Some(domain.clone());
        }
        let domain = Mailbox::domain_of_part(text)?;
        self.0.insert(text.into(), domain.clone());
        Some(domain)
    }
}

impl Recovery {
    /// Removes the blobs that no record names. This comes last: a settle that was read may have been in memory only
    /// until the end of [`Recovery::make_durable`]. Also, until the new segment's header is durable, the next start may
    /// see the log as this one did.
    pub(crate) fn remove_orphans(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        let named: BTreeSet<u64> = self.live.blobs.values().map(|blob| blob.0).collect();
        let kept_below = self.orphans_kept_below();
        for &blob in self.blob_files.difference(&named) {
            self.report.orphan_blobs_count += 1;
            if blob < kept_below {
                self.report.kept_blobs_count += 1;
            } else {
                disk.remove(&blob_name(blob))?;
            }
        }
        self.blob_files = named;
        Ok(())
    }

    /// Lost records may have named blobs begun before the next segment: those blobs are kept for the operator.
    fn orphans_kept_below(&self) -> u64 {
        let Some(last) = self.lossy.last() else { return 0 };
        let after = self.blob_marks.range(last.saturating_add(1)..).next();
        after.map_or(u64::MAX, |(_, &mark)| mark)
    }
}
