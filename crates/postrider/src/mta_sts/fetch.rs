//! Fetching a policy (RFC 8461 §3.3).

use crate::https::{self, candidates, driven};
use crate::limited_work::finished;
use crate::mutex::lock;
use crate::peer_tls;
use crate::world::resolver::Resolver;
use auth::mta_sts::{self, POLICY_BYTES_MAX, Policy, PolicyError};
use auth::tls_report::ResultType;
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use mta::clients::network_of;
use mta::lack;
use mta::seams::{Dns as _, DnsError};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// All of it, from the first question to the DNS to the last octet. A domain without an answer by then is
/// one without a policy (RFC 8461 §3.3), and mail waits no longer for it.
const TIME_MAX: Duration = Duration::from_secs(15);

/// What an address of the policy's host has of that: for the connection, and for all that follows.
const CONNECT_MAX: Duration = Duration::from_secs(4);
const EXCHANGE_MAX: Duration = Duration::from_secs(10);

/// An address that says nothing at all is not asked again for so long, whatever the domain. One that has
/// shown a certificate is not meant: others may have their policies there.
const SILENT_FOR: Duration = Duration::from_secs(300);
/// Addresses, or IPv6 /64s, that are remembered for that.
const SILENT_MAX: usize = 4_096;

const PORT: u16 = 443;

/// Whatever keeps a policy away that is not wrong with the policy itself, or with the certificate of who has it.
const FETCH: ResultType = ResultType::StsPolicyFetchError;

/// Why there is no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FetchError {
    /// This machine has no descriptors, no memory or no roots for it: the domain is not to blame.
    Lack(String),
    /// What went wrong, as reports have it and in words.
    Failed(ResultType, String),
}

impl FetchError {
    /// What this machine says of a connection to a host.
    fn of(error: &io::Error, told: impl Display) -> FetchError {
        match lack::is_ours(error) {
            true => FetchError::Lack(format!("{told}: {error}")),
            false => FetchError::Failed(FETCH, format!("{told}: {error}")),
        }
    }

    /// What is said of a handshake with the web server.
    fn of_handshake(error: &io::Error, told: impl Display) -> FetchError {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidCertificate(_)) => {
                FetchError::Failed(ResultType::StsWebpkiInvalid, format!("{told}: {error}"))
            }
            _ => FetchError::of(error, told),
        }
    }
}

/// Why an address gave no policy.
enum AddressFailure {
    /// It said nothing at all.
    Silence(String),
    /// Another one may.
    Address(FetchError),
    /// The host itself has said so, over a connection that is known to be its own.
    Host(String),
}

/// Fetches policies.
pub(super) struct Fetcher {
    resolver: Resolver,
    /// The machine's roots are read when they are needed first.
    client: Arc<tokio::sync::Mutex<Option<Arc<ClientConfig>>>>,
    silent: Mutex<SilentAddresses>,
}

/// Addresses that said nothing, and until when they are left alone.
#[derive(Debug, Default)]
struct SilentAddresses(BTreeMap<IpAddr, Instant>);

impl SilentAddresses {
    fn note(&mut self, address: IpAddr, now: Instant) {
        if self.0.len() >= SILENT_MAX {
            self.0.retain(|_, until| *until > now);
        }
        if self.0.len() < SILENT_MAX {
            self.0.insert(network_of(address), now + SILENT_FOR);
        }
    }

    fn has(&self, address: IpAddr, now: Instant) -> bool {
        self.0.get(&network_of(address)).is_some_and(|until| *until > now)
    }
}

impl Fetcher {
    pub(super) fn new(resolver: Resolver) -> Fetcher {
        Fetcher { resolver, client: Arc::default(), silent: Mutex::default() }
    }

    /// The policy of a domain; `public_only`: not from addresses that are private or this machine's own.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn fetch(
        &self,
        domain: &str,
        public_only: bool,
    ) -> Result<Policy, FetchError> {
        let host = mta_sts::host_name(domain);
        // A disk of this machine that hangs takes none of the time that the domain has.
        let client = self.client().await.map_err(|error| FetchError::of(&error, &host))?;
        let fetched = timeout(TIME_MAX, self.get(&host, client, public_only)).await;
        let late = |_| Err(FetchError::Failed(FETCH, format!("not finished within {TIME_MAX:?}")));
        let text = fetched.unwrap_or_else(late)?;
        let malformed = |error: PolicyError| {
            FetchError::Failed(ResultType::StsPolicyInvalid, error.to_string())
        };
        Policy::parse(&text).map_err(malformed)
    }

    /// The text of a host, from the first of its addresses that has it.
    async fn get(
        &self,
        host: &str,
        client: Arc<ClientConfig>,
        public_only: bool,
    ) -> Result<Bytes, FetchError> {
        let failed = |error: &dyn Display| FetchError::Failed(FETCH, format!("{host}: {error}"));
        let addresses = self.resolver.addresses(host).await.map_err(|error| match error {
            DnsError::Lack => FetchError::Lack(format!("{host}: {error}")),
            error => failed(&error),
        })?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
        let mut why = failed(&"it has no address");
        for address in candidates(addresses, public_only).map_err(|text| failed(&text))? {
            let to = SocketAddr::new(address, PORT);
            if lock(&self.silent).has(address, Instant::now()) {
                why = failed(&format!("{address} did not respond recently"));
                continue;
            }
            match get_from(Arc::clone(&client), name.clone(), (host, to)).await {
                Ok(text) => return Ok(text),
                Err(AddressFailure::Silence(text)) => {
                    lock(&self.silent).note(address, Instant::now());
                    why = failed(&text);
                }
                Err(AddressFailure::Host(text)) => return Err(failed(&text)),
                Err(AddressFailure::Address(lack @ FetchError::Lack(_))) => return Err(lack),
                Err(AddressFailure::Address(error)) => why = error,
            }
        }
        Err(why)
    }

    async fn client(&self) -> io::Result<Arc<ClientConfig>> {
        let mut made = Arc::clone(&self.client).lock_owned().await;
        if let Some(client) = &*made {
            return Ok(Arc::clone(client));
        }
        // The lock goes along: a second read would hang beside the first.
        let read = move || {
            let mut client = peer_tls::verifying()?;
            client.alpn_protocols = vec![b"http/1.1".to_vec()];
            let client = Arc::new(client);
            *made = Some(Arc::clone(&client));
            Ok(client)
        };
        finished(read).await
    }
}

/// What is at one address of a host.
async fn get_from(
    client: Arc<ClientConfig>,
    name: ServerName<'static>,
    (host, to): (&str, SocketAddr),
) -> Result<Bytes, AddressFailure> {
    let told = format!("{host} ({to})");
    let failed = |text: String| {
        AddressFailure::Address(FetchError::Failed(FETCH, format!("{told}: {text}")))
    };
    let connected = timeout(CONNECT_MAX, TcpStream::connect(to)).await;
    let late = |_| AddressFailure::Silence(format!("{told}: no connection within {CONNECT_MAX:?}"));
    let of = |error: io::Error| AddressFailure::Address(FetchError::of(&error, &told));
    let stream = connected.map_err(late)?.map_err(of)?;
    let is_heard = Cell::new(false);
    let exchange = async {
        let shaken = TlsConnector::from(client).connect(name, stream).await;
        let refused = |error| AddressFailure::Address(FetchError::of_handshake(&error, &told));
        let stream = shaken.map_err(refused)?;
        is_heard.set(true);
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|e| failed(e.to_string()))?;
        let request = Request::get(mta_sts::PATH)
            .header(HOST, host)
            .header(USER_AGENT, https::USER_AGENT_NAME)
            .body(Empty::<Bytes>::new())
            .map_err(|error| failed(error.to_string()))?;
        let answered = async {
            let response = sender.send_request(request).await;
            text_of(response.map_err(|error| failed(error.to_string()))?).await
        };
        driven(answered, connection).await
    };
    let text = || format!("no answer within {EXCHANGE_MAX:?}");
    match timeout(EXCHANGE_MAX, exchange).await {
        Ok(answered) => answered,
        Err(_) if is_heard.get() => Err(failed(text())),
        Err(_) => Err(AddressFailure::Silence(format!("{told}: {}", text()))),
    }
}

/// The text of a response that is one: 200, and no redirection (RFC 8461 §3.3).
async fn text_of(response: Response<Incoming>) -> Result<Bytes, AddressFailure> {
    if response.status() != StatusCode::OK {
        return Err(AddressFailure::Host(format!("it returned {}", response.status())));
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("text/plain") {
        let kind = kind.unwrap_or("nothing").escape_debug();
        return Err(AddressFailure::Host(format!("its content type is {kind}, not text/plain")));
    }
    let body = Limited::new(response.into_body(), POLICY_BYTES_MAX).collect().await;
    body.map(|body| body.to_bytes()).map_err(|error| match error.is::<LengthLimitError>() {
        true => AddressFailure::Host(error.to_string()),
        false => AddressFailure::Address(FetchError::Failed(FETCH, error.to_string())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_silent_is_left_alone_for_a_while() {
        let (mut silent, now) = (SilentAddresses::default(), Instant::now());
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        silent.note(ip("192.0.2.1"), now);
        silent.note(ip("2001:db8::1"), now);
        assert!(silent.has(ip("192.0.2.1"), now) && !silent.has(ip("192.0.2.2"), now));
        assert!(silent.has(ip("2001:db8::2"), now), "the same /64");
        assert!(!silent.has(ip("192.0.2.1"), now + SILENT_FOR));
        for n in 0..SILENT_MAX as u32 + 10 {
            silent.note(std::net::Ipv4Addr::from(n).into(), now);
        }
        assert_eq!(silent.0.len(), SILENT_MAX);
        silent.note(ip("203.0.113.1"), now + SILENT_FOR);
        assert_eq!(silent.0.len(), 1, "those that are over go");
    }

    #[test]
    fn what_this_machine_lacks_is_not_the_domains_failure() {
        let lack = FetchError::of(&io::Error::from_raw_os_error(24), "x");
        assert!(matches!(lack, FetchError::Lack(_)));
        let refused = FetchError::of(&io::ErrorKind::ConnectionRefused.into(), "x");
        assert!(matches!(refused, FetchError::Failed(FETCH, _)));
        let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let expired = FetchError::of_handshake(&io::Error::other(expired), "x");
        assert!(matches!(expired, FetchError::Failed(ResultType::StsWebpkiInvalid, _)));
    }
}
