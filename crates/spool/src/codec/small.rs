//! Records without content: attempts, settles, states, and the summaries written by compaction.

use super::field::{FieldReader, cut, put_optional, put_text, put_varint};
use super::frame::kind;
use crate::record::{Attempt, Settle, SettleKind, State};
use mail::{MessageId, Wall};

/// Retry state of a recipient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retry {
    pub attempts: u16,
    pub next_try: Option<Wall>,
}

/// The state of a message that is not in its accept record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Residue {
    /// The message id as a plain number: there is no default id.
    pub id: u64,
    /// Indices that are open, ascending.
    pub open: Vec<u32>,
    /// Of all recipients not listed in `retries`.
    pub retry: Retry,
    pub retries: Vec<(u32, Retry)>,
    pub hold: Option<Box<str>>,
    pub overrides: Option<Box<str>>,
    pub delay_notice_sent: bool,
    pub reason: Option<Box<str>>,
}

/// A record without content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SmallRecord {
    Attempt(Attempt),
    Settle(Settle),
    State(State),
    Residue(Residue),
    Gone(MessageId),
}

impl SmallRecord {
    pub(crate) fn id(&self) -> MessageId {
        match self {
            SmallRecord::Attempt(attempt) => attempt.id,
            SmallRecord::Settle(settle) => settle.id,
            SmallRecord::State(state) => state.id,
            SmallRecord::Residue(residue) => MessageId(residue.id),
            SmallRecord::Gone(id) => *id,
        }
    }
}

pub(crate) fn put_attempt(out: &mut Vec<u8>, attempt: &Attempt) {
    out.extend_from_slice(&attempt.id.0.to_le_bytes());
    out.extend_from_slice(&attempt.at.0.to_le_bytes());
    out.extend_from_slice(&attempt.next_try.0.to_le_bytes());
    out.extend_from_slice(&attempt.attempts.to_le_bytes());
    put_text(out, cut(&attempt.reason));
    for &index in &attempt.recipients {
        put_varint(out, u64::from(index));
    }
}

pub(crate) fn put_settle(out: &mut Vec<u8>, settle: &Settle) {
    out.extend_from_slice(&settle.id.0.to_le_bytes());
    out.extend_from_slice(&settle.at.0.to_le_bytes());
    for &(index, how) in &settle.recipients {
        put_varint(out, u64::from(index));
        out.push(match how {
            SettleKind::Delivered => 1,
            SettleKind::Relayed => 2,
            SettleKind::Failed => 3,
            SettleKind::Expired => 4,
            SettleKind::Removed => 5,
        });
    }
}

pub(crate) fn put_state(out: &mut Vec<u8>, state: &State) {
    out.extend_from_slice(&state.id.0.to_le_bytes());
    let notice = state.delay_notice_sent.map_or(0, |sent| 8 | u8::from(sent) << 4);
    out.push(
        u8::from(state.hold.is_some())
            | u8::from(state.next_try.is_some()) << 1
            | u8::from(state.overrides.is_some()) << 2
            | notice,
    );
    if let Some(hold) = &state.hold {
        put_optional(out, hold.as_deref().map(cut));
    }
    if let Some(next_try) = state.next_try {
        out.extend_from_slice(&next_try.0.to_le_bytes());
    }
    if let Some(overrides) = &state.overrides {
        put_optional(out, overrides.as_deref().map(cut));
    }
}

fn put_retry(out: &mut Vec<u8>, retry: Retry) {
    out.extend_from_slice(&retry.attempts.to_le_bytes());
    put_varint(out, retry.next_try.map_or(0, |wall| wall.0.saturating_add(1)));
}

pub(crate) fn put_residue(out: &mut Vec<u8>, residue: &Residue) {
    out.extend_from_slice(&residue.id.to_le_bytes());
    out.push(u8::from(residue.delay_notice_sent));
    put_retry(out, residue.retry);
    put_optional(out, residue.hold.as_deref().map(cut));
    put_optional(out, residue.overrides.as_deref().map(cut));
    put_optional(out, residue.reason.as_deref().map(cut));
    put_varint(out, residue.retries.len() as u64);
    for &(index, retry) in &residue.retries {
        put_varint(out, u64::from(index));
        put_retry(out, retry);
    }
    // Gaps between open indices: almost always one byte each.
    let mut next = 0;
    for &index in &residue.open {
        put_varint(out, u64::from(index.saturating_sub(next)));
        next = index.saturating_add(1);
    }
}

/// Decodes a record without content; `None` if malformed or of an unknown kind.
pub(crate) fn read_small(kind: u8, body: &[u8]) -> Option<SmallRecord> {
    let mut r = FieldReader { rest: body };
    let id = MessageId(r.u64()?);
    Some(match kind {
        kind::ATTEMPT => {
            let (at, next_try, attempts) = (Wall(r.u64()?), Wall(r.u64()?), r.u16()?);
            let reason = r.text()?.into();
            let mut recipients = Vec::new();
            while !r.rest.is_empty() {
                recipients.push(r.index()?);
            }
            SmallRecord::Attempt(Attempt { id, at, recipients, attempts, next_try, reason })
        }
        kind::SETTLE => {
            let at = Wall(r.u64()?);
            let mut recipients = Vec::new();
            while !r.rest.is_empty() {
                recipients.push((r.index()?, read_settle_kind(r.u8()?)?));
            }
            SmallRecord::Settle(Settle { id, at, recipients })
        }
        kind::STATE => SmallRecord::State(read_state(id, &mut r)?),
        kind::RESIDUE => SmallRecord::Residue(read_residue(id, &mut r)?),
        kind::GONE => SmallRecord::Gone(id),
        _ => return None,
    })
}

fn read_settle_kind(byte: u8) -> Option<SettleKind> {
    Some(match byte {
        1 => SettleKind::Delivered,
        2 => SettleKind::Relayed,
        3 => SettleKind::Failed,
        4 => SettleKind::Expired,
        5 => SettleKind::Removed,
        _ => return None,
    })
}

fn read_state(id: MessageId, r: &mut FieldReader<'_>) -> Option<State> {
    let flags = r.u8()?;
    let hold = if flags & 1 != 0 { Some(r.optional()?.map(Box::from)) } else { None };
    let next_try = if flags & 2 != 0 { Some(Wall(r.u64()?)) } else { None };
    let overrides = if flags & 4 != 0 { Some(r.optional()?.map(Box::from)) } else { None };
    let delay_notice_sent = (flags & 8 != 0).then_some(flags & 16 != 0);
    Some(State { id, hold, next_try, overrides, delay_notice_sent })
}

fn read_retry(r: &mut FieldReader<'_>) -> Option<Retry> {
    let attempts = r.u16()?;
    Some(Retry { attempts, next_try: r.varint()?.checked_sub(1).map(Wall) })
}

fn read_residue(id: MessageId, r: &mut FieldReader<'_>) -> Option<Residue> {
    let delay_notice_sent = r.u8()? != 0;
    let retry = read_retry(r)?;
    let hold = r.optional()?.map(Box::from);
    let overrides = r.optional()?.map(Box::from);
    let reason = r.optional()?.map(Box::from);
    let mut retries = Vec::new();
    for _ in 0..r.varint()? {
        retries.push((r.index()?, read_retry(r)?));
    }
    let mut open = Vec::new();
    let mut next = 0_u32;
    while !r.rest.is_empty() {
        let index = next.checked_add(r.index()?)?;
        open.push(index);
        next = index.checked_add(1)?;
    }
    Some(Residue { id: id.0, open, retry, retries, hold, overrides, delay_notice_sent, reason })
}
