//! Next hops: they defer, refuse, hang up and dawdle until all heals, then take everything.

use super::account::{Account, NEVER_REPLIED};
use super::executor::{Executor, OUTSIDE};
use super::network::{Network, SimStream};
use super::plan::{Hop, Weather};
use super::plant::Plant;
use super::rates::Beginnings;
use crate::dialogue::{Dialogue, Event, Offer};
use crate::random::Random;
use mta::seams::{Listener as _, Net as _};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Recipients whose local part ends so exist nowhere.
pub const UNKNOWN_USER: &str = "-nobody";

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
    fn draws(&self, permille: u16) -> bool {
        !self.healed.get() && self.random.borrow_mut().permille(permille)
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
        let after_us = neighbours.random.borrow_mut().below(2_000_000);
        neighbours.executor.sleep(after_us).await;
    }
}

async fn serve(
    neighbours: &Rc<Neighbours>,
    hop: &Rc<Hop>,
    host: SocketAddr,
    mut stream: SimStream,
) -> std::io::Result<()> {
    if neighbours.draws(neighbours.weather.peer_refuse / 4) {
        return stream.write_all(b"421 4.3.2 Not today\r\n").await;
    }
    let offer = Offer { chunking: hop.chunking, pipelining: hop.pipelining, dsn: true };
    let mut session = Session {
        neighbours: Rc::clone(neighbours),
        dialogue: Dialogue::new(offer),
        content: Vec::new(),
        hop: Rc::clone(hop),
        host: host.ip(),
        taken_bytes: 0,
        garbled: false,
        mute: false,
    };
    if neighbours.draws(neighbours.weather.peer_garble / 4) {
        session.dialogue.output().clear();
        return babble(neighbours, &mut stream, b"220-and another thing\r\n").await;
    }
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if neighbours.draws(neighbours.weather.peer_slow) {
            let after_us = neighbours.random.borrow_mut().below(40_000_000);
            neighbours.executor.sleep(after_us).await;
        }
        session.reply(&mut stream).await?;
        let count = stream.read(&mut buffer).await?;
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
                    let after_us = neighbours.random.borrow_mut().below(30_000);
                    neighbours.executor.sleep(after_us).await;
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
    /// What was replied to what can't be known any more.
    garbled: bool,
    /// It says nothing any more. (If one reply were missing, the next would be taken for it, and no
    /// client could know.)
    mute: bool,
}

impl Session {
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
        stream.write_all(&output).await
    }

    /// Says how much of the input it took.
    fn take(&mut self, stream: &SimStream, input: &[u8]) -> (usize, Next) {
        let mut taken = 0;
        loop {
            let (used, event) = self.dialogue.advance(&input[taken..], &mut self.content);
            taken += used;
            self.taken_bytes += used as u64;
            match event {
                Event::Input => return (taken, Next::Read),
                Event::Quit => return (taken, Next::Close),
                _ => {}
            }
            if event == Event::Mail {
                self.note_beginning(stream.id());
            }
            let weather = self.neighbours.weather;
            let drops = self.neighbours.draws(weather.peer_drop);
            let garbles = self.neighbours.draws(weather.peer_garble);
            let begin = self.dialogue.output().len();
            self.garbled |= garbles;
            if event == Event::Message && !self.neighbours.draws(weather.peer_refuse) {
                // The envelope is forgotten once it is accepted.
                let envelope = self.envelope();
                self.dialogue.accept();
                // Behind the replies that are not written yet.
                let output = self.dialogue.output().len() as u64;
                let lost = drops || self.garbled;
                let reply_end = if lost { NEVER_REPLIED } else { stream.written_bytes() + output };
                self.record(&envelope, stream.id(), reply_end);
            } else if let Some(code) = self.refusal(event) {
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
        }
    }

    fn refusal(&self, event: Event) -> Option<u16> {
        let defers = self.neighbours.executor.now_us() < self.hop.defers_until_us;
        let refuses = || self.neighbours.draws(self.neighbours.weather.peer_refuse);
        match event {
            Event::Rcpt if self.hop.refuses || is_unknown(self.dialogue.candidate()) => Some(550),
            Event::Rcpt if defers => Some(450),
            Event::Hello if self.neighbours.draws(self.neighbours.weather.peer_refuse / 4) => {
                Some(421)
            }
            Event::Mail | Event::Rcpt | Event::Data if refuses() => Some(451),
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
