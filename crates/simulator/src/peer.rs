//! Next hops: they defer, refuse, hang up and dawdle until all heals, then take everything.

mod stumbling;

use super::account::{Account, NEVER_REPLIED};
use super::attempts::{Deferred, Stumbles};
use super::directory::Directory;
use super::effects::Effects;
use super::executor::{Executor, OUTSIDE, wall_ms};
use super::handshake::{self, Certificate};
use super::names::is_unknown;
use super::network::{Network, SimStream};
use super::paces::{Paces, StartedTransaction};
use super::plan::{DialoguePhase, FaultRates, Hop, Plan, TlsIllness, Word, key_of};
use super::plant::Plant;
use super::promises::{ObservedDelivery, Promises, offers_requiretls};
use super::rates::Beginnings;
use super::warming::{self, Warmed};
use load::dialogue::{Dialogue, DialogueEvent, Offer};
use load::random::Random;
use mta::seams::{Listener as _, Net as _};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use stumbling::ConnectionFate;

/// What all hosts of all hops share.
#[derive(Debug)]
pub struct Peers {
    /// Runs their tasks.
    pub executor: Executor,
    /// Where they listen.
    pub network: Network,
    /// Who is told of what arrives.
    pub account: Rc<Account>,
    /// When transactions began.
    pub beginnings: Beginnings,
    /// The same, by source and tenant.
    pub paces: Paces,
    /// What rules have set in force.
    pub effects: Rc<Effects>,
    /// Recipients of the source that warms up.
    pub warmed: Warmed,
    /// What was added to the wall clock, in milliseconds.
    pub wall_offset_ms: Rc<Cell<i64>>,
    /// What everybody does.
    pub plan: Rc<Plan>,
    /// When those were refused that went to a hop that defers everything.
    pub deferred: Deferred,
    /// Who was named to hosts that fail.
    pub stumbles: Stumbles,
    /// Chance.
    pub random: RefCell<Random>,
    /// What goes wrong until it heals.
    pub fault_rates: FaultRates,
    /// Nothing goes wrong any more.
    pub healed: Cell<bool>,
    /// A fault to plant.
    pub plant: Option<Plant>,
    /// Who knows where users are.
    pub directory: Option<Rc<Directory>>,
    /// Who knows what TLS is asked for.
    pub promises: Rc<Promises>,
}

impl Peers {
    fn draws(&self, hop: &Hop, permille: u16) -> bool {
        !self.healed.get() && !hop.is_well && self.random.borrow_mut().permille(permille)
    }

    /// A connection to `host` begins, or ends.
    fn note_connection(&self, host: IpAddr, connection: u64) {
        if let Some(from) = self.network.source_of(connection) {
            let wall_ms = wall_ms(&self.executor, &self.wall_offset_ms);
            warming::note_connection((&self.plan, &self.warmed), (from, host), wall_ms);
        }
    }

    async fn pause(&self, most_us: u64) {
        let after_us = self.random.borrow_mut().below(most_us);
        self.executor.sleep(after_us).await;
    }
}

/// Starts one host of a hop.
pub fn start(peers: &Rc<Peers>, hop: &Rc<Hop>, host: SocketAddr) {
    let (task, hop) = (Rc::clone(peers), Rc::clone(hop));
    peers.executor.spawn(OUTSIDE, async move {
        let (down_us, up_us) = hop.down_us;
        if stumbling::manner_at(&task, &hop, host.ip(), DialoguePhase::Connect).is_some() {
            task.executor.sleep_until(task.plan.heal_us).await;
        }
        listen(&task, &hop, host, down_us).await;
        task.executor.sleep_until(up_us).await;
        listen(&task, &hop, host, u64::MAX).await;
    });
}

async fn listen(peers: &Rc<Peers>, hop: &Rc<Hop>, host: SocketAddr, until_us: u64) {
    let net = peers.network.attach(OUTSIDE, host.ip());
    let Ok(mut listener) = net.listen(host) else { return };
    loop {
        let accepted = tokio::select! {
            biased;
            () = peers.executor.sleep_until(until_us) => return,
            accepted = poll_fn(|cx| listener.poll_accept(cx)) => accepted,
        };
        let Ok(stream) = accepted.and_then(|(accepted, _)| net.adopt(accepted)) else { continue };
        let (task, hop) = (Rc::clone(peers), Rc::clone(hop));
        let connection = stream.id();
        peers.executor.spawn(OUTSIDE, async move {
            task.note_connection(host.ip(), connection);
            // An error is the node's going away.
            let _ = serve(&task, &hop, host, stream).await;
            task.note_connection(host.ip(), connection);
        });
    }
}

/// What to do after a step.
enum PeerAction {
    Read,
    /// Write the replies, then go on with the input.
    Reply,
    Close,
    Break,
    /// Say the same line for ever.
    Babble,
    /// Say nothing more.
    Mute,
    /// Write the replies, then shake hands.
    Encrypt,
}

/// A reply that never ends, as long as anybody listens.
async fn babble(peers: &Rc<Peers>, stream: &mut SimStream, line: &[u8]) -> std::io::Result<()> {
    loop {
        stream.write_all(line).await?;
        peers.pause(2_000_000).await;
    }
}

async fn serve(
    peers: &Rc<Peers>,
    hop: &Rc<Hop>,
    host: SocketAddr,
    mut stream: SimStream,
) -> std::io::Result<()> {
    if peers.draws(hop, peers.fault_rates.peer_refuse / 4) {
        return stream.write_all(b"421 4.3.2 Not today\r\n").await;
    }
    if stumbling::greet((peers, hop, host.ip()), &mut stream).await? {
        return Ok(());
    }
    let mut session = PeerSession::new(peers, hop, host);
    if peers.draws(hop, peers.fault_rates.peer_garble / 4) {
        session.dialogue.output().clear();
        return babble(peers, &mut stream, b"220-and another thing\r\n").await;
    }
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if peers.draws(hop, peers.fault_rates.peer_slow) {
            peers.pause(40_000_000).await;
        }
        session.reply(&mut stream).await?;
        if session.is_mute() {
            peers.executor.sleep_until(peers.plan.heal_us).await;
        }
        let at_once = if session.drips() { DRIP_BYTES } else { buffer.len() };
        let count = stream.read(&mut buffer[..at_once]).await?;
        if session.drips() {
            peers.pause(DRIP_US).await;
        }
        if count == 0 {
            return Ok(());
        }
        match session.answer(&mut stream, &buffer[..count]).await? {
            ConnectionFate::ReadOn => {}
            ConnectionFate::Close => return Ok(()),
            ConnectionFate::Abort => {
                stream.abort();
                return Ok(());
            }
        }
    }
}

struct PeerSession {
    peers: Rc<Peers>,
    dialogue: Dialogue,
    content: Vec<u8>,
    hop: Rc<Hop>,
    host: IpAddr,
    /// Of all that came.
    taken_bytes: u64,
    /// Those that began.
    transactions_count: u64,
    /// Chunks and lines that should not have come; see [`PeerSession::check_content`].
    strange_count: u64,
    /// What was replied to what can't be known any more.
    garbled: bool,
    /// It says nothing any more. (If one reply were missing, the next would be taken for it, and no
    /// client could know.)
    mute: bool,
    /// It has taken a recipient.
    has_recipient: bool,
    /// It writes and reads a byte now and then.
    drips: bool,
    /// What goes wrong with its TLS.
    tls_illness: Option<TlsIllness>,
    /// What it has shown of itself.
    shown: Option<Certificate>,
}

/// Who drips reads so much at once, and pauses so long at most, before each byte that it writes,
/// too.
const DRIP_BYTES: usize = 8;
const DRIP_US: u64 = 900_000;

impl PeerSession {
    fn new(peers: &Rc<Peers>, hop: &Rc<Hop>, host: SocketAddr) -> PeerSession {
        let Hop { chunking, pipelining, discards, .. } = **hop;
        let tls_illness = tls_illness(peers, hop, host);
        let starttls = hop.tls.is_some() && tls_illness != Some(TlsIllness::Lacks);
        let requiretls = offers_requiretls(host.ip());
        let offer = Offer { chunking, pipelining, dsn: true, discards, starttls, requiretls };
        PeerSession {
            peers: Rc::clone(peers),
            dialogue: Dialogue::new(offer),
            content: Vec::new(),
            hop: Rc::clone(hop),
            host: host.ip(),
            taken_bytes: 0,
            transactions_count: 0,
            strange_count: 0,
            garbled: false,
            mute: false,
            has_recipient: false,
            drips: peers.draws(hop, peers.fault_rates.peer_drip),
            tls_illness,
            shown: None,
        }
    }

    /// Does with `input` what it asks for, and what the faults want.
    async fn answer(
        &mut self,
        stream: &mut SimStream,
        mut input: &[u8],
    ) -> std::io::Result<ConnectionFate> {
        loop {
            let (used, next) = self.take(stream, input);
            input = &input[used..];
            match next {
                PeerAction::Read => return Ok(ConnectionFate::ReadOn),
                PeerAction::Reply => {
                    self.reply(stream).await?;
                    self.peers.pause(30_000).await;
                }
                PeerAction::Mute => {
                    self.reply(stream).await?;
                    self.mute = true;
                }
                PeerAction::Babble => {
                    // What was replied before is there.
                    self.reply(stream).await?;
                    babble(&self.peers, stream, b"250-and another thing\r\n").await?;
                }
                PeerAction::Encrypt => {
                    self.reply(stream).await?;
                    return self.encrypt(stream).await;
                }
                PeerAction::Close => {
                    self.reply(stream).await?;
                    return Ok(ConnectionFate::Close);
                }
                PeerAction::Break if self.peers.fault_rates.peer_halves => {
                    // It takes what comes, and nobody learns of it.
                    self.fall_silent();
                    stream.shut_down();
                }
                PeerAction::Break => return Ok(ConnectionFate::Abort),
            }
        }
    }

    /// Shakes hands, or what there is instead. What came behind STARTTLS is dropped.
    async fn encrypt(&mut self, stream: &mut SimStream) -> std::io::Result<ConnectionFate> {
        if self.tls_illness == Some(TlsIllness::Injects) {
            stream.write_all(b"250 2.0.0 Go on in clear\r\n").await?;
        }
        self.taken_bytes += handshake::await_hello(stream).await?;
        match self.tls_illness {
            Some(TlsIllness::Breaks) => return Ok(ConnectionFate::Close),
            Some(TlsIllness::Silent) => {
                while stream.read(&mut [0; 64]).await? > 0 {}
                return Ok(ConnectionFate::Close);
            }
            _ => {}
        }
        let number = self.hop.hosts.iter().position(|host| host.ip() == self.host).unwrap_or(0);
        let certificate = match self.tls_illness {
            Some(TlsIllness::Wrong) => {
                Certificate { names: vec!["other.test".to_owned()], key: 0, is_valid: true }
            }
            illness => Certificate {
                names: self.hop.names_of(number),
                key: key_of(self.host),
                is_valid: illness != Some(TlsIllness::Expired),
            },
        };
        handshake::show(stream, &certificate).await?;
        self.dialogue.encrypted();
        self.shown = Some(certificate);
        Ok(ConnectionFate::ReadOn)
    }

    fn drips(&self) -> bool {
        self.drips && !self.peers.healed.get()
    }

    fn draws(&self, permille: u16) -> bool {
        self.peers.draws(&self.hop, permille)
    }

    /// It says nothing any more.
    fn fall_silent(&mut self) {
        self.mute = true;
        self.garbled = true;
    }

    async fn reply(&mut self, stream: &mut SimStream) -> std::io::Result<()> {
        let output = std::mem::take(self.dialogue.output());
        if self.mute {
            return Ok(());
        }
        let mut rest = &output[..];
        while let ([first, more @ ..], true) = (rest, self.drips()) {
            stream.write_all(&[*first]).await?;
            self.peers.pause(DRIP_US).await;
            rest = more;
        }
        stream.write_all(rest).await
    }

    /// Says how much of the input it took.
    fn take(&mut self, stream: &SimStream, input: &[u8]) -> (usize, PeerAction) {
        let mut taken = 0;
        loop {
            let (used, event) = self.dialogue.advance(&input[taken..], &mut self.content);
            taken += used;
            self.taken_bytes += used as u64;
            self.check_content();
            match event {
                DialogueEvent::Input => return (taken, PeerAction::Read),
                DialogueEvent::Quit => return (taken, PeerAction::Close),
                _ => {}
            }
            if event == DialogueEvent::Mail {
                self.note_beginning(stream.id());
                self.transactions_count += 1;
            }
            self.note_carried(event, stream.id());
            if event == DialogueEvent::Rcpt && self.peers.plan.pace.is_some() {
                self.note_recipient(stream.id());
            }
            if matches!(event, DialogueEvent::Mail | DialogueEvent::Rcpt) {
                self.check_promises(event, stream.id());
            }
            if let Some(next) = self.stumble(event, stream) {
                return (taken, next);
            }
            let drops = self.draws(self.peers.fault_rates.peer_drop);
            let garbles = self.draws(self.peers.fault_rates.peer_garble);
            let begin = self.dialogue.output().len();
            self.garbled |= garbles;
            self.decide(event, stream, drops);
            if drops {
                return (taken, PeerAction::Break);
            }
            if garbles
                && !self.mute
                && let Some(next) = self.garble(event, begin)
            {
                return (taken, next);
            }
            if event == DialogueEvent::StartTls && !garbles && !self.refuses_tls() && !self.mute {
                return (taken, PeerAction::Encrypt);
            }
            if self.hop.dribbles {
                return (taken, PeerAction::Reply);
            }
        }
    }

    /// Accepts what was said or refuses it; `drops`: the connection breaks before anybody reads that.
    fn decide(&mut self, event: DialogueEvent, stream: &SimStream, drops: bool) {
        if event == DialogueEvent::Message && !self.draws(self.peers.fault_rates.peer_refuse) {
            // The envelope is forgotten once it is accepted.
            let envelope = self.envelope();
            self.dialogue.accept();
            // Behind the replies that are not written yet.
            let output = self.dialogue.output().len() as u64;
            let lost = drops || self.garbled;
            let reply_end = if lost { NEVER_REPLIED } else { stream.written_bytes() + output };
            self.record(&envelope, stream.id(), reply_end);
        } else if let Some(word) = self.word().filter(|_| event == DialogueEvent::Mail) {
            self.dialogue.refuse_in_words(450, word.reply());
        } else if let Some(words) = self.echo(event) {
            self.dialogue.refuse_in_words(450, words.as_bytes());
        } else if let Some(code) = self.refusal(event) {
            if event == DialogueEvent::Rcpt && code / 100 == 5 {
                self.note_refused(stream.id());
            }
            self.dialogue.refuse(code);
        } else {
            self.accept(event);
        }
    }

    fn accept(&mut self, event: DialogueEvent) {
        if event == DialogueEvent::Data {
            self.content.clear();
        }
        self.has_recipient |= event == DialogueEvent::Rcpt;
        self.dialogue.accept();
    }

    /// Makes something wrong of the reply that begins at `begin` of the output: text that is no
    /// reply, a code that the command can't have; or says that silence or a reply without an end is
    /// to follow.
    fn garble(&mut self, event: DialogueEvent, begin: usize) -> Option<PeerAction> {
        let how = self.peers.random.borrow_mut().below(5);
        let output = self.dialogue.output();
        output.truncate(begin);
        match (how, event) {
            (0, _) => output.extend_from_slice(b"garbage from peer\r\n"),
            (1 | 2, DialogueEvent::Mail | DialogueEvent::Rcpt | DialogueEvent::Message) => {
                output.extend_from_slice(b"354 Go on\r\n");
            }
            (1..=3, _) => return Some(PeerAction::Mute),
            _ => return Some(PeerAction::Babble),
        }
        None
    }

    /// The node has written MAIL, whenever it came here.
    fn note_beginning(&self, connection: u64) {
        let network = &self.peers.network;
        let written_us = network.written_by_client_at(connection, self.taken_bytes);
        if let (Some(group), Some(at_us)) = (network.client_of(connection), written_us) {
            self.peers.beginnings.note(self.host, group, at_us);
            let sender = String::from_utf8_lossy(self.dialogue.candidate());
            if let Some(from) =
                network.source_of(connection).filter(|_| self.peers.plan.pace.is_some())
            {
                let between = (from, self.host);
                let begun = StartedTransaction { life: group, between, sender: &sender, at_us };
                self.peers.paces.note(&self.peers.plan, begun);
                self.peers.effects.note(begun);
            }
            self.note_stumble(group, &sender);
            if self.defers_all() {
                let asks_for_tls = self.peers.account.asks_for_tls(&sender);
                self.peers.deferred.note(self.host, group, asks_for_tls, at_us);
            }
        }
    }

    /// The node has named a recipient.
    fn note_recipient(&self, connection: u64) {
        let peers = &self.peers;
        let written_us = peers.network.written_by_client_at(connection, self.taken_bytes);
        if let (Some(from), Some(at_us)) = (peers.network.source_of(connection), written_us) {
            let since_ms = (peers.executor.now_us() - at_us) / 1_000;
            let wall_ms = wall_ms(&peers.executor, &peers.wall_offset_ms) - since_ms;
            let judge = (&*peers.plan, &*peers.account, &peers.warmed);
            warming::check(judge, (from, self.host), (at_us, wall_ms));
        }
    }

    /// What the provider says now instead of taking mail.
    fn word(&self) -> Option<Word> {
        if self.peers.healed.get() || !self.hop.by_mx || self.hop.is_crowd() {
            return None;
        }
        self.peers.plan.word_at(self.peers.executor.now_us())
    }

    /// What names a sender or a recipient came as it was to come.
    fn check_promises(&self, event: DialogueEvent, connection: u64) {
        let network = &self.peers.network;
        let written_us = network.written_by_client_at(connection, self.taken_bytes);
        if let (Some(life), Some(at_us)) = (network.client_of(connection), written_us) {
            let sight =
                ObservedDelivery { host: self.host, shown: self.shown.as_ref(), life, at_us };
            let address = String::from_utf8_lossy(self.dialogue.candidate());
            match event {
                DialogueEvent::Mail => self.peers.promises.check_sender(&address, sight),
                _ => self.peers.promises.check_recipient(&address, sight),
            }
        }
    }

    fn refuses_tls(&self) -> bool {
        self.tls_illness == Some(TlsIllness::Refuses)
    }

    /// A recipient is refused for good.
    fn note_refused(&self, connection: u64) {
        let recipient = String::from_utf8_lossy(self.dialogue.candidate()).into_owned();
        let transaction = (connection, self.transactions_count);
        let written_us = self.peers.network.written_by_client_at(connection, self.taken_bytes);
        self.peers.account.handle_refused(&recipient, transaction, written_us.unwrap_or(0));
    }

    /// Content comes only after a recipient of its transaction was accepted (RFC 3030 §2), but
    /// where the configuration says that it may.
    fn check_content(&mut self) {
        let unasked = match self.hop.takes_unasked {
            true => 0,
            false => self.dialogue.unasked_count(),
        };
        // Who does not discard what he refuses reads lines that are no commands.
        let unknown = if self.hop.discards { self.dialogue.unknown_count() } else { 0 };
        if unasked + unknown > self.strange_count {
            self.strange_count = unasked + unknown;
            let text = format!("content unasked at {:?}", self.hop.domains[0]);
            self.peers.account.violate(None, text);
        }
    }

    fn defers_all(&self) -> bool {
        self.peers.executor.now_us() < self.hop.defers_all_until_us
    }

    fn refusal(&self, event: DialogueEvent) -> Option<u16> {
        let defers = self.peers.executor.now_us() < self.hop.defers_until_us;
        let refuses = || self.draws(self.peers.fault_rates.peer_refuse);
        let for_now = match self.peers.plant {
            Some(Plant::RefuseForGood) => 554,
            _ => 451,
        };
        match event {
            DialogueEvent::Rcpt if self.hop.refuses || is_unknown(self.dialogue.candidate()) => {
                Some(550)
            }
            DialogueEvent::Rcpt if defers => Some(450),
            DialogueEvent::Hello if self.draws(self.peers.fault_rates.peer_refuse / 4) => Some(421),
            DialogueEvent::StartTls if self.refuses_tls() => Some(454),
            DialogueEvent::Mail if self.defers_all() => Some(450),
            DialogueEvent::Mail | DialogueEvent::Rcpt | DialogueEvent::Data if refuses() => {
                Some(for_now)
            }
            // Drawn before.
            DialogueEvent::Message => Some(452),
            _ => None,
        }
    }

    fn envelope(&self) -> (String, Vec<String>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(self.dialogue.reverse_path()), self.dialogue.recipients().map(text).collect())
    }

    fn record(&mut self, envelope: &(String, Vec<String>), connection: u64, reply_end: u64) {
        let (reverse_path, recipients) = envelope;
        let content = std::mem::take(&mut self.content);
        let Some(group) = self.peers.network.client_of(connection) else { return };
        if let Some(directory) = &self.peers.directory {
            recipients.iter().for_each(|to| directory.check_place(to, self.host));
        }
        let from = (group, connection);
        let account = &self.peers.account;
        account.handle_arrival(reverse_path, recipients, &content, from, reply_end);
        let twice = self.peers.plant == Some(Plant::CountTwice);
        if twice && self.peers.random.borrow_mut().below(20) == 0 {
            account.handle_arrival(reverse_path, recipients, &content, from, reply_end);
        }
    }
}

/// What goes wrong with TLS on a connection to a host.
fn tls_illness(peers: &Peers, hop: &Hop, host: SocketAddr) -> Option<TlsIllness> {
    let number = hop.hosts.iter().position(|own| *own == host)?;
    let own = hop.tls.as_ref()?.hosts[number].illness;
    match own {
        _ if peers.healed.get() => None,
        Some(TlsIllness::Stripped) => {
            (peers.random.borrow_mut().below(2) == 0).then_some(TlsIllness::Lacks)
        }
        Some(own) => Some(own),
        None if peers.draws(hop, peers.fault_rates.peer_tls) => {
            Some(TlsIllness::any(peers.random.borrow_mut().next_u64()))
        }
        None => None,
    }
}
