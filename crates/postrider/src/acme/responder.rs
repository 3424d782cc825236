//! Where an authority sees that names are this server's. Whoever else comes there gets nothing.

use super::challenges::{ALPN, Challenges};
use super::settings::AcmeChallenge;
use crate::crypto;
use crate::limited_listener::{ConnectionLimits, LimitedListener, Pool};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::serve::Listener as _;
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// Everybody can come here; an authority asks from several places at once, once from each.
/// Of one client (an IPv4 address, or an IPv6 /64).
const NETWORK_MAX: u32 = 8;
pub(super) const LIMITS: ConnectionLimits =
    ConnectionLimits { connections_max: super::CONNECTIONS_MAX, life_max: Duration::from_secs(10) };

/// RFC 8555 §8.3.
const PATH: &str = "/.well-known/acme-challenge/";

/// Binds where it is asked for; without an address, at all of this machine.
///
/// # Errors
/// As the operating system says, with the address.
pub(super) fn bind(
    challenge: AcmeChallenge,
    address: Option<SocketAddr>,
) -> Result<TcpListener, String> {
    let listener = match address {
        Some(address) => bind_to(address),
        None => {
            let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, challenge.port()));
            // A machine without IPv6 has no such address.
            bind_to(both).or_else(|(_, error)| match error.kind() {
                io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err((both, error)),
                _ => bind_to(SocketAddr::from((Ipv4Addr::UNSPECIFIED, challenge.port()))),
            })
        }
    };
    listener.map_err(|(address, error)| {
        format!("cannot answer {} challenges on {address}: {error}", challenge.as_str())
    })
}

fn bind_to(address: SocketAddr) -> Result<TcpListener, (SocketAddr, io::Error)> {
    let listener = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|error| (address, error))
}

/// Answers at a place until it is dropped; connections that are open then end by themselves.
pub(super) struct Responder(AbortHandle);

impl Responder {
    /// Must be called within the runtime.
    ///
    /// # Errors
    /// As the operating system, or TLS, says.
    pub(super) fn start(
        challenge: AcmeChallenge,
        listener: TcpListener,
        challenges: &Challenges,
        pool: &Pool,
    ) -> io::Result<Responder> {
        Responder::start_within(LIMITS, challenge, listener, (challenges, pool))
    }

    fn start_within(
        limits: ConnectionLimits,
        challenge: AcmeChallenge,
        listener: TcpListener,
        (challenges, pool): (&Challenges, &Pool),
    ) -> io::Result<Responder> {
        let listener = LimitedListener::public(listener, limits, NETWORK_MAX, pool.clone())?;
        let task = match challenge {
            AcmeChallenge::Http01 => {
                let router = Router::new().fallback(page).with_state(challenges.clone());
                tokio::spawn(async move {
                    // It ends with an error when its socket does.
                    let _ = axum::serve(listener, router).await;
                })
            }
            AcmeChallenge::TlsAlpn01 => {
                let acceptor = TlsAcceptor::from(Arc::new(server(challenges)?));
                tokio::spawn(shake_hands(listener, acceptor))
            }
        };
        Ok(Responder(task.abort_handle()))
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn page(State(challenges): State<Challenges>, request: Request) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let token = request.uri().path().strip_prefix(PATH).filter(|_| is_read);
    match token.and_then(|token| challenges.page_of(token)) {
        Some(text) => ([(header::CONTENT_TYPE, "application/octet-stream")], text).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn server(challenges: &Challenges) -> io::Result<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(crypto::provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let resolver = Arc::new(challenges.clone());
    let mut server = builder.with_no_client_auth().with_cert_resolver(resolver);
    server.alpn_protocols = vec![ALPN.to_vec()];
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    Ok(server)
}

/// RFC 8737 §3: when the handshake is done, all is said.
async fn shake_hands(mut listener: LimitedListener, acceptor: TlsAcceptor) {
    loop {
        let (stream, _) = listener.accept().await;
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // What comes of it is seen by who asked.
            let _ = acceptor.accept(stream).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool_measure::PoolGauge;
    use crate::world::clock::Start;
    use mta::pools::PoolId;
    use mta::pressure::Pressures;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpSocket;

    /// Answers on a thread of its own, until the sender is dropped.
    fn started(challenge: AcmeChallenge, challenges: &Challenges) -> (SocketAddr, impl Drop) {
        started_within(LIMITS, challenge, challenges, &Arc::default())
    }

    fn started_within(
        limits: ConnectionLimits,
        challenge: AcmeChallenge,
        challenges: &Challenges,
        pools: &Arc<Pressures>,
    ) -> (SocketAddr, impl Drop + use<>) {
        let listener = bind(challenge, Some("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (id, pressures) = (PoolId::Challenges, Arc::clone(pools));
        let (challenges, pool) =
            (challenges.clone(), Pool { id, pressures, started: Start::now() });
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let _responder =
                    Responder::start_within(limits, challenge, listener, (&challenges, &pool))
                        .unwrap();
                let _ = stopped.await;
            });
        });
        (address, Stop(Some(stop)))
    }

    struct Stop(Option<tokio::sync::oneshot::Sender<()>>);

    impl Drop for Stop {
        fn drop(&mut self) {
            self.0.take();
        }
    }

    fn ask(address: SocketAddr, line: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "{line} HTTP/1.1\r\nHost: mx.test\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn nothing_is_told_but_what_was_asked_for() {
        let challenges = Challenges::default();
        let (address, _stop) = started(AcmeChallenge::Http01, &challenges);
        let standing = challenges.page("token", "token.thumb").unwrap();
        let told = ask(address, "GET /.well-known/acme-challenge/token");
        assert!(
            told.starts_with("HTTP/1.1 200 ") && told.ends_with("\r\n\r\ntoken.thumb"),
            "{told}"
        );
        for line in [
            "GET /.well-known/acme-challenge/other",
            "GET /.well-known/acme-challenge/",
            "GET /.well-known/acme-challenge/token/",
            "GET /.well-known/acme-challenge/../acme-challenge/token",
            "GET /token",
            "GET /",
            "POST /.well-known/acme-challenge/token",
            "DELETE /.well-known/acme-challenge/token",
        ] {
            let told = ask(address, line);
            assert!(told.starts_with("HTTP/1.1 404 ") && !told.contains("thumb"), "{line}: {told}");
        }
        drop(standing);
        let told = ask(address, "GET /.well-known/acme-challenge/token");
        assert!(told.starts_with("HTTP/1.1 404 "), "{told}");
    }

    #[test]
    fn one_client_does_not_take_all_places() {
        let challenges = Challenges::default();
        let (address, _stop) = started(AcmeChallenge::Http01, &challenges);
        let silent = || TcpStream::connect(address).unwrap();
        let mut held: Vec<TcpStream> = (0..NETWORK_MAX).map(|_| silent()).collect();
        // The next one has the place of the first.
        assert!(ask(address, "GET /").starts_with("HTTP/1.1 404 "));
        assert_eq!(held[0].read(&mut [0]).unwrap_or(0), 0);
    }

    /// Connects from one of this machine's own addresses.
    async fn connect(from: [u8; 4], to: SocketAddr) -> tokio::net::TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        socket.connect(to).await.unwrap()
    }

    #[tokio::test]
    async fn a_hundred_networks_leave_places_to_others() {
        let (challenges, measured) = (Challenges::default(), PoolGauge::new(PoolId::Challenges));
        // No place comes free by itself: whoever would have to wait for one would wait in vain.
        let limits = ConnectionLimits { life_max: Duration::from_secs(3_600), ..LIMITS };
        let (address, _stop) =
            started_within(limits, AcmeChallenge::Http01, &challenges, &measured.pools);
        let _standing = challenges.page("token", "token.thumb").unwrap();
        // Half of them are one customer's. They say nothing, and come again all the time.
        let (mut silent, mut came) = (std::collections::VecDeque::new(), 0_u16);
        let mut press = async |count: u16| {
            for _ in 0..count {
                let n = (came % 100) as u8;
                came += 1;
                let from = if n.is_multiple_of(2) { [127, 9, 200, n] } else { [127, 9, n, 9] };
                silent.push_back(connect(from, address).await);
                if silent.len() > 200 {
                    silent.pop_front();
                }
            }
        };
        press(100).await;
        let ask = async |n| {
            let mut other = connect([127, 10, n, 1], address).await;
            // What it asks takes its time.
            press(20).await;
            let request = "GET /.well-known/acme-challenge/token HTTP/1.1\r\n\
                           Host: mx.test\r\nConnection: close\r\n\r\n";
            other.write_all(request.as_bytes()).await.expect("it has its place still");
            let mut said = String::new();
            let read =
                tokio::time::timeout(Duration::from_secs(60), other.read_to_string(&mut said));
            let read = read.await;
            assert!(said.starts_with("HTTP/1.1 200 "), "{n}: {read:?} {said}");
            0
        };
        measured.hundred(0, ask).await;
        let text = measured.shown().expect("they are there still").text;
        assert!(text.contains("; 127.9.") && text.contains(" holds most: "), "{text}");
    }

    #[test]
    fn handshakes_are_for_who_asks_by_the_protocol_and_for_a_name_that_is_known() {
        let challenges = Challenges::default();
        let (address, _stop) = started(AcmeChallenge::TlsAlpn01, &challenges);
        let _standing = challenges.certificate("mx.test", &[7; 32]).unwrap();
        let ask = |name: &str, protocols: &str| {
            let to = address.to_string();
            let mut words = vec!["s_client", "-connect", &to, "-servername", name];
            if !protocols.is_empty() {
                words.extend(["-alpn", protocols]);
            }
            let mut command = std::process::Command::new("openssl");
            let output = command.args(words).stdin(std::process::Stdio::null()).output().unwrap();
            String::from_utf8_lossy(&output.stdout).contains("BEGIN CERTIFICATE")
        };
        assert!(ask("mx.test", "acme-tls/1"));
        for (name, protocols) in [
            ("other.test", "acme-tls/1"),
            ("mx.test", ""),
            ("mx.test", "http/1.1"),
            ("mx.test", "acme-tls/1,http/1.1"),
        ] {
            assert!(!ask(name, protocols), "{name} {protocols}");
        }
    }
}
