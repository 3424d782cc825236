//! An activity as it goes out: which octets, in which TPKTs, up to which checkpoint.
//!
//! Content is not copied into it: it names parts of a stream, which lies in two slices.

use super::ber;
use super::bind::{Contexts, Mode};
use super::spdu::{self, parameter, serial, spdu};
use super::tpkt;
use std::io::{self, IoSlice};
use std::ops::Range;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// What is no longer than this is copied and goes out as one slice.
const COPY_BYTES_MAX: usize = 8 * 1024;

/// What both ends of an association have agreed upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) mode: Mode,
    /// Octets between checkpoints; 0: none.
    pub(super) checkpoint_bytes: usize,
    /// So many checkpoints may be unconfirmed.
    pub(super) window: u32,
    /// Octets of a TPDU, its header included.
    pub(super) tpdu_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PlanPiece {
    /// Of the literals.
    Literal(Range<usize>),
    /// Of the stream.
    Stream(Range<usize>),
}

/// The pieces of an activity, in their order.
#[derive(Debug, Default)]
pub(super) struct Plan {
    literals: Vec<u8>,
    pieces: Vec<PlanPiece>,
    /// How many pieces there are up to each checkpoint, and up to the end.
    ends: Vec<usize>,
}

impl Plan {
    /// Plans the activity of this number, from 1, that carries so many octets.
    pub(super) fn lay_out(&mut self, agreed: Agreed, activity: u32, stream_bytes: usize) {
        self.literals.clear();
        self.pieces.clear();
        self.ends.clear();
        let activity = parameter(spdu::ACTIVITY, &ber::integer(2, activity));
        self.add(agreed, &spdu(&spdu::GT, spdu::ACTIVITY_START, &[&activity]), 0..0);
        let slice_bytes = match agreed.checkpoint_bytes {
            0 => stream_bytes.max(1),
            bytes => bytes,
        };
        let (mut at, mut checkpoint) = (0, 0);
        loop {
            let end = stream_bytes.min(at + slice_bytes);
            self.add(agreed, &data_prefix(agreed.mode, end - at), at..end);
            at = end;
            checkpoint += 1;
            let serial = serial(checkpoint);
            if at == stream_bytes {
                self.add(agreed, &spdu(&spdu::GT, spdu::ACTIVITY_END, &[&serial]), 0..0);
                return self.ends.push(self.pieces.len());
            }
            self.add(agreed, &spdu(&spdu::GT, spdu::MINOR, &[&serial]), 0..0);
            self.ends.push(self.pieces.len());
        }
    }

    /// Checkpoints behind which more comes.
    pub(super) fn checkpoints(&self) -> u32 {
        self.ends.len().saturating_sub(1) as u32
    }

    /// A TSDU: the prefix, then a part of the stream.
    fn add(&mut self, agreed: Agreed, mut prefix: &[u8], stream: Range<usize>) {
        let payload_max = tpkt::payload_max(agreed.tpdu_bytes);
        let mut at = stream.start;
        loop {
            let left = prefix.len() + (stream.end - at);
            let bytes = left.min(payload_max);
            let (now, later) = prefix.split_at(bytes.min(prefix.len()));
            prefix = later;
            let start = self.literals.len();
            tpkt::push_data_header(&mut self.literals, bytes, bytes == left);
            self.literals.extend_from_slice(now);
            self.add_literal(start..self.literals.len());
            let of_stream = at..at + (bytes - now.len());
            at = of_stream.end;
            if !of_stream.is_empty() {
                self.pieces.push(PlanPiece::Stream(of_stream));
            }
            if bytes == left {
                return;
            }
        }
    }

    fn add_literal(&mut self, range: Range<usize>) {
        // What is written up to a checkpoint ends there.
        let is_new = self.ends.last().is_some_and(|&end| end == self.pieces.len());
        match self.pieces.last_mut() {
            Some(PlanPiece::Literal(last)) if !is_new => last.end = range.end,
            _ => self.pieces.push(PlanPiece::Literal(range)),
        }
    }

    /// Writes what lies behind so many checkpoints, up to another (or the end): in one write if the system takes
    /// it so. The stream's second part lies behind the first.
    pub(super) async fn write(
        &self,
        checkpoints: Range<u32>,
        stream: [&[u8]; 2],
        out: &mut Vec<u8>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let begin = match checkpoints.start {
            0 => Some(0),
            number => self.ends.get(number as usize - 1).copied(),
        };
        let end = self.ends.get((checkpoints.end as usize).saturating_sub(1)).copied();
        let pieces = begin.zip(end).and_then(|(begin, end)| self.pieces.get(begin..end));
        let slices = pieces.unwrap_or_default().iter().flat_map(|piece| self.slices(piece, stream));
        let slices = slices.filter(|slice| !slice.is_empty());
        if slices.clone().map(<[u8]>::len).sum::<usize>() <= COPY_BYTES_MAX {
            out.clear();
            slices.for_each(|slice| out.extend_from_slice(slice));
            return to.write_all(out).await;
        }
        let mut slices: Vec<IoSlice<'_>> = slices.map(IoSlice::new).collect();
        let mut left = slices.as_mut_slice();
        while !left.is_empty() {
            match to.write_vectored(left).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => IoSlice::advance_slices(&mut left, written),
            }
        }
        Ok(())
    }

    fn slices<'a>(&'a self, piece: &PlanPiece, [first, second]: [&'a [u8]; 2]) -> [&'a [u8]; 2] {
        match piece {
            PlanPiece::Literal(range) => {
                [self.literals.get(range.clone()).unwrap_or_default(), &[]]
            }
            PlanPiece::Stream(range) => {
                let split = first.len();
                let of_first = range.start.min(split)..range.end.min(split);
                let of_second = range.start.max(split) - split..range.end.max(split) - split;
                [first.get(of_first).unwrap_or_default(), second.get(of_second).unwrap_or_default()]
            }
        }
    }
}

/// What stands before so many octets of a transfer: GT, DT and, in normal mode, RTTR in its presentation context.
fn data_prefix(mode: Mode, bytes: usize) -> Vec<u8> {
    let mut out = [spdu::GT, spdu::DT].concat();
    match mode {
        Mode::Normal => {
            let header = |tag, length| {
                let mut header = Vec::new();
                ber::push_header(&mut header, tag, length);
                header
            };
            let string = header(0x04, bytes);
            let value = header(0xa0, string.len() + bytes);
            let context = ber::integer(2, Contexts::OURS.rtse);
            let length = context.len() + value.len() + string.len() + bytes;
            let list = header(0x30, length);
            out.extend(header(0x61, list.len() + length));
            out.extend([list, context, value, string].concat());
        }
        Mode::X410 | Mode::X4101984 => {}
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::spdu::{Spdu, SpduKind};
    use super::super::tpkt::{Framed, Frames};
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    /// All that is written, checkpoint by checkpoint.
    fn written(agreed: Agreed, first: &[u8], second: &[u8]) -> Vec<Vec<u8>> {
        let mut plan = Plan::default();
        plan.lay_out(agreed, 300, first.len() + second.len());
        let mut all = Vec::new();
        for number in 0..=plan.checkpoints() {
            let (mut bytes, mut out) = (Vec::new(), Vec::new());
            block_on(plan.write(number..number + 1, [first, second], &mut out, &mut bytes))
                .unwrap();
            all.push(bytes);
        }
        let (mut at_once, mut out) = (Vec::new(), Vec::new());
        let whole = 0..plan.checkpoints() + 1;
        block_on(plan.write(whole, [first, second], &mut out, &mut at_once)).unwrap();
        assert_eq!(at_once, all.concat());
        all
    }

    fn tsdus(bytes: &[u8]) -> Vec<Vec<u8>> {
        let (mut frames, mut rest, mut found) = (Frames::new(1 << 20), bytes, Vec::new());
        while !rest.is_empty() {
            let (used, framed) = frames.advance(rest).unwrap();
            rest = &rest[used..];
            assert_ne!(framed, Framed::Control);
            if framed == Framed::Tsdu {
                found.push(frames.tsdu().to_vec());
            }
        }
        found
    }

    #[test]
    fn the_stream_is_whole_whatever_the_sizes() {
        let stream: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
        for mode in [Mode::Normal, Mode::X410, Mode::X4101984] {
            for (checkpoint_bytes, tpdu_bytes) in
                [(0, 65_408), (0, 128), (1024, 2048), (1024, 128), (20_000, 300), (19_999, 65_408)]
            {
                let agreed = Agreed { mode, checkpoint_bytes, window: 3, tpdu_bytes };
                for split in [0, 1, 700, 20_000] {
                    let (first, second) = stream.split_at(split);
                    let parts = written(agreed, first, second);
                    let expected = match checkpoint_bytes {
                        0 => 1,
                        bytes => 20_000_usize.div_ceil(bytes),
                    };
                    assert_eq!(parts.len(), expected);
                    let (mut data, mut kinds) = (Vec::new(), Vec::new());
                    for tsdu in tsdus(&parts.concat()) {
                        let spdu = Spdu::read(&tsdu).unwrap();
                        kinds.push((spdu.kind, spdu.serial()));
                        let content = match mode {
                            Mode::Normal => ber::find(spdu.data, &[0x61, 0x30, 0xa0, 0x04]),
                            _ => Some(spdu.data),
                        };
                        data.extend_from_slice(content.unwrap_or_default());
                    }
                    assert!(data == stream, "{agreed:?} {split}");
                    assert_eq!(kinds[0], (SpduKind::ActivityStart, None));
                    let last = kinds.len() - 1;
                    assert_eq!(kinds[last], (SpduKind::ActivityEnd, Some(expected as u32)));
                    for number in 1..expected {
                        assert_eq!(kinds[2 * number], (SpduKind::Minor, Some(number as u32)));
                    }
                }
            }
        }
    }

    #[test]
    fn an_empty_stream_is_an_activity_too() {
        let agreed = Agreed { mode: Mode::X410, checkpoint_bytes: 0, window: 3, tpdu_bytes: 2048 };
        let parts = written(agreed, &[], &[]);
        assert_eq!(tsdus(&parts.concat()).len(), 3);
    }
}
