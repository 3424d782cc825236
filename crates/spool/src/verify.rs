//! Reads a log that nobody has open and says what is in it.

use crate::checksums::{self, Piece};
use crate::codec::{self, RawRecord, SmallRecord, kind};
use crate::config::{Damage, RecoveryReport, SpoolError};
use crate::disk::{Disk, read_around};
use crate::live::Live;
use crate::record::Meta;
use crate::recovery::{MISSING, Recovery, wrong_length};
use crate::register::REGISTER;
use crate::scan::{self, Extent, Found};
use crate::segment::{Name, Segment, blob_name};
use mail::MessageId;
use std::collections::{BTreeMap, BTreeSet};

/// What [`verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Segments read.
    pub segments_count: u64,
    /// Records whose checksum is right.
    pub records_count: u64,
    /// Messages with open recipients.
    pub live_count: u64,
    /// Open recipients of these.
    pub open_recipients_count: u64,
    /// Messages whose accept is still there and all of whose recipients are settled.
    pub settled_count: u64,
    /// Messages that compaction has copied from a segment that is still there.
    pub copied_count: u64,
    /// Batches at the end of the log that were never acknowledged.
    pub torn_count: u64,
    /// Records, gaps and blobs that are damaged, and illegal transitions.
    pub damaged_count: u64,
    /// Segments put aside because of earlier damage.
    pub quarantined_count: u64,
    /// Blobs that no live message names.
    pub orphan_blobs_count: u64,
    /// The first damages, at most [`RecoveryReport::DAMAGE_MAX`].
    pub damage: Vec<Damage>,
}

/// Reads all of a log, changes nothing: checks every checksum and every transition, and counts.
///
/// # Errors
/// When the directory can't be read or has an unknown format version.
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
                aside.insert((key.generation, key.salt));
            }
            Name::Blob(blob) => {
                blob_files.insert(blob);
            }
            Name::Spare(_) | Name::Unfinished(_) | Name::Other => {}
        }
    }
    // What a restart would find, from the indices; it must agree with what all records say.
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
    /// Length of the body of each message with a blob, and what its accept says of it.
    bodies: BTreeMap<u64, (u64, Meta)>,
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
            && scan::read_index(disk, &file, key, footer)?.is_none()
        {
            let what = "the segment's index is damaged".into();
            self.damage(&file, footer.index_offset, 0, what);
        }
        let known_end = extent.known_end();
        let mut sequence = None;
        let end = scan::scan(disk, &file, key, length, known_end, &mut |found| match found {
            Found::Batch(offset, header) => {
                if sequence.is_some_and(|last| header.sequence <= last) {
                    let what = format!("batch {} follows a later one", header.sequence);
                    self.damage(&file, offset, 0, what);
                }
                sequence = Some(header.sequence);
            }
            Found::Record(record) => {
                self.report.records_count += 1;
                if let Err(what) = self.apply(key.generation, &record) {
                    self.damage(&file, record.offset, u64::from(record.length), what);
                }
            }
            Found::Damage { offset, bytes, what } => self.damage(&file, offset, bytes, what),
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
                mail::Mailbox::parse(&format!("x@{text}"), true)
                    .ok()
                    .map(|m| m.domain())
                    .or_else(|| mail::Mailbox::parse("postmaster", false).ok().map(|m| m.domain()))
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

    /// The transitions of docs/spool.md. A message whose accept was freed already is no error.
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

    /// What the indices say must be what the records say.
    fn compare(&mut self, indexed: &Live) {
        for id in self.accepted.clone() {
            let open =
                |live: &Live| live.index.get(id).map(|entry| entry.open().collect::<Vec<_>>());
            let (by_records, by_index) = (open(&self.live), open(indexed));
            match &by_records {
                Some(open) => {
                    self.report.live_count += 1;
                    self.report.open_recipients_count += open.len() as u64;
                }
                None => self.report.settled_count += 1,
            }
            if by_records != by_index {
                let what = format!("the index disagrees with the records of {}", MessageId(id));
                self.damage("", 0, 0, what);
            }
        }
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

/// Reads a blob and checks it against the checksums in its accept: where the first wrong piece is,
/// how long it is, and what is wrong.
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
        // What can't be read is zeros here: of a piece of zeros they are right.
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
