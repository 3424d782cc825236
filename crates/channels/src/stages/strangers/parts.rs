//! Shared context of the checks of unauthenticated clients.

use super::super::lookups::Turns;
use config::TagDelimiters;
use mta::console::Console;
use mta::ingress::OwnDomains;
use mta::line::FairSemaphore;
use mta::seams::World;
use std::rc::Rc;
use std::sync::Arc;

/// Context that the checks of all listeners share.
pub(super) struct RcptCheckContext<W: World> {
    pub(super) world: W,
    pub(super) console: Rc<dyn Console>,
    /// Authserv-id of this server.
    pub(super) server: Arc<str>,
    pub(super) own_domains: OwnDomains,
    /// Characters that begin a tag in a sender's local part.
    pub(super) tags: TagDelimiters,
    /// Queue for lookups about senders, at servers chosen by unauthenticated clients.
    pub(super) of_senders: Turns,
    /// Queue for lookups of lists, at servers chosen by the operator. It is separate, so that the former can't delay
    /// it.
    pub(super) of_lists: Arc<FairSemaphore>,
}
