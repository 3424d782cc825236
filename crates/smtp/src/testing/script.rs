//! What a driver answers, by address.

use super::server::{Answer, Policy};
use crate::server::{LoginSaid, MailCommand};
use mail::{Recipient, Reply};
use std::collections::{BTreeMap, BTreeSet};

/// The answers of a dialogue; what is not named here is accepted at once.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Refused senders by address; `<>` for the null sender.
    pub mail: BTreeMap<String, Reply>,
    /// Refused recipients by address.
    pub rcpt: BTreeMap<String, Reply>,
    /// Recipients that stay open, by address; the empty one stands for all.
    pub late: BTreeSet<String>,
    /// Refuses DATA and BDAT.
    pub data: Option<Reply>,
    /// The final reply, if not `250 2.0.0 Queued`.
    pub message: Option<Reply>,
    /// Final replies of an LMTP session, one for each accepted RCPT.
    pub recipients: Vec<Reply>,
    /// The reply that the session greets with.
    pub refused: Option<Reply>,
}

fn refused(refusal: Option<&Reply>) -> Answer<()> {
    Answer::now(refusal.cloned().map_or(Ok(()), Err))
}

impl Policy for Script {
    fn greeting(&mut self) -> Option<Reply> {
        self.refused.clone()
    }

    /// What was said comes back as a challenge, but for three words.
    fn login(&mut self, said: &LoginSaid) -> Answer<Option<Vec<u8>>> {
        let said = match said {
            LoginSaid::Begin { initial, .. } => initial.clone().unwrap_or_default(),
            LoginSaid::Response(said) => said.clone(),
        };
        Answer::now(match &*said {
            b"right" => Ok(None),
            b"wrong" => Err(Reply::new(535, (5, 7, 8), "Wrong")),
            b"later" => Err(Reply::new(454, (4, 7, 0), "Later")),
            _ => Ok(Some(said)),
        })
    }

    fn mail(&mut self, mail: &MailCommand) -> Answer<()> {
        let path = mail.reverse_path.as_ref().map_or("<>", |path| path.as_str());
        refused(self.mail.get(path))
    }

    fn is_late(&mut self, recipient: &Recipient) -> bool {
        self.late.contains("") || self.late.contains(recipient.mailbox.as_str())
    }

    fn rcpt(&mut self, recipient: &Recipient) -> Answer<()> {
        refused(self.rcpt.get(recipient.mailbox.as_str()))
    }

    fn data(&mut self) -> Answer<()> {
        refused(self.data.as_ref())
    }

    fn message(&mut self) -> Answer<Vec<Reply>> {
        let queued = Reply::new(250, (2, 0, 0), "Queued");
        let replies = match self.recipients.as_slice() {
            [] => vec![self.message.clone().unwrap_or(queued)],
            replies => replies.to_vec(),
        };
        Answer::now(Ok(replies))
    }
}
