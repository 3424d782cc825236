//! Fetching a policy (RFC 8461 §3.3).

use crate::https::{self, driven};
use crate::mutex::lock;
use crate::world::Resolver;
use auth::mta_sts::{self, POLICY_BYTES_MAX, Policy};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use mta::seams::Dns as _;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// All of it, from the first question to the DNS to the last octet.
const TIME_MAX: Duration = Duration::from_secs(30);

/// Addresses of the policy's host that are tried, and how long each.
const ADDRESSES_MAX: usize = 4;
const CONNECT_MAX: Duration = Duration::from_secs(7);

const PORT: u16 = 443;

/// Fetches policies.
pub(super) struct Fetcher {
    resolver: Resolver,
    /// The machine's roots are read when they are needed first.
    client: Mutex<Option<Arc<ClientConfig>>>,
}

impl Fetcher {
    pub(super) fn new(resolver: Resolver) -> Fetcher {
        Fetcher { resolver, client: Mutex::default() }
    }

    /// The policy of a domain, and its text.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub(super) async fn fetch(&self, domain: &str) -> Result<(Bytes, Policy), String> {
        let fetched = tokio::time::timeout(TIME_MAX, self.get(&mta_sts::host_name(domain))).await;
        let late = |_| Err(format!("it takes longer than {TIME_MAX:?}"));
        let text = fetched.unwrap_or_else(late)?;
        let policy = Policy::parse(&text).map_err(|error| error.to_string())?;
        Ok((text, policy))
    }

    async fn get(&self, host: &str) -> Result<Bytes, String> {
        let told = |error: &dyn std::fmt::Display| format!("{host}: {error}");
        let stream = self.connect(host).await?;
        let io = TokioIo::new(stream);
        let (mut sender, connection) = http1::handshake(io).await.map_err(|error| told(&error))?;
        let request = Request::get(mta_sts::PATH)
            .header(HOST, host)
            .header(USER_AGENT, https::USER_AGENT_NAME)
            .body(Empty::<Bytes>::new())
            .map_err(|error| told(&error))?;
        let exchange = async {
            let response = sender.send_request(request).await;
            text_of(response.map_err(|error| error.to_string())?).await
        };
        let text = driven(exchange, connection).await;
        text.map_err(|error| told(&error))
    }

    /// A connection to a host with a certificate that is valid for its name.
    async fn connect(&self, host: &str) -> Result<TlsStream<TcpStream>, String> {
        let told = |error: &dyn std::fmt::Display| format!("{host}: {error}");
        let addresses = self.resolver.addresses(host).await.map_err(|error| told(&error))?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| told(&error))?;
        let client = self.client()?;
        let mut why = told(&"it has no address");
        for address in addresses.into_iter().take(ADDRESSES_MAX) {
            let to = SocketAddr::new(address, PORT);
            let connected = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(to)).await;
            match connected {
                Ok(Ok(stream)) => {
                    let connector = TlsConnector::from(client);
                    let encrypted = connector.connect(name, stream).await;
                    return encrypted.map_err(|error| told(&error));
                }
                Ok(Err(error)) => why = format!("{host} ({to}): {error}"),
                Err(_) => why = format!("{host} ({to}): no connection within {CONNECT_MAX:?}"),
            }
        }
        Err(why)
    }

    fn client(&self) -> Result<Arc<ClientConfig>, String> {
        let mut made = lock(&self.client);
        if let Some(client) = &*made {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(https::client(None)?);
        *made = Some(Arc::clone(&client));
        Ok(client)
    }
}

/// The text of a response that is one: 200, and no redirection (RFC 8461 §3.3).
async fn text_of(response: Response<Incoming>) -> Result<Bytes, String> {
    if response.status() != StatusCode::OK {
        return Err(format!("it answers {}", response.status()));
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("text/plain") {
        let kind = kind.unwrap_or("nothing").escape_debug();
        return Err(format!("its content type is {kind}, not text/plain"));
    }
    let body = Limited::new(response.into_body(), POLICY_BYTES_MAX).collect().await;
    body.map(|body| body.to_bytes()).map_err(|error| error.to_string())
}
