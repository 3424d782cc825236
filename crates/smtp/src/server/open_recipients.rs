//! Recipients that the driver was asked about and whose replies are not written yet.

use super::Accepted;
use mail::{Mailbox, Recipient, Reply};
use std::collections::VecDeque;

/// The driver's answer to one RCPT.
pub(super) type Answer = Result<Accepted, Reply>;

/// The open recipients of a transaction in the order of their commands, which is the order of their
/// replies (RFC 2920 §3.2), whatever the order of the answers.
#[derive(Debug, Default)]
pub(super) struct OpenRecipients {
    /// The number of the first one that is open.
    first: u32,
    /// All but the latest. Answers wait here for those before them; the first has none.
    earlier: VecDeque<(Recipient, Option<Answer>)>,
    /// The latest, as long as it is not answered: a driver that answers before it goes on needs no
    /// queue.
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

    /// Opens one more; returns its number.
    pub(super) fn push(&mut self, recipient: Recipient) -> u32 {
        if let Some(before) = self.latest.replace(recipient) {
            self.earlier.push_back((before, None));
        }
        self.first.wrapping_add(self.earlier.len() as u32)
    }

    /// Whether an answer for `number` is owed.
    pub(super) fn owes(&self, number: u32) -> bool {
        let at = self.place(number);
        match self.earlier.get(at) {
            Some((_, answer)) => answer.is_none(),
            None => at == self.earlier.len() && self.latest.is_some(),
        }
    }

    /// Takes an answer that is owed. Returns the first recipient with its answer if that is known
    /// now; [`OpenRecipients::take_answered`] gives those behind it.
    pub(super) fn answer(&mut self, number: u32, answer: Answer) -> Option<(Recipient, Answer)> {
        if !self.owes(number) {
            return None;
        }
        let at = self.place(number);
        if let Some((_, slot)) = self.earlier.get_mut(at) {
            *slot = Some(answer);
            return self.take_answered();
        }
        let recipient = self.latest.take()?;
        if self.earlier.is_empty() {
            self.first = self.first.wrapping_add(1);
            return Some((recipient, answer));
        }
        self.earlier.push_back((recipient, Some(answer)));
        None
    }

    /// Takes the first recipient off if it is answered.
    pub(super) fn take_answered(&mut self) -> Option<(Recipient, Answer)> {
        let answer = self.earlier.front_mut()?.1.take()?;
        let (recipient, _) = self.earlier.pop_front()?;
        self.first = self.first.wrapping_add(1);
        Some((recipient, answer))
    }

    fn place(&self, number: u32) -> usize {
        number.wrapping_sub(self.first) as usize
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

    fn answered(open: &mut OpenRecipients, number: u32) -> Vec<Recipient> {
        let mut next = open.answer(number, Ok(Accepted::AsGiven));
        let mut all = Vec::new();
        while let Some((recipient, _)) = next {
            all.push(recipient);
            next = open.take_answered();
        }
        all
    }

    #[test]
    fn who_is_answered_at_once_needs_no_queue() {
        let mut open = OpenRecipients::default();
        for number in 0..10 {
            assert_eq!(open.push(recipient(number)), number);
            assert!(open.owes(number) && open.len() == 1);
            assert_eq!(answered(&mut open, number), [recipient(number)]);
            assert!(open.is_empty() && !open.owes(number));
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
        assert!(!open.contains(&recipient(4).mailbox) && !open.owes(4));
        assert_eq!(answered(&mut open, 3), []);
        assert_eq!(answered(&mut open, 3), [], "the second answer is none");
        assert_eq!(answered(&mut open, 1), []);
        assert_eq!(open.push(recipient(4)), 4);
        assert!(!open.owes(1) && !open.owes(3) && open.owes(2) && open.owes(4));
        assert_eq!(answered(&mut open, 0), [recipient(0), recipient(1)]);
        assert!(!open.owes(0), "its reply is written");
        assert_eq!(answered(&mut open, 2), [recipient(2), recipient(3)]);
        assert_eq!(open.len(), 1);
        assert_eq!(answered(&mut open, 4), [recipient(4)]);
        assert!(open.is_empty());
    }
}
