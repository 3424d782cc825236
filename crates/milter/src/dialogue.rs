//! One connection to a filter, from the negotiation on.

use crate::answer::{Answer, FilterDecision};
use crate::moment::MilterEvent;
use crate::negotiation::{Agreed, NEGOTIATE};
use crate::packet::{Fault, LENGTH_BYTES, frame};
use crate::request::{MilterCommand, Symbols, macros};

/// One connection to a filter. The caller writes the output of [`Dialogue::tell`], passes input to
/// [`Dialogue::handle_input`] while a response is due, and gets the response from
/// [`Dialogue::poll_answer`].
#[derive(Debug, Default)]
pub struct Dialogue {
    /// `None` before the response to the offer.
    agreed: Option<Agreed>,
    /// Received bytes that are not parsed yet.
    unread: Vec<u8>,
    /// The event that waits for a response.
    due: Option<MilterEvent>,
}

impl Dialogue {
    /// The negotiated options, after [`Dialogue::poll_agreed`] returned true.
    #[must_use]
    pub fn agreed(&self) -> Option<&Agreed> {
        self.agreed.as_ref()
    }

    /// Returns true if the filter gets this event.
    #[must_use]
    pub fn is_told(&self, moment: MilterEvent) -> bool {
        self.agreed.as_ref().is_some_and(|agreed| agreed.is_told(moment))
    }

    /// Takes input from the filter, in pieces of any size.
    pub fn handle_input(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// Returns true after the response to [`offer`](crate::offer).
    ///
    /// # Errors
    /// Another or a malformed response.
    pub fn poll_agreed(&mut self) -> Result<bool, Fault> {
        let Some((command, data)) = self.take()? else { return Ok(false) };
        if command != NEGOTIATE {
            return Err(Fault::new("option negotiation failed"));
        }
        self.agreed = Some(Agreed::read(&data)?);
        self.nothing_more()?;
        Ok(true)
    }

    /// Writes an event and its macros if the filter gets it. Returns true if a response is due.
    ///
    /// # Errors
    /// An unsolicited response.
    pub fn tell(
        &mut self,
        step: &MilterCommand<'_>,
        symbols: Symbols<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        self.nothing_more()?;
        let moment = step.moment();
        let Some(agreed) = self.agreed.as_ref().filter(|agreed| agreed.is_told(moment)) else {
            return Ok(false);
        };
        macros(out, moment, agreed.macros(moment), symbols);
        step.put(out, agreed.has_leading_space());
        self.due = Some(moment).filter(|moment| agreed.answers(*moment));
        Ok(self.due.is_some())
    }

    /// Returns the next response to the last event, or `None` while it is incomplete.
    ///
    /// # Errors
    /// A response that is malformed, or not permitted for the event.
    pub fn poll_answer(&mut self) -> Result<Option<Answer>, Fault> {
        let Some((command, data)) = self.take()? else { return Ok(None) };
        let (Some(moment), Some(agreed)) = (self.due, &self.agreed) else {
            return Err(Fault::new("unsolicited reply"));
        };
        let answer = Answer::read(command, &data, agreed)?;
        let is_fitting = match &answer {
            Answer::Progress => true,
            Answer::Change(_) => moment == MilterEvent::EndOfBody,
            Answer::Verdict(FilterDecision::Skip) => {
                agreed.may_skip() && matches!(moment, MilterEvent::Header | MilterEvent::Body)
            }
            Answer::Verdict(FilterDecision::Discard) => moment >= MilterEvent::Mail,
            Answer::Verdict(_) => true,
        };
        if !is_fitting {
            return Err(Fault(format!("{:?} out of sequence", char::from(command)).into()));
        }
        if matches!(answer, Answer::Verdict(_)) {
            self.due = None;
            self.nothing_more()?;
            // Sessions that wait hold no buffer.
            self.unread = Vec::new();
        }
        Ok(Some(answer))
    }

    /// Command and data of the first complete packet.
    fn take(&mut self) -> Result<Option<(u8, Vec<u8>)>, Fault> {
        let Some(length) = frame(&self.unread)? else { return Ok(None) };
        let packet: Vec<u8> = self.unread.drain(..length).collect();
        let (_, packet) = packet.split_at(LENGTH_BYTES.min(packet.len()));
        Ok(packet.split_first().map(|(command, data)| (*command, data.to_vec())))
    }

    /// Checks that no further response has arrived: filters only answer events.
    fn nothing_more(&self) -> Result<(), Fault> {
        match self.unread.is_empty() {
            true => Ok(()),
            false => Err(Fault::new("more replies than expected")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::put;

    fn packet(command: u8, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, command, |out| out.extend_from_slice(data));
        out
    }

    fn agreed(actions: u32, protocol: u32) -> Dialogue {
        let mut dialogue = Dialogue::default();
        let numbers = [6, actions, protocol].map(u32::to_be_bytes).concat();
        let answer = packet(b'O', &numbers);
        let (first, rest) = answer.split_at(7);
        dialogue.handle_input(first);
        assert_eq!(dialogue.poll_agreed(), Ok(false));
        dialogue.handle_input(rest);
        assert_eq!(dialogue.poll_agreed(), Ok(true));
        dialogue
    }

    fn tell(dialogue: &mut Dialogue, step: &MilterCommand<'_>) -> (bool, Vec<u8>) {
        let mut out = Vec::new();
        let is_due = dialogue.tell(step, &|_| None, &mut out).unwrap();
        (is_due, out)
    }

    #[test]
    fn what_was_not_asked_for_is_not_told_and_what_is_not_answered_not_waited_for() {
        // No HELO, and no answers to fields.
        let mut dialogue = agreed(0, 0x2 | 0x80);
        assert_eq!(tell(&mut dialogue, &MilterCommand::Helo("x")), (false, vec![]));
        let field = MilterCommand::Header { name: b"A", value: b" b" };
        assert_eq!(tell(&mut dialogue, &field), (false, packet(b'L', b"A\0b\0")));
        assert!(tell(&mut dialogue, &MilterCommand::EndOfHeader).0);
        assert_eq!(dialogue.poll_answer(), Ok(None));
        dialogue.handle_input(&packet(b'c', b""));
        assert_eq!(dialogue.poll_answer(), Ok(Some(Answer::Verdict(FilterDecision::GoOn))));
    }

    #[test]
    fn an_answer_must_fit_what_was_asked() {
        for (step, command, data, fits) in [
            (MilterCommand::Data, b's', &b""[..], false),
            (MilterCommand::Body(b"x"), b's', b"", true),
            (MilterCommand::Helo("x"), b'd', b"", false),
            (MilterCommand::Data, b'd', b"", true),
            (MilterCommand::Data, b'q', b"why\0", false),
            (MilterCommand::EndOfBody, b'q', b"why\0", true),
            (MilterCommand::EndOfBody, b'O', b"", false),
        ] {
            let mut dialogue = agreed(0x20, 0x400);
            assert!(tell(&mut dialogue, &step).0);
            dialogue.handle_input(&packet(command, data));
            let answer = dialogue.poll_answer();
            assert_eq!(answer.is_ok(), fits, "{step:?} {answer:?}");
        }
        let mut dialogue = agreed(0, 0);
        tell(&mut dialogue, &MilterCommand::Body(b"x"));
        dialogue.handle_input(&packet(b's', b""));
        assert!(dialogue.poll_answer().is_err(), "it was not negotiated");
    }

    #[test]
    fn nobody_speaks_unless_it_is_asked() {
        let mut dialogue = agreed(0, 0);
        dialogue.handle_input(&packet(b'c', b""));
        assert!(dialogue.poll_answer().is_err());
        let mut dialogue = agreed(0, 0);
        dialogue.handle_input(b"\0");
        assert!(dialogue.tell(&MilterCommand::Data, &|_| None, &mut Vec::new()).is_err());
        let mut dialogue = agreed(0, 0);
        tell(&mut dialogue, &MilterCommand::Data);
        dialogue.handle_input(&packet(b'c', b"").repeat(2));
        assert!(dialogue.poll_answer().is_err());
    }

    #[test]
    fn whoever_does_not_negotiate_is_no_filter() {
        for said in [&b"220 mx.test ESMTP\r\n"[..], &packet(b'c', b""), &packet(b'O', b"\0")] {
            let mut dialogue = Dialogue::default();
            dialogue.handle_input(said);
            assert!(dialogue.poll_agreed().is_err(), "{said:?}");
        }
    }
}
