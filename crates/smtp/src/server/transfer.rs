//! Incoming content: after 354, in chunks, or read only to be dropped.

use super::content::ContentReader;
use super::counts::CommandCounts;
use super::parameters::Chunk;
use super::replies::About;
use super::session::{PendingNeed, Phase, ServerSession};
use super::{ContentSink, Need, replies};
use mail::{Mono, Reply};

impl ServerSession {
    pub(super) fn take_data(
        &mut self,
        now: Mono,
        rest: &mut &[u8],
        sink: &mut dyn ContentSink,
    ) -> Need {
        if !rest.is_empty() {
            self.wait_deadline = now + self.config.content_timeout;
        }
        let end = self.reader.as_mut().and_then(|reader| reader.push(rest, sink));
        *rest = end.and_then(|end| rest.get(end..)).unwrap_or_default();
        if end.is_some() { self.finish_content(now) } else { Need::Input }
    }

    pub(super) fn take_chunk(
        &mut self,
        now: Mono,
        chunk: Chunk,
        left: u64,
        rest: &mut &[u8],
        sink: &mut dyn ContentSink,
    ) -> Option<Need> {
        let (octets, left) = self.cut(now, left, rest);
        if let Some(reader) = &mut self.reader {
            reader.push(octets, sink);
        }
        if left > 0 {
            self.phase = Phase::Chunk { chunk, left };
            return Some(Need::Input);
        }
        if chunk.last {
            if let Some(reader) = &mut self.reader {
                reader.end_chunks(sink);
            }
            return Some(self.finish_content(now));
        }
        self.wait_for_command(now);
        match self.reader.as_ref().and_then(ContentReader::refusal) {
            None => {
                replies::write_chunk_ok(&mut self.output, chunk.octets);
                None
            }
            Some(reply) => {
                self.note(About::step("content"), &reply);
                self.write(&reply);
                let need = self.end_transaction();
                self.chunks_failed = true;
                need
            }
        }
    }

    pub(super) fn drop_chunk(&mut self, now: Mono, left: u64, rest: &mut &[u8]) -> Option<Need> {
        let (_, still_left) = self.cut(now, left, rest);
        if still_left > 0 {
            if let Phase::Drop { left, .. } = &mut self.phase {
                *left = still_left;
            }
            return Some(Need::Input);
        }
        let Phase::Drop { last, reply, .. } = std::mem::replace(&mut self.phase, Phase::Command)
        else {
            return None;
        };
        self.wait_for_command(now);
        if self.chunks_failed {
            // The client sent this before it could know: no further error is counted.
            self.write(&reply);
        } else {
            self.refuse(About::step("DATA"), &reply);
        }
        if last {
            // RFC 2033 §4.2: as many replies as recipients, even for a refusal.
            for _ in 1..self.final_replies() {
                self.write(&reply);
            }
        }
        let need = self.end_transaction();
        self.chunks_failed = !last;
        need
    }

    /// Cuts at most `left` octets from the front of `rest`; also returns the number then left.
    fn cut<'a>(&mut self, now: Mono, left: u64, rest: &mut &'a [u8]) -> (&'a [u8], u64) {
        if !rest.is_empty() {
            self.wait_deadline = now + self.config.content_timeout;
        }
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        let (octets, behind) = rest.split_at(length);
        *rest = behind;
        (octets, left - length as u64)
    }

    fn finish_content(&mut self, now: Mono) -> Need {
        self.transfer_deadline = Mono::NEVER;
        let replies = self.final_replies();
        self.count(CommandCounts::note_message);
        let reader = self.reader.take();
        let refusal = reader.as_ref().and_then(ContentReader::refusal);
        if let Some(reply) = &refusal {
            self.note(About::step("content"), reply);
        }
        if let (None, Some(reader), Some(mut transaction)) =
            (&refusal, &reader, self.transaction.take())
        {
            transaction.facts = reader.facts();
            self.messages = self.messages.saturating_add(1);
            self.forget_recipients();
            self.phase = Phase::Answer(PendingNeed::Message { replies });
            return Need::Message(transaction);
        }
        self.wait_for_command(now);
        if let Some(reply) = &refusal {
            (0..replies).for_each(|_| self.write(reply));
        }
        self.end_transaction();
        Need::Abandon
    }

    /// Number of replies after the content: in LMTP one per accepted RCPT (RFC 2033 §4.2).
    fn final_replies(&self) -> usize {
        if self.config.lmtp { self.accepted.max(1) } else { 1 }
    }

    /// Reads a chunk away and then refuses it.
    pub(super) fn start_drop(&mut self, now: Mono, chunk: Chunk, reply: Reply) {
        self.phase = Phase::Drop { left: chunk.octets, last: chunk.last, reply };
        self.start_transfer(now);
    }

    /// Starts the content; the time for a message counts from its first chunk.
    pub(super) fn start_transfer(&mut self, now: Mono) {
        self.wait_deadline = now + self.config.content_timeout;
        if self.transfer_deadline == Mono::NEVER {
            self.transfer_deadline = now + self.config.transfer_timeout;
        }
    }
}
