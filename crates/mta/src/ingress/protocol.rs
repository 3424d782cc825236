//! Ways in.

use super::connection::Connection;
use super::stage::Stage;
use crate::console::Console;
use crate::pressure::Pressures;
use crate::seams::{Net, Task, World};
use config::{Config, Listener};
use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

/// A way in: one value per shard, registered where the program is put together.
pub trait Protocol<W: World>: 'static {
    /// The value of `kind` in `[[listener]]`.
    fn name(&self) -> &'static str;

    /// Whoever serves the connections of a listener of this kind: made at the start and at each
    /// reload, so that what follows from the configuration is worked out once.
    /// What strangers can fill of it shows itself in `pools`.
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
    /// Stages that what comes by them passes first, before those that the configuration has for all.
    fn stages(
        &self,
        _config: &Config,
        _world: &W,
        _console: &Rc<dyn Console>,
    ) -> Vec<Rc<dyn Stage>> {
        Vec::new()
    }

    /// Itself, for sessions of the one before a reload, which go on with it.
    fn into_any(self: Rc<Self>) -> Rc<dyn Any>;

    /// Serves one of them to its end.
    fn serve(self: Rc<Self>, connection: Connection<W>, stream: <W::Net as Net>::Stream) -> Task;
}
