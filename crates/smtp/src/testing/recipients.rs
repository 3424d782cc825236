//! The recipients of a transaction as they must come out, whatever the order of the answers.

use mail::{Mailbox, Recipient, Reply};
use std::collections::VecDeque;

#[derive(Debug)]
struct Asked {
    number: u32,
    recipient: Recipient,
    /// `Err`: the code that it is refused with.
    answer: Option<Result<(), u16>>,
}

/// What the driver was asked about.
#[derive(Debug, Default)]
pub(super) struct Recipients {
    /// From the first on whose reply is not due yet.
    asked: VecDeque<Asked>,
    /// Who must be in the envelope.
    pub(super) envelope: Vec<Mailbox>,
    /// How many RCPTs were answered with 250.
    pub(super) accepted: usize,
    asked_count: u32,
}

impl Recipients {
    pub(super) fn ask(&mut self, number: u32, recipient: Recipient) {
        assert_eq!(number, self.asked_count, "numbers count from 0");
        self.asked_count += 1;
        self.asked.push_back(Asked { number, recipient, answer: None });
    }

    pub(super) fn get(&self, number: u32) -> &Recipient {
        let asked = self.asked.iter().find(|asked| asked.number == number);
        &asked.expect("an open number").recipient
    }

    pub(super) fn open(&self) -> impl Iterator<Item = u32> {
        self.asked.iter().filter(|asked| asked.answer.is_none()).map(|asked| asked.number)
    }

    /// Notes an answer. Returns the codes of the replies that are due now.
    pub(super) fn answer(&mut self, number: u32, answer: &Result<(), Reply>) -> Vec<u16> {
        let asked = self.asked.iter_mut().find(|asked| asked.number == number);
        let asked = asked.expect("an open number");
        asked.answer = Some(answer.as_ref().copied().map_err(|reply| reply.code));
        let mut codes = Vec::new();
        while self.asked.front().is_some_and(|asked| asked.answer.is_some()) {
            let Some(Asked { recipient, answer: Some(answer), .. }) = self.asked.pop_front() else {
                break;
            };
            codes.push(answer.err().unwrap_or(250));
            if answer.is_ok() {
                self.accepted += 1;
                self.envelope.push(recipient.mailbox);
            }
        }
        codes
    }
}
