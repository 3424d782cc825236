//! `p1-floor`: a relay of P1 that does nothing but relay, the limit that real ones are held against.
//!
//! The sink's front and the source's back in one process: it takes a message, acknowledges it, and transfers the
//! same APDU over an association that it keeps. No spool, no queue, no trace, no routing.

use super::apdu::unwrap;
use super::association::{Association, Dial, Sent};
use super::bind::{MtaCredentials, transfer_head};
use super::options::PeerOptions;
use super::responder::{Responder, ResponderEvent, ResponderPolicy};
use super::tpkt::TPDU_BYTES_PREFERRED_MAX;
use crate::listener::ReadBuffer;
use crate::stop::{CommandError, Outcome};
use crate::tool::{Passage, add};
use std::cell::Cell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// After a failed attempt to bind.
const PAUSE: Duration = Duration::from_millis(100);

/// Relay P1 in memory: a lower bound for the cost of any relay.
///
/// Queued messages are lost at exit. It sends no reports, has no limits, and runs on one thread.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Prints `listening on ADDRESS` when it is ready. Exits at SIGTERM or Ctrl-C, and prints counts as JSON.

Exit codes:
  0  ended by a signal
  2  the command line is wrong, or an address cannot be used")]
pub struct P1FloorOptions {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: String,
    #[command(flatten)]
    pub peer: PeerOptions,
}

#[derive(Debug)]
struct Floor {
    rules: ResponderPolicy,
    dial: Dial,
    reading: ReadBuffer,
    /// APDUs.
    passage: Passage<Vec<u8>>,
    unreadable: Cell<u64>,
}

/// The command.
pub fn run(options: &P1FloorOptions) -> Outcome {
    let PeerOptions { name, password, .. } = &options.peer;
    let floor = Rc::new(Floor {
        rules: ResponderPolicy {
            t_selector: None,
            who: MtaCredentials { name: name.clone(), password: password.clone() },
            their_name: None,
            their_password: None,
            checkpoint_kib: 0,
            tpdu_bytes: TPDU_BYTES_PREFERRED_MAX,
        },
        dial: options.peer.dial().map_err(CommandError::new)?,
        reading: ReadBuffer::default(),
        passage: Passage::default(),
        unreadable: Cell::new(0),
    });
    let beside = async {
        for _ in 0..options.peer.associations {
            tokio::task::spawn_local(relay(Rc::clone(&floor)));
        }
        std::future::pending().await
    };
    let serve = |stream| receive(stream, Rc::clone(&floor));
    floor.passage.run(&options.listen, serve, beside)?;
    floor.passage.print("unreadable", Some(floor.unreadable.get()));
    Ok(ExitCode::SUCCESS)
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
            ResponderEvent::Input => return true,
            ResponderEvent::Close(_) => return false,
            ResponderEvent::End => {
                match unwrap(responder.stream(), responder.mode().unwrap_or_default()) {
                    Ok(apdu) => floor.passage.put(apdu.to_vec()),
                    Err(_) => add(&floor.unreadable, 1),
                }
                add(&floor.passage.accepted, 1);
            }
            ResponderEvent::Bind
            | ResponderEvent::Start
            | ResponderEvent::Content
            | ResponderEvent::Checkpoint
            | ResponderEvent::Discard
            | ResponderEvent::Release => {}
        }
        responder.accept(&floor.rules);
    }
}

/// Takes held messages and transfers them, for ever. A message whose association broke is transferred again: twice,
/// perhaps.
async fn relay(floor: Rc<Floor>) {
    let mut association = None;
    loop {
        let held = floor.passage.take().await;
        let open = match association.take() {
            Some(open) => Ok(open),
            None => Association::open(&floor.dial, &floor.reading).await,
        };
        let Ok(mut open) = open else {
            tokio::time::sleep(PAUSE).await;
            floor.passage.put(held);
            continue;
        };
        let head = transfer_head(floor.dial.wishes.mode, held.len());
        match open.send([&head, &held], &floor.reading, &mut None).await {
            Ok(Sent::Acked) => add(&floor.passage.relayed, 1),
            Ok(Sent::Refused(_)) => add(&floor.passage.refused, 1),
            Err(_) => {
                floor.passage.put(held);
                continue;
            }
        }
        association = Some(open);
    }
}
