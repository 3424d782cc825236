//! The traits that an inbound protocol implements.

use super::connection::Connection;
use super::stage::Stage;
use crate::console::Console;
use crate::pressure::Pressures;
use crate::seams::{Net, Task, World};
use config::{Config, Listener};
use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

/// An inbound protocol. One value per shard, registered where the program is put together.
pub trait Protocol<W: World>: 'static {
    /// The value of `kind` in `[[listener]]`.
    fn name(&self) -> &'static str;

    /// Creates the handler of a listener, at start and at each reload, so that values derived from the configuration
    /// are computed once. Pools that unauthenticated clients can exhaust are registered in `pools`.
    fn handler(
        &self,
        config: &Config,
        listener: &Arc<Listener>,
        pools: &Pressures,
    ) -> Rc<dyn Handler<W>>;
}

/// The protocols of a shard.
pub type Protocols<W> = Vec<Rc<dyn Protocol<W>>>;

/// Serves the connections of one listener.
pub trait Handler<W: World>: 'static {
    /// Stages of this listener, which run before those of the configuration.
    fn stages(
        &self,
        _config: &Config,
        _world: &W,
        _console: &Rc<dyn Console>,
    ) -> Vec<Rc<dyn Stage>> {
        Vec::new()
    }

    /// For sessions begun before a reload, which downcast and adopt the new handler.
    fn into_any(self: Rc<Self>) -> Rc<dyn Any>;

    /// Serves a connection until it ends.
    fn serve(self: Rc<Self>, connection: Connection<W>, stream: <W::Net as Net>::Stream) -> Task;
}
