//! The world of a rehearsed session: real tables, DNS, clock and mailboxes; no sockets, and nothing is recorded.

use crate::tables::TracedTables;
use crate::world::LocalSpawn;
use crate::world::clock::Clock;
use crate::world::mailbox_files::MailboxFiles;
use crate::world::resolver::Resolver;
use auth::greylist::{GreylistPolicy, GreylistResult, Triplet};
use lookup::Requester;
use mail::Wall;
use mta::seams::{
    Egress, Encryption, Endpoint, Greylist, Listener, Net, NoDomainReports, NoHashing, NoPolicies,
    Stream, Trust, World,
};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The parts of the world.
pub(super) struct RehearsalParts {
    pub(super) dns: Resolver,
    pub(super) time: Clock,
    pub(super) store: MailboxFiles,
    pub(super) tables: TracedTables,
    pub(super) spawn: LocalSpawn,
}

#[derive(Clone)]
pub(super) struct RehearsalWorld(Rc<RehearsalParts>);

impl RehearsalWorld {
    pub(super) fn new(parts: RehearsalParts) -> RehearsalWorld {
        RehearsalWorld(Rc::new(parts))
    }
}

impl World for RehearsalWorld {
    type Net = NoSockets;
    type Dns = Resolver;
    type Time = Clock;
    type Spawn = LocalSpawn;
    type Store = MailboxFiles;
    type Tables = TracedTables;
    type Hashing = NoHashing;
    type Policies = NoPolicies;
    type DomainReports = NoDomainReports;
    type Greylist = NoGreylist;

    fn net(&self) -> &NoSockets {
        &NoSockets
    }

    fn dns(&self) -> &Resolver {
        &self.0.dns
    }

    fn time(&self) -> &Clock {
        &self.0.time
    }

    fn spawn(&self) -> &LocalSpawn {
        &self.0.spawn
    }

    fn store(&self) -> &MailboxFiles {
        &self.0.store
    }

    fn tables(&self, _: Requester) -> TracedTables {
        self.0.tables.clone()
    }

    fn hashing(&self) -> &NoHashing {
        &NoHashing
    }

    fn policies(&self) -> &NoPolicies {
        &NoPolicies
    }

    fn domain_reports(&self) -> &NoDomainReports {
        &NoDomainReports
    }

    fn greylist(&self) -> &NoGreylist {
        &NoGreylist
    }
}

/// Accepts every triplet: the running server knows which ones have passed.
pub(super) struct NoGreylist;

impl Greylist for NoGreylist {
    fn judge(&self, _: &GreylistPolicy, _: &Triplet<'_>, _: Wall) -> GreylistResult {
        GreylistResult::Known
    }
}

/// Opens no connection.
pub(super) struct NoSockets;

/// A connection or listener that does not exist.
pub(super) enum NoStream {}

fn unsupported() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

impl Net for NoSockets {
    type Listener = NoStream;
    type Accepted = ();
    type Stream = NoStream;

    fn listen(&self, _: SocketAddr) -> io::Result<NoStream> {
        Err(unsupported())
    }

    fn adopt(&self, (): ()) -> io::Result<NoStream> {
        Err(unsupported())
    }

    async fn connect(&self, _: &Endpoint, _: Egress) -> io::Result<NoStream> {
        Err(unsupported())
    }

    async fn encrypt_accepted(&self, stream: NoStream) -> io::Result<(NoStream, Encryption)> {
        match stream {}
    }

    async fn encrypt_connected(
        &self,
        stream: NoStream,
        _: &str,
        _: &Trust,
    ) -> io::Result<(NoStream, Encryption)> {
        match stream {}
    }
}

impl Listener for NoStream {
    type Accepted = ();

    fn local_addr(&self) -> io::Result<SocketAddr> {
        match *self {}
    }

    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<io::Result<((), SocketAddr)>> {
        match *self {}
    }
}

impl Stream for NoStream {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        match *self {}
    }

    fn poll_write(&mut self, _: &mut Context<'_>, _: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match *self {}
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        match *self {}
    }
}
