//! The places of the server on this machine: its socket, and its directory for messages while it is down.

use super::session::{SubmitReply, SubmitSession, SubmittedEnvelope, exit_code};
use super::{drop_file, failed};
use crate::commands::load;
use config::Listener;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Socket where no configuration can be read: ordinary users often may not.
const SOCKET: &str = "/run/postrider/submit.sock";
/// Directory for messages while the server is down, likewise.
const DROP: &str = "/var/lib/postrider/spool-drop";

/// The reason for which there is no session.
pub(super) enum Unopened {
    /// The server is not running, or refuses for now.
    Down(String),
    Refused(SubmitReply),
}

/// The server's place on this machine.
pub(super) struct Place {
    socket: PathBuf,
    /// The configuration of `-C`.
    named: Option<PathBuf>,
}

impl Place {
    /// By the configuration, if the user may read it.
    ///
    /// # Errors
    /// The named configuration has no local listener, or can't be read: the exit code.
    pub(super) fn find(named: Option<&Path>) -> Result<Place, u8> {
        let file = named.map_or_else(load::installed, Path::to_owned);
        // A check of the whole configuration would take longer than the message.
        let text = fs::read_to_string(file).unwrap_or_default();
        let socket = match config::listener_socket(&text, "local") {
            Some(socket) => socket,
            None => checked(named)?.0,
        };
        Ok(Place { socket, named: named.map(Path::to_owned) })
    }

    pub(super) fn connect(&self) -> Result<UnixStream, String> {
        UnixStream::connect(&self.socket).map_err(|error| {
            format!("the server is not running: {}: {error}", self.socket.display())
        })
    }

    pub(super) fn open(&self) -> Result<SubmitSession, Unopened> {
        let stream = self.connect().map_err(Unopened::Down)?;
        match SubmitSession::open(stream) {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(reply)) if reply.is_temporary() => Err(Unopened::Down(reply.text)),
            Ok(Err(reply)) => Err(Unopened::Refused(reply)),
            Err(error) => Err(Unopened::Down(error.to_string())),
        }
    }

    /// Leaves a message for the server that does not answer now.
    pub(super) fn leave(&self, envelope: &SubmittedEnvelope, content: &[u8]) -> Result<(), String> {
        let places = checked(self.named.as_deref());
        let (_, directory) = places.map_err(|_| "the configuration can't be used".to_owned())?;
        let directory = directory.ok_or("no directory for dropped messages")?;
        drop_file::leave(&directory, envelope, content).map_err(|error| {
            format!("cannot leave the message in {}: {error}", directory.display())
        })
    }
}

/// Socket and directory by the checked configuration; those of the packages where it can't be read.
fn checked(named: Option<&Path>) -> Result<(PathBuf, Option<PathBuf>), u8> {
    let of_listener = |listener: &Arc<Listener>| {
        let drop = listener.protocol.drop_directory().map(Path::to_owned);
        Some((listener.socket.as_ref()?.to_path_buf(), drop))
    };
    let read = load::alone(Some(&named.map_or_else(load::installed, Path::to_owned)));
    let places = match (&read, named) {
        (Ok(config), _) => config.listeners.iter().find_map(of_listener),
        (Err(_), None) => None,
        (Err(error), Some(_)) => {
            eprint!("{}", error.render(false));
            return Err(exit_code::CONFIG);
        }
    };
    match (places, named) {
        (Some(places), _) => Ok(places),
        (None, None) => Ok((SOCKET.into(), Some(DROP.into()))),
        (None, Some(path)) => {
            let why = format!("{}: no listener with kind = \"local\"", path.display());
            Err(failed(&why, exit_code::CONFIG))
        }
    }
}
