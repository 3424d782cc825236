//! A segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentKey;
