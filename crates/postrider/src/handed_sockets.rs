//! Sockets handed over by a service manager (`LISTEN_FDS`, `LISTEN_FDNAMES`, sd_listen_fds(3)). Clients wait in their
//! backlogs while the server restarts, so that none is refused.

use config::{Config, ConfigErrors};
use listenfd::ListenFd;
use socket2::{SockRef, Socket};
use std::collections::HashMap;
use std::env;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names of the sockets of `[admin]`, unless a listener has them.
const CONTROL: &str = "control";
const ADMIN: &str = "admin";

/// A socket that was opened before the shards start.
#[derive(Debug)]
pub(crate) enum OpenedSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
    /// Bound by this server while it had the right to. It does not listen yet.
    Bound(Socket),
    /// Not bound by this server, while it had the right to.
    Failed(io::Error),
}

/// The sockets as they were handed over.
#[derive(Debug, Default)]
pub(crate) struct HandedSockets(Vec<HandedSocket>);

#[derive(Debug)]
struct HandedSocket {
    /// `None` without `FileDescriptorName=`: systemd then names the unit, or nothing.
    name: Option<String>,
    /// Its number among the descriptors, from 3 on.
    number: usize,
    /// The kind of socket, if it is none that listens.
    socket: Result<OpenedSocket, &'static str>,
}

/// The reason why a socket belongs to nothing.
#[derive(Debug)]
pub(crate) enum Unassigned {
    /// An error at the place of the listener.
    Placed(ConfigErrors),
    /// A sentence.
    Unknown(String),
}

impl From<String> for Unassigned {
    fn from(why: String) -> Unassigned {
        Unassigned::Unknown(why)
    }
}

/// Sockets by the name of their listener.
pub(crate) type OpenedListeners = HashMap<Arc<str>, OpenedSocket>;

/// Connections that the kernel completes before they are accepted.
pub(crate) const BACKLOG: i32 = 4096;

/// The sockets that need not be opened any more.
#[derive(Debug, Default)]
pub(crate) struct OpenedSockets {
    /// By the name of the listener.
    pub(crate) listeners: OpenedListeners,
    pub(crate) control: Option<OpenedSocket>,
    pub(crate) admin: Option<OpenedSocket>,
}

impl HandedSockets {
    /// Takes the sockets named by the environment. To be called before any thread starts, because it changes the
    /// environment: programs of this server get no sockets.
    pub(crate) fn from_environment() -> HandedSockets {
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut handed = ListenFd::from_env();
        let mut names = names.split(':');
        let sockets = (0..handed.len()).map(|index| HandedSocket {
            name: names.next().filter(|name| !is_default(name)).map(str::to_owned),
            number: 3 + index,
            socket: take(&mut handed, index),
        });
        HandedSockets(sockets.collect())
    }

    /// Assigns each socket to its listener: by name, or by address if it has no name.
    ///
    /// # Errors
    /// Returns an error that names the socket if it fits nothing in the configuration.
    pub(crate) fn assign(self, config: &Config) -> Result<OpenedSockets, Unassigned> {
        let mut opened = OpenedSockets::default();
        for HandedSocket { name, number, socket } in self.0 {
            let shown = name.as_ref().map_or_else(
                || format!("descriptor {number} (LISTEN_FDS)"),
                |name| format!("descriptor {number} (LISTEN_FDNAMES=\"{name}\")"),
            );
            let socket = socket.map_err(|kind| {
                format!("{shown} is {kind}, not a stream socket that listens: see ListenStream=")
            })?;
            opened.assign(config, name.as_deref(), &shown, socket)?;
        }
        Ok(opened)
    }
}

/// Names that systemd gives to sockets without a name: the unit's, and that for other managers.
fn is_default(name: &str) -> bool {
    name.is_empty() || name == "unknown" || name.ends_with(".socket")
}

/// Takes one descriptor out of the list.
fn take(handed: &mut ListenFd, index: usize) -> Result<OpenedSocket, &'static str> {
    let listens = |socket: SockRef<'_>| socket.is_listener().unwrap_or(false);
    if let Ok(Some(socket)) = handed.take_tcp_listener(index) {
        return match listens(SockRef::from(&socket)) {
            true => Ok(OpenedSocket::Tcp(socket)),
            false => Err("a TCP socket that does not listen"),
        };
    }
    if let Ok(Some(socket)) = handed.take_unix_listener(index) {
        return match listens(SockRef::from(&socket)) {
            true => Ok(OpenedSocket::Unix(socket)),
            false => Err("a Unix socket that does not listen"),
        };
    }
    // These close with the process.
    if matches!(handed.take_udp_socket(index), Ok(Some(_))) {
        return Err("a UDP socket");
    }
    match handed.take_unix_datagram(index) {
        Ok(Some(_)) => Err("a Unix datagram socket"),
        _ => Err("no socket of a known kind"),
    }
}

/// The use of a socket.
struct SocketUse<'a> {
    /// The key of the file that has its place.
    key: String,
    place: Place<'a>,
    /// `None` for a socket of `[admin]`.
    listener: Option<&'a Arc<str>>,
}

/// The place of a socket, by the configuration.
#[derive(Clone, Copy)]
enum Place<'a> {
    Address(SocketAddr),
    Path(&'a Path),
}

impl Place<'_> {
    fn is_any_port(self) -> bool {
        matches!(self, Place::Address(address) if address.port() == 0)
    }
}

/// All places of a configuration, and a name for each.
fn uses(config: &Config) -> impl Iterator<Item = (&str, SocketUse<'_>)> {
    let listeners = config.listeners.iter().enumerate().map(|(index, listener)| {
        let (key, place) = match &listener.socket {
            Some(path) => ("socket", Place::Path(path)),
            None => ("address", Place::Address(listener.address)),
        };
        let key = format!("listener[{index}].{key}");
        (&*listener.name, SocketUse { key, place, listener: Some(&listener.name) })
    });
    let (admin, key) = (&config.admin, |key: &str| format!("admin.{key}"));
    let control = Place::Path(&admin.control);
    let control = SocketUse { key: key(CONTROL), place: control, listener: None };
    let address = admin.address.map(|address| {
        let place = Place::Address(address);
        (ADMIN, SocketUse { key: key("address"), place, listener: None })
    });
    listeners.chain([(CONTROL, control)]).chain(address)
}

impl OpenedSockets {
    fn assign(
        &mut self,
        config: &Config,
        name: Option<&str>,
        shown: &str,
        socket: OpenedSocket,
    ) -> Result<(), Unassigned> {
        let fits = |(named, of): &(&str, SocketUse<'_>)| match name {
            Some(name) => name == *named,
            // Port 0 of the file is any port: only a name distinguishes listeners.
            None => !of.place.is_any_port() && socket.misfit(of.place).is_none(),
        };
        let Some((_, of)) = uses(config).find(fits) else {
            let remedy = "name it after a listener (FileDescriptorName=), or remove it";
            let why = format!("{shown} {socket} belongs to no listener: {remedy}");
            return Err(Unassigned::Unknown(why));
        };
        let wrong = |why: String| {
            let why = format!("{shown} is {why}");
            Unassigned::Placed(config.errors(vec![config.mistake_at(&of.key, why)]))
        };
        if let Some(why) = socket.misfit(of.place) {
            return Err(wrong(format!("{why}, but its place is here")));
        }
        let is_second = match (of.listener, of.place) {
            (Some(listener), _) => self.listeners.insert(Arc::clone(listener), socket).is_some(),
            (None, Place::Path(_)) => self.control.replace(socket).is_some(),
            (None, Place::Address(_)) => self.admin.replace(socket).is_some(),
        };
        match is_second {
            true => Err(wrong("the second socket for this place".to_owned())),
            false => Ok(()),
        }
    }
}

impl OpenedSocket {
    /// The reason why the socket is not at a place; `None` if it is.
    fn misfit(&self, place: Place<'_>) -> Option<String> {
        match (self, place) {
            (OpenedSocket::Tcp(_), Place::Path(_)) => Some("a TCP socket".to_owned()),
            (OpenedSocket::Unix(_), Place::Address(_)) => Some("a Unix socket".to_owned()),
            (OpenedSocket::Tcp(socket), Place::Address(address)) => misplaced(socket, address),
            // Own ones are bound for their place.
            (OpenedSocket::Bound(_) | OpenedSocket::Failed(_), _) => None,
            (OpenedSocket::Unix(socket), Place::Path(path)) => {
                (!is_at(socket, path)).then(|| self.to_string())
            }
        }
    }
}

impl fmt::Display for OpenedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenedSocket::Tcp(socket) => match socket.local_addr() {
                Ok(address) => write!(f, "at {address}"),
                Err(error) => write!(f, "at an unknown address ({error})"),
            },
            OpenedSocket::Unix(socket) => write!(f, "at {}", place_of(socket)),
            OpenedSocket::Bound(_) | OpenedSocket::Failed(_) => f.write_str("of this server"),
        }
    }
}

impl OpenedSocket {
    /// The socket, which listens and does not block.
    ///
    /// # Errors
    /// Returns the operating system's error, of an earlier attempt to bind the address, too.
    pub(crate) fn listening(self, backlog: i32) -> io::Result<Socket> {
        let socket: Socket = match self {
            OpenedSocket::Tcp(socket) => socket.into(),
            OpenedSocket::Unix(socket) => socket.into(),
            OpenedSocket::Bound(socket) => {
                socket.listen(backlog)?;
                socket
            }
            OpenedSocket::Failed(error) => return Err(error),
        };
        socket.set_nonblocking(true)?;
        Ok(socket)
    }
}

/// The reason why a socket does not listen at an address; port 0 of the file is any port.
fn misplaced(socket: &TcpListener, address: SocketAddr) -> Option<String> {
    let at = match socket.local_addr() {
        Ok(at) => at,
        Err(error) => return Some(format!("at an unknown address ({error})")),
    };
    if at.ip() != address.ip() || (address.port() != 0 && at.port() != address.port()) {
        return Some(format!("at {at}"));
    }
    // As for own sockets: access rules for IPv4 networks do not match mapped addresses.
    let is_both =
        at.ip().is_unspecified() && SockRef::from(socket).only_v6().is_ok_and(|only| !only);
    (at.is_ipv6() && is_both)
        .then(|| format!("at {at} for IPv4 clients too (set BindIPv6Only=ipv6-only)"))
}

/// Returns true if a Unix socket has this path, maybe by another name.
fn is_at(socket: &UnixListener, path: &Path) -> bool {
    let own = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path_of(socket).is_some_and(|at| own(&at) == own(path))
}

fn path_of(socket: &UnixListener) -> Option<PathBuf> {
    socket.local_addr().ok()?.as_pathname().map(Path::to_owned)
}

fn place_of(socket: &UnixListener) -> String {
    path_of(socket).map_or_else(|| "an abstract name".to_owned(), |path| path.display().to_string())
}
