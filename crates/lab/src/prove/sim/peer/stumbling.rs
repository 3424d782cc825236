//! What a host does that ends every session or transaction at one step.

use super::{Next, Peers, Session};
use crate::prove::sim::account::NEVER_REPLIED;
use crate::prove::sim::executor::Group;
use crate::prove::sim::network::SimStream;
use crate::prove::sim::plan::{Hop, Manner, Step};
use load::dialogue::Event;
use std::net::IpAddr;

/// What a host does at a step, if it is the one that fails there.
pub(super) fn manner_at(peers: &Peers, hop: &Hop, host: IpAddr, step: Step) -> Option<Manner> {
    let is_first = hop.hosts.first().is_some_and(|first| first.ip() == host);
    let stumble = hop.stumble.filter(|_| is_first && !peers.healed.get())?;
    (stumble.step == step).then_some(stumble.manner)
}

/// Greets as a host that fails with that; whether it is one.
pub(super) async fn greet(
    (peers, hop, host): (&Peers, &Hop, IpAddr),
    stream: &mut SimStream,
) -> std::io::Result<bool> {
    let Some(manner) = manner_at(peers, hop, host, Step::Greeting) else { return Ok(false) };
    match manner {
        Manner::HangsUp => {}
        Manner::Silent => while stream.read(&mut [0; 64]).await? > 0 {},
        Manner::ShutsDown => stream.write_all(b"421 4.3.2 Not today\r\n").await?,
        Manner::Nonsense => stream.write_all(b"What do you mean?\r\n").await?,
        Manner::Refuses => stream.write_all(b"554 5.7.1 No service here\r\n").await?,
    }
    Ok(true)
}

impl Session {
    /// Fails, if it is the host that does so there.
    pub(super) fn stumble(&mut self, event: Event, stream: &SimStream) -> Option<Next> {
        let step = match event {
            Event::Hello => Step::Hello,
            Event::Mail => Step::Mail,
            Event::Rcpt => Step::Rcpt,
            Event::Data => Step::Data,
            Event::Message => Step::Content,
            _ => return None,
        };
        let manner = manner_at(&self.peers, &self.hop, self.host, step)?;
        let begin = self.dialogue.output().len();
        match manner {
            Manner::Refuses if step == Step::Hello => {
                self.dialogue.refuse(550);
                return Some(Next::Reply);
            }
            Manner::ShutsDown | Manner::Refuses => {
                self.dialogue.refuse(421);
                return Some(Next::Close);
            }
            Manner::HangsUp | Manner::Silent | Manner::Nonsense => {}
        }
        // Of a content nobody knows then whether it was taken. It was.
        let envelope = self.envelope();
        self.dialogue.accept();
        if step == Step::Content {
            self.record(&envelope, stream.id(), NEVER_REPLIED);
        }
        let output = self.dialogue.output();
        output.truncate(begin);
        match manner {
            Manner::Silent => {
                self.garbled = true;
                Some(Next::Mute)
            }
            Manner::Nonsense => {
                output.extend_from_slice(b"What do you mean?\r\n");
                Some(Next::Close)
            }
            _ => Some(Next::Break),
        }
    }

    /// MAIL has come to a host of two, one of which fails.
    pub(super) fn note_stumble(&self, life: Group, sender: &str) {
        let (peers, hop) = (&self.peers, &self.hop);
        let Some(stumble) = hop.stumble else { return };
        let fails = manner_at(peers, hop, self.host, stumble.step).is_some();
        if let Some(what) = peers.stumbles.note(life, sender, fails) {
            peers.account.violate_about(sender, &what);
        }
    }
}
