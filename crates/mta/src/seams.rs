//! The traits through which mail processing accesses its environment: [`Net`], [`Dns`], [`Time`] and [`Spawn`],
//! gathered in a [`World`]. Further services: [`MailStore`] for mailbox files, [`Tables`] for lookup tables,
//! [`Hashing`] for passwords, [`Authenticators`] for login servers, [`KeyFiles`] for signing keys, [`Warmups`] for
//! warm-up counts. (`Disk` belongs to the spool.)
//!
//! The program implements them with sockets, clocks and threads; the simulator with a virtual network and a virtual
//! clock. The code of this crate is generic over them and has no statics, so several nodes can run in one process.

mod authenticators;
mod hashing;
mod mailbox;
mod programs;
mod records;
mod warmup;

pub use crate::clients::Lane;
pub use crate::encryption::{ClientCertificate, DaneTrust, Encryption, HandshakeError, Trust};
pub use auth::greylist::GreylistLedger;
pub use authenticators::{
    Authenticators, Checked, Conversation, Introspection, LoginReply, LoginServer, LoginTerms,
    NoAuthenticators,
};
pub use hashing::{Hashed, Hashing, KeyFiles, NoHashing, NoKeyFiles, Overloaded, ReadKey};
pub use mailbox::{
    Keeping, MailFolder, MailStore, MailboxCheck, MailboxError, MailboxPlace, MailboxQuestion,
    SystemAccount, required_directory,
};
pub use programs::{
    NoPrograms, OUTPUT_BYTES_MAX, ProgramAccount, ProgramCall, ProgramEnd, ProgramFuture, Programs,
    RunningProgram,
};
pub use records::AsRecords;
pub use warmup::{NoTlsReports, NoWarmups, TlsReports, Warmups};

use crate::answer::Answer;
use auth::greylist::{GreylistPolicy, GreylistResult, Triplet};
use auth::tlsa::Tlsa;
use config::{ClientCertificates, Proxy, TableEntry};
use lookup::{Entry, LookupError, LookupErrorKind, Requester};
use mail::{Mono, Wall};
use std::cell::RefCell;
use std::fmt;
use std::future::{Future, ready};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// An implementation of all seams.
pub trait World: Clone + 'static {
    /// Connections.
    type Net: Net;
    type Dns: Dns;
    /// Clocks and random numbers.
    type Time: Time;
    type Spawn: Spawn;
    type Store: MailStore;
    /// Lookup tables.
    type Tables: Tables + Clone;
    type Hashing: Hashing;
    type Policies: Policies;
    type DomainReports: DomainReports;
    type Greylist: Greylist;

    fn net(&self) -> &Self::Net;
    fn dns(&self) -> &Self::Dns;
    fn time(&self) -> &Self::Time;
    /// The task spawner of this shard.
    fn spawn(&self) -> &Self::Spawn;
    fn store(&self) -> &Self::Store;
    /// The lookup tables, for this requester: its lookups take turns with those of other requesters.
    fn tables(&self, requester: Requester) -> Self::Tables;
    /// Password hashing.
    fn hashing(&self) -> &Self::Hashing;
    /// TLS policies of domains (MTA-STS).
    fn policies(&self) -> &Self::Policies;
    /// DMARC aggregate reports.
    fn domain_reports(&self) -> &Self::DomainReports;
    /// TLS reports.
    fn tls_reports(&self) -> &dyn TlsReports {
        &NoTlsReports
    }
    /// The greylist.
    fn greylist(&self) -> &Self::Greylist;
    /// Warm-up counts of sources.
    fn warmups(&self) -> &dyn Warmups {
        &NoWarmups
    }
    /// Signing keys.
    fn key_files(&self) -> &dyn KeyFiles {
        &NoKeyFiles
    }
    /// Programs that take mail.
    fn programs(&self) -> &dyn Programs {
        &NoPrograms
    }
    /// Login servers.
    fn authenticators(&self) -> &dyn Authenticators {
        &NoAuthenticators
    }
}

/// Local end of an outgoing TCP connection; by default, the system chooses the address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// An address of this machine, or of the proxy.
    pub address: Option<IpAddr>,
    /// The proxy that connects for this machine.
    pub proxy: Option<Proxy>,
}

/// The configured source address or proxy is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFailure {
    /// The address is not on this machine.
    AddressMissing(IpAddr),
    /// The proxy is unreachable, or fails to connect.
    ProxyFailed(Proxy, &'static str),
}

impl fmt::Display for SourceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceFailure::AddressMissing(address) => {
                write!(f, "its address {address} is not on this machine")
            }
            SourceFailure::ProxyFailed(proxy, why) => write!(f, "its proxy {proxy} {why}"),
        }
    }
}

impl std::error::Error for SourceFailure {}

/// Target of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Tcp(SocketAddr),
    /// A Unix socket on this machine.
    Unix(Arc<Path>),
}

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalUser {
    pub uid: u32,
    /// By the system's directory of users. A user without an entry has its number as name.
    pub name: String,
}

/// Listening, accepting, connecting.
pub trait Net: 'static {
    /// A bound listening socket.
    type Listener: Listener<Accepted = Self::Accepted>;
    /// An accepted connection that is not assigned to a shard yet.
    type Accepted: Send + 'static;
    /// A connection on this shard.
    type Stream: Stream;

    /// Binds and listens.
    ///
    /// # Errors
    /// Error of the operating system.
    fn listen(&self, address: SocketAddr) -> io::Result<Self::Listener>;

    /// Binds a Unix socket for all users of this machine, and listens. A stale socket of a dead server is replaced.
    ///
    /// # Errors
    /// Error of the operating system; `Unsupported` in worlds without files.
    fn listen_local(&self, _path: &Path) -> io::Result<Self::Listener> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The user at the other end of an accepted Unix socket. `None` if the connection is of another kind.
    ///
    /// # Errors
    /// The directory of users does not answer.
    fn local_user(
        &self,
        _stream: &Self::Stream,
    ) -> impl Future<Output = io::Result<Option<LocalUser>>> {
        std::future::ready(Ok(None))
    }

    /// Assigns an accepted connection to this shard.
    ///
    /// # Errors
    /// Error of the operating system.
    fn adopt(&self, accepted: Self::Accepted) -> io::Result<Self::Stream>;

    /// Opens a connection; for TCP, from the given address and through the given proxy. If one of these failed, the
    /// error contains a [`SourceFailure`].
    fn connect(
        &self,
        to: &Endpoint,
        from: Egress,
    ) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Returns true if there is a server certificate.
    fn can_encrypt(&self) -> bool {
        true
    }

    /// Starts TLS with a client. No TLS octets may have been read.
    ///
    /// # Errors
    /// The handshake failed, and the connection is closed.
    fn encrypt_accepted(
        &self,
        stream: Self::Stream,
    ) -> impl Future<Output = io::Result<(Self::Stream, Encryption)>>;

    /// Like [`Net::encrypt_accepted`], with a request for a client certificate. Returns the certificate, if it meets
    /// the requirements.
    ///
    /// # Errors
    /// As for [`Net::encrypt_accepted`].
    fn encrypt_asking(
        &self,
        stream: Self::Stream,
        _asked: &ClientCertificates,
    ) -> impl Future<Output = io::Result<(Self::Stream, Encryption, Option<ClientCertificate>)>>
    {
        async {
            let (stream, encryption) = self.encrypt_accepted(stream).await?;
            Ok((stream, encryption, None))
        }
    }

    /// The certificate of a client, if it meets the current requirements.
    fn certificate(
        &self,
        _stream: &Self::Stream,
        _asked: &ClientCertificates,
    ) -> Option<ClientCertificate> {
        None
    }

    /// Starts TLS with the host `name` (or address) as the server. No TLS octets may have been read. The server's
    /// certificate must meet `trust`.
    ///
    /// # Errors
    /// The handshake failed, and the connection is closed. The error contains a [`HandshakeError`], if there was one.
    fn encrypt_connected(
        &self,
        stream: Self::Stream,
        name: &str,
        trust: &Trust,
    ) -> impl Future<Output = io::Result<(Self::Stream, Encryption)>>;

    /// Checks the server's certificate of a TLS connection as [`Trust::Roots`] would, for reports only.
    ///
    /// # Errors
    /// The error in the certificate (a [`HandshakeError`]), or the reason why it can't be checked.
    fn examine(&self, _stream: &Self::Stream, _name: &str) -> io::Result<()> {
        Ok(())
    }
}

pub trait Listener: 'static {
    /// See [`Net::Accepted`].
    type Accepted;

    /// The listening address, with the port chosen for port 0; [`config::LOCAL_CLIENT`] for a Unix socket.
    ///
    /// # Errors
    /// Error of the operating system.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The next connection and its peer's address.
    ///
    /// # Errors
    /// Error of the operating system; EMFILE and similar ones are temporary, and the caller continues.
    fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Self::Accepted, SocketAddr)>>;
}

/// A connection. Dropping it closes it.
pub trait Stream: Sized + 'static {
    /// Reads into `buffer`; 0 is the end.
    ///
    /// # Errors
    /// Error of the operating system.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes `pieces` from the first one on.
    ///
    /// # Errors
    /// Error of the operating system.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Like [`Stream::poll_write`], for the last octets: they may be held until the immediately following close, so
    /// that one packet carries both.
    ///
    /// # Errors
    /// Error of the operating system.
    fn poll_write_last(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write(cx, &[IoSlice::new(bytes)])
    }

    /// Ready when there is input, or the end. A stream that does not know is always ready.
    fn poll_readable(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// The local address.
    ///
    /// # Errors
    /// Error of the operating system.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The TLS 1.3 exporter value for channel binding of logins (`tls-exporter`, RFC 9266).
    fn channel_binding(&self) -> Option<[u8; 32]> {
        None
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mx {
    /// Lower is tried first.
    pub preference: u16,
    /// Host name without the final dot, lower case; empty for null MX (RFC 7505).
    pub host: String,
}

/// An answer of the DNS with its DNSSEC status, including all aliases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vouched<T> {
    pub answer: T,
    pub is_secure: bool,
}

/// DNSSEC status of a host (RFC 7672 §2.2.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSecurity {
    /// The target of its aliases (CNAME), if it has any.
    pub alias: Option<String>,
    /// Its addresses are secure, and so are all aliases on the path to them.
    pub is_secure: bool,
    /// At least the first alias is secure.
    pub is_alias_secure: bool,
}

/// The reason for which a lookup has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsError {
    /// The name does not exist (NXDOMAIN).
    NoSuchDomain,
    /// The name exists, the record type does not.
    NoRecords,
    /// SERVFAIL, timeout, …: try again.
    Transient(String),
    /// No query was sent, as there was no descriptor or no memory.
    Lack,
}

impl fmt::Display for DnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DnsError::NoSuchDomain => f.write_str("the domain does not exist"),
            DnsError::NoRecords => f.write_str("no records of this type"),
            DnsError::Transient(text) => f.write_str(text),
            DnsError::Lack => f.write_str("no descriptors or memory for lookups"),
        }
    }
}

pub trait Dns: 'static {
    /// MX records of an ASCII domain, in any order.
    fn mx(&self, domain: &str) -> impl Future<Output = Result<Vec<Mx>, DnsError>>;

    /// Remaining lifetime of the last result for a domain's MX records, by their TTL (RFC 1035 §3.2.1); for their
    /// absence, by the zone's SOA (RFC 2308 §5). Without a known TTL, a short default.
    fn mx_lasts(&self, _domain: &str) -> Duration {
        Duration::from_secs(300)
    }

    /// Drops a domain's MX records, and the addresses of their hosts, from the cache.
    fn forget(&self, _domain: &str) {}

    /// IPv4 and IPv6 addresses of an ASCII host name.
    fn addresses(&self, host: &str) -> impl Future<Output = Result<Vec<IpAddr>, DnsError>>;

    /// The cached answer of [`Dns::mx`], without a query.
    fn mx_at_hand(&self, _domain: &str) -> Option<Result<Vec<Mx>, DnsError>> {
        None
    }

    /// The cached answer of [`Dns::addresses`].
    fn addresses_at_hand(&self, _host: &str) -> Option<Result<Vec<IpAddr>, DnsError>> {
        None
    }

    /// The cached answer of [`Dns::txt`].
    fn txt_at_hand(&self, _name: &str) -> Option<Result<Vec<Vec<u8>>, DnsError>> {
        None
    }

    /// The cached answer of [`Dns::names`].
    fn names_at_hand(&self, _address: IpAddr) -> Option<Result<Vec<String>, DnsError>> {
        None
    }

    /// IPv4 addresses only, as in DNS-based lists (RFC 5782 §2.1).
    fn ipv4_addresses(&self, host: &str) -> impl Future<Output = Result<Vec<Ipv4Addr>, DnsError>> {
        async {
            let of_v4 = |address: IpAddr| match address {
                IpAddr::V4(address) => Some(address),
                IpAddr::V6(_) => None,
            };
            Ok(self.addresses(host).await?.into_iter().filter_map(of_v4).collect())
        }
    }

    /// TXT records of an ASCII name, each with its character strings joined.
    fn txt(&self, _name: &str) -> impl Future<Output = Result<Vec<Vec<u8>>, DnsError>> {
        ready(Err(DnsError::NoRecords))
    }

    /// The names of an address, without the final dot (PTR).
    fn names(&self, _address: IpAddr) -> impl Future<Output = Result<Vec<String>, DnsError>> {
        ready(Err(DnsError::NoRecords))
    }

    /// Like [`Dns::mx`], with the DNSSEC status. A bogus answer is a transient error, here and below. Without DNSSEC no
    /// answer is secure.
    fn vouched_mx(&self, domain: &str) -> impl Future<Output = Result<Vouched<Vec<Mx>>, DnsError>> {
        async { Ok(Vouched { answer: self.mx(domain).await?, is_secure: false }) }
    }

    /// DNSSEC status of an ASCII host name.
    fn host_security(&self, _host: &str) -> impl Future<Output = Result<HostSecurity, DnsError>> {
        async { Ok(HostSecurity::default()) }
    }

    /// TLSA records of a name like `_25._tcp.` and a host.
    fn tlsa(&self, _name: &str) -> impl Future<Output = Result<Vouched<Vec<Tlsa>>, DnsError>> {
        async { Err(DnsError::NoRecords) }
    }
}

/// A request for a domain's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyQuestion<'a> {
    /// In A-labels and lower case.
    pub domain: &'a str,
    /// The id in its TXT record; `None` without a record or an answer.
    pub id: Option<&'a str>,
    /// Addresses that are private or local are not used for the fetch.
    pub public_only: bool,
}

/// The reason why it is unknown, for now, if a domain has a policy: an error of this machine, not of the domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfetched(pub String);

/// TLS policies of domains (MTA-STS, RFC 8461).
pub trait Policies: 'static {
    /// The policy of a domain, from the cache or fetched; without an id, the cached one. `None`: the domain has none,
    /// or the fetch failed and none is cached, which is the same (RFC 8461 §3.3).
    fn mta_sts(
        &self,
        question: PolicyQuestion<'_>,
    ) -> impl Future<Output = Result<Option<Arc<auth::mta_sts::Policy>>, Unfetched>>;
}

/// No domain has a policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPolicies;

impl Policies for NoPolicies {
    async fn mta_sts(
        &self,
        _: PolicyQuestion<'_>,
    ) -> Result<Option<Arc<auth::mta_sts::Policy>>, Unfetched> {
        Ok(None)
    }
}

/// DMARC aggregate reports to domain owners (RFC 7489 §7.2).
pub trait DomainReports: 'static {
    /// Returns true if messages are counted now.
    fn is_on(&self) -> bool;

    /// Counts a message, without waiting.
    fn note(&self, message: auth::dmarc::reporting::ReportedMessage);
}

/// Sends no reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDomainReports;

impl DomainReports for NoDomainReports {
    fn is_on(&self) -> bool {
        false
    }

    fn note(&self, _: auth::dmarc::reporting::ReportedMessage) {}
}

/// The greylist, shared by all shards.
pub trait Greylist: 'static {
    /// Decides about a recipient at once; the change is written later.
    fn judge(&self, rules: &GreylistPolicy, triplet: &Triplet<'_>, now: Wall) -> GreylistResult;
}

/// For a world with one shard; not stored.
impl Greylist for RefCell<GreylistLedger> {
    fn judge(&self, rules: &GreylistPolicy, triplet: &Triplet<'_>, now: Wall) -> GreylistResult {
        self.borrow_mut().judge(rules, triplet, now)
    }
}

/// Clocks and random numbers.
pub trait Time: Clone + 'static {
    /// A timer that can be reset.
    type Sleep: Sleep;

    /// Monotonic time.
    fn now(&self) -> Mono;
    /// Wall-clock time.
    fn wall(&self) -> Wall;
    /// A timer for `at`.
    fn sleep_until(&self, at: Mono) -> Self::Sleep;
    /// A random number; in the simulator from the seed.
    fn random(&self) -> u64;
}

pub trait Sleep: Future<Output = ()> + Unpin {
    /// Moves the timer to `at`.
    fn reset(&mut self, at: Mono);
}

/// A task for a connection, or for a connection slot.
pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Tasks on this shard.
pub trait Spawn: Clone + 'static {
    /// Runs `task` on this shard until it ends or the shard does.
    fn spawn(&self, task: Task);

    /// Runs long work outside the shard's thread; a world without threads runs it at once. `None`: the thread that ran
    /// it has ended.
    fn elsewhere<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + 'static {
        std::future::ready(Some(work()))
    }
}

/// The entry of a key; `None` if the table does not have it.
pub type EntryLookup = Answer<'static, Result<Option<Arc<Entry>>, LookupError>>;

/// Lookup tables, queried as given: preparing keys and combining tables is done by the caller.
pub trait Tables: 'static {
    /// Looks up a key: at once if the table is in memory, else later, with its own deadline.
    fn find(&self, table: &TableEntry, key: &str) -> EntryLookup;

    /// Number of changes of tables in memory.
    fn changes(&self) -> u64 {
        0
    }

    /// The addresses in a file of `directory` or below, joined with commas, at most a few seconds old. `None` if there
    /// is no file. A path out of the directory is an error ([`LookupErrorKind::Key`]), and so is a file that is too
    /// large or no text.
    fn list(&self, _directory: &Path, _file: &Path) -> EntryLookup {
        Answer::Now(Err(LookupError::new(LookupErrorKind::Unreachable, "no files in this world")))
    }
}

/// Has no tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTables;

impl Tables for NoTables {
    fn find(&self, _: &TableEntry, _: &str) -> EntryLookup {
        Answer::Now(Err(LookupError::new(LookupErrorKind::Unreachable, "it is not open")))
    }
}
