//! Verification: reads a log that is not open and reports its content.

use crate::checksums::{self, Piece};
use crate::codec::{self, RawRecord, SmallRecord, kind};
use crate::config::{Damage, RecoveryReport, SpoolError};
use crate::disk::{Disk, read_around};
use crate::index::IndexEntry;
use crate::live::Live;
use crate::name::{Name, REGISTER, blob_name};
use crate::record::Meta;
use crate::recovery::{MISSING, Recovery, wrong_length};
use crate::scan::{self, Extent, ScanItem};
use crate::table::Segment;
use mail::MessageId;
use std::collections::{BTreeMap, BTreeSet};

/// Content and damage of a log: see [`verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Segments that were read from end to end.
    pub segments_count: u64,
    /// Records with a valid checksum.
    pub records_count: u64,
    /// Messages with open recipients.
    pub live_count: u64,
    /// Open recipients of these messages.
    pub open_recipients_count: u64,
    /// Messages with an existing accept and all recipients settled.
    pub settled_count: u64,
    /// Messages copied by compaction from a segment that still exists.
    pub copied_count: u64,
    /// Batches at the end of the log that were never acknowledged.
    pub torn_count: u64,
    /// Records, gaps and blobs that are damaged, and illegal transitions.
    pub damaged_count: u64,
    /// Segments set aside because of earlier damage.
    pub quarantined_count: u64,
    /// Blobs that no live message names.
    pub orphan_blobs_count: u64,
    /// The first damages, at most [`RecoveryReport::DAMAGE_MAX`].
    pub damage: Vec<Damage>,
}

/// Reads a whole log without changes: checks every checksum and every transition, and counts.
///
/// # Errors
/// If the directory can't be read or has an unknown format version.
pub fn verify(disk: &dyn Disk) -> Result<VerifyReport, SpoolError> {
    let mut verifier = Verifier::default();
    let mut keys = BTreeMap::new();
    let (mut blob_files, mut aside) = (BTreeSet::new(), BTreeSet::new());
    for name in disk.list()? {
        match Name::parse(&name) {
            Name::Segment(key) => {
                keys.insert(key.generation, key);
            }
            Name::Damaged(key) => {
                aside.insert(key);
            }
            Name::Blob(blob) => {
                blob_files.insert(blob);
            }
            Name::Spare(_) | Name::Unfinished(_) | Name::Other => {}
        }
    }
    // The result of a restart by the indices; it must agree with the records.
    let recovery = Recovery::new().read(disk, None)?;
    verifier.report.quarantined_count = aside.len() as u64;
    let survey = scan::survey(disk, keys.into_values(), &aside)?;
    if let Some(error) = survey.register_error {
        verifier.damage(REGISTER, 0, 0, error.text.into());
    }
    for key in survey.missing {
        verifier.damage(&key.name(), 0, 0, MISSING.into());
    }
    for extent in &survey.extents {
        verifier.read_segment(disk, extent)?;
    }
    verifier.compare(&recovery.live);
    verifier.check_blobs(disk, &blob_files)?;
    Ok(verifier.finish())
}

#[derive(Default)]
struct Verifier {
    live: Live,
    report: VerifyReport,
    accepted: BTreeSet<u64>,
    /// Length and accept meta of the body of each message with a blob.
    bodies: BTreeMap<u64, (u64, Meta)>,
    /// Ranges reported as damaged, by generation: first and last octet.
    damaged: Vec<(u32, u64, u64)>,
}

impl Verifier {
    fn damage(&mut self, file: &str, offset: u64, bytes: u64, what: String) {
        self.report.damaged_count += 1;
        if self.report.damage.len() < RecoveryReport::DAMAGE_MAX {
            self.report.damage.push(Damage { file: file.into(), offset, bytes, what: what.into() });
        }
    }

    fn read_segment(&mut self, disk: &dyn Disk, extent: &Extent) -> Result<(), SpoolError> {
        let (key, length) = (extent.key, extent.length);
        let file = key.name();
        self.live.segments.map.insert(key.generation, Segment::new(key, length));
        if let Some(footer) = extent.footer.filter(|_| extent.is_confirmed())
            && scan::find_index(disk, &file, key, footer)?.is_none()
        {
            let what = "the segment's index is damaged".into();
            self.damage(&file, footer.index_offset, 0, what);
        }
        let known_end = extent.known_end();
        let mut sequence = None;
        let end = scan::scan(disk, &file, key, length, known_end, &mut |found| match found {
            ScanItem::Batch(offset, header) => {
                if sequence.is_some_and(|last| header.sequence <= last) {
                    let what = format!("batch {} follows a later one", header.sequence);
                    self.damage(&file, offset, 0, what);
                }
                sequence = Some(header.sequence);
            }
            ScanItem::Record(record) => {
                self.report.records_count += 1;
                if let Err(what) = self.apply(key.generation, &record) {
                    self.damage(&file, record.offset, u64::from(record.length), what);
                }
            }
            ScanItem::LoneCopy(record) => {
                if let Some(head) = codec::read_head(&record) {
                    self.accepted.insert(head.id.0);
                    self.live.accept_lone_copy(key.generation, &head);
                }
            }
            ScanItem::Damage { offset, bytes, what } => {
                let last = offset.saturating_add(bytes.saturating_sub(1));
                self.damaged.push((key.generation, offset, last));
                self.damage(&file, offset, bytes, what);
            }
        })?;
        self.report.segments_count += 1;
        self.report.torn_count += u64::from(end.torn);
        Ok(())
    }

    fn apply(&mut self, generation: u32, record: &RawRecord<'_>) -> Result<(), String> {
        if matches!(record.kind, kind::ACCEPT | kind::COPY) {
            let head = codec::read_head(record).ok_or("a malformed accept")?;
            let id = head.id;
            let summary = codec::read_summary(record, &mut |text| {
                mail::Mailbox::domain_of_part(text).or_else(|| mail::Mailbox::domain_of_part(""))
            })
            .ok_or_else(|| format!("a malformed accept of {id}"))?;
            if !self.accepted.insert(id.0) {
                if record.kind == kind::ACCEPT {
                    return Err(format!("{id} was accepted twice"));
                }
                self.report.copied_count += 1;
            }
            if head.blob.is_some() {
                self.bodies.insert(id.0, (summary.body_bytes, summary.meta));
            }
            self.live.accept(generation, &head);
            return Ok(());
        }
        let small = codec::read_small(record.kind, record.body)
            .ok_or_else(|| format!("a malformed record of kind {}", record.kind))?;
        let legal = self.check_transition(&small);
        self.live.small(generation, &small, u64::from(record.length));
        legal
    }

    /// Checks the transitions of docs/internals/spool-format.md. A message without its accept, already freed, is no error.
    fn check_transition(&self, record: &SmallRecord) -> Result<(), String> {
        let id = record.id();
        let Some(entry) = self.live.index.get(id.0) else {
            let repeats = matches!(record, SmallRecord::Gone(_) | SmallRecord::Residue(_));
            if self.accepted.contains(&id.0) && !repeats {
                return Err(format!("a record about {id}, which is settled"));
            }
            return Ok(());
        };
        let closed = |index: u32| !entry.is_open(index);
        let illegal = match record {
            SmallRecord::Attempt(attempt) => {
                attempt.recipients.iter().copied().find(|&index| closed(index))
            }
            SmallRecord::Settle(settle) => {
                settle.recipients.iter().map(|&(index, _)| index).find(|&index| closed(index))
            }
            SmallRecord::Residue(residue) => {
                residue.open.iter().copied().find(|&index| index >= entry.recipients_count())
            }
            SmallRecord::State(_) | SmallRecord::Gone(_) => None,
        };
        match illegal {
            Some(index) => Err(format!("recipient {index} of {id} is not open")),
            None => Ok(()),
        }
    }

    /// Compares indices and records of every message.
    fn compare(&mut self, indexed: &Live) {
        for id in self.accepted.clone() {
            match self.live.index.get(id) {
                Some(entry) => {
                    self.report.live_count += 1;
                    self.report.open_recipients_count += u64::from(entry.open_count());
                }
                None => self.report.settled_count += 1,
            }
        }
        let ids: BTreeSet<u64> = self.live.index.ids().chain(indexed.index.ids()).collect();
        for id in ids {
            // A damaged record that is only in the index is no second damage.
            let is_said = || indexed.index.get(id).is_some_and(|entry| self.lies_in_damage(entry));
            if let Some(what) = difference(&self.live, indexed, id)
                && !(what == INDEX_ONLY && is_said())
            {
                let what = format!("index and records of message {} differ: {what}", MessageId(id));
                self.damage("", 0, 0, what);
            }
        }
    }

    fn lies_in_damage(&self, entry: &IndexEntry) -> bool {
        let begin = u64::from(entry.offset);
        let end = begin + u64::from(entry.length);
        let hits = |&(generation, first, last): &(u32, u64, u64)| {
            generation == entry.segment && first < end && begin <= last
        };
        self.damaged.iter().any(hits)
    }

    fn check_blobs(&mut self, disk: &dyn Disk, files: &BTreeSet<u64>) -> Result<(), SpoolError> {
        let named: BTreeMap<u64, u64> =
            self.live.blobs.iter().map(|(&id, &blob)| (blob.0, id)).collect();
        for (&blob, &id) in named.iter().filter(|(blob, _)| !files.contains(blob)) {
            let what = format!("the body of message {} is missing", MessageId(id));
            self.damage(&blob_name(blob), 0, 0, what);
        }
        for (&blob, &id) in named.iter().filter(|(blob, _)| files.contains(blob)) {
            let file = blob_name(blob);
            let Some((body_bytes, meta)) = self.bodies.remove(&id) else { continue };
            let found = disk.length(&file)?;
            if let Some(what) = wrong_length(MessageId(id), body_bytes, found) {
                self.damage(&file, 0, 0, what);
            } else if let Some((offset, bytes, what)) = wrong_body(disk, &file, body_bytes, &meta)?
            {
                let what = format!("the body of message {} {what}", MessageId(id));
                self.damage(&file, offset, bytes, what);
            }
        }
        let orphans = files.iter().filter(|blob| !named.contains_key(blob));
        self.report.orphan_blobs_count = orphans.count() as u64;
        Ok(())
    }

    fn finish(self) -> VerifyReport {
        self.report
    }
}

const INDEX_ONLY: &str = "it is in the index only";

/// The first difference between the indices' and the records' state of a message.
fn difference(records: &Live, indexed: &Live, id: u64) -> Option<&'static str> {
    let (by_records, by_index) = match (records.index.get(id), indexed.index.get(id)) {
        (Some(by_records), Some(by_index)) => (by_records, by_index),
        (None, Some(_)) => return Some(INDEX_ONLY),
        (Some(_), None) => return Some("it is not in the index"),
        (None, None) => return None,
    };
    let place = |entry: &IndexEntry| (entry.segment, entry.offset, entry.length);
    let said = by_records.residue(id, &records.reasons);
    let noted = by_index.residue(id, &indexed.reasons);
    [
        (place(by_records) == place(by_index), "place"),
        (by_records.recipients_count() == by_index.recipients_count(), "number of recipients"),
        (said.open == noted.open, "open recipients"),
        ((said.retry, &said.retries) == (noted.retry, &noted.retries), "attempts"),
        (said.hold == noted.hold, "hold"),
        (said.overrides == noted.overrides, "overrides"),
        (said.delay_notice_sent == noted.delay_notice_sent, "delay notice"),
        (said.reason == noted.reason, "last failure"),
        (records.blobs.get(&id) == indexed.blobs.get(&id), "blob"),
    ]
    .into_iter()
    .find_map(|(agrees, what)| (!agrees).then_some(what))
}

/// Reads a blob and checks it against the checksums in its accept. Returns offset, length and description of the first
/// wrong piece.
fn wrong_body(
    disk: &dyn Disk,
    file: &str,
    body_bytes: u64,
    meta: &Meta,
) -> Result<Option<(u64, u64, String)>, SpoolError> {
    let (mut offset, mut count, mut wrong_count, mut first) = (0, 0_u64, 0_u64, None);
    let mut buffer = Vec::new();
    while offset < body_bytes {
        let piece = match checksums::piece(meta, body_bytes, offset) {
            Ok(Piece { checksum: None, .. }) => break,
            Ok(piece) => piece,
            Err(error) => return Ok(Some((offset, 0, format!("is {error}")))),
        };
        buffer.resize(piece.bytes, 0);
        let mut unreadable = BTreeSet::new();
        let read = read_around(disk, file, offset, &mut buffer, &mut unreadable)?;
        buffer.truncate(read);
        count += 1;
        // Unreadable sectors are zeros here, which would match a piece of zeros.
        if !unreadable.is_empty() || !checksums::is_right(&buffer, piece) {
            wrong_count += 1;
            first.get_or_insert((offset, piece.bytes as u64));
        }
        offset += piece.bytes as u64;
    }
    let told =
        |(offset, bytes)| (offset, bytes, format!("is damaged: {wrong_count} of {count} pieces"));
    Ok(first.map(told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::AcceptHead;
    use crate::record::{Attempt, BlobId, Settle, SettleKind, State};
    use mail::Wall;

    fn live(length: u32, blob: Option<BlobId>) -> Live {
        let mut live = Live::default();
        let id = MessageId(7);
        let head = AcceptHead { id, recipients_count: 2, blob, copied: false, offset: 512, length };
        live.accept(1, &head);
        live
    }

    #[test]
    fn whatever_an_index_says_otherwise_is_told() {
        let id = MessageId(7);
        let state = |hold: Option<Option<&str>>, route: Option<&str>, notice: Option<bool>| State {
            id,
            hold: hold.map(|hold| hold.map(Box::from)),
            next_try: None,
            overrides: Some(route.map(Box::from)),
            delay_notice_sent: notice,
        };
        let attempt = |attempts, reason: &str| Attempt {
            id,
            at: Wall(1),
            recipients: vec![0, 1],
            attempts,
            next_try: Wall(9),
            reason: reason.into(),
        };
        let (same, moved) = (live(100, None), live(101, None));
        assert_eq!(difference(&same, &moved, 7), Some("place"));
        assert_eq!(difference(&same, &live(100, Some(BlobId(3))), 7), Some("blob"));
        let mut other = live(100, None);
        other.settle(&Settle { id, at: Wall(1), recipients: vec![(1, SettleKind::Relayed)] });
        assert_eq!(difference(&live(100, None), &other, 7), Some("open recipients"));
        for (state, what) in [
            (state(Some(Some("wait")), None, None), "hold"),
            (state(None, Some("backup"), None), "overrides"),
            (state(None, None, Some(true)), "delay notice"),
        ] {
            let mut other = live(100, None);
            other.state(&state);
            assert_eq!(difference(&live(100, None), &other, 7), Some(what));
        }
        let tried = |attempts, reason| {
            let mut live = live(100, None);
            live.tried(&attempt(attempts, reason));
            live
        };
        assert_eq!(difference(&tried(1, "busy"), &tried(2, "busy"), 7), Some("attempts"));
        assert_eq!(difference(&tried(1, "busy"), &tried(1, "away"), 7), Some("last failure"));
        assert_eq!(difference(&tried(1, "busy"), &tried(1, "busy"), 7), None);
        // One that only one of them knows.
        let mut verifier = Verifier::default();
        verifier.compare(&live(100, None));
        assert!(verifier.report.damage[0].what.ends_with("it is in the index only"));
        verifier.live = live(100, None);
        verifier.compare(&Live::default());
        assert!(verifier.report.damage[1].what.ends_with("it is not in the index"));
    }
}
