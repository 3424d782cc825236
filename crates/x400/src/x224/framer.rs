//! Data going out.

use crate::tpkt;
use bytes::{Bytes, BytesMut};

/// DT's header: length indicator, code, end mark.
const DATA_HEADER_BYTES: usize = 3;
/// Pieces up to this length are appended to the preceding buffer; larger ones stay separate. An additional buffer costs
/// more than copying so few octets.
const COPY_BYTES_MAX: usize = 2_048;

/// Length of a filler piece for a TSDU.
const FILLER_BYTES: usize = 65_536;

/// Pending output: few buffers, contents uncopied.
#[derive(Debug, Default)]
pub struct Outbox {
    pieces: Vec<Bytes>,
    tail: BytesMut,
}

impl Outbox {
    /// Appends a copy.
    pub fn copy(&mut self, octets: &[u8]) {
        self.tail.extend_from_slice(octets);
    }

    /// Appends octets, copied only if they are few.
    pub fn push(&mut self, octets: Bytes) {
        if octets.len() <= COPY_BYTES_MAX {
            self.tail.extend_from_slice(&octets);
        } else {
            self.end_tail();
            self.pieces.push(octets);
        }
    }

    /// Returns true without pending output.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.tail.is_empty()
    }

    /// Takes all output.
    pub fn take(&mut self) -> Vec<Bytes> {
        self.end_tail();
        std::mem::take(&mut self.pieces)
    }

    fn end_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push(self.tail.split().freeze());
        }
    }
}

/// Splits a TSDU of known length into DT TPDUs, whatever the pieces of its input.
#[derive(Clone, Copy, Debug)]
pub struct Framer {
    /// Data in one TPDU.
    payload_bytes_max: usize,
    /// Octets of the TSDU for which no TPDU has begun.
    tsdu_left: u64,
    /// Octets that the TPDU lacks.
    tpdu_left: usize,
}

impl Framer {
    /// For TPDUs of at most this length, header included.
    #[must_use]
    pub fn new(tpdu_bytes: usize) -> Self {
        let payload_bytes_max = tpdu_bytes.saturating_sub(DATA_HEADER_BYTES).max(1);
        Framer { payload_bytes_max, tsdu_left: 0, tpdu_left: 0 }
    }

    /// Begins a TSDU of this length; the last one must be complete.
    pub fn begin(&mut self, tsdu_bytes: u64) {
        debug_assert!(self.is_idle(), "a TSDU within another");
        self.tsdu_left = tsdu_bytes;
    }

    /// Between two TSDUs.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.tsdu_left == 0 && self.tpdu_left == 0
    }

    /// The next octets of the TSDU; those beyond its length are dropped.
    pub fn push(&mut self, out: &mut Outbox, mut octets: Bytes) {
        while !octets.is_empty() && !self.is_idle() {
            self.next_tpdu(out);
            let part = octets.split_to(self.tpdu_left.min(octets.len()));
            self.tpdu_left -= part.len();
            out.push(part);
        }
    }

    /// The same, copied.
    pub fn copy(&mut self, out: &mut Outbox, mut octets: &[u8]) {
        while !octets.is_empty() && !self.is_idle() {
            self.next_tpdu(out);
            let (part, rest) = octets.split_at(self.tpdu_left.min(octets.len()));
            self.tpdu_left -= part.len();
            out.copy(part);
            octets = rest;
        }
    }

    /// A whole TSDU.
    pub fn tsdu(&mut self, out: &mut Outbox, octets: &[u8]) {
        self.begin(octets.len() as u64);
        self.copy(out, octets);
    }

    /// Ends the TSDU early: the current TPDU is completed with zeros, and the next one is the last. Only for data that
    /// the receiver will discard.
    pub fn cut_short(&mut self, out: &mut Outbox) {
        let was_last = self.tsdu_left == 0;
        if self.is_idle() {
            return;
        }
        self.tsdu_left = 0;
        let filler = Bytes::from(vec![0; self.tpdu_left]);
        self.tpdu_left = 0;
        out.push(filler);
        if !was_last {
            data_header(out, 0, true);
        }
    }

    /// Completes the TSDU with zeros. Only for data that the receiver will discard.
    pub fn fill(&mut self, out: &mut Outbox) {
        let zeros = Bytes::from_static(&[0; FILLER_BYTES]);
        while !self.is_idle() {
            self.push(out, zeros.clone());
        }
    }

    fn next_tpdu(&mut self, out: &mut Outbox) {
        if self.tpdu_left > 0 {
            return;
        }
        let bytes =
            usize::try_from(self.tsdu_left).unwrap_or(usize::MAX).min(self.payload_bytes_max);
        self.tsdu_left -= bytes as u64;
        self.tpdu_left = bytes;
        data_header(out, bytes, self.tsdu_left == 0);
    }
}

fn data_header(out: &mut Outbox, payload_bytes: usize, is_last: bool) {
    out.copy(&tpkt::header(DATA_HEADER_BYTES + payload_bytes));
    out.copy(&[2, 0xF0, if is_last { 0x80 } else { 0 }]);
}
