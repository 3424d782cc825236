//! The four seams through which the message's way touches the world: [`Net`], [`Dns`], [`Time`]
//! and [`Spawn`], gathered in a [`World`]. (The fifth, `Disk`, belongs to the spool; mailbox files
//! go through [`MailStore`], lookup tables are [`Tables`], passwords are hashed by [`Hashing`],
//! servers that know users are [`Authenticators`], keys that tables name come from [`KeyFiles`], what sources
//! send that warm up is counted by [`Warmups`].)
//!
//! The program implements them with sockets, clocks and threads; the simulator with a virtual
//! network and a virtual clock. Code on this floor is generic over them and holds no statics, so
//! several nodes can live in one process.

mod authenticators;
mod hashing;
mod mailbox;
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
    Keeping, MailFolder, MailboxError, MailboxPlace, SystemAccount, required_directory,
};
pub use records::AsRecords;
pub use warmup::{NoTlsReports, NoWarmups, TlsReports, Warmups};

use crate::answer::Answer;
use auth::greylist::{GreylistPolicy, GreylistResult, Triplet};
use auth::tlsa::Tlsa;
use bytes::Bytes;
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

/// One implementation of every seam.
pub trait World: Clone + 'static {
    /// Connections.
    type Net: Net;
    type Dns: Dns;
    /// Clocks and chance.
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
    /// The lookup tables.
    fn tables(&self) -> &Self::Tables;
    /// Who hashes passwords.
    fn hashing(&self) -> &Self::Hashing;
    /// What domains promise of TLS.
    fn policies(&self) -> &Self::Policies;
    /// Who tells owners of domains of mail in their name.
    fn domain_reports(&self) -> &Self::DomainReports;
    /// Who tells owners of domains of TLS to their hosts.
    fn tls_reports(&self) -> &dyn TlsReports {
        &NoTlsReports
    }
    /// What is known of strangers who came before.
    fn greylist(&self) -> &Self::Greylist;
    /// Who counts what sources send that warm up.
    fn warmups(&self) -> &dyn Warmups {
        &NoWarmups
    }
    /// Who reads keys that sign.
    fn key_files(&self) -> &dyn KeyFiles {
        &NoKeyFiles
    }
    /// Servers that know users.
    fn authenticators(&self) -> &dyn Authenticators {
        &NoAuthenticators
    }
}

/// From where a connection over TCP is opened; by default from whatever address the machine takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// An address of this machine, or of the proxy's.
    pub address: Option<IpAddr>,
    /// Who connects in this machine's place.
    pub proxy: Option<Proxy>,
}

/// What a connection was to be opened from is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFailure {
    /// The address is none of this machine's.
    AddressMissing(IpAddr),
    /// The proxy is not there, or does not do what it is for.
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

/// Where a connection leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Tcp(SocketAddr),
    /// A Unix socket on this machine.
    Unix(Arc<Path>),
}

/// Listening, accepting, connecting.
pub trait Net: 'static {
    /// A bound listening socket.
    type Listener: Listener<Accepted = Self::Accepted>;
    /// A connection that was accepted and belongs to no shard yet.
    type Accepted: Send + 'static;
    /// A connection of this shard.
    type Stream: Stream;

    /// Binds and listens.
    ///
    /// # Errors
    /// As the operating system says.
    fn listen(&self, address: SocketAddr) -> io::Result<Self::Listener>;

    /// Takes an accepted connection onto this shard.
    ///
    /// # Errors
    /// As the operating system says.
    fn adopt(&self, accepted: Self::Accepted) -> io::Result<Self::Stream>;

    /// Opens a connection, over TCP from the address and through the proxy that are given. A [`SourceFailure`]
    /// is inside the error where that is what failed.
    fn connect(
        &self,
        to: &Endpoint,
        from: Egress,
    ) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Whether there is a certificate now to show to clients.
    fn can_encrypt(&self) -> bool {
        true
    }

    /// Has a client encrypt the connection, on which nothing was read that belongs to that.
    ///
    /// # Errors
    /// What went wrong with the handshake; the connection is gone then.
    fn encrypt_accepted(
        &self,
        stream: Self::Stream,
    ) -> impl Future<Output = io::Result<(Self::Stream, Encryption)>>;

    /// As [`Net::encrypt_accepted`], with a certificate asked of the client: the one that it has shown, if
    /// that counts.
    ///
    /// # Errors
    /// The same.
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

    /// The certificate that a client has shown, if it counts by what is asked for now.
    fn certificate(
        &self,
        _stream: &Self::Stream,
        _asked: &ClientCertificates,
    ) -> Option<ClientCertificate> {
        None
    }

    /// Encrypts the connection to the host `name` (or address), on which nothing was read that belongs
    /// to that. Its certificate must be one that is to be trusted.
    ///
    /// # Errors
    /// What went wrong with the handshake; the connection is gone then. A [`HandshakeError`] is inside,
    /// where there was one.
    fn encrypt_connected(
        &self,
        stream: Self::Stream,
        name: &str,
        trust: &Trust,
    ) -> impl Future<Output = io::Result<(Self::Stream, Encryption)>>;

    /// Looks at the certificate that the peer of an encrypted connection has shown as [`Trust::Roots`]
    /// would, for reports: nothing becomes of it.
    ///
    /// # Errors
    /// What is wrong with it (a [`HandshakeError`]), or why that can't be said.
    fn examine(&self, _stream: &Self::Stream, _name: &str) -> io::Result<()> {
        Ok(())
    }
}

pub trait Listener: 'static {
    /// See [`Net::Accepted`].
    type Accepted;

    /// Where it listens; tells the port that was chosen for port 0.
    ///
    /// # Errors
    /// As the operating system says.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The next connection and its peer's address.
    ///
    /// # Errors
    /// As the operating system says; EMFILE and its kin pass, and the caller goes on.
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
    /// As the operating system says.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes from the first of `pieces` on.
    ///
    /// # Errors
    /// As the operating system says.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// As [`Stream::poll_write`], for what is written last: it may wait until the stream is closed,
    /// which is at once, so that one packet carries both.
    ///
    /// # Errors
    /// As the operating system says.
    fn poll_write_last(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write(cx, &[IoSlice::new(bytes)])
    }

    /// Ready when something has come that can be read, or the end. A stream that can't know is always ready.
    fn poll_readable(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// The address at this end.
    ///
    /// # Errors
    /// As the operating system says.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// What TLS 1.3 exports for those who bind a login to the connection (`tls-exporter`, RFC 9266).
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

/// An answer of the DNS, and whether DNSSEC vouches for it, however many aliases led there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vouched<T> {
    pub answer: T,
    pub is_secure: bool,
}

/// What DNSSEC says of a host (RFC 7672 §2.2.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSecurity {
    /// Where its aliases (CNAME) lead, if it has any.
    pub alias: Option<String>,
    /// Its addresses are vouched for, and all aliases on the way to them.
    pub is_secure: bool,
    /// The first alias is vouched for, at least.
    pub is_alias_secure: bool,
}

/// What the DNS said instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsError {
    /// The name does not exist (NXDOMAIN).
    NoSuchDomain,
    /// The name exists, the record type does not.
    NoRecords,
    /// SERVFAIL, timeout, …: try again.
    Transient(String),
    /// There was no descriptor or no memory to ask with: nobody was asked.
    Lack,
}

impl fmt::Display for DnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DnsError::NoSuchDomain => f.write_str("the domain does not exist"),
            DnsError::NoRecords => f.write_str("there are no such records"),
            DnsError::Transient(text) => f.write_str(text),
            DnsError::Lack => f.write_str("nothing is left to ask with"),
        }
    }
}

pub trait Dns: 'static {
    /// MX records of an ASCII domain, in any order.
    fn mx(&self, domain: &str) -> impl Future<Output = Result<Vec<Mx>, DnsError>>;

    /// How long what was last found out of a domain's MX records still counts, by their TTL (RFC 1035 §3.2.1); that
    /// there are none, as the zone says (RFC 2308 §5). A world that does not know has it asked again soon.
    fn mx_lasts(&self, _domain: &str) -> Duration {
        Duration::from_secs(300)
    }

    /// Has a domain's MX records, and the addresses of their hosts, asked for the next time, whatever is remembered.
    fn forget(&self, _domain: &str) {}

    /// IPv4 and IPv6 addresses of an ASCII host name.
    fn addresses(&self, host: &str) -> impl Future<Output = Result<Vec<IpAddr>, DnsError>>;

    /// What [`Dns::mx`] would answer without asking anybody, because it is remembered.
    fn mx_at_hand(&self, _domain: &str) -> Option<Result<Vec<Mx>, DnsError>> {
        None
    }

    /// The same of [`Dns::addresses`].
    fn addresses_at_hand(&self, _host: &str) -> Option<Result<Vec<IpAddr>, DnsError>> {
        None
    }

    /// The same of [`Dns::txt`].
    fn txt_at_hand(&self, _name: &str) -> Option<Result<Vec<Vec<u8>>, DnsError>> {
        None
    }

    /// The same of [`Dns::names`].
    fn names_at_hand(&self, _address: IpAddr) -> Option<Result<Vec<String>, DnsError>> {
        None
    }

    /// IPv4 addresses alone, as lists in the DNS have them (RFC 5782 §2.1).
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

    /// As [`Dns::mx`], and whether DNSSEC vouches for it. An answer that it shows to be false is
    /// transient trouble, here and below. A world without DNSSEC vouches for nothing.
    fn vouched_mx(&self, domain: &str) -> impl Future<Output = Result<Vouched<Vec<Mx>>, DnsError>> {
        async { Ok(Vouched { answer: self.mx(domain).await?, is_secure: false }) }
    }

    /// What DNSSEC says of an ASCII host name.
    fn host_security(&self, _host: &str) -> impl Future<Output = Result<HostSecurity, DnsError>> {
        async { Ok(HostSecurity::default()) }
    }

    /// TLSA records of a name, `_25._tcp` and its like before that of a host.
    fn tlsa(&self, _name: &str) -> impl Future<Output = Result<Vouched<Vec<Tlsa>>, DnsError>> {
        async { Err(DnsError::NoRecords) }
    }
}

/// What is asked of a domain's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyQuestion<'a> {
    /// In A-labels and lower case.
    pub domain: &'a str,
    /// As its TXT record has it; `None`: there is no record, or no answer.
    pub id: Option<&'a str>,
    /// It is not fetched from addresses that are private or this machine's own.
    pub public_only: bool,
}

/// Why it is not known, for now, whether a domain has a policy: not the domain's doing, but this
/// machine's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfetched(pub String);

/// What domains promise of TLS to their hosts (MTA-STS, RFC 8461).
pub trait Policies: 'static {
    /// The policy of a domain, from the cache or fetched; without an id, what is cached. `None`: there
    /// is none, or it can't be had from the domain and none is cached, which is the same (RFC 8461 §3.3).
    fn mta_sts(
        &self,
        question: PolicyQuestion<'_>,
    ) -> impl Future<Output = Result<Option<Arc<auth::mta_sts::Policy>>, Unfetched>>;
}

/// A world in which no domain promises anything.
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

/// Who tells owners of domains of mail in their name (RFC 7489 §7.2).
pub trait DomainReports: 'static {
    /// Whether messages are counted now.
    fn is_on(&self) -> bool;

    /// Counts a message. Nobody waits for that.
    fn note(&self, message: auth::dmarc::reporting::ReportedMessage);
}

/// A world in which nobody is told anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDomainReports;

impl DomainReports for NoDomainReports {
    fn is_on(&self) -> bool {
        false
    }

    fn note(&self, _: auth::dmarc::reporting::ReportedMessage) {}
}

/// What all shards know of strangers who came before.
pub trait Greylist: 'static {
    /// What becomes of a recipient; at once, and written down later.
    fn judge(&self, rules: &GreylistPolicy, triplet: &Triplet<'_>, now: Wall) -> GreylistResult;
}

/// Of a world with one shard, which forgets all at its end.
impl Greylist for RefCell<GreylistLedger> {
    fn judge(&self, rules: &GreylistPolicy, triplet: &Triplet<'_>, now: Wall) -> GreylistResult {
        self.borrow_mut().judge(rules, triplet, now)
    }
}

/// Clocks and chance.
pub trait Time: Clone + 'static {
    /// Ends at its moment, and can be moved.
    type Sleep: Sleep;

    /// Monotonic time.
    fn now(&self) -> Mono;
    /// Wall-clock time.
    fn wall(&self) -> Wall;
    /// Ends at `at`.
    fn sleep_until(&self, at: Mono) -> Self::Sleep;
    /// A random number; in the simulator from the seed.
    fn random(&self) -> u64;
}

pub trait Sleep: Future<Output = ()> + Unpin {
    /// Moves the end to `at`.
    fn reset(&mut self, at: Mono);
}

/// What runs until a connection, or a slot for one, has nothing more to do.
pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Tasks on this shard.
pub trait Spawn: Clone + 'static {
    /// Runs `task` on this shard until it ends or the shard does.
    fn spawn(&self, task: Task);

    /// Does what takes long, where no shard stands still for it; a world without threads does it at once. `None`: the
    /// thread that did it has ended.
    fn elsewhere<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + 'static {
        std::future::ready(Some(work()))
    }
}

/// Where mailbox files are written.
pub trait MailStore: 'static {
    /// Writes `pieces` as the new message `name` of a mailbox (made if missing): into tmp, synced,
    /// then into new, and the directory synced. The pieces have CRLF at line ends, the file what
    /// this system's files have.
    fn deliver(
        &self,
        place: MailboxPlace,
        name: String,
        pieces: Vec<Bytes>,
    ) -> impl Future<Output = Result<(), MailboxError>>;

    /// As [`MailStore::deliver`], the first of three steps for content that does not fit into
    /// memory: opens a file in tmp and gives its handle.
    fn begin(
        &self,
        place: MailboxPlace,
        name: String,
    ) -> impl Future<Output = Result<u64, MailboxError>>;

    /// Appends to a file that [`MailStore::begin`] opened.
    fn append(&self, file: u64, piece: Bytes) -> impl Future<Output = Result<(), MailboxError>>;

    /// Syncs it and moves it to new (`keep`), or removes it.
    fn finish(&self, file: u64, keep: bool) -> impl Future<Output = Result<(), MailboxError>>;
}

/// What a table said of a key; `None`: it does not have it.
pub type EntryLookup = Answer<'static, Result<Option<Arc<Entry>>, LookupError>>;

/// Lookup tables, each as it is told: what is made of a key before, and of which others a table is
/// made, is none of their business.
pub trait Tables: 'static {
    /// What the table says of a key: at once if that is at hand, else later, with a deadline of its
    /// own.
    fn find(&self, table: &TableEntry, key: &str) -> EntryLookup;

    /// The same tables, asked for somebody: in his turn, where others ask as well.
    #[must_use]
    fn asked_for(&self, _asker: Requester) -> Self
    where
        Self: Clone,
    {
        self.clone()
    }

    /// Counts the changes of tables that this process has at hand.
    fn changes(&self) -> u64 {
        0
    }

    /// The addresses in a file of `directory` or of one below it, with commas between them, as fresh as
    /// a few seconds; `None`: there is no such file. What leads out of the directory is trouble
    /// ([`LookupErrorKind::Key`]), as is what is too large or no text.
    fn list(&self, _directory: &Path, _file: &Path) -> EntryLookup {
        Answer::Now(Err(LookupError::new(LookupErrorKind::Unreachable, "there are no files here")))
    }
}

/// A world without tables: none gives an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTables;

impl Tables for NoTables {
    fn find(&self, _: &TableEntry, _: &str) -> EntryLookup {
        Answer::Now(Err(LookupError::new(LookupErrorKind::Unreachable, "it is not open")))
    }
}
