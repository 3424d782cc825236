//! The frame of the tools that listen, whatever protocol they speak: one thread, the line that says where they listen,
//! totals of what arrived, and messages on their way through a floor.

use crate::ledger::{ArrivalState, LedgerWriter};
use crate::listener::{listen, resolve};
use crate::progress::Progress;
use crate::stats::{rate, value_table};
use crate::stop::{CommandError, Outcome, Stop};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// Between two looks at the ledger's unwritten lines and at idleness.
const TICK: Duration = Duration::from_millis(20);
/// When all is there, clients have so long to end their sessions.
const FAREWELL_MAX: Duration = Duration::from_millis(500);

pub(crate) fn failed(what: &str) -> impl FnOnce(io::Error) -> CommandError + use<> {
    let what = what.to_owned();
    move |error| CommandError::new(format!("{what}: {error}"))
}

pub(crate) fn add(cell: &Cell<u64>, count: u64) {
    cell.set(cell.get() + count);
}

/// Runs tasks on this thread until `main` ends; those that still run then are dropped.
///
/// # Errors
/// Without a runtime.
pub(crate) fn run_until<T>(main: impl Future<Output = T>) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed("runtime"))?;
    Ok(LocalSet::new().block_on(&runtime, main))
}

/// Prints where a tool listens: a test may wait for this line through a pipe.
pub(crate) fn print_address(listener: &TcpListener) -> io::Result<()> {
    println!("listening on {}", listener.local_addr()?);
    io::stdout().flush()
}

/// When a sink ends.
#[derive(Debug)]
pub(crate) struct EndCondition {
    /// After so many messages.
    pub(crate) expect: Option<u64>,
    /// So long after them.
    pub(crate) linger: u64,
    /// When none came for so long.
    pub(crate) idle_exit: Option<u64>,
}

/// What arrived at a sink.
#[derive(Debug)]
pub(crate) struct Arrivals {
    end: EndCondition,
    complete: Notify,
    ledger: RefCell<LedgerWriter>,
    pub(crate) connections: Cell<u64>,
    /// Of them, now.
    open: Cell<u64>,
    pub(crate) messages: Cell<u64>,
    pub(crate) recipients: Cell<u64>,
    pub(crate) bytes: Cell<u64>,
    pub(crate) unidentified: Cell<u64>,
    pub(crate) damaged: Cell<u64>,
    pub(crate) refused: Cell<u64>,
    pub(crate) dropped: Cell<u64>,
    first: Cell<Option<Instant>>,
    last: Cell<Instant>,
}

/// A sink of one protocol.
pub(crate) trait SinkTool: 'static {
    fn arrivals(&self) -> &Arrivals;

    /// Whether to break a connection before anything else.
    fn drops_connection(&self) -> bool;

    /// Serves a connection to its end.
    fn serve(&self, stream: TcpStream) -> impl Future<Output = ()>;

    fn print(&self);
}

impl Arrivals {
    /// None yet.
    ///
    /// # Errors
    /// When the ledger can't be written.
    pub(crate) fn new(ledger: Option<&Path>, end: EndCondition) -> io::Result<Arrivals> {
        Ok(Arrivals {
            end,
            complete: Notify::new(),
            ledger: RefCell::new(LedgerWriter::create(ledger)?),
            connections: Cell::new(0),
            open: Cell::new(0),
            messages: Cell::new(0),
            recipients: Cell::new(0),
            bytes: Cell::new(0),
            unidentified: Cell::new(0),
            damaged: Cell::new(0),
            refused: Cell::new(0),
            dropped: Cell::new(0),
            first: Cell::new(None),
            last: Cell::new(Instant::now()),
        })
    }

    /// Counts a message and writes it down. It is acknowledged only after this.
    pub(crate) fn record<R: AsRef<[u8]>>(
        &self,
        id: Option<&[u8]>,
        recipients: impl Iterator<Item = R>,
        (bytes, state): (u64, ArrivalState),
    ) {
        let now = Instant::now();
        self.last.set(now);
        if self.first.get().is_none() {
            self.first.set(Some(now));
        }
        add(&self.messages, 1);
        add(&self.bytes, bytes);
        add(&self.unidentified, u64::from(id.is_none()));
        add(&self.damaged, u64::from(state == ArrivalState::Damaged));
        let mut ledger = self.ledger.borrow_mut();
        for recipient in recipients {
            add(&self.recipients, 1);
            ledger.arrived(id.unwrap_or(b"-"), recipient.as_ref(), state);
        }
    }

    /// Ends the sink if all has come, and the last acknowledgement is out.
    pub(crate) fn end_if_complete(&self) {
        if self.end.expect.is_some_and(|expect| self.messages.get() >= expect) {
            self.complete.notify_one();
        }
    }

    /// Prints the totals: these counts, and groups of others, each with its name and what it begins with in a table.
    pub(crate) fn print(
        &self,
        json: bool,
        counts: &[(&str, &Cell<u64>)],
        groups: &[(&str, &str, BTreeMap<&str, u64>)],
    ) {
        let time = self.first.get().map_or(Duration::ZERO, |first| self.last.get() - first);
        // From the first message to the last: one less than all came in that time.
        let per_second = rate(self.messages.get().saturating_sub(1), time);
        if json {
            let mut value = json!({
                "seconds": time.as_secs_f64(), "messages_per_second": per_second,
            });
            for (name, count) in counts {
                value[*name] = count.get().into();
            }
            for (name, _, group) in groups {
                value[*name] = json!(group);
            }
            println!("{value}");
            return;
        }
        let mut rows = vec![
            ("messages/s".to_owned(), format!("{per_second:.0}")),
            ("seconds".to_owned(), format!("{:.2}", time.as_secs_f64())),
        ];
        rows.extend(counts.iter().map(|(name, n)| (name.replace('_', " "), n.get().to_string())));
        for (_, begin, group) in groups {
            rows.extend(group.iter().map(|(name, n)| (format!("{begin}{name}"), n.to_string())));
        }
        println!("{}", value_table(&rows));
    }

    /// Waits for the end of a sink, and writes the ledger's lines now and then.
    async fn wait(&self) -> io::Result<()> {
        let complete = async {
            self.complete.notified().await;
            tokio::time::sleep(Duration::from_secs(self.end.linger)).await;
            let begun = Instant::now();
            while self.open.get() > 0 && begun.elapsed() < FAREWELL_MAX {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let idle = self.end.idle_exit.map(Duration::from_secs);
        let idle = async {
            loop {
                tokio::time::sleep(TICK).await;
                self.ledger.borrow_mut().flush()?;
                if idle.is_some_and(|idle| self.last.get().elapsed() >= idle) {
                    return Ok(());
                }
            }
        };
        tokio::select! {
            biased;
            () = complete => Ok(()),
            result = idle => result,
        }
    }
}

/// Runs a sink.
pub(crate) fn receive<S: SinkTool>(sink: S, address: &str) -> Outcome {
    let sink = Rc::new(sink);
    run_until(serve(Rc::clone(&sink), address))?.map_err(failed(address))?;
    let arrivals = sink.arrivals();
    arrivals.ledger.borrow_mut().flush().map_err(failed("ledger"))?;
    sink.print();
    let short = arrivals.end.expect.is_some_and(|expect| arrivals.messages.get() < expect);
    Ok(if short { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn serve<S: SinkTool>(sink: Rc<S>, address: &str) -> io::Result<()> {
    let mut stop = Stop::listen()?;
    let listener = listen(resolve(address)?)?;
    print_address(&listener)?;
    let followed = Rc::clone(&sink);
    let progress = Progress::new("received", sink.arrivals().end.expect);
    tokio::task::spawn_local(progress.follow(move || followed.arrivals().messages.get()));
    tokio::task::spawn_local(accept(listener, Rc::clone(&sink)));
    tokio::select! {
        biased;
        () = stop.wait() => Ok(()),
        result = sink.arrivals().wait() => result,
    }
}

async fn accept<S: SinkTool>(listener: TcpListener, sink: Rc<S>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                add(&sink.arrivals().connections, 1);
                if !sink.drops_connection() {
                    let sink = Rc::clone(&sink);
                    tokio::task::spawn_local(async move {
                        let open = &sink.arrivals().open;
                        open.set(open.get() + 1);
                        sink.serve(stream).await;
                        open.set(open.get() - 1);
                    });
                }
            }
            Err(error) => {
                // Too many open files, most likely: some will be closed.
                eprintln!("postrider-lab: accept: {error}");
                tokio::time::sleep(TICK).await;
            }
        }
    }
}

/// Messages between the two sides of a floor.
#[derive(Debug)]
pub(crate) struct Passage<T> {
    held: RefCell<VecDeque<T>>,
    arrived: Notify,
    pub(crate) accepted: Cell<u64>,
    pub(crate) relayed: Cell<u64>,
    /// By the next hop; such messages are dropped.
    pub(crate) refused: Cell<u64>,
    connections: Cell<u64>,
}

impl<T> Default for Passage<T> {
    fn default() -> Passage<T> {
        Passage {
            held: RefCell::default(),
            arrived: Notify::new(),
            accepted: Cell::new(0),
            relayed: Cell::new(0),
            refused: Cell::new(0),
            connections: Cell::new(0),
        }
    }
}

impl<T> Passage<T> {
    pub(crate) fn put(&self, held: T) {
        self.held.borrow_mut().push_back(held);
        self.arrived.notify_one();
    }

    pub(crate) async fn take(&self) -> T {
        loop {
            // The borrow must end before the await.
            let held = self.held.borrow_mut().pop_front();
            match held {
                Some(held) => return held,
                None => self.arrived.notified().await,
            }
        }
    }

    /// Runs a floor that listens at `address` until it is stopped, or `beside` ends.
    ///
    /// # Errors
    /// When it can't listen, and what ends `beside`.
    pub(crate) fn run<S: Future<Output = ()> + 'static>(
        &self,
        address: &str,
        serve: impl Fn(TcpStream) -> S,
        beside: impl Future<Output = io::Result<()>>,
    ) -> Result<(), CommandError> {
        let main = async {
            let mut stop = Stop::listen()?;
            let listener = listen(resolve(address)?)?;
            print_address(&listener)?;
            let accept = async {
                loop {
                    let (stream, _) = listener.accept().await?;
                    add(&self.connections, 1);
                    tokio::task::spawn_local(serve(stream));
                }
            };
            tokio::select! {
                biased;
                () = stop.wait() => Ok(()),
                result = beside => result,
                result = accept => result,
            }
        };
        run_until(main)?.map_err(failed("floor"))
    }

    /// The counts of a floor as JSON, and one that it has beside them.
    pub(crate) fn print(&self, name: &str, count: Option<u64>) {
        let mut value = json!({
            "accepted": self.accepted.get(),
            "relayed": self.relayed.get(),
            "refused_by_next_hop": self.refused.get(),
            "connections": self.connections.get(),
        });
        value[name] = json!(count);
        println!("{value}");
    }
}
