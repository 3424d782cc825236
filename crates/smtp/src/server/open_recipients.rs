//! Recipients with an outstanding answer of the driver or an unwritten reply.

use mail::{Mailbox, Recipient, Reply};
use std::collections::VecDeque;

/// The driver's answer to one RCPT.
pub(super) type RecipientAnswer = Result<(), Reply>;

/// No answer is owed for the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotOpen;

/// The open recipients of a transaction in the order of their commands. Replies have the same order (RFC 2920 §3.2),
/// whatever the order of the answers.
#[derive(Debug, Default)]
pub(super) struct OpenRecipients {
    /// The number of the first open recipient.
    first: u32,
    /// All but the latest. Answers wait here for those of earlier recipients; the first has none.
    earlier: VecDeque<(Recipient, Option<RecipientAnswer>)>,
    /// The latest, until it is answered. A driver that answers each recipient at once needs no queue.
    latest: Option<Recipient>,
}

impl OpenRecipients {
    pub(super) fn is_empty(&self) -> bool {
        self.latest.is_none() && self.earlier.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.earlier.len() + usize::from(self.latest.is_some())
    }

    pub(super) fn contains(&self, mailbox: &Mailbox) -> bool {
        let earlier = self.earlier.iter().map(|(recipient, _)| recipient);
        earlier.chain(&self.latest).any(|recipient| recipient.mailbox.is_same(mailbox))
    }

    /// Adds an open recipient and returns its number.
    pub(super) fn push(&mut self, recipient: Recipient) -> u32 {
        if let Some(before) = self.latest.replace(recipient) {
            self.earlier.push_back((before, None));
        }
        self.first.wrapping_add(self.earlier.len() as u32)
    }

    /// Takes an answer. `Some` is the first recipient with its answer, if known now; [`OpenRecipients::take_answered`]
    /// returns the following ones.
    pub(super) fn answer(
        &mut self,
        number: u32,
        answer: RecipientAnswer,
    ) -> Result<Option<(Recipient, RecipientAnswer)>, NotOpen> {
        let at = number.wrapping_sub(self.first) as usize;
        if at == self.earlier.len() {
            let recipient = self.latest.take().ok_or(NotOpen)?;
            if self.earlier.is_empty() {
                self.first = self.first.wrapping_add(1);
                return Ok(Some((recipient, answer)));
            }
            self.earlier.push_back((recipient, Some(answer)));
            return Ok(None);
        }
        match self.earlier.get_mut(at) {
            Some((_, slot @ None)) => *slot = Some(answer),
            _ => return Err(NotOpen),
        }
        Ok(self.take_answered())
    }

    /// Takes the first recipient off if it is answered.
    pub(super) fn take_answered(&mut self) -> Option<(Recipient, RecipientAnswer)> {
        let answer = self.earlier.front_mut()?.1.take()?;
        let (recipient, _) = self.earlier.pop_front()?;
        self.first = self.first.wrapping_add(1);
        Some((recipient, answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Notify;

    fn recipient(number: u32) -> Recipient {
        let mailbox = Mailbox::parse(&format!("r{number}@b.example"), false).expect("an address");
        Recipient { mailbox, notify: Notify::UNSPECIFIED, orcpt: None }
    }

    fn answered(open: &mut OpenRecipients, number: u32) -> Result<Vec<Recipient>, NotOpen> {
        let mut next = open.answer(number, Ok(()))?;
        let mut all = Vec::new();
        while let Some((recipient, _)) = next {
            all.push(recipient);
            next = open.take_answered();
        }
        Ok(all)
    }

    #[test]
    fn who_is_answered_at_once_needs_no_queue() {
        let mut open = OpenRecipients::default();
        for number in 0..10 {
            assert_eq!(open.push(recipient(number)), number);
            assert_eq!(open.len(), 1);
            assert_eq!(answered(&mut open, number), Ok(vec![recipient(number)]));
            assert!(open.is_empty());
            assert_eq!(answered(&mut open, number), Err(NotOpen));
        }
        assert_eq!(open.earlier.capacity(), 0);
    }

    #[test]
    fn answers_come_out_in_the_order_of_the_commands() {
        let mut open = OpenRecipients::default();
        for number in 0..4 {
            assert_eq!(open.push(recipient(number)), number);
        }
        assert_eq!(open.len(), 4);
        assert!(open.contains(&recipient(0).mailbox) && open.contains(&recipient(3).mailbox));
        assert!(!open.contains(&recipient(4).mailbox));
        assert_eq!(answered(&mut open, 4), Err(NotOpen), "it was not asked about");
        assert_eq!(answered(&mut open, 3), Ok(vec![]));
        assert_eq!(answered(&mut open, 3), Err(NotOpen), "it is answered");
        assert_eq!(answered(&mut open, 1), Ok(vec![]));
        assert_eq!(open.push(recipient(4)), 4);
        assert_eq!(answered(&mut open, 0), Ok(vec![recipient(0), recipient(1)]));
        assert_eq!(answered(&mut open, 0), Err(NotOpen), "its reply is written");
        assert_eq!(answered(&mut open, 2), Ok(vec![recipient(2), recipient(3)]));
        assert_eq!(open.len(), 1);
        assert_eq!(answered(&mut open, 4), Ok(vec![recipient(4)]));
        assert!(open.is_empty());
    }
}
