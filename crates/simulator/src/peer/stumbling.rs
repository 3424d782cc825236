//! What a host does that ends every session or transaction at one step.

use super::{PeerAction, PeerSession, Peers};
use crate::account::NEVER_REPLIED;
use crate::executor::TaskGroup;
use crate::network::SimStream;
use crate::plan::{DialoguePhase, Hop, Manner, Mire};
use load::dialogue::DialogueEvent;
use std::net::IpAddr;

/// What a host does at a step, if it is the one that fails there.
pub(super) fn manner_at(
    peers: &Peers,
    hop: &Hop,
    host: IpAddr,
    step: DialoguePhase,
) -> Option<Manner> {
    let is_first = hop.hosts.first().is_some_and(|first| first.ip() == host);
    let stumble = hop.stumble.filter(|_| is_first && !peers.healed.get())?;
    (stumble.step == step).then_some(stumble.manner)
}

/// Greets as a host that fails with that; whether it is one.
pub(super) async fn greet(
    (peers, hop, host): (&Peers, &Hop, IpAddr),
    stream: &mut SimStream,
) -> std::io::Result<bool> {
    let Some(manner) = manner_at(peers, hop, host, DialoguePhase::Greeting) else {
        return Ok(false);
    };
    match manner {
        Manner::HangsUp => {}
        Manner::Silent => while stream.read(&mut [0; 64]).await? > 0 {},
        Manner::ShutsDown => stream.write_all(b"421 4.3.2 Not today\r\n").await?,
        Manner::Nonsense => stream.write_all(b"garbage from peer\r\n").await?,
        Manner::Refuses => stream.write_all(b"554 5.7.1 No service here\r\n").await?,
    }
    Ok(true)
}

impl PeerSession {
    /// Fails, if it is the host that does so there.
    pub(super) fn stumble(
        &mut self,
        event: DialogueEvent,
        stream: &SimStream,
    ) -> Option<PeerAction> {
        let step = match event {
            DialogueEvent::Hello => DialoguePhase::Hello,
            DialogueEvent::Mail => DialoguePhase::Mail,
            DialogueEvent::Rcpt => DialoguePhase::Rcpt,
            DialogueEvent::Data => DialoguePhase::Data,
            DialogueEvent::Message => DialoguePhase::Content,
            _ => return None,
        };
        let manner = manner_at(&self.peers, &self.hop, self.host, step)?;
        let begin = self.dialogue.output().len();
        match manner {
            Manner::Refuses if step == DialoguePhase::Hello => {
                self.dialogue.refuse(550);
                return Some(PeerAction::Reply);
            }
            Manner::ShutsDown | Manner::Refuses => {
                self.dialogue.refuse(421);
                return Some(PeerAction::Close);
            }
            Manner::HangsUp | Manner::Silent | Manner::Nonsense => {}
        }
        // Of a content nobody knows then whether it was taken. It was.
        let envelope = self.envelope();
        self.dialogue.accept();
        if step == DialoguePhase::Content {
            self.record(&envelope, stream.id(), NEVER_REPLIED);
        }
        let output = self.dialogue.output();
        output.truncate(begin);
        match manner {
            Manner::Silent => {
                self.garbled = true;
                Some(PeerAction::Mute)
            }
            Manner::Nonsense => {
                output.extend_from_slice(b"garbage from peer\r\n");
                Some(PeerAction::Close)
            }
            _ => Some(PeerAction::Break),
        }
    }

    /// MAIL has come to a host of two, one of which fails.
    pub(super) fn note_stumble(&self, life: TaskGroup, sender: &str) {
        let (peers, hop) = (&self.peers, &self.hop);
        let Some(stumble) = hop.stumble else { return };
        let fails = manner_at(peers, hop, self.host, stumble.step).is_some();
        if let Some(what) = peers.stumbles.note(life, sender, fails) {
            peers.account.violate_about(sender, &what);
        }
    }
}

impl PeerSession {
    /// The judges of connections and memory learn of a transaction.
    pub(super) fn note_carried(&self, event: DialogueEvent, connection: u64) {
        let network = &self.peers.network;
        match event {
            DialogueEvent::Mail => {
                let at_us = network.written_by_client_at(connection, self.taken_bytes);
                network.note_mail(connection, at_us.unwrap_or(0));
                let sender = String::from_utf8_lossy(self.dialogue.candidate());
                self.peers.account.note_mail(&sender);
            }
            DialogueEvent::Rcpt => {
                let recipient = String::from_utf8_lossy(self.dialogue.candidate());
                let domain = recipient.rsplit('@').next().unwrap_or_default();
                network.note_domain(connection, domain);
            }
            DialogueEvent::Message => network.note_content(connection),
            _ => {}
        }
    }
}

/// Of a thousand recipients so many are put off with their own name.
const ECHO_PERMILLE: u16 = 150;

impl PeerSession {
    /// A reply that puts a recipient off and repeats its name, words that rules listen for included.
    pub(super) fn echo(&self, event: DialogueEvent) -> Option<String> {
        let echoes = self.peers.plan.pace.as_ref().is_some_and(|pace| pace.echo.is_some());
        if event != DialogueEvent::Rcpt || !echoes || !self.hop.by_mx || !self.draws(ECHO_PERMILLE)
        {
            return None;
        }
        // Of whole addresses nobody hears anything, whosever they are.
        let recipient = String::from_utf8_lossy(self.dialogue.candidate());
        let user = recipient.split('@').next().unwrap_or_default();
        Some(format!("450 4.7.0 User {user} cannot be reached just now\r\n"))
    }
}

impl PeerSession {
    /// It reads nothing until all heals.
    pub(super) fn is_mute(&self) -> bool {
        let is_one = self.hop.is_crowd() && self.peers.plan.mire() == Some(Mire::Mute);
        is_one && self.has_recipient && !self.peers.healed.get()
    }
}

/// What becomes of a connection after what came was answered.
pub(super) enum ConnectionFate {
    ReadOn,
    Close,
    Abort,
}
