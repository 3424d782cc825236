//! What a driver answers: whoever decides it, and a script that goes by address.

use crate::server::{LoginSaid, MailCommand};
use mail::{Recipient, Reply};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the driver answers, and what happens before it does.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    /// The answer.
    pub result: Result<T, Reply>,
    /// So much time passes first.
    pub takes: Duration,
    /// The server stops first.
    pub stops: bool,
}

impl<T> Answer<T> {
    /// An answer without delay.
    pub fn now(result: Result<T, Reply>) -> Answer<T> {
        Answer { result, takes: Duration::ZERO, stops: false }
    }
}

/// Who decides what the driver answers.
pub trait Policy {
    /// The reply that the session is refused with from its greeting on.
    fn greeting(&mut self) -> Option<Reply>;
    /// What becomes of an exchange of AUTH: `Some` goes on with a challenge, `None` is a login.
    fn login(&mut self, said: &LoginSaid) -> Answer<Option<Vec<u8>>>;
    /// Whether the sender may send.
    fn mail(&mut self, mail: &MailCommand) -> Answer<()>;
    /// Whether a recipient stays open until [`super::server::Driver::answer_open`].
    fn is_late(&mut self, recipient: &Recipient) -> bool;
    /// What becomes of a recipient.
    fn rcpt(&mut self, recipient: &Recipient) -> Answer<()>;
    /// Whether there is room for the content.
    fn data(&mut self) -> Answer<()>;
    /// The final replies to a message, at least one; `Err` is one for all.
    fn message(&mut self) -> Answer<Vec<Reply>>;
}

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
