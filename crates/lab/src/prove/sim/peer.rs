//! Next hops: they defer, refuse, hang up and dawdle until all heals, then take everything.

use super::account::{Account, NEVER_REPLIED};
use super::attempts::Deferred;
use super::executor::{Executor, OUTSIDE};
use super::names::UNKNOWN_USER;
use super::network::{Network, SimStream};
use super::plan::{Hop, Weather};
use super::plant::Plant;
use super::rates::Beginnings;
use load::dialogue::{Dialogue, Event, Offer};
use load::random::Random;
use mta::seams::{Listener as _, Net as _};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// What all hosts of all hops share.
#[derive(Debug)]
pub struct Neighbours {
    /// Runs their tasks.
    pub executor: Executor,
    /// Where they listen.
    pub network: Network,
    /// Who is told of what arrives.
    pub account: Rc<Account>,
    /// When transactions began.
    pub beginnings: Beginnings,
    /// When those were refused that went to a hop that defers everything.
    pub deferred: Deferred,
    /// Chance.
    pub random: RefCell<Random>,
    /// What goes wrong until it heals.
    pub weather: Weather,
    /// Nothing goes wrong any more.
    pub healed: Cell<bool>,
    /// A fault to plant.
    pub plant: Option<Plant>,
}

impl Neighbours {
    fn draws(&self, hop: &Hop, permille: u16) -> bool {
        !self.healed.get() && !hop.is_well && self.random.borrow_mut().permille(permille)
    }

    async fn pause(&self, most_us: u64) {
        let after_us = self.random.borrow_mut().below(most_us);
        self.executor.sleep(after_us).await;
    }
}

/// Starts one host of a hop.
pub fn start(neighbours: &Rc<Neighbours>, hop: &Rc<Hop>, host: SocketAddr) {
    let (task, hop) = (Rc::clone(neighbours), Rc::clone(hop));
    neighbours.executor.spawn(OUTSIDE, async move {
        let (down_us, up_us) = hop.down_us;
        listen(&task, &hop, host, down_us).await;
        task.executor.sleep_until(up_us).await;
        listen(&task, &hop, host, u64::MAX).await;
    });
}

async fn listen(neighbours: &Rc<Neighbours>, hop: &Rc<Hop>, host: SocketAddr, until_us: u64) {
    let net = neighbours.network.attach(OUTSIDE, host.ip());
    let Ok(mut listener) = net.listen(host) else { return };
    loop {
        let accepted = tokio::select! {
            biased;
            () = neighbours.executor.sleep_until(until_us) => return,
            accepted = poll_fn(|cx| listener.poll_accept(cx)) => accepted,
        };
        let Ok(stream) = accepted.and_then(|(accepted, _)| net.adopt(accepted)) else { continue };
        let (task, hop) = (Rc::clone(neighbours), Rc::clone(hop));
        neighbours.executor.spawn(OUTSIDE, async move {
            // An error is the node's going away.
            let _ = serve(&task, &hop, host, stream).await;
        });
    }
}

/// What to do after a step.
enum Next {
    Read,
    /// Write the replies, then go on with the input.
    Reply,
    Close,
    Break,
    /// Say the same line for ever.
    Babble,
    /// Say nothing more.
    Mute,
}

/// A reply that never ends, as long as anybody listens.
async fn babble(
    neighbours: &Rc<Neighbours>,
    stream: &mut SimStream,
    line: &[u8],
) -> std::io::Result<()> {
    loop {
        stream.write_all(line).await?;
        neighbours.pause(2_000_000).await;
    }
}

async fn serve(
    neighbours: &Rc<Neighbours>,
    hop: &Rc<Hop>,
    host: SocketAddr,
    mut stream: SimStream,
) -> std::io::Result<()> {
    if neighbours.draws(hop, neighbours.weather.peer_refuse / 4) {
        return stream.write_all(b"421 4.3.2 Not today\r\n").await;
    }
    let Hop { chunking, pipelining, discards, .. } = **hop;
    let offer = Offer { chunking, pipelining, dsn: true, discards };
    let mut session = Session {
        neighbours: Rc::clone(neighbours),
        dialogue: Dialogue::new(offer),
        content: Vec::new(),
        hop: Rc::clone(hop),
        host: host.ip(),
        taken_bytes: 0,
        transactions_count: 0,
        strange_count: 0,
        garbled: false,
        mute: false,
        drips: neighbours.draws(hop, neighbours.weather.peer_drip),
    };
    if neighbours.draws(hop, neighbours.weather.peer_garble / 4) {
        session.dialogue.output().clear();
        return babble(neighbours, &mut stream, b"220-and another thing\r\n").await;
    }
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if neighbours.draws(hop, neighbours.weather.peer_slow) {
            neighbours.pause(40_000_000).await;
        }
        session.reply(&mut stream).await?;
        let at_once = if session.drips() { DRIP_BYTES } else { buffer.len() };
        let count = stream.read(&mut buffer[..at_once]).await?;
        if session.drips() {
            neighbours.pause(DRIP_US).await;
        }
        if count == 0 {
            return Ok(());
        }
        let mut input = &buffer[..count];
        loop {
            let (used, next) = session.take(&stream, input);
            input = &input[used..];
            match next {
                Next::Read => break,
                Next::Reply => {
                    session.reply(&mut stream).await?;
                    neighbours.pause(30_000).await;
                }
                Next::Mute => {
                    session.reply(&mut stream).await?;
                    session.mute = true;
                }
                Next::Babble => {
                    // What was replied before is there.
                    session.reply(&mut stream).await?;
                    return babble(neighbours, &mut stream, b"250-and another thing\r\n").await;
                }
                Next::Close => return session.reply(&mut stream).await,
                Next::Break if neighbours.weather.peer_halves => {
                    // It takes what comes, and nobody learns of it.
                    session.fall_silent();
                    stream.shut_down();
                }
                Next::Break => {
                    stream.abort();
                    return Ok(());
                }
            }
        }
    }
}

struct Session {
    neighbours: Rc<Neighbours>,
    dialogue: Dialogue,
    content: Vec<u8>,
    hop: Rc<Hop>,
    host: IpAddr,
    /// Of all that came.
    taken_bytes: u64,
    /// Those that began.
    transactions_count: u64,
    /// Chunks and lines that should not have come; see [`Session::check_content`].
    strange_count: u64,
    /// What was replied to what can't be known any more.
    garbled: bool,
    /// It says nothing any more. (If one reply were missing, the next would be taken for it, and no
    /// client could know.)
    mute: bool,
    /// It writes and reads a byte now and then.
    drips: bool,
}

/// Who drips reads so much at once, and pauses so long at most, before each byte that it writes,
/// too.
const DRIP_BYTES: usize = 8;
const DRIP_US: u64 = 900_000;

impl Session {
    fn drips(&self) -> bool {
        self.drips && !self.neighbours.healed.get()
    }

    fn draws(&self, permille: u16) -> bool {
        self.neighbours.draws(&self.hop, permille)
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
            self.neighbours.pause(DRIP_US).await;
            rest = more;
        }
        stream.write_all(rest).await
    }

    /// Says how much of the input it took.
    fn take(&mut self, stream: &SimStream, input: &[u8]) -> (usize, Next) {
        let mut taken = 0;
        loop {
            let (used, event) = self.dialogue.advance(&input[taken..], &mut self.content);
            taken += used;
            self.taken_bytes += used as u64;
            self.check_content();
            match event {
                Event::Input => return (taken, Next::Read),
                Event::Quit => return (taken, Next::Close),
                _ => {}
            }
            if event == Event::Mail {
                self.note_beginning(stream.id());
                self.transactions_count += 1;
            }
            let weather = self.neighbours.weather;
            let drops = self.draws(weather.peer_drop);
            let garbles = self.draws(weather.peer_garble);
            let begin = self.dialogue.output().len();
            self.garbled |= garbles;
            if event == Event::Message && !self.draws(weather.peer_refuse) {
                // The envelope is forgotten once it is accepted.
                let envelope = self.envelope();
                self.dialogue.accept();
                // Behind the replies that are not written yet.
                let output = self.dialogue.output().len() as u64;
                let lost = drops || self.garbled;
                let reply_end = if lost { NEVER_REPLIED } else { stream.written_bytes() + output };
                self.record(&envelope, stream.id(), reply_end);
            } else if let Some(code) = self.refusal(event) {
                if event == Event::Rcpt && code / 100 == 5 {
                    self.note_refused(stream.id());
                }
                self.dialogue.refuse(code);
            } else {
                if event == Event::Data {
                    self.content.clear();
                }
                self.dialogue.accept();
            }
            if drops {
                return (taken, Next::Break);
            }
            if garbles
                && !self.mute
                && let Some(next) = self.garble(event, begin)
            {
                return (taken, next);
            }
            if self.hop.dribbles {
                return (taken, Next::Reply);
            }
        }
    }

    /// Makes something wrong of the reply that begins at `begin` of the output: text that is no
    /// reply, a code that the command can't have; or says that silence or a reply without an end is
    /// to follow.
    fn garble(&mut self, event: Event, begin: usize) -> Option<Next> {
        let how = self.neighbours.random.borrow_mut().below(5);
        let output = self.dialogue.output();
        output.truncate(begin);
        match (how, event) {
            (0, _) => output.extend_from_slice(b"What do you mean?\r\n"),
            (1 | 2, Event::Mail | Event::Rcpt | Event::Message) => {
                output.extend_from_slice(b"354 Go on\r\n");
            }
            (1..=3, _) => return Some(Next::Mute),
            _ => return Some(Next::Babble),
        }
        None
    }

    /// The node has written MAIL, whenever it came here.
    fn note_beginning(&self, connection: u64) {
        let network = &self.neighbours.network;
        let written_us = network.written_by_client_at(connection, self.taken_bytes);
        if let (Some(group), Some(at_us)) = (network.client_of(connection), written_us) {
            self.neighbours.beginnings.note(self.host, group, at_us);
            if self.defers_all() {
                self.neighbours.deferred.note(self.host, group, at_us);
            }
        }
    }

    /// A recipient is refused for good.
    fn note_refused(&self, connection: u64) {
        let recipient = String::from_utf8_lossy(self.dialogue.candidate()).into_owned();
        let transaction = (connection, self.transactions_count);
        self.neighbours.account.handle_refused(&recipient, transaction);
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
            self.neighbours.account.violate(None, text);
        }
    }

    fn defers_all(&self) -> bool {
        self.neighbours.executor.now_us() < self.hop.defers_all_until_us
    }

    fn refusal(&self, event: Event) -> Option<u16> {
        let defers = self.neighbours.executor.now_us() < self.hop.defers_until_us;
        let refuses = || self.draws(self.neighbours.weather.peer_refuse);
        let for_now = match self.neighbours.plant {
            Some(Plant::RefuseForGood) => 554,
            _ => 451,
        };
        match event {
            Event::Rcpt if self.hop.refuses || is_unknown(self.dialogue.candidate()) => Some(550),
            Event::Rcpt if defers => Some(450),
            Event::Hello if self.draws(self.neighbours.weather.peer_refuse / 4) => Some(421),
            Event::Mail if self.defers_all() => Some(450),
            Event::Mail | Event::Rcpt | Event::Data if refuses() => Some(for_now),
            // Drawn before.
            Event::Message => Some(452),
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
        let Some(group) = self.neighbours.network.client_of(connection) else { return };
        let from = (group, connection);
        let account = &self.neighbours.account;
        account.handle_arrival(reverse_path, recipients, &content, from, reply_end);
        let twice = self.neighbours.plant == Some(Plant::CountTwice);
        if twice && self.neighbours.random.borrow_mut().below(20) == 0 {
            account.handle_arrival(reverse_path, recipients, &content, from, reply_end);
        }
    }
}

fn is_unknown(recipient: &[u8]) -> bool {
    let local = recipient.split(|&byte| byte == b'@').next().unwrap_or_default();
    local.ends_with(UNKNOWN_USER.as_bytes())
}
