//! Notices to the service manager over the socket that it names (sd_notify(3)): ready, status, reloading, stopping, alive.

use crate::mutex::lock;
use rustix::time::{ClockId, clock_gettime};
use std::env;
use std::ffi::OsStr;
use std::future::pending;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

/// Timeout for a manager that does not read, which would hold the server otherwise.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Time that a start may take further, unless another notice extends it again. The start sends one every 5 seconds.
const EXTENSION: Duration = Duration::from_secs(60);

/// Maximum length of a status, which systemd shows in one line.
const STATUS_BYTES_MAX: usize = 512;

/// The connection to the service manager; without one, nothing is sent.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    socket: Option<UnixDatagram>,
    /// Time after which the manager ends a server that sent no sign of life.
    watchdog: Option<Duration>,
    status: Mutex<String>,
}

impl Notifier {
    /// Connects to the socket of `NOTIFY_SOCKET`. The connection is made once: later, the path may be out of reach.
    ///
    /// # Errors
    /// Returns a sentence if the variable names a socket that cannot be used.
    pub(crate) fn from_environment() -> Result<Notifier, String> {
        let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|limit| *limit > 0 && is_ours);
        let Some(named) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(Notifier::default());
        };
        let socket = connect(&named).map_err(|error| {
            format!("cannot notify the service manager at {}: {error}", named.display())
        })?;
        let watchdog = watchdog.map(Duration::from_micros);
        Ok(Notifier { socket: Some(socket), watchdog, status: Mutex::default() })
    }

    /// Returns true if there is a service manager.
    pub(crate) fn is_on(&self) -> bool {
        self.socket.is_some()
    }

    /// The start goes on, and reads this.
    pub(crate) fn starting(&self, what: &str) {
        let extension = EXTENSION.as_micros();
        self.send(&format!("EXTEND_TIMEOUT_USEC={extension}"), &format!("Reading {what}"));
    }

    /// The server accepts mail, or goes on after a reload.
    pub(crate) fn ready(&self, status: &str) {
        self.send("READY=1", status);
    }

    /// A reload begins. The manager compares the time with that of its signal (`Type=notify-reload`).
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"), "Reloading the configuration");
    }

    /// The server stops.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1", "Stopping: open transactions may finish");
    }

    /// Shows a new status; nothing is sent for the same one again.
    pub(crate) fn status(&self, status: &str) {
        if *lock(&self.status) != one_line(status) {
            self.send("", status);
        }
    }

    /// Sends a sign of life at half of the manager's limit, each time only after every shard has answered. A shard that
    /// does not turn its loop, or a hanging main thread, misses it.
    ///
    /// `ask` sends a request to each shard and returns the receivers of the answers.
    pub(crate) async fn keep_alive(&self, ask: impl Fn() -> Vec<oneshot::Receiver<()>>) {
        let Some(limit) = self.watchdog.filter(|_| self.is_on()) else { return pending().await };
        let mut beat = interval((limit / 2).max(Duration::from_millis(1)));
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            for answer in ask() {
                // A shard that has ended answers no more.
                if answer.await.is_err() {
                    return pending().await;
                }
            }
            self.send("WATCHDOG=1", "");
        }
    }

    /// Sends assignments, and a status unless it is empty. Errors are ignored: the manager has gone, or does not read.
    fn send(&self, assignments: &str, status: &str) {
        let Some(socket) = &self.socket else { return };
        let mut text = assignments.to_owned();
        if !status.is_empty() {
            let status = one_line(status);
            let separator = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{separator}STATUS={status}"));
            *lock(&self.status) = status;
        }
        let _ = socket.send(text.as_bytes());
    }
}

fn connect(named: &OsStr) -> io::Result<UnixDatagram> {
    let address = match named.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(named)?,
        _ => {
            let why = "only an absolute path or an abstract name is supported";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    Ok(socket)
}

/// The first line of a text, up to the maximum length.
fn one_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line[..line.floor_char_boundary(STATUS_BYTES_MAX)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A manager, and a notifier that is connected to it.
    fn manager(watchdog: Option<Duration>) -> (UnixDatagram, Notifier) {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (ours, Notifier { socket: Some(theirs), watchdog, status: Mutex::default() })
    }

    fn received(manager: &UnixDatagram) -> Option<String> {
        let mut bytes = [0; 2_048];
        let count = manager.recv(&mut bytes).ok()?;
        Some(String::from_utf8(bytes[..count].to_vec()).unwrap())
    }

    #[test]
    fn notices_have_the_words_of_the_protocol() {
        let (manager, notifier) = manager(None);
        notifier.starting("the spool in /s");
        let text = "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=Reading the spool in /s";
        assert_eq!(received(&manager).as_deref(), Some(text));
        notifier.ready("Accepting mail\nSTOPPING=1");
        assert_eq!(received(&manager).as_deref(), Some("READY=1\nSTATUS=Accepting mail"));
        notifier.status("Accepting mail");
        assert_eq!(received(&manager), None, "it is shown already");
        notifier.status("é".repeat(300).as_str());
        assert_eq!(received(&manager).unwrap().len(), "STATUS=".len() + STATUS_BYTES_MAX);
        notifier.reloading();
        let text = received(&manager).unwrap();
        let micros = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(micros.split('\n').next().unwrap().parse::<u64>().unwrap() > 0, "{text}");
        notifier.stopping();
        assert!(received(&manager).unwrap().starts_with("STOPPING=1\n"));
    }

    #[test]
    fn unread_notices_do_not_hold_the_server() {
        let (manager, notifier) = manager(None);
        let socket = notifier.socket.as_ref().unwrap();
        socket.set_write_timeout(Some(Duration::from_millis(1))).unwrap();
        (0..400).for_each(|_| notifier.stopping());
        drop(manager);
        notifier.stopping();
    }

    #[test]
    fn only_names_of_sockets_are_connected_to() {
        assert!(connect(OsStr::new("vsock:2:1")).is_err());
        assert!(connect(OsStr::new("/no/such/socket")).is_err());
        assert!(connect(OsStr::new("@postrider-no-such-socket")).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn stuck_shard_misses_the_watchdog() {
        let limit = Duration::from_secs(10);
        let (manager, notifier) = manager(Some(limit));
        let is_stuck = AtomicBool::new(false);
        let stuck = Mutex::new(Vec::new());
        // The second of two shards may be stuck.
        let ask = || {
            let (ways, answers): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::channel()).unzip();
            for (shard, way) in ways.into_iter().enumerate() {
                match shard == 1 && is_stuck.load(Ordering::Relaxed) {
                    true => lock(&stuck).push(way),
                    false => drop(way.send(())),
                }
            }
            answers
        };
        let beats = || std::iter::from_fn(|| received(&manager)).count();
        let alive = notifier.keep_alive(ask);
        tokio::pin!(alive);
        let mut pass = async |time| drop(tokio::time::timeout(time, &mut alive).await);
        pass(limit * 10 + Duration::from_secs(1)).await;
        assert_eq!(beats(), 21, "at once, and then twice for each limit");
        is_stuck.store(true, Ordering::Relaxed);
        pass(limit * 10).await;
        assert_eq!(beats(), 0);
        is_stuck.store(false, Ordering::Relaxed);
        for way in lock(&stuck).drain(..) {
            let _ = way.send(());
        }
        pass(limit).await;
        assert!(beats() >= 2, "it goes on");
    }
}
