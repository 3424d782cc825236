//! Next hops: they defer, refuse, hang up and dawdle until all heals, then take everything.

use super::account::{Account, NEVER_REPLIED};
use super::executor::{Executor, OUTSIDE};
use super::network::{Network, SimStream};
use super::plan::{Hop, Weather};
use super::plant::Plant;
use crate::dialogue::{Dialogue, Event, Offer};
use crate::random::Random;
use mta::seams::{Listener as _, Net as _};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
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
            let _ = serve(&task, &hop, stream).await;
        });
    }
}

/// What to do after a step.
enum Next {
    Read,
    Close,
    Break,
}

async fn serve(
    neighbours: &Rc<Neighbours>,
    hop: &Hop,
    mut stream: SimStream,
) -> std::io::Result<()> {
    if neighbours.draws(neighbours.weather.peer_refuse / 4) {
        return stream.write_all(b"421 4.3.2 Not today\r\n").await;
    }
    let offer = Offer { chunking: hop.chunking, pipelining: hop.pipelining };
    let mut session = Session {
        neighbours: Rc::clone(neighbours),
        dialogue: Dialogue::new(offer),
        content: Vec::new(),
        defers_until_us: hop.defers_until_us,
    };
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if neighbours.draws(neighbours.weather.peer_slow) {
            let after_us = neighbours.random.borrow_mut().below(40_000_000);
            neighbours.executor.sleep(after_us).await;
        }
        let output = std::mem::take(session.dialogue.output());
        stream.write_all(&output).await?;
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        match session.take(&stream, &buffer[..count]) {
            Next::Read => {}
            Next::Close => return stream.write_all(session.dialogue.output()).await,
            Next::Break => {
                stream.abort();
                return Ok(());
            }
        }
    }
}

struct Session {
    neighbours: Rc<Neighbours>,
    dialogue: Dialogue,
    content: Vec<u8>,
    defers_until_us: u64,
}

impl Session {
    fn take(&mut self, stream: &SimStream, mut input: &[u8]) -> Next {
        loop {
            let (used, event) = self.dialogue.advance(input, &mut self.content);
            input = &input[used..];
            match event {
                Event::Input => return Next::Read,
                Event::Quit => return Next::Close,
                _ => {}
            }
            let weather = self.neighbours.weather;
            let drops = self.neighbours.draws(weather.peer_drop);
            if event == Event::Message && !self.neighbours.draws(weather.peer_refuse) {
                // The envelope is forgotten once it is accepted.
                let envelope = self.envelope();
                self.dialogue.accept();
                // Behind the replies that are not written yet.
                let output = self.dialogue.output().len() as u64;
                let reply_end = if drops { NEVER_REPLIED } else { stream.written_bytes() + output };
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
                return Next::Break;
            }
        }
    }

    fn refusal(&self, event: Event) -> Option<u16> {
        let defers = self.neighbours.executor.now_us() < self.defers_until_us;
        let refuses = || self.neighbours.draws(self.neighbours.weather.peer_refuse);
        match event {
            Event::Rcpt if is_unknown(self.dialogue.candidate()) => Some(550),
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
