//! An open connection and the session on it.

use mta::alarm::Alarm;
use mta::seams::{Net, World};
use smtp::client::ClientSession;

/// The stream, and what is spoken on it.
pub(super) struct Wire<W: World> {
    pub(super) stream: <W::Net as Net>::Stream,
    pub(super) session: ClientSession,
    pub(super) alarm: Alarm<W::Time>,
}
