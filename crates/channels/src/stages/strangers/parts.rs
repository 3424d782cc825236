//! What the checks of strangers work with.

use super::super::lookups::Turns;
use mta::console::Console;
use mta::ingress::OwnDomains;
use mta::line::FairSemaphore;
use mta::seams::World;
use std::rc::Rc;
use std::sync::Arc;

/// What the checks of all listeners share.
pub(super) struct RcptCheckContext<W: World> {
    pub(super) world: W,
    pub(super) console: Rc<dyn Console>,
    /// Our name.
    pub(super) server: Arc<str>,
    pub(super) own_domains: OwnDomains<W::Tables>,
    /// Questions about senders; others wait. Whose servers answer them, strangers choose.
    pub(super) of_senders: Turns,
    /// Questions to lists, whose servers the operator has chosen; nobody else takes their turns.
    pub(super) of_lists: Arc<FairSemaphore>,
}
