//! A connection in.

use super::{Floor, RelayedMessage};
use crate::dialogue::{Dialogue, DialogueEvent};
use crate::tool::add;
use std::rc::Rc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

#[derive(Clone, Copy, PartialEq, Eq)]
enum IngressAction {
    Read,
    /// A message is complete and waits for the log; the input behind it waits too.
    Commit,
    Close,
}

struct IngressSession {
    dialogue: Dialogue,
    content: Vec<u8>,
    /// Input behind a message that is being committed.
    waiting: Vec<u8>,
}

/// Serves one connection to its end.
pub(super) async fn serve(mut stream: TcpStream, floor: Rc<Floor>) {
    let dialogue = Dialogue::new(floor.offer);
    let mut session = IngressSession { dialogue, content: Vec::new(), waiting: Vec::new() };
    let mut next = IngressAction::Read;
    loop {
        while next == IngressAction::Commit {
            if session.commit(&floor).await.is_err() {
                return;
            }
            let waiting = std::mem::take(&mut session.waiting);
            next = session.take(&floor, &waiting);
        }
        let output = session.dialogue.output();
        if !output.is_empty() {
            if stream.write_all(output).await.is_err() {
                return;
            }
            output.clear();
        }
        if next == IngressAction::Close {
            return;
        }
        let read = floor.reading.read(&mut stream, |input| match input {
            [] => IngressAction::Close,
            input => session.take(&floor, input),
        });
        match read.await {
            Ok(after) => next = after,
            Err(_) => return,
        }
    }
}

impl IngressSession {
    fn take(&mut self, floor: &Floor, mut input: &[u8]) -> IngressAction {
        loop {
            let (used, event) = self.dialogue.advance(input, &mut self.content);
            input = input.get(used..).unwrap_or_default();
            match event {
                DialogueEvent::Input => return IngressAction::Read,
                DialogueEvent::Quit => return IngressAction::Close,
                DialogueEvent::Data => self.content.clear(),
                DialogueEvent::Message if floor.waits_for_disk() => {
                    self.waiting.extend_from_slice(input);
                    return IngressAction::Commit;
                }
                DialogueEvent::Message => {
                    let held = self.held();
                    self.dialogue.accept();
                    add(&floor.passage.accepted, 1);
                    floor.passage.put(held);
                    continue;
                }
                _ => {}
            }
            self.dialogue.accept();
        }
    }

    fn held(&mut self) -> RelayedMessage {
        RelayedMessage {
            reverse_path: self.dialogue.reverse_path().to_vec(),
            recipients: self.dialogue.recipient_list().to_vec(),
            content: std::mem::take(&mut self.content),
        }
    }

    /// Makes the message durable, then accepts it.
    async fn commit(&mut self, floor: &Floor) -> std::io::Result<()> {
        let held = self.held();
        floor.cost.spend()?;
        if let Some(log) = &floor.log {
            log.commit(&[&held.reverse_path, &held.recipients, &held.content]).await?;
        }
        self.dialogue.accept();
        add(&floor.passage.accepted, 1);
        floor.passage.put(held);
        Ok(())
    }
}
