//! Tables behind a server that is told one key at a time and gives one reply to each.

use super::connections::{Connections, Failure, in_turn};
use super::server::{Server, Wire, exchange};
use lookup::{Backend, Entry, Fetch, Trouble};
use std::ops::Range;
use std::time::Duration;

/// A protocol of questions and replies.
pub(super) trait Dialogue: Clone + 'static {
    /// The question for a key.
    ///
    /// # Errors
    /// There is none for this key.
    fn question(&self, key: &str) -> Result<Vec<u8>, Trouble>;

    /// The place of the reply's content; `None`: more of it is to come.
    ///
    /// # Errors
    /// It is no reply, or too long.
    fn content(bytes: &[u8]) -> Result<Option<Range<usize>>, Trouble>;

    /// What a reply says.
    ///
    /// # Errors
    /// That there is no answer.
    fn answer(reply: &[u8]) -> Result<Option<Entry>, Trouble>;
}

/// Which server is asked in this protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked<D> {
    pub(super) server: Server,
    pub(super) connect_timeout: Duration,
    pub(super) dialogue: D,
}

impl<D: Dialogue> Asked<D> {
    /// A driver, for the thread that asks it.
    pub(super) fn backend(&self) -> Box<dyn Backend> {
        Box::new(Driver { asked: self.clone(), connections: Connections::new() })
    }
}

struct Driver<D> {
    asked: Asked<D>,
    connections: Connections<Box<dyn Wire>>,
}

impl<D: Dialogue> Backend for Driver<D> {
    fn fetch<'a>(&'a self, keys: &'a [Box<str>]) -> Fetch<'a> {
        Box::pin(in_turn(keys, async |key| self.find(key).await))
    }

    fn server(&self) -> Option<String> {
        self.connections.is_answering().then(|| self.asked.server.to_string())
    }
}

impl<D: Dialogue> Driver<D> {
    async fn find(&self, key: &str) -> Result<Option<Entry>, Trouble> {
        let Asked { server, connect_timeout, dialogue } = &self.asked;
        let question = dialogue.question(key)?;
        let open = async || server.connect(*connect_timeout).await;
        let ask = async |wire: &mut Box<dyn Wire>| {
            let reply = exchange(wire, &question, D::content).await;
            let reply = reply.map_err(|failure| failure.of(server))?;
            D::answer(&reply).map_err(|trouble| Failure::Answered(trouble).of(server))
        };
        self.connections.ask(open, ask).await
    }
}
