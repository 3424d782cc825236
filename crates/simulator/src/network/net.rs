//! The network as the tasks of one process see it: listening and connecting.

use super::connection::{Connection, Pieces, Side};
use super::stream::{ConnectionGuard, SimStream};
use super::{Backlog, Network};
use crate::executor::TaskGroup;
use crate::handshake;
use crate::names::NODE_NAME;
use crate::open_files::{OpenFile, OpenFiles};
use mta::seams::{Egress, Encryption, Endpoint, Listener, Net, Trust};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

/// What all sessions have.
const ENCRYPTION: Encryption = Encryption { version: "TLSv1.3", cipher: "TLS_AES_256_GCM_SHA384" };

/// Connections that nobody has accepted yet; beyond it they are refused.
const BACKLOG_MAX: usize = 128;

/// A connect that is swallowed lasts longer than any timeout.
const SWALLOWED_US: u64 = 3_600_000_000;

/// The network as tasks of one group see it.
#[derive(Clone, Debug)]
pub struct SimNet {
    network: Network,
    group: TaskGroup,
    local: IpAddr,
    /// What connections take of.
    files: Arc<OpenFiles>,
}

/// A connection that was accepted and belongs to no task yet.
#[derive(Debug)]
pub struct SimAccepted(u64, OpenFile);

/// A listening socket.
#[derive(Debug)]
pub struct SimListener {
    network: Network,
    address: SocketAddr,
    group: TaskGroup,
    files: Arc<OpenFiles>,
}

impl Network {
    /// A view of the network for tasks of one group, whose address is `local`.
    #[must_use]
    pub fn attach(&self, group: TaskGroup, local: IpAddr) -> SimNet {
        SimNet { network: self.clone(), group, local, files: OpenFiles::new() }
    }
}

enum Fate {
    Open,
    Refused,
    Swallowed,
}

impl SimNet {
    /// The same for a process that has so many descriptors.
    #[must_use]
    pub fn with_files(self, files: Arc<OpenFiles>) -> SimNet {
        SimNet { files, ..self }
    }

    fn fate(&self, to: IpAddr) -> (Fate, u64, SocketAddr) {
        let state = &mut *self.network.0.state.borrow_mut();
        let faults = state.faults_towards(to);
        let is_tarpit = faults.tarpits && state.tarpits.contains(&to);
        let fate = if is_tarpit || state.random.permille(faults.swallow_permille) {
            Fate::Swallowed
        } else if state.random.permille(faults.refuse_permille) {
            Fate::Refused
        } else {
            Fate::Open
        };
        state.next_port = state.next_port.checked_add(1).unwrap_or(10_000);
        let latency_us = match state.random.below(4) {
            0 => 40 + state.random.below(200),
            1 | 2 => 200 + state.random.below(5_000),
            _ => 5_000 + state.random.below(60_000),
        };
        (fate, latency_us, SocketAddr::new(self.local, state.next_port))
    }

    fn establish(
        &self,
        to: SocketAddr,
        from: SocketAddr,
        latency_us: u64,
        (counted, file): (ConnectionGuard, OpenFile),
    ) -> io::Result<SimStream> {
        let inner = &self.network.0;
        let state = &mut *inner.state.borrow_mut();
        let faults = state.faults_towards(to.ip());
        let backlog = state.listeners.get_mut(&to).ok_or(ErrorKind::ConnectionRefused)?;
        if backlog.waiting.len() >= BACKLOG_MAX {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        let id = state.next;
        state.next += 1;
        backlog.waiting.push_back((id, from));
        if let Some(waker) = backlog.waker.take() {
            waker.wake();
        }
        let random = &mut state.random;
        let resets = random.permille(faults.reset_permille);
        let connection = Connection {
            owners: [self.group, backlog.owner],
            from: from.ip(),
            to,
            carried: Default::default(),
            open: [true, true],
            shut: [false, false],
            pipes: Default::default(),
            reset: false,
            reset_after: resets.then(|| match random.below(3) {
                0 => random.below(300),
                1 => random.below(3_000),
                _ => random.below(200_000),
            }),
            latency_us,
            pieces: match random.below(4) {
                0 => Pieces::Bytes(random.below(400)),
                1 => Pieces::Ragged,
                _ => Pieces::Whole,
            },
            is_well: state.well.contains(&to.ip()),
        };
        state.connections.insert(id, connection);
        inner.trace.note("connect", &[id, u64::from(to.port())], || {
            format!("connection {id} from {from} to {to}")
        });
        let network = self.network.clone();
        Ok(SimStream::new(network, id, (from, Side::Client), Some(counted), file))
    }
}

impl Net for SimNet {
    type Listener = SimListener;
    type Accepted = SimAccepted;
    type Stream = SimStream;

    fn listen(&self, address: SocketAddr) -> io::Result<SimListener> {
        let mut state = self.network.0.state.borrow_mut();
        if state.listeners.contains_key(&address) {
            return Err(ErrorKind::AddrInUse.into());
        }
        let backlog = Backlog { owner: self.group, waiting: VecDeque::new(), waker: None };
        state.listeners.insert(address, backlog);
        drop(state);
        let files = Arc::clone(&self.files);
        Ok(SimListener { network: self.network.clone(), address, group: self.group, files })
    }

    fn adopt(&self, accepted: SimAccepted) -> io::Result<SimStream> {
        let network = self.network.clone();
        let local = SocketAddr::new(self.local, 0);
        let SimAccepted(id, file) = accepted;
        Ok(SimStream::new(network, id, (local, Side::Server), None, file))
    }

    async fn connect(&self, to: &Endpoint, from: Egress) -> io::Result<SimStream> {
        // The simulated machines share a network and no files.
        let &Endpoint::Tcp(to) = to else { return Err(ErrorKind::Unsupported.into()) };
        let file = self.files.open()?;
        let counted = self.network.count(from.address.unwrap_or(self.local), to);
        let (fate, latency_us, mut local) = self.fate(to.ip());
        if let Some(from) = from.address {
            local.set_ip(from);
        }
        let executor = &self.network.0.executor;
        executor.sleep(2 * latency_us).await;
        match fate {
            Fate::Swallowed => {
                executor.sleep(SWALLOWED_US).await;
                Err(ErrorKind::TimedOut.into())
            }
            Fate::Refused => Err(ErrorKind::ConnectionRefused.into()),
            Fate::Open => self.establish(to, local, latency_us, (counted, file)),
        }
    }

    async fn encrypt_accepted(&self, mut stream: SimStream) -> io::Result<(SimStream, Encryption)> {
        handshake::await_hello(&mut stream).await?;
        let names = vec![NODE_NAME.to_owned()];
        let certificate = handshake::Certificate { names, key: 0, is_valid: true };
        handshake::show(&mut stream, &certificate).await?;
        Ok((stream, ENCRYPTION))
    }

    async fn encrypt_connected(
        &self,
        mut stream: SimStream,
        name: &str,
        trust: &Trust,
    ) -> io::Result<(SimStream, Encryption)> {
        let certificate = handshake::ask(&mut stream, name).await?;
        if !certificate.convinces(name, trust) {
            return Err(io::Error::new(ErrorKind::InvalidData, "the certificate is another's"));
        }
        Ok((stream, ENCRYPTION))
    }
}

impl Listener for SimListener {
    type Accepted = SimAccepted;

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(SimAccepted, SocketAddr)>> {
        let mut state = self.network.0.state.borrow_mut();
        let Some(backlog) = state.listeners.get_mut(&self.address) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        let Some(&(id, from)) = backlog.waiting.front() else {
            backlog.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        // Without a descriptor it stays where it is.
        let file = self.files.open()?;
        backlog.waiting.pop_front();
        Poll::Ready(Ok((SimAccepted(id, file), from)))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.network.0.state.borrow_mut();
            // After a crash another listener may stand here already.
            match state.listeners.get(&self.address) {
                Some(backlog) if backlog.owner == self.group => {
                    state.listeners.remove(&self.address).map(|backlog| backlog.waiting)
                }
                _ => None,
            }
        };
        for (id, _) in waiting.into_iter().flatten() {
            self.network.close(id, Side::Server);
        }
    }
}
