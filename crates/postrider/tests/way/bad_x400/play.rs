//! Plays a row: a script for a peer that misbehaves, at one end of a connection whose other end is Postrider's, while
//! another association goes on.

use super::table::Row;
use super::{apdus, heard, say};
use crate::node::{self, Node, wait_until};
use crate::x400 as good;
use crate::x400::{Answer, Hub};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// A listener with narrow limits; what is for FR is delivered here, what is for GB goes to the peer.
const CONFIG: &str = r#"hostname = "relay.test"
[spool]
queue_recipients_max = 150
min_free_bytes = "16MiB"
[[listener]]
kind = "p1"
name = "in"
address = "192.0.2.250:102"
t_selectors = ["x400in88", ""]
max_recipients = 100
max_message_bytes = "64KiB"
[x400]
mta = "relay"
domain = "/PRMD=Ours/ADMD= /C=GB/"
[[x400.peer]]
name = "hub"
hosts = ["198.51.100.2:102"]
their_name = "mta.hub"
their_password = "theirs"
our_password = "ours"
[[route]]
or_addresses = ["/C=GB/"]
x400 = { peer = "hub" }
[[route]]
or_addresses = ["/C=FR/"]
discard = {}
"#;

/// From where the peer calls.
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2));
/// Where it is called.
const PEER_LISTENS: SocketAddr = SocketAddr::new(PEER, 102);

/// Nothing more is said when nothing was said for so long: only what waits on purpose takes longer.
const QUIET: Duration = Duration::from_millis(1);
/// Whatever is waited for on purpose takes less.
const PATIENCE: Duration = Duration::from_secs(7_200);
/// How often the association beside transfers a message.
const WITNESS_EVERY: Duration = Duration::from_secs(60);

/// Which part the script is.
pub(crate) trait Part {
    /// The connection on which it is played. `hub` answers whoever is called beside it.
    async fn connect(node: &Node, hub: &Hub) -> DuplexStream;

    /// What Postrider does later, and must have done before the row is over.
    async fn conclude(node: &Node);
}

/// A peer that calls.
pub(crate) struct Caller;

impl Part for Caller {
    async fn connect(node: &Node, hub: &Hub) -> DuplexStream {
        let hub = hub.clone();
        node.world.serve(PEER_LISTENS, move |stream| hub.serve_beside(stream));
        node.accept(SocketAddr::new(PEER, 40_001))
    }

    async fn conclude(_: &Node) {
        // Time for reports, and for those who take what goes on.
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

/// A peer that is called, because there is a message for it. It behaves when it is called again.
pub(crate) struct Called;

impl Part for Called {
    async fn connect(node: &Node, hub: &Hub) -> DuplexStream {
        let (first, mut called) = mpsc::unbounded_channel();
        let (hub, first) = (hub.clone(), Cell::new(Some(first)));
        node.world.serve(PEER_LISTENS, move |stream| match first.take() {
            Some(first) => drop(first.send(stream)),
            None => hub.serve_beside(stream),
        });
        let mut sender = good::Caller::bound(node).await;
        sender.transfer(&apdus::apdu("content-10000")).await;
        called.recv().await.expect("the peer is called")
    }

    async fn conclude(node: &Node) {
        node.wait_for("relayed", 1).await;
    }
}

/// Plays a row; its lines as they should be.
pub(crate) fn row<P: Part>(row: &Row) -> Vec<String> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    node::play(|| {
        let seen = Rc::clone(&seen);
        async move {
            let lines = play::<P>(row).await;
            seen.replace(lines);
        }
    });
    seen.take()
}

async fn play<P: Part>(row: &Row) -> Vec<String> {
    let node = Node::start(CONFIG).await;
    let hub = Hub::new(|_| Answer::Take);
    let witness = Witness::begin(&node).await;
    let mut wire = Wire::new(P::connect(&node, &hub).await);
    let mut lines = Vec::new();
    wire.listen(QUIET, &mut lines).await;
    for (kind, rest) in row.steps() {
        match kind {
            "C" => {
                lines.push(format!("C: {rest}"));
                wire.say(&say::octets(rest)).await;
                wire.listen(QUIET, &mut lines).await;
            }
            "T" => wire.wait(&mut lines).await,
            "X" if rest == "closed" => {}
            "X" => {
                lines.push(format!("X: {rest}"));
                wire.hang_up();
                tokio::time::sleep(QUIET).await;
                if rest == "calls again" {
                    wire = Wire::new(P::connect(&node, &hub).await);
                }
            }
            "S" | "M" | "N" | "G" => {}
            other => panic!("[{}] {other}", row.id),
        }
    }
    wire.hang_up();
    P::conclude(&node).await;
    let told = witness.end(&node).await;
    lines.extend(hub.taken().iter().map(|apdu| format!("M: {}", heard::apdu(apdu))));
    lines.extend(counted(&told).map(|event| format!("N: {event}")));
    let console = node.lines();
    let of_row = console.iter().filter(|line| !line.starts_with("info "));
    lines.extend(of_row.map(|line| format!("G: {line}")));
    prove(&node, &row.id, &lines).await;
    lines
}

/// What must be so after every row.
async fn prove(node: &Node, id: &str, lines: &[String]) {
    wait_until("sessions are over", || node.shared.sessions[0].load(Ordering::Relaxed) == 0).await;
    for line in lines.iter().chain(&node.lines()) {
        assert!(!line.contains(char::is_control) && !line.contains('\u{202e}'), "[{id}] {line:?}");
        assert!(!line.contains("theirs") || line.starts_with("C: "), "[{id}] a password: {line}");
        assert!(!line.starts_with("error "), "[{id}] {line}");
    }
}

/// The connection.
struct Wire {
    /// `None` once it is closed by either.
    stream: Option<DuplexStream>,
    heard: Vec<u8>,
}

impl Wire {
    fn new(stream: DuplexStream) -> Wire {
        Wire { stream: Some(stream), heard: Vec::new() }
    }

    fn hang_up(&mut self) {
        self.stream = None;
    }

    /// Says this, and listens meanwhile, until it is said or the connection is closed.
    async fn say(&mut self, octets: &[u8]) {
        let Some(stream) = &mut self.stream else { return };
        let (mut reader, mut writer) = tokio::io::split(stream);
        let heard = &mut self.heard;
        let listen = async {
            let mut buffer = vec![0; 65_536];
            while let Ok(count @ 1..) = reader.read(&mut buffer).await {
                heard.extend_from_slice(&buffer[..count]);
            }
        };
        let said = async {
            tokio::select! {
                biased;
                // Whoever closes hears no more.
                written = writer.write_all(octets) => drop(written),
                () = listen => {}
            }
        };
        timeout(PATIENCE, said).await.expect("all is read, or the connection closed");
    }

    /// Listens until nothing was said for so long; adds it.
    async fn listen(&mut self, patience: Duration, lines: &mut Vec<String>) {
        let mut is_closed = false;
        if let Some(stream) = &mut self.stream {
            let (mut buffer, mut patience) = (vec![0; 65_536], patience);
            loop {
                match timeout(patience, stream.read(&mut buffer)).await {
                    Err(_) => break,
                    Ok(Ok(count @ 1..)) => self.heard.extend_from_slice(&buffer[..count]),
                    Ok(Ok(0) | Err(_)) => {
                        is_closed = true;
                        break;
                    }
                }
                patience = QUIET;
            }
        }
        let heard = std::mem::take(&mut self.heard);
        lines.extend(heard::words(&heard).into_iter().map(|word| format!("S: {word}")));
        if is_closed {
            self.stream = None;
            lines.push("X: closed".to_owned());
        }
    }

    /// Says nothing until Postrider does something; adds how long that took, and what it was.
    async fn wait(&mut self, lines: &mut Vec<String>) {
        let (begun, mut said) = (Instant::now(), Vec::new());
        self.listen(PATIENCE, &mut said).await;
        lines.push(format!("T: {} s", (begun.elapsed().as_secs_f64()).round()));
        lines.extend(said);
    }
}

/// An association that transfers a message a minute while a row is played, and one at its end.
struct Witness {
    is_over: Rc<Cell<bool>>,
    wakes: Rc<Notify>,
    task: JoinHandle<usize>,
}

impl Witness {
    async fn begin(node: &Node) -> Witness {
        let mut caller = good::Caller::bound(node).await;
        let (is_over, wakes) = (Rc::new(Cell::new(false)), Rc::new(Notify::new()));
        let (over, woken) = (Rc::clone(&is_over), Rc::clone(&wakes));
        let task = tokio::task::spawn_local(async move {
            let mut count = 0;
            loop {
                let is_last = over.get();
                caller.transfer(&apdus::apdu(&format!("witness-{count}"))).await;
                count += 1;
                if is_last {
                    return count;
                }
                // Woken, or not.
                let _ = timeout(WITNESS_EVERY, woken.notified()).await;
            }
        });
        Witness { is_over, wakes, task }
    }

    /// After the row: transfers its last message; all of them were delivered, each once. What happened beside.
    async fn end(self, node: &Node) -> Vec<String> {
        self.is_over.set(true);
        self.wakes.notify_one();
        let count = self.task.await.expect("the witness is well");
        let received = node.of("received");
        let is_its = |event: &&serde_json::Value| {
            let identifier = &event["headers"]["X400-MTS-Identifier"];
            identifier.as_str().is_some_and(|identifier| identifier.contains("witness"))
        };
        let text = |event: &serde_json::Value| event["id"].as_str().unwrap_or_default().to_owned();
        let its: Vec<String> = received.iter().filter(is_its).map(text).collect();
        assert_eq!(its.len(), count, "messages of the witness");
        wait_until("the witness's messages are delivered", || {
            let delivered: Vec<String> = node.of("delivered").iter().map(text).collect();
            its.iter().all(|id| delivered.iter().filter(|other| *other == id).count() == 1)
        })
        .await;
        let its: BTreeSet<String> = its.into_iter().collect();
        told(node, &its)
    }
}

/// The same events in a row are one, with their number.
fn counted(events: &[String]) -> impl Iterator<Item = String> {
    events.chunk_by(|one, next| one == next).map(|same| match same {
        [event] => event.clone(),
        _ => format!("{} × {}", same.len(), same[0]),
    })
}

/// The events of others than these messages.
fn told(node: &Node, but: &BTreeSet<String>) -> Vec<String> {
    let fields = ["id", "size", "status", "reason", "action", "why", "dsn"];
    let events = node.events(&fields);
    let of_row = events.into_iter().filter_map(|event| {
        let words: Vec<&str> = event.split(' ').collect();
        let id = words.iter().find_map(|word| word.strip_prefix("id="));
        if id.is_some_and(|id| but.contains(id)) {
            return None;
        }
        let shown = |word: &&str| !word.starts_with("id=") && !word.starts_with("dsn=");
        Some(words.into_iter().filter(shown).collect::<Vec<_>>().join(" "))
    });
    of_row.collect()
}
