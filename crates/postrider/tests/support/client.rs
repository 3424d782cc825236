//! A client that says exactly what a test wants said.

use super::WAIT_MAX;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use socket2::{Domain, Socket, Type};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

/// A connection, encrypted or not.
trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A connection to a server.
pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

impl Client {
    /// Connects, and reads nothing.
    pub fn raw(address: SocketAddr) -> Client {
        Client::over(TcpStream::connect(address).expect("the server takes connections"))
    }

    /// The same from one of this machine's addresses.
    pub fn from(ip: IpAddr, address: SocketAddr) -> Client {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None);
        let socket = socket.expect("a socket");
        socket.bind(&SocketAddr::new(ip, 0).into()).expect("an address of this machine");
        socket.connect(&address.into()).expect("the server takes connections");
        Client::over(socket.into())
    }

    /// Connects to a Unix socket, and reads nothing.
    pub fn local(path: &Path) -> Client {
        let stream = UnixStream::connect(path).expect("the server takes connections");
        stream.set_read_timeout(Some(WAIT_MAX)).expect("a socket");
        Client { stream: BufReader::new(Box::new(stream)) }
    }

    fn over(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(WAIT_MAX)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Client { stream: BufReader::new(Box::new(stream)) }
    }

    /// Starts TLS after the reply to STARTTLS. The server's certificate must be issued for this name, by an authority
    /// in this PEM file.
    pub fn start_tls(self, authorities: &Path, name: &str) -> Client {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_file_iter(authorities).expect("a PEM file") {
            roots.add(root.expect("a certificate")).expect("an authority");
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
        let stream = StreamOwned::new(connection, self.stream.into_inner());
        Client { stream: BufReader::new(Box::new(stream)) }
    }

    /// Connects and says EHLO.
    pub fn connect(address: SocketAddr) -> Client {
        let mut client = Client::raw(address);
        client.expect("220");
        client.say("EHLO client.test", "250");
        client
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).expect("the server reads");
    }

    /// The same where the server may have closed the connection; whether it still was open.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.get_mut().write_all(bytes.as_ref()).is_ok()
    }

    /// Reads a whole reply, its lines joined with `\n`; empty at the connection's end.
    pub fn reply(&mut self) -> String {
        let mut reply = String::new();
        loop {
            let mut line = String::new();
            match self.stream.read_line(&mut line) {
                Ok(0) => return reply,
                Ok(_) => {}
                // A server may end TLS by closing the connection.
                Err(error)
                    if [ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof]
                        .contains(&error.kind()) =>
                {
                    return reply;
                }
                Err(error) => panic!("no reply: {error}; so far {reply:?}"),
            }
            let last = line.as_bytes().get(3) != Some(&b'-');
            reply.push_str(line.trim_end());
            if last {
                return reply;
            }
            reply.push('\n');
        }
    }

    /// Reads a reply that must begin so.
    #[track_caller]
    pub fn expect(&mut self, begin: &str) -> String {
        let reply = self.reply();
        assert!(reply.starts_with(begin), "{reply:?} instead of {begin}");
        reply
    }

    /// Sends a command and reads its reply, which must begin so.
    #[track_caller]
    pub fn say(&mut self, command: &str, begin: &str) -> String {
        self.send(format!("{command}\r\n"));
        let reply = self.reply();
        assert!(reply.starts_with(begin), "{command}: {reply:?} instead of {begin}");
        reply
    }

    /// Reads until the server closes.
    pub fn rest(&mut self) -> String {
        let mut rest = String::new();
        loop {
            let reply = self.reply();
            if reply.is_empty() {
                return rest;
            }
            rest.push_str(&reply);
            rest.push('\n');
        }
    }

    /// Sends one message and returns its id.
    #[track_caller]
    pub fn mail(&mut self, from: &str, to: &[&str], content: &str) -> String {
        queued_id(&self.give(from, to, content))
    }

    /// The same to any server; returns its reply.
    #[track_caller]
    pub fn give(&mut self, from: &str, to: &[&str], content: &str) -> String {
        self.say(&format!("MAIL FROM:<{from}>"), "250");
        for to in to {
            let (address, parameters) = to.split_once(' ').unwrap_or((to, ""));
            self.say(format!("RCPT TO:<{address}> {parameters}").trim_end(), "250");
        }
        self.say("DATA", "354");
        self.send(content);
        self.say(".", "250")
    }
}

/// The id in the reply to a message's content.
pub fn queued_id(reply: &str) -> String {
    let id = reply.rsplit(' ').next().unwrap_or("");
    assert!(id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{reply}");
    id.to_owned()
}
