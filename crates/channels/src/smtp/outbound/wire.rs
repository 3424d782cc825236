//! An open connection and the session on it.

use mta::alarm::Alarm;
use mta::seams::{Net, World};
use smtp::client::ClientSession;

/// A connection of this world.
pub(super) type StreamOf<W> = <<W as World>::Net as Net>::Stream;

/// The stream, and what is spoken on it.
pub(super) struct Wire<W: World> {
    pub(super) stream: StreamOf<W>,
    pub(super) session: ClientSession,
    pub(super) alarm: Alarm<W::Time>,
}
