//! Log lines for daemons: syslog (RFC 3164, as sent to a local socket: without host name), and systemd's journal with
//! fields ("Native Journal Protocol").

use super::output::{LogEntry, LogOutput, Taken};
use config::LogFormat;
use rustix::io::Errno;
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Socket of syslog daemons.
const SYSLOG: &str = "/dev/log";
/// Socket of the journal.
const JOURNAL: &str = "/run/systemd/journal/socket";
/// Facility `mail` (RFC 5424 §6.2.1).
const FACILITY: u8 = 2;
/// Between two attempts to connect.
const CONNECT_EVERY: Duration = Duration::from_secs(1);

/// A socket of a log daemon. A datagram that it does not take at once is lost.
struct LogSocket {
    path: PathBuf,
    socket: Option<UnixDatagram>,
    /// The last failed attempt.
    failed_at: Option<Instant>,
}

impl LogSocket {
    fn new(path: &Path) -> LogSocket {
        LogSocket { path: path.to_owned(), socket: None, failed_at: None }
    }

    fn send(&mut self, datagram: &[u8]) -> Taken {
        if self.try_send(datagram) {
            return Taken::Yes;
        }
        // The daemon may have been started anew, with another socket at the same path.
        if self.socket.is_none() && self.connect() && self.try_send(datagram) {
            return Taken::Yes;
        }
        Taken::No
    }

    fn try_send(&mut self, datagram: &[u8]) -> bool {
        let Some(socket) = &self.socket else { return false };
        match socket.send(datagram) {
            Ok(_) => true,
            // Full, or too long for a datagram: the connection is well.
            Err(error)
                if error.kind() == std::io::ErrorKind::WouldBlock
                    || error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) =>
            {
                false
            }
            Err(_) => {
                self.socket = None;
                false
            }
        }
    }

    fn connect(&mut self) -> bool {
        if self.failed_at.is_some_and(|at| at.elapsed() < CONNECT_EVERY) {
            return false;
        }
        let connected = || -> std::io::Result<UnixDatagram> {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.connect(&self.path)?;
            Ok(socket)
        };
        self.socket = connected().ok();
        self.failed_at = self.socket.is_none().then(Instant::now);
        self.socket.is_some()
    }
}

/// Appends the datagram of a line.
type Framing = fn(&LogEntry<'_>, LogFormat, &mut Vec<u8>);

/// A log daemon.
pub(super) struct DaemonOutput {
    format: LogFormat,
    frame: Framing,
    socket: LogSocket,
    datagram: Vec<u8>,
}

impl DaemonOutput {
    pub(super) fn syslog(format: LogFormat) -> DaemonOutput {
        DaemonOutput::at(Path::new(SYSLOG), write_syslog, format)
    }

    pub(super) fn journal(format: LogFormat) -> DaemonOutput {
        DaemonOutput::at(Path::new(JOURNAL), write_journal, format)
    }

    fn at(path: &Path, frame: Framing, format: LogFormat) -> DaemonOutput {
        DaemonOutput { format, frame, socket: LogSocket::new(path), datagram: Vec::new() }
    }
}

impl LogOutput for DaemonOutput {
    fn write(&mut self, entry: &LogEntry<'_>) -> Taken {
        self.datagram.clear();
        (self.frame)(entry, self.format, &mut self.datagram);
        self.socket.send(&self.datagram)
    }
}

fn write_syslog(entry: &LogEntry<'_>, format: LogFormat, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(out, "<{}>", FACILITY * 8 + entry.severity());
    // In UTC: daemons put their own time in its place.
    entry.at.write_syslog(out);
    let _ = write!(out, " {}: ", entry.tag(format));
    out.extend_from_slice(entry.body(format).as_bytes());
}

/// No value contains a newline.
fn write_journal(entry: &LogEntry<'_>, format: LogFormat, out: &mut Vec<u8>) {
    let tag = entry.tag(format);
    let identifier = tag.split('[').next().unwrap_or_default();
    // Writing to memory does not fail.
    let _ = write!(
        out,
        "MESSAGE={}\nPRIORITY={}\nSYSLOG_FACILITY={FACILITY}\nSYSLOG_IDENTIFIER={identifier}\nPOSTRIDER_KIND={}\n",
        entry.body(format),
        entry.severity(),
        entry.kind,
    );
    for (name, value) in (entry.fields)() {
        let _ = writeln!(out, "{name}={value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Wall;
    use mta::console::Level;

    fn entry(text: &str) -> LogEntry<'_> {
        LogEntry { at: Wall(1_795_945_880_123), level: Level::Warn, text, ..LogEntry::own("disk") }
    }

    fn received(socket: &UnixDatagram) -> Option<String> {
        let mut bytes = [0; 4_096];
        let length = socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    #[test]
    fn lines_have_facility_time_and_tag() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let daemon = UnixDatagram::bind(&path).unwrap();
        daemon.set_nonblocking(true).unwrap();
        let pid = std::process::id();
        for (format, tag, body) in [
            (LogFormat::Text, "postrider", "disk: full"),
            (LogFormat::Postfix, "postfix/postrider", "warning: disk: full"),
        ] {
            let mut output = DaemonOutput::at(&path, write_syslog, format);
            assert_eq!(output.write(&entry("full")), Taken::Yes);
            let line = received(&daemon).unwrap();
            assert_eq!(line, format!("<20>Nov 29 09:51:20 {tag}[{pid}]: {body}"));
        }
    }

    #[test]
    fn a_daemon_that_stops_costs_lines_and_one_that_returns_gets_them_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut output = DaemonOutput::at(&path, write_syslog, LogFormat::Text);
        assert_eq!(output.write(&entry("missing")), Taken::No);
        let daemon = UnixDatagram::bind(&path).unwrap();
        assert_eq!(output.write(&entry("too soon")), Taken::No);
        std::thread::sleep(CONNECT_EVERY);
        assert_eq!(output.write(&entry("there")), Taken::Yes);
        // It reads nothing: the socket is full after a while, and no line waits.
        let begun = Instant::now();
        let is_full = (0..100_000).any(|_| output.write(&entry("more")) == Taken::No);
        assert!(is_full && begun.elapsed() < Duration::from_secs(60));
        // A new one at the same path.
        drop(daemon);
        std::fs::remove_file(&path).unwrap();
        let daemon = UnixDatagram::bind(&path).unwrap();
        assert_eq!(output.write(&entry("again")), Taken::Yes);
        assert!(received(&daemon).unwrap().ends_with("disk: again"));
    }

    #[test]
    fn lines_in_the_journal_have_fields() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = UnixDatagram::bind(&path).unwrap();
        let mut output = DaemonOutput::at(&path, write_journal, LogFormat::Text);
        let fields = || vec![("POSTRIDER_ID", "000100000000002a".to_owned())];
        let entry = LogEntry { text: "relayed", fields: &fields, ..LogEntry::own("delivery") };
        assert_eq!(output.write(&entry), Taken::Yes);
        let mut bytes = [0; 1_024];
        let length = journal.recv(&mut bytes).unwrap();
        let text = std::str::from_utf8(&bytes[..length]).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "MESSAGE=delivery: relayed",
                "PRIORITY=6",
                "SYSLOG_FACILITY=2",
                "SYSLOG_IDENTIFIER=postrider",
                "POSTRIDER_KIND=delivery",
                "POSTRIDER_ID=000100000000002a",
            ]
        );
    }
}
