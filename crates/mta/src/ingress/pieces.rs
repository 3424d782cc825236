//! Content in memory while it arrives: pieces and their share of the body memory budget.

use crate::budget::{Budget, Share};
use bytes::Bytes;
use mail::header::{RelayFields, relay_fields};
use spool::{BlobId, BodyChecksums};
use std::sync::Arc;

/// Bodies smaller than this are kept in one exact allocation and draw on no budget: their number is limited by the
/// sessions.
const SMALL_BYTES: usize = 16 * 1024;
/// Step by which larger bodies grow and draw on the budget.
const CHUNK_BYTES: usize = 64 * 1024;

/// The content received so far in one transaction.
#[derive(Debug)]
pub(super) struct Pieces {
    /// Full pieces, spilled first.
    chunks: Vec<Bytes>,
    /// The piece that grows.
    open: Vec<u8>,
    /// All bytes pushed, spilled ones included.
    pushed_bytes: u64,
    blob_bytes: u64,
    /// The share of the budget for `chunks` and `open`. `None` for small bodies.
    share: Option<Share>,
    /// Set once the body goes to disk.
    blob: Option<BlobId>,
    /// Checksums of the spilled data.
    checksums: BodyChecksums,
    /// Header fields found in the first piece.
    header: Option<RelayFields>,
}

/// Action needed before the next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attention {
    None,
    /// Draw one more step from the budget, or spill if it stays exhausted.
    Budget,
    /// Write the full pieces to the blob.
    Spill,
}

impl Pieces {
    /// An empty body that draws on a budget up to `blob_bytes` and goes to a blob beyond.
    pub(super) fn new(blob_bytes: u64) -> Pieces {
        Pieces {
            chunks: Vec::new(),
            open: Vec::new(),
            pushed_bytes: 0,
            blob_bytes,
            share: None,
            blob: None,
            checksums: BodyChecksums::default(),
            header: None,
        }
    }

    /// Appends content.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.pushed_bytes += piece.len() as u64;
        if self.chunks.is_empty() && self.open.len() + piece.len() < SMALL_BYTES {
            if self.open.is_empty() {
                self.open.reserve_exact(piece.len());
            }
            self.open.extend_from_slice(piece);
            return;
        }
        let mut rest = piece;
        while !rest.is_empty() {
            if self.open.capacity() < CHUNK_BYTES {
                self.open.reserve_exact(CHUNK_BYTES - self.open.len());
            }
            let (now, later) = rest.split_at(rest.len().min(CHUNK_BYTES - self.open.len()));
            self.open.extend_from_slice(now);
            rest = later;
            if self.open.len() == CHUNK_BYTES {
                self.close_piece();
            }
        }
    }

    fn close_piece(&mut self) {
        let piece = std::mem::take(&mut self.open);
        self.look_at_header(&piece);
        self.chunks.push(Bytes::from(piece));
    }

    /// The header ends within the first piece, or is cut there.
    fn look_at_header(&mut self, piece: &[u8]) {
        if self.header.is_none() {
            self.header = Some(relay_fields(piece));
        }
    }

    /// Memory in use that the budget must cover.
    fn owes(&self) -> u64 {
        let held = self.chunks.iter().map(Bytes::len).sum::<usize>() + self.open.len();
        if held < SMALL_BYTES { 0 } else { held.next_multiple_of(CHUNK_BYTES) as u64 }
    }

    /// The action needed before the next read.
    pub(super) fn attention(&self) -> Attention {
        if self.blob.is_some() || self.pushed_bytes > self.blob_bytes {
            return if self.chunks.is_empty() { Attention::None } else { Attention::Spill };
        }
        if self.owes() > self.drawn() { Attention::Budget } else { Attention::None }
    }

    #[inline]
    fn drawn(&self) -> u64 {
        self.share.as_ref().map_or(0, Share::amount)
    }

    /// Tries to draw the uncovered memory from the budget.
    pub(super) fn draw(&mut self, budget: &Arc<Budget>) -> bool {
        let owed = self.owes().saturating_sub(self.drawn());
        owed == 0 || self.share.get_or_insert_with(|| Share::none(budget)).try_grow(owed)
    }

    /// Returns true if it holds a share of the budget.
    #[inline]
    pub(super) fn holds_budget(&self) -> bool {
        self.drawn() > 0
    }

    /// The blob for the body, if it goes to one.
    pub(super) fn blob(&self) -> Option<BlobId> {
        self.blob
    }

    /// Sends the body to `blob` from now on.
    pub(super) fn start_blob(&mut self, blob: BlobId) {
        self.blob = Some(blob);
    }

    /// Takes the full pieces for the blob, oldest first, with the open one at the end (`all`).
    pub(super) fn take_chunks(&mut self, all: bool) -> Vec<Bytes> {
        if all && !self.open.is_empty() {
            self.close_piece();
        }
        let pieces = std::mem::take(&mut self.chunks);
        pieces.iter().for_each(|piece| self.checksums.push(piece));
        pieces
    }

    /// Takes the blob and the checksums of all data spilled to it.
    pub(super) fn take_blob(&mut self) -> Option<(BlobId, BodyChecksums)> {
        Some((self.blob.take()?, std::mem::take(&mut self.checksums)))
    }

    /// The pieces from [`Pieces::take_chunks`] are on disk: releases the budget. The open piece stays uncovered, as it
    /// is smaller than one step.
    pub(super) fn handle_spilled(&mut self) {
        self.share = None;
    }

    /// The fields at the top of the content that relaying needs.
    pub(super) fn header(&mut self) -> RelayFields {
        let open = &self.open;
        *self.header.get_or_insert_with(|| relay_fields(open))
    }

    /// Takes the whole body if it did not go to a blob. Leaves nothing for the next message.
    pub(super) fn take_body(&mut self) -> Vec<Bytes> {
        let mut pieces = std::mem::take(&mut self.chunks);
        if !self.open.is_empty() {
            let mut open = std::mem::take(&mut self.open);
            open.shrink_to_fit();
            pieces.push(Bytes::from(open));
        }
        pieces
    }

    /// Resets everything and returns the blob to be dropped, if one was begun.
    pub(super) fn reset(&mut self) -> Option<BlobId> {
        self.chunks = Vec::new();
        self.open = Vec::new();
        self.pushed_bytes = 0;
        self.share = None;
        self.header = None;
        self.checksums = BodyChecksums::default();
        self.blob.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> (Arc<Budget>, Pieces) {
        let budget = Budget::new(1024 * 1024);
        let pieces = Pieces::new(2 * 1024 * 1024);
        (budget, pieces)
    }

    #[test]
    fn a_small_body_is_one_exact_piece_and_draws_on_no_budget() {
        let (budget, mut pieces) = pieces();
        pieces.push(&[b'x'; 400]);
        assert_eq!(pieces.attention(), Attention::None);
        let body = pieces.take_body();
        assert_eq!(body.len(), 1);
        assert_eq!(body[0].len(), 400);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_large_body_draws_step_by_step_and_becomes_a_blob_at_the_limit() {
        let (budget, mut pieces) = pieces();
        pieces.push(&vec![b'x'; SMALL_BYTES]);
        assert_eq!(pieces.attention(), Attention::Budget);
        assert!(pieces.draw(&budget));
        assert_eq!(budget.used(), CHUNK_BYTES as u64);
        pieces.push(&vec![b'y'; 2 * CHUNK_BYTES]);
        assert!(pieces.draw(&budget));
        assert_eq!(budget.used(), 3 * CHUNK_BYTES as u64);
        pieces.push(&vec![b'z'; 2 * 1024 * 1024]);
        assert_eq!(pieces.attention(), Attention::Spill);
        pieces.start_blob(BlobId(1));
        let spilled: usize = pieces.take_chunks(false).iter().map(Bytes::len).sum();
        pieces.handle_spilled();
        assert_eq!(budget.used(), 0);
        let rest: usize = pieces.take_chunks(true).iter().map(Bytes::len).sum();
        assert_eq!(spilled + rest, SMALL_BYTES + 2 * CHUNK_BYTES + 2 * 1024 * 1024);
        assert_eq!(pieces.reset(), Some(BlobId(1)));
    }

    #[test]
    fn no_budget_means_waiting() {
        let budget = Budget::new(CHUNK_BYTES as u64);
        let mut first = Pieces::new(2 * 1024 * 1024);
        let mut second = Pieces::new(2 * 1024 * 1024);
        first.push(&vec![b'x'; SMALL_BYTES]);
        second.push(&vec![b'x'; SMALL_BYTES]);
        assert!(first.draw(&budget));
        assert!(!second.draw(&budget));
        drop(first);
        assert!(second.draw(&budget));
    }

    #[test]
    fn hops_are_counted_in_small_and_in_large_bodies() {
        let (_, mut small) = pieces();
        small.push(b"Received: a\r\nReceived: b\r\n\r\nReceived: not a field\r\n");
        assert_eq!(small.header().received_count, 2);
        let (_, mut large) = pieces();
        large.push(b"Received: a\r\n\r\n");
        large.push(&vec![b'x'; 3 * CHUNK_BYTES]);
        large.take_chunks(false);
        assert_eq!(large.header().received_count, 1);
    }
}
