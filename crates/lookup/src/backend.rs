//! Tables that are asked for elsewhere.

use super::{Entry, Trouble};
use std::future::Future;
use std::pin::Pin;

/// One answer for each key, in their order; `None`: the table does not have it.
pub type Answers = Vec<Result<Option<Entry>, Trouble>>;

/// A request that is under way.
pub type Fetch<'a> = Pin<Box<dyn Future<Output = Answers> + 'a>>;

/// A driver of a server that has a table. It keeps its own connections and has timeouts of its own
/// for opening them; how many requests are under way at once, which keys they have and how long they
/// may take is decided by whoever calls it.
pub trait Backend: 'static {
    /// How many keys one request may have.
    fn batch_max(&self) -> usize {
        1
    }

    /// Asks for keys, at most [`Backend::batch_max`], each once. Dropping the request gives it up.
    fn fetch<'a>(&'a self, keys: &'a [Box<str>]) -> Fetch<'a>;

    /// The server that answers now, for people; `None`: none does.
    fn server(&self) -> Option<String> {
        None
    }
}
