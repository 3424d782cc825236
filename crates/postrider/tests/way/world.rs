//! A world for one shard: tokio's paused clock, pipes for connections, names in a table, mailboxes in
//! memory. Time passes when nobody has anything to do.

mod authenticators;
mod dns;
mod hashing;
mod tasks;

use super::mailbox_store::Mailboxes;
use super::time::TestTime;
use authenticators::TestAuthenticators;
use config::{ClientCertificates, TableEntry};
use dns::TestDns;
use hashing::HashingHere;
use lookup::{Entry, LookupError, Requester};
use mta::answer::Answer;
use mta::ingress::StageKind;
use mta::seams::{
    Authenticators, ClientCertificate, DnsError, Egress, Encryption, Endpoint, EntryLookup,
    GreylistLedger, Listener, MailboxPlace, Mx, Net, NoDomainReports, NoPolicies, Stream, Tables,
    Trust, Warmups, World,
};
use mta::warmup;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tasks::LocalTasks;
use tokio::io::{
    AsyncRead as _, AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _, DuplexStream, ReadBuf,
};

/// This machine's address.
pub(crate) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 250));

/// What stands for a handshake with a host, and for its end.
const HANDSHAKE: &[u8] = b"(handshake)\r\n";
const HANDSHAKE_DONE: &[u8; 9] = b"(agreed)\n";

/// Bytes that a connection holds before a write has to wait.
const PIPE_BYTES: usize = 1 << 20;

/// Serves one connection of a next hop.
type Serve = Rc<dyn Fn(DuplexStream)>;

/// One shard's world; clones are the same.
#[derive(Clone)]
pub(crate) struct TestWorld(Rc<Seams>);

struct Seams {
    net: TestNet,
    dns: TestDns,
    time: TestTime,
    spawn: LocalTasks,
    store: Mailboxes,
    tables: TestTables,
    greylist: RefCell<GreylistLedger>,
    warmups: RefCell<warmup::WarmupLedger>,
    hashing: HashingHere,
    authenticators: TestAuthenticators,
    stages: RefCell<Vec<Rc<dyn StageKind<TestWorld>>>>,
}

impl TestWorld {
    pub(crate) fn new() -> TestWorld {
        TestWorld(Rc::new(Seams {
            net: TestNet::default(),
            dns: TestDns::default(),
            time: TestTime::new(),
            spawn: LocalTasks::default(),
            store: Mailboxes::default(),
            tables: TestTables::default(),
            greylist: RefCell::default(),
            warmups: RefCell::default(),
            hashing: HashingHere::default(),
            authenticators: TestAuthenticators::default(),
            stages: RefCell::default(),
        }))
    }

    /// Nodes that start from now on have this stage.
    pub(crate) fn add_stage(&self, kind: impl StageKind<TestWorld>) {
        self.0.stages.borrow_mut().push(Rc::new(kind));
    }

    /// The stages of nodes.
    pub(crate) fn stages(&self) -> Vec<Rc<dyn StageKind<TestWorld>>> {
        self.0.stages.borrow().clone()
    }

    /// Has `serve` take the connections to an address.
    pub(crate) fn serve(&self, address: SocketAddr, serve: impl Fn(DuplexStream) + 'static) {
        self.0.net.peers.borrow_mut().insert(address, Rc::new(serve));
    }

    /// Nobody listens there any more.
    pub(crate) fn unserve(&self, address: SocketAddr) {
        self.0.net.peers.borrow_mut().remove(&address);
    }

    /// Connections that were asked for, to whomever.
    pub(crate) fn connects(&self) -> usize {
        self.0.net.connects.get()
    }

    /// The wall clock is set back by so many seconds.
    pub(crate) fn set_clock_back(&self, seconds: u64) {
        self.0.time.set_back(seconds);
    }

    /// What handshakes with hosts come to from now on.
    pub(crate) fn set_handshake_error(&self, error: Option<ErrorKind>) {
        self.0.net.handshake_error.set(error);
    }

    /// Handshakes with hosts are played from now on: a line, and what the host says to it.
    pub(crate) fn speak_tls(&self) {
        self.0.net.speaks_tls.set(true);
    }

    /// The certificate that clients show from now on, if they are asked for one.
    pub(crate) fn set_certificate(&self, certificate: Option<ClientCertificate>) {
        *self.0.net.certificate.borrow_mut() = certificate;
    }

    /// What MX says of a domain.
    pub(crate) fn set_mx(&self, domain: &str, answer: Result<Vec<Mx>, DnsError>) {
        self.0.dns.mx.borrow_mut().insert(domain.to_owned(), answer);
    }

    /// MX records count for so long from now on, and are remembered as long.
    pub(crate) fn set_mx_lasts(&self, lasts: Duration) {
        self.0.dns.lasts.set(Some(lasts));
    }

    /// Where a host is.
    pub(crate) fn set_addresses(&self, host: &str, answer: Result<Vec<IpAddr>, DnsError>) {
        self.0.dns.addresses.borrow_mut().insert(host.to_owned(), answer);
    }

    /// What an address is called; `None`: nobody answers.
    pub(crate) fn set_names(&self, address: IpAddr, answer: Option<Result<Vec<String>, DnsError>>) {
        self.0.dns.names.borrow_mut().insert(address, answer);
    }

    /// What TXT says of a name.
    pub(crate) fn set_txt(&self, name: &str, text: &[u8]) {
        self.0.dns.texts.borrow_mut().insert(name.to_owned(), text.to_vec());
    }

    /// What TXT says of a name is remembered, or no longer.
    pub(crate) fn set_at_hand(&self, name: &str, is_at_hand: bool) {
        let mut at_hand = self.0.dns.texts_at_hand.borrow_mut();
        if is_at_hand {
            at_hand.insert(name.to_owned());
        } else {
            at_hand.remove(name);
        }
    }

    /// Nobody answers questions about this name.
    pub(crate) fn set_silent(&self, name: &str) {
        self.0.dns.silent.borrow_mut().insert(name.to_owned());
    }

    /// Questions about names below this zone are given up after ten seconds, as a resolver does.
    pub(crate) fn set_unanswered(&self, zone: &str) {
        self.0.dns.unanswered.borrow_mut().insert(format!(".{zone}"));
    }

    /// Answers about names below this zone take so long.
    pub(crate) fn set_slow(&self, zone: &str, takes: Duration) {
        self.0.dns.slow.borrow_mut().insert(format!(".{zone}"), takes);
    }

    /// All answers are remembered from now on.
    /// Next hops leave no more than so many octets unread.
    pub(crate) fn set_pipe_bytes(&self, max: usize) {
        self.0.net.pipe_bytes.set(Some(max));
    }

    pub(crate) fn keep_at_hand(&self) {
        self.0.dns.is_at_hand.set(true);
    }

    /// Names that were asked for, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.dns.asked.borrow().clone()
    }

    /// What a table says of a key.
    pub(crate) fn set_entry(&self, table: &str, key: &str, answer: Result<&str, LookupError>) {
        let answer = answer.map(|text| Arc::new(Entry::text(text)));
        let key = (table.to_owned(), key.to_owned());
        self.0.tables.scripted.entries.borrow_mut().insert(key, answer);
    }

    /// The same with named values.
    pub(crate) fn set_values(&self, table: &str, key: &str, values: &[(&str, &[&str])]) {
        let values = values.iter().map(|(name, values)| {
            (Box::from(*name), values.iter().map(|value| Box::from(*value)).collect())
        });
        let entry = Arc::new(Entry::fields(values.collect::<Vec<_>>()));
        let key = (table.to_owned(), key.to_owned());
        self.0.tables.scripted.entries.borrow_mut().insert(key, Ok(entry));
    }

    /// Each table that was asked, with the requesters.
    pub(crate) fn requesters(&self) -> BTreeSet<(String, Requester)> {
        self.0.tables.scripted.requesters.borrow().clone()
    }

    /// How many questions tables were asked so far.
    pub(crate) fn table_questions(&self) -> usize {
        self.0.tables.scripted.asked.get()
    }

    /// A table no longer has a key.
    pub(crate) fn remove_entry(&self, table: &str, key: &str) {
        let key = (table.to_owned(), key.to_owned());
        self.0.tables.scripted.entries.borrow_mut().remove(&key);
    }

    /// What sources have come to that warm up.
    pub(crate) fn warmup_book(&self) -> &RefCell<warmup::WarmupLedger> {
        &self.0.warmups
    }

    /// Tables answer after so long from now on.
    pub(crate) fn set_table_delay(&self, delay: Option<Duration>) {
        self.0.tables.scripted.delay.set(delay);
    }

    /// From now on handshakes with clients wait for a line of theirs.
    pub(crate) fn wait_for_hello(&self) {
        self.0.net.waits_for_hello.set(true);
    }

    /// Conversions that no shard makes itself stand still from now on, or go on.
    pub(crate) fn set_long_work_stands(&self, stands: bool) {
        self.0.spawn.set_long_work_stands(stands);
    }

    /// How many of them were made.
    pub(crate) fn long_work_done(&self) -> usize {
        self.0.spawn.long_work_done()
    }

    /// Messages in the mailboxes, by directory and in order.
    pub(crate) fn mailboxes(&self) -> BTreeMap<PathBuf, Vec<String>> {
        self.0.store.messages.borrow().clone()
    }

    /// The last mailbox that was written to.
    pub(crate) fn last_mailbox(&self) -> Option<MailboxPlace> {
        self.0.store.last.borrow().clone()
    }

    /// Every write of a mailbox fails like this from now on, or no more.
    pub(crate) fn set_mailbox_failure(&self, failure: Option<ErrorKind>) {
        self.0.store.failure.set(failure);
    }

    /// Each write of a mailbox takes so long from now on.
    pub(crate) fn set_mailbox_delay(&self, delay: Duration) {
        self.0.store.delay.set(delay);
    }
}

impl World for TestWorld {
    type Net = TestNet;
    type Dns = TestDns;
    type Time = TestTime;
    type Spawn = LocalTasks;
    type Store = Mailboxes;
    type Tables = TestTables;
    type Hashing = HashingHere;
    type Policies = NoPolicies;
    type DomainReports = NoDomainReports;
    type Greylist = RefCell<GreylistLedger>;

    fn net(&self) -> &TestNet {
        &self.0.net
    }
    fn dns(&self) -> &TestDns {
        &self.0.dns
    }
    fn time(&self) -> &TestTime {
        &self.0.time
    }
    fn spawn(&self) -> &LocalTasks {
        &self.0.spawn
    }
    fn store(&self) -> &Mailboxes {
        &self.0.store
    }
    fn tables(&self, requester: Requester) -> TestTables {
        TestTables { requester, ..self.0.tables.clone() }
    }

    fn hashing(&self) -> &HashingHere {
        &self.0.hashing
    }

    fn policies(&self) -> &NoPolicies {
        &NoPolicies
    }

    fn domain_reports(&self) -> &NoDomainReports {
        &NoDomainReports
    }

    fn greylist(&self) -> &RefCell<GreylistLedger> {
        &self.0.greylist
    }

    fn warmups(&self) -> &dyn Warmups {
        &self.0.warmups
    }

    fn authenticators(&self) -> &dyn Authenticators {
        &self.0.authenticators
    }
}

/// Connections by pipes.
#[derive(Default)]
pub(crate) struct TestNet {
    peers: RefCell<BTreeMap<SocketAddr, Serve>>,
    connects: Cell<usize>,
    /// What clients show.
    certificate: RefCell<Option<ClientCertificate>>,
    /// Clients say something, in a line, before they are encrypted.
    waits_for_hello: Cell<bool>,
    /// Octets that a next hop has not read at most, if not as many as usual.
    pipe_bytes: Cell<Option<usize>>,
    /// What handshakes with hosts come to.
    handshake_error: Cell<Option<ErrorKind>>,
    /// Handshakes with hosts are played, in clear.
    speaks_tls: Cell<bool>,
}

impl Net for TestNet {
    type Listener = Nobody;
    type Accepted = DuplexStream;
    type Stream = Pipe;

    fn listen(&self, _address: SocketAddr) -> io::Result<Nobody> {
        Ok(Nobody)
    }

    fn adopt(&self, accepted: DuplexStream) -> io::Result<Pipe> {
        Ok(Pipe(accepted))
    }

    async fn connect(&self, to: &Endpoint, _: Egress) -> io::Result<Pipe> {
        self.connects.set(self.connects.get() + 1);
        let Endpoint::Tcp(to) = to else { return Err(ErrorKind::Unsupported.into()) };
        let serve = self.peers.borrow().get(to).cloned();
        let Some(serve) = serve else { return Err(ErrorKind::ConnectionRefused.into()) };
        let (ours, theirs) = tokio::io::duplex(self.pipe_bytes.get().unwrap_or(PIPE_BYTES));
        serve(theirs);
        Ok(Pipe(ours))
    }

    /// In name only: nobody listens here.
    async fn encrypt_accepted(&self, mut pipe: Pipe) -> io::Result<(Pipe, Encryption)> {
        // A handshake takes as long as the client likes.
        while self.waits_for_hello.get() && pipe.0.read_u8().await? != b'\n' {}
        Ok((pipe, Encryption { version: "TLSv1.3", cipher: "TLS_AES_256_GCM_SHA384" }))
    }

    async fn encrypt_asking(
        &self,
        pipe: Pipe,
        _: &ClientCertificates,
    ) -> io::Result<(Pipe, Encryption, Option<ClientCertificate>)> {
        let (pipe, encryption) = self.encrypt_accepted(pipe).await?;
        Ok((pipe, encryption, self.certificate.borrow().clone()))
    }

    fn certificate(&self, _: &Pipe, _: &ClientCertificates) -> Option<ClientCertificate> {
        self.certificate.borrow().clone()
    }

    async fn encrypt_connected(
        &self,
        mut pipe: Pipe,
        _: &str,
        _: &Trust,
    ) -> io::Result<(Pipe, Encryption)> {
        if let Some(error) = self.handshake_error.get() {
            return Err(error.into());
        }
        if !self.speaks_tls.get() {
            return Err(ErrorKind::Unsupported.into());
        }
        pipe.0.write_all(HANDSHAKE).await?;
        let mut said = [0; HANDSHAKE_DONE.len()];
        pipe.0.read_exact(&mut said).await?;
        match said == *HANDSHAKE_DONE {
            true => Ok((pipe, Encryption { version: "TLSv1.3", cipher: "TLS_AES_256_GCM_SHA384" })),
            false => Err(ErrorKind::InvalidData.into()),
        }
    }
}

/// Clients are handed to the shard directly.
pub(crate) struct Nobody;

impl Listener for Nobody {
    type Accepted = DuplexStream;

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::new(HERE, 25))
    }

    fn poll_accept(
        &mut self,
        _cx: &mut Context<'_>,
    ) -> Poll<io::Result<(DuplexStream, SocketAddr)>> {
        Poll::Pending
    }
}

/// One side of a connection.
pub(crate) struct Pipe(DuplexStream);

impl Stream for Pipe {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let piece = pieces.iter().find(|piece| !piece.is_empty());
        Pin::new(&mut self.0).poll_write(cx, piece.map_or(&[], |piece| piece))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::new(HERE, 25))
    }
}

/// What a table says of a key that it has.
type Said = Result<Arc<Entry>, LookupError>;

/// In the place of a table: files of addresses, by their paths.
pub(crate) const LISTS: &str = "(lists)";

/// Tables that say what a test has set; of other keys, that they have none.
#[derive(Clone, Default)]
pub(crate) struct TestTables {
    scripted: Rc<Scripted>,
    requester: Requester,
}

#[derive(Default)]
struct Scripted {
    /// By table and key.
    entries: RefCell<BTreeMap<(String, String), Said>>,
    delay: Cell<Option<Duration>>,
    asked: Cell<usize>,
    /// Each table that was asked, with the requester.
    requesters: RefCell<BTreeSet<(String, Requester)>>,
}

impl Tables for TestTables {
    fn find(&self, table: &TableEntry, key: &str) -> EntryLookup {
        self.answer(&table.name, key)
    }

    fn list(&self, _directory: &Path, file: &Path) -> EntryLookup {
        self.answer(LISTS, &file.display().to_string())
    }
}

impl TestTables {
    fn answer(&self, table: &str, key: &str) -> EntryLookup {
        let scripted = &self.scripted;
        scripted.asked.set(scripted.asked.get() + 1);
        scripted.requesters.borrow_mut().insert((table.to_owned(), self.requester));
        let entries = scripted.entries.borrow();
        let answer = match entries.get(&(table.to_owned(), key.to_owned())) {
            Some(answer) => answer.clone().map(Some),
            None => Ok(None),
        };
        match scripted.delay.get() {
            None => Answer::Now(answer),
            Some(delay) => Answer::later(async move {
                tokio::time::sleep(delay).await;
                answer
            }),
        }
    }
}
