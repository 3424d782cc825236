//! State of transfers in both directions.

use super::abort::Breach;
use super::{ExceptionReason, Layer, Phase};
use crate::rtse::{ApduUnwrapper, RttrReader};
use crate::session::Serial;
use bytes::Bytes;
use std::collections::VecDeque;

/// State of the peer's activity.
#[derive(Debug, Default)]
pub(super) enum Receiving {
    /// No activity.
    #[default]
    Idle,
    /// Data is being received.
    Active(Box<Activity>),
    /// Complete; the caller makes it durable.
    Answering(Serial),
    /// Refused; the peer must discard it.
    Refused,
}

#[derive(Debug)]
pub(super) struct Activity {
    /// The number of the next synchronization point.
    pub(super) next: Serial,
    /// The slice that is open, in normal mode.
    pub(super) slice: Option<RttrReader>,
    pub(super) apdu: ApduUnwrapper,
}

impl Receiving {
    pub(super) const fn is_idle(&self) -> bool {
        matches!(self, Receiving::Idle)
    }

    /// It is the caller that is waited for.
    pub(super) const fn is_answer_due(&self) -> bool {
        matches!(self, Receiving::Answering(_))
    }
}

impl Activity {
    /// A synchronization point is valid only between slices, with the next number.
    pub(super) fn point(&mut self, serial: Serial) -> Result<(), Breach> {
        if self.slice.is_some() {
            return Err(Breach::session("a synchronization point within data"));
        }
        if serial != self.next {
            let next = self.next;
            return Err(Breach::session(format!(
                "synchronization point {serial} where {next} is next"
            )));
        }
        self.next = serial.next();
        Ok(())
    }

    pub(super) fn unwrap(
        &mut self,
        rtse_context: i64,
        mut octets: Bytes,
        is_last: bool,
        content: &mut impl FnMut(Bytes),
    ) -> Result<(), Breach> {
        let slice = self.slice.get_or_insert_with(|| RttrReader::new(rtse_context));
        let presentation =
            |error: crate::rtse::UnwrapError| Breach::new(Layer::Presentation, error.to_string());
        while let Some(mut part) = slice.read(&mut octets).map_err(presentation)? {
            while let Some(octets) = self
                .apdu
                .read(&mut part)
                .map_err(|error| Breach::new(Layer::ReliableTransfer, error.to_string()))?
            {
                content(octets);
            }
        }
        if is_last {
            slice.finish().map_err(presentation)?;
            self.slice = None;
        }
        Ok(())
    }
}

/// State of this end's activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ActivityState {
    #[default]
    Idle,
    /// Slices go out.
    Slices,
    /// All went out; AE had this number.
    End(Serial),
    /// AD went out, for this reason.
    Discard(ExceptionReason),
}

/// Our side of a transfer.
#[derive(Debug, Default)]
pub(super) struct Sending {
    pub(super) step: ActivityState,
    /// Activities so far; the number is the identifier.
    pub(super) activities: u32,
    /// Supplied by the caller, not framed yet.
    pub(super) queue: VecDeque<Bytes>,
    /// Octets of the APDU not supplied by the caller yet.
    pub(super) apdu_left: u64,
    /// Octets of the stream not in a slice yet: the APDU and its framing.
    pub(super) stream_left: u64,
    /// Octets that the slice lacks.
    pub(super) slice_left: u64,
    pub(super) is_first_slice: bool,
    /// The last checkpoints sent and acknowledged.
    pub(super) said: Serial,
    pub(super) acknowledged: Serial,
}

impl Sending {
    pub(super) fn is_idle(&self) -> bool {
        self.step == ActivityState::Idle
    }

    /// Nothing is pending any more.
    pub(super) fn clear(&mut self) {
        *self = Sending { activities: self.activities, ..Sending::default() };
    }

    /// As many checkpoints as may be are unacknowledged.
    pub(super) fn is_window_full(&self, window: u32) -> bool {
        self.said.0.saturating_sub(self.acknowledged.0) >= window
    }

    /// The awaited phase.
    pub(super) fn phase(&self, window: u32) -> Option<Phase> {
        match self.step {
            ActivityState::Idle => None,
            ActivityState::Slices if self.slice_left == 0 && self.is_window_full(window) => {
                Some(Phase::Window)
            }
            ActivityState::Slices | ActivityState::End(_) => Some(Phase::Acknowledge),
            ActivityState::Discard(_) => Some(Phase::Answer),
        }
    }

    /// Returns true if the caller must supply more: no supplied octets wait for the window.
    pub(super) fn wants_content(&self) -> bool {
        self.step == ActivityState::Slices && self.apdu_left > 0 && self.queue.is_empty()
    }
}
