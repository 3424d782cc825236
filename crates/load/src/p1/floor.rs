//! `p1-floor`: a relay of P1 that does nothing but relay, the limit that real ones are held against.
//!
//! The sink's front and the source's back in one process: it takes a message, acknowledges it, and transfers the
//! same APDU over an association that it keeps. No spool, no queue, no trace, no routing.

use super::apdu::unwrap;
use super::association::{Association, Dial, Sent};
use super::bind::{Who, transfer_head};
use super::options::PeerOptions;
use super::responder::{Event, Responder, Rules};
use super::tpkt::TPDU_BYTES_PREFERRED_MAX;
use crate::listener::{ReadBuffer, listen, resolve};
use crate::outcome::{CommandError, Outcome};
use crate::stop::Stop;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::Write as _;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// After a failed attempt to bind.
const PAUSE: Duration = Duration::from_millis(100);

/// Relays P1 in memory: a lower bound for the cost of any relay.
///
/// It loses what it holds when it ends, reports nothing and has no limits. One thread.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Prints `listening on ADDRESS` when it is ready, and counts as JSON when SIGTERM or Ctrl-C ends it.

Exit code: 0 when ended by a signal; 2 an address can't be used.")]
pub struct P1FloorOptions {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: String,
    #[command(flatten)]
    pub peer: PeerOptions,
}

#[derive(Debug)]
struct Floor {
    rules: Rules,
    dial: Dial,
    reading: ReadBuffer,
    /// APDUs.
    held: RefCell<VecDeque<Vec<u8>>>,
    arrived: Notify,
    accepted: Cell<u64>,
    relayed: Cell<u64>,
    /// By the next hop; such messages are dropped.
    refused: Cell<u64>,
    unreadable: Cell<u64>,
    connections: Cell<u64>,
}

fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

impl Floor {
    fn put(&self, apdu: Vec<u8>) {
        self.held.borrow_mut().push_back(apdu);
        self.arrived.notify_one();
    }

    async fn take(&self) -> Vec<u8> {
        loop {
            // The borrow must end before the await.
            let held = self.held.borrow_mut().pop_front();
            match held {
                Some(held) => return held,
                None => self.arrived.notified().await,
            }
        }
    }
}

/// The command.
pub fn run(options: &P1FloorOptions) -> Outcome {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| CommandError::new(format!("{what}: {error}"))
    };
    let PeerOptions { name, password, .. } = &options.peer;
    let floor = Rc::new(Floor {
        rules: Rules {
            t_selector: None,
            who: Who { name: name.clone(), password: password.clone() },
            their_name: None,
            their_password: None,
            checkpoint_kib: 0,
            tpdu_bytes: TPDU_BYTES_PREFERRED_MAX,
        },
        dial: options.peer.dial().map_err(CommandError::new)?,
        reading: ReadBuffer::default(),
        held: RefCell::default(),
        arrived: Notify::new(),
        accepted: Cell::new(0),
        relayed: Cell::new(0),
        refused: Cell::new(0),
        unreadable: Cell::new(0),
        connections: Cell::new(0),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed("runtime"))?;
    let tasks = LocalSet::new();
    let served = tasks.block_on(&runtime, serve(Rc::clone(&floor), options));
    drop(tasks);
    served.map_err(failed("floor"))?;
    println!(
        "{}",
        json!({
            "accepted": floor.accepted.get(),
            "relayed": floor.relayed.get(),
            "refused_by_next_hop": floor.refused.get(),
            "unreadable": floor.unreadable.get(),
            "connections": floor.connections.get(),
        })
    );
    Ok(ExitCode::SUCCESS)
}

async fn serve(floor: Rc<Floor>, options: &P1FloorOptions) -> std::io::Result<()> {
    let mut stop = Stop::listen()?;
    let listener = listen(resolve(&options.listen)?)?;
    println!("listening on {}", listener.local_addr()?);
    std::io::stdout().flush()?;
    for _ in 0..options.peer.associations {
        tokio::task::spawn_local(relay(Rc::clone(&floor)));
    }
    let accepting = Rc::clone(&floor);
    let accept = async move {
        loop {
            let (stream, _) = listener.accept().await?;
            count(&accepting.connections);
            tokio::task::spawn_local(receive(stream, Rc::clone(&accepting)));
        }
    };
    tokio::select! {
        biased;
        () = stop.wait() => Ok(()),
        result = accept => result,
    }
}

/// Serves one association to its end.
async fn receive(mut stream: TcpStream, floor: Rc<Floor>) {
    let mut responder = Responder::new();
    let mut is_open = true;
    while is_open {
        match floor.reading.read(&mut stream, |input| take(&floor, &mut responder, input)).await {
            Ok(after) => is_open = after,
            Err(_) => return,
        }
        let output = responder.output();
        if !output.is_empty() && stream.write_all(output).await.is_err() {
            return;
        }
        output.clear();
    }
}

/// Takes all of the input; whether the association goes on.
fn take(floor: &Floor, responder: &mut Responder, mut input: &[u8]) -> bool {
    if input.is_empty() {
        return false;
    }
    loop {
        let (used, event) = responder.advance(&floor.rules, input);
        input = input.get(used..).unwrap_or_default();
        match event {
            Event::Input => return true,
            Event::Close(_) => return false,
            Event::End => {
                match unwrap(responder.stream(), responder.mode().unwrap_or_default()) {
                    Ok(apdu) => floor.put(apdu.to_vec()),
                    Err(_) => count(&floor.unreadable),
                }
                count(&floor.accepted);
            }
            Event::Bind
            | Event::Start
            | Event::Content
            | Event::Checkpoint
            | Event::Discard
            | Event::Release => {}
        }
        responder.accept(&floor.rules);
    }
}

/// Takes held messages and transfers them, for ever. A message whose association broke is transferred again: twice,
/// perhaps.
async fn relay(floor: Rc<Floor>) {
    let mut association = None;
    loop {
        let held = floor.take().await;
        let open = match association.take() {
            Some(open) => Ok(open),
            None => Association::open(&floor.dial, &floor.reading).await,
        };
        let Ok(mut open) = open else {
            tokio::time::sleep(PAUSE).await;
            floor.put(held);
            continue;
        };
        let head = transfer_head(floor.dial.wishes.mode, held.len());
        match open.send([&head, &held], &floor.reading, &mut None).await {
            Ok(Sent::Acked) => count(&floor.relayed),
            Ok(Sent::Refused(_)) => count(&floor.refused),
            Err(_) => {
                floor.put(held);
                continue;
            }
        }
        association = Some(open);
    }
}
