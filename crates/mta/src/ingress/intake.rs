//! Collects a message's content as it arrives: in memory within the shared body memory budget, beyond it in a body
//! file.

use super::observer::Observer;
use super::pieces::{Attention, Pieces};
use super::refusals;
use crate::budget::Share;
use crate::custody::Custody;
use crate::seams::{Time, World};
use crate::services::Services;
use auth::forged::AuthresRenamer;
use bytes::Bytes;
use mail::header::RelayFields;
use mail::header_end::{Added, HeaderEnd};
use mail::{ContentFacts, MessageId, Mono, Refusal};
use spool::{BlobId, BodyChecksums, Completion};
use std::rc::Rc;
use std::time::Duration;

/// Time that content waits for body memory before it is written to disk.
const BUDGET_WAIT: Duration = Duration::from_secs(1);
/// Polling interval during that time.
const BUDGET_LOOK: Duration = Duration::from_millis(20);
/// Bytes that observers may hold without drawing on the budget: more than most headers.
const OBSERVED_FREE_BYTES: u64 = 16 * 1024;
/// Step by which observers draw on the budget beyond that.
const OBSERVED_STEP_BYTES: u64 = 16 * 1024;
/// Idle time after which content that holds memory is written to disk, if memory is short.
const HOLDER_IDLE_MAX: Duration = Duration::from_secs(5);

/// The content received so far in one transaction.
pub struct Intake<W: World> {
    services: Rc<Services<W>>,
    custody: Rc<Custody<W>>,
    pieces: Pieces,
    /// The id of the coming message, once a blob was begun for it.
    owner: Option<MessageId>,
    /// Time of the last input.
    heard_at: Mono,
    /// Observers with the index of their stage.
    observers: Vec<(usize, Box<dyn Observer>)>,
    /// The observers' share of the body memory budget. `None` before they draw on it.
    observed: Option<Share>,
    /// Renames forged Authentication-Results fields, until the header ends.
    renamer: Option<AuthresRenamer>,
    /// Normalises the end of the header so that all parsers agree on it, until it is found.
    header_end: Option<HeaderEnd>,
    /// Bytes that `header_end` inserted.
    added: Added,
    /// No recipient is left, so nothing is stored.
    is_discarded: bool,
    /// The error from writing to disk. The rest of the content is still read: a client that is sending reads no reply
    /// before the end.
    lost: Option<Refusal>,
}

/// Content that is complete.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) id: MessageId,
    /// The blob with the body, if it is not in `pieces`. Not sealed yet.
    pub(super) blob: Option<(BlobId, BodyChecksums)>,
    pub(super) pieces: Vec<Bytes>,
}

impl<W: World> Intake<W> {
    /// An empty intake. Content beyond `blob_bytes` goes to a file.
    pub(super) fn new(
        services: &Rc<Services<W>>,
        custody: &Rc<Custody<W>>,
        blob_bytes: u64,
    ) -> Intake<W> {
        Intake {
            pieces: Pieces::new(blob_bytes),
            owner: None,
            heard_at: services.now(),
            observers: Vec::new(),
            observed: None,
            renamer: None,
            header_end: None,
            added: Added::default(),
            is_discarded: false,
            lost: None,
            services: Rc::clone(services),
            custody: Rc::clone(custody),
        }
    }

    /// An intake for replacement content of a message that has its id.
    pub(super) fn for_message(
        id: MessageId,
        services: &Rc<Services<W>>,
        custody: &Rc<Custody<W>>,
        blob_bytes: u64,
    ) -> Intake<W> {
        let intake = Intake::new(services, custody, blob_bytes);
        Intake { owner: Some(id), ..intake }
    }

    /// Appends content. [`Intake::attend`] must follow before the next read.
    pub fn push(&mut self, piece: &[u8]) {
        let Some(mut end) = self.header_end.take() else { return self.take(piece) };
        end.push(piece, |piece| self.take(piece));
        if end.is_done() {
            self.added = end.finish(|piece| self.take(piece));
        } else {
            self.header_end = Some(end);
        }
    }

    fn take(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        for (_, observer) in &mut self.observers {
            observer.push(piece);
        }
        if self.is_discarded {
            return;
        }
        match &mut self.renamer {
            None => self.pieces.push(piece),
            Some(renamer) => {
                renamer.push(piece, |piece| self.pieces.push(piece));
                if renamer.is_done() {
                    self.renamer = None;
                }
            }
        }
    }

    /// Notes that input arrived.
    pub fn note_heard(&mut self, now: Mono) {
        self.heard_at = now;
    }

    /// Reserves body memory for the content, or writes it to disk. Call before each read.
    ///
    /// # Errors
    /// No memory is left for the observers. The content is lost. (A failed write is reported at the end of the
    /// content.)
    pub async fn attend(&mut self) -> Result<(), Refusal> {
        if self.is_stalled() {
            self.services.metrics.spilled.inc();
            self.spill(true).await;
        }
        self.cover_observers().await?;
        loop {
            match self.pieces.attention() {
                Attention::None => return Ok(()),
                Attention::Spill => self.spill(false).await,
                Attention::Budget if self.draw() => {}
                Attention::Budget => self.wait_for_budget().await,
            }
        }
    }

    /// Reserves body memory for the observers. Their data can't go to disk, so the content is written to disk before
    /// this waits.
    async fn cover_observers(&mut self) -> Result<(), Refusal> {
        let held: usize = self.observers.iter().map(|(_, observer)| observer.held()).sum();
        let wanted = (held as u64).saturating_sub(OBSERVED_FREE_BYTES);
        let covered = self.observed.as_ref().map_or(0, Share::amount);
        if wanted <= covered {
            return Ok(());
        }
        let more = wanted.div_ceil(OBSERVED_STEP_BYTES) * OBSERVED_STEP_BYTES - covered;
        if self.grow_observed(more) {
            return Ok(());
        }
        self.services.metrics.content_waits.inc();
        if self.pieces.holds_budget() {
            self.services.metrics.spilled.inc();
            self.spill(true).await;
        }
        let until = self.services.now() + BUDGET_WAIT;
        while !self.grow_observed(more) {
            let now = self.services.now();
            if now >= until {
                return Err(refusals::NO_MEMORY_TO_CHECK);
            }
            self.services.world.time().sleep_until(now + BUDGET_LOOK).await;
        }
        Ok(())
    }

    fn grow_observed(&mut self, more: u64) -> bool {
        let memory = &self.services.shared.body_memory;
        self.observed.get_or_insert_with(|| Share::none(memory)).try_grow(more)
    }

    fn draw(&mut self) -> bool {
        self.pieces.draw(&self.services.shared.body_memory)
    }

    async fn wait_for_budget(&mut self) {
        self.services.metrics.content_waits.inc();
        let until = self.services.now() + BUDGET_WAIT;
        while !self.draw() {
            let now = self.services.now();
            if now >= until {
                self.services.metrics.spilled.inc();
                return self.spill(false).await;
            }
            self.services.world.time().sleep_until(now + BUDGET_LOOK).await;
        }
    }

    /// Returns true if this content holds memory and is idle while memory is short. [`Intake::attend`] then writes it
    /// to disk.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        let memory = &self.services.shared.body_memory;
        self.pieces.holds_budget()
            && self.services.now() >= self.heard_at + HOLDER_IDLE_MAX
            && memory.used() > memory.max() / 2
    }

    /// Time of the next check of [`Intake::is_stalled`]. [`Mono::NEVER`] while no memory is held.
    #[must_use]
    pub fn next_look(&self) -> Mono {
        if !self.pieces.holds_budget() {
            return Mono::NEVER;
        }
        let first = self.heard_at + HOLDER_IDLE_MAX;
        let now = self.services.now();
        if now < first { first } else { now + HOLDER_IDLE_MAX }
    }

    /// The fields at the top of the complete content that relaying needs.
    pub(super) fn header(&mut self) -> RelayFields {
        if let Some(mut end) = self.header_end.take() {
            self.added = end.finish(|piece| self.take(piece));
        }
        if let Some(mut renamer) = self.renamer.take() {
            renamer.finish(|piece| self.pieces.push(piece));
        }
        self.pieces.header()
    }

    /// Adds an observer for the stage at this index.
    pub(super) fn observe(&mut self, stage: usize, observer: Box<dyn Observer>) {
        self.observers.push((stage, observer));
    }

    /// Renames Authentication-Results fields with this authserv-id (RFC 8601 §5). Observers see the original fields.
    pub(super) fn rename_forged(&mut self, server: &str) {
        self.renamer = Some(AuthresRenamer::new(server));
    }

    /// Content is internet mail: ends its header with an empty line, for the observers too.
    pub(super) fn end_header(&mut self) {
        self.header_end = Some(HeaderEnd::default());
    }

    /// The facts of the received content, adjusted for inserted bytes.
    pub(super) fn facts_of(&self, came: ContentFacts) -> ContentFacts {
        let first_line = u32::try_from(self.added.first_line).unwrap_or(u32::MAX);
        ContentFacts {
            body_bytes: came.body_bytes + self.added.bytes,
            longest_line: came.longest_line.max(first_line),
            ..came
        }
    }

    /// Takes the observers.
    pub(super) fn take_observers(&mut self) -> Vec<(usize, Box<dyn Observer>)> {
        std::mem::take(&mut self.observers)
    }

    /// Discards all content from now on.
    pub(super) fn discard(&mut self) {
        self.is_discarded = true;
    }

    /// Ends the content.
    pub(super) async fn finish(&mut self) -> Result<Content, Refusal> {
        if self.pieces.blob().is_some() {
            self.spill(true).await;
        }
        if let Some(refusal) = self.lost.take() {
            return Err(refusal);
        }
        let id = self.owner.take().or_else(|| self.custody.allocate_id());
        let Some(id) = id else { return Err(self.no_place()) };
        Ok(Content { id, blob: self.pieces.take_blob(), pieces: self.pieces.take_body() })
    }

    /// Removes observers and filters, but keeps the content.
    pub(super) fn clear_arrangements(&mut self) {
        self.observers.clear();
        self.observed = None;
        self.renamer = None;
        self.header_end = None;
        self.added = Added::default();
        self.is_discarded = false;
        self.lost = None;
    }

    pub(super) fn reset(&mut self) {
        self.clear_arrangements();
        self.drop_pieces();
    }

    /// Writes the collected pieces to the blob, with the last one at the end (`all`). If that fails, the content is
    /// lost and the rest is discarded.
    async fn spill(&mut self, all: bool) {
        if let Err(refusal) = self.write_out(all).await {
            self.lose(refusal);
        }
    }

    async fn write_out(&mut self, all: bool) -> Result<(), Refusal> {
        let Some(id) = self.owner.or_else(|| self.custody.allocate_id()) else {
            return Err(self.no_place());
        };
        self.owner = Some(id);
        let blob = match self.pieces.blob() {
            Some(blob) => blob,
            None => {
                let blob = self.custody.allocate_blob(id);
                self.pieces.start_blob(blob);
                blob
            }
        };
        for data in self.pieces.take_chunks(all) {
            let appended = self.custody.append_blob(id, blob, data).await;
            if !matches!(appended, Completion::BlobDone) {
                return Err(self.no_place());
            }
        }
        self.pieces.handle_spilled();
        Ok(())
    }

    /// Drops content that can't be stored.
    fn lose(&mut self, refusal: Refusal) {
        let text = format_args!("cannot write message content: {}", refusal.text);
        self.services.console.warn("content", text);
        self.drop_pieces();
        self.observers.clear();
        self.observed = None;
        self.renamer = None;
        self.is_discarded = true;
        self.lost = Some(refusal);
    }

    fn drop_pieces(&mut self) {
        if let (Some(blob), Some(id)) = (self.pieces.reset(), self.owner.take()) {
            self.custody.drop_blob(id, blob);
        }
    }

    /// Counts content that can't be written to disk, and returns the refusal.
    fn no_place(&self) -> Refusal {
        self.services.metrics.commit_refused.inc();
        refusals::no_place(self.custody.is_poisoned())
    }
}
