//! Kept connections to a server that answers one request after the other on each.

pub(super) use crate::secret_place::aside;
use crate::secret_place::first_line_aside;
use lookup::{Answers, Entry, LookupError, LookupErrorKind};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Maximum age of a connection: the server's name or socket file may lead to a different server by now.
const AGE_MAX: Duration = Duration::from_secs(600);

/// Maximum idle time of a connection. A firewall between may have forgotten an older one, and a request on it would run
/// into its timeout.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Idle connections to one server. A request owns its connection until the answer arrives. An abandoned request closes
/// its connection, so no answer can reach a different request.
pub(super) struct Connections<C> {
    idle: RefCell<Vec<IdleConnection<C>>>,
    is_answering: Cell<bool>,
}

struct IdleConnection<C> {
    connection: C,
    opened: Instant,
    /// Start of its idle time.
    since: Instant,
}

/// The error of a request, with the effect on its connection.
#[derive(Debug)]
pub(super) enum RequestError {
    /// The server answered; the connection is as good as before.
    Answered(LookupError),
    /// The connection was closed before anything of an answer came: it may have been so before the
    /// request.
    Gone(LookupError),
    /// The connection is unusable.
    Broken(LookupError),
}

impl RequestError {
    /// The error itself.
    pub(super) fn into_trouble(self) -> LookupError {
        let (RequestError::Answered(trouble)
        | RequestError::Gone(trouble)
        | RequestError::Broken(trouble)) = self;
        trouble
    }

    /// Adds the server's name to the error.
    pub(super) fn of(self, server: &dyn fmt::Display) -> RequestError {
        match self {
            RequestError::Answered(trouble) => RequestError::Answered(trouble.of(server)),
            RequestError::Gone(trouble) => RequestError::Gone(trouble.of(server)),
            RequestError::Broken(trouble) => RequestError::Broken(trouble.of(server)),
        }
    }
}

impl<C> Connections<C> {
    pub(super) fn new() -> Connections<C> {
        Connections { idle: RefCell::default(), is_answering: Cell::new(false) }
    }

    /// Sends a request over an idle connection, or over a new one if that is closed.
    pub(super) async fn ask<A>(
        &self,
        open: impl AsyncFn() -> Result<C, LookupError>,
        question: impl AsyncFn(&mut C) -> Result<A, RequestError>,
    ) -> Result<A, LookupError> {
        loop {
            let now = Instant::now();
            let kept = self.take(now);
            let is_kept = kept.is_some();
            let (mut connection, opened) = match kept {
                Some(kept) => (kept.connection, kept.opened),
                None => (open().await.inspect_err(|_| self.is_answering.set(false))?, now),
            };
            let answer = match question(&mut connection).await {
                Ok(answer) => Ok(answer),
                Err(RequestError::Answered(trouble)) => Err(trouble),
                Err(RequestError::Gone(_)) if is_kept => continue,
                Err(RequestError::Gone(trouble) | RequestError::Broken(trouble)) => {
                    // Too much of an answer is one.
                    self.is_answering.set(trouble.kind == LookupErrorKind::Key);
                    return Err(trouble);
                }
            };
            self.keep(connection, opened, Instant::now());
            return answer;
        }
    }

    /// Returns true if the last request was answered.
    pub(super) fn is_answering(&self) -> bool {
        self.is_answering.get()
    }

    /// The most recently used connection. Too old ones are closed.
    fn take(&self, now: Instant) -> Option<IdleConnection<C>> {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|kept| {
            now.saturating_duration_since(kept.since) <= IDLE_MAX
                && now.saturating_duration_since(kept.opened) <= AGE_MAX
        });
        idle.pop()
    }

    fn keep(&self, connection: C, opened: Instant, since: Instant) {
        self.is_answering.set(true);
        self.idle.borrow_mut().push(IdleConnection { connection, opened, since });
    }
}

/// The answers of a server that takes one key at a time.
pub(super) async fn in_turn(
    keys: &[Box<str>],
    find: impl AsyncFn(&str) -> Result<Option<Entry>, LookupError>,
) -> Answers {
    let mut answers = Vec::with_capacity(keys.len());
    for key in keys {
        answers.push(find(key).await);
    }
    answers
}

/// No password is longer.
const PASSWORD_BYTES_MAX: usize = 1_024;

/// Reads the password at a place: its first line. It is read for each new connection, so that a new password needs no
/// reload. It is read on a separate thread, because the file may hang, and all tables share this thread.
///
/// # Errors
/// Returns the reason and the place if there is no password.
pub(super) async fn read(written: &Path) -> Result<Zeroizing<String>, String> {
    first_line_aside("password_file", written, PASSWORD_BYTES_MAX).await
}

#[cfg(test)]
mod tests {
    use super::super::testing::run;
    use super::*;

    fn trouble(text: &str) -> LookupError {
        LookupError::new(LookupErrorKind::Wrong, text)
    }

    #[test]
    fn a_connection_is_kept_for_a_minute_and_used_for_ten() {
        let connections = Connections::new();
        let take = |now| connections.take(now).map(|kept| kept.connection);
        let start = Instant::now();
        connections.keep("old", start, start);
        connections.keep("new", start, start + Duration::from_secs(1));
        let edge = start + IDLE_MAX;
        assert_eq!(take(edge), Some("new"));
        assert_eq!(take(edge), Some("old"));
        connections.keep("old", start, start);
        assert_eq!(take(edge + Duration::from_nanos(1)), None);
        let edge = start + AGE_MAX;
        connections.keep("busy", start, edge);
        assert_eq!(take(edge), Some("busy"));
        connections.keep("busy", start, edge);
        assert_eq!(take(edge + Duration::from_nanos(1)), None);
    }

    #[test]
    fn kept_connections_that_are_gone_are_replaced_and_new_ones_tell() {
        run(async {
            let connections = Connections::new();
            let now = Instant::now();
            for number in 0..3 {
                connections.keep(number, now, now);
            }
            let opened = Cell::new(3);
            let open = async || Ok(opened.replace(opened.get() + 1));
            let question = async |number: &mut i32| match *number {
                0..3 => Err(RequestError::Gone(trouble("closed"))),
                number => Ok(number),
            };
            assert_eq!(connections.ask(open, question).await, Ok(3));
            assert!(connections.is_answering());
            let gone = async |_: &mut i32| Err::<i32, _>(RequestError::Gone(trouble("closed")));
            assert_eq!(connections.ask(open, gone).await, Err(trouble("closed")));
            assert_eq!(opened.get(), 5, "one new connection for a request, not more");
            assert!(!connections.is_answering());
        });
    }

    #[test]
    fn a_connection_outlives_an_answer_that_is_trouble_and_no_other() {
        run(async {
            let connections = Connections::new();
            let opened = Cell::new(0);
            let open = async || Ok(opened.replace(opened.get() + 1));
            let answered = async |_: &mut i32| Err::<(), _>(RequestError::Answered(trouble("no")));
            let broken = async |_: &mut i32| Err::<(), _>(RequestError::Broken(trouble("half")));
            for _ in 0..3 {
                assert_eq!(connections.ask(open, answered).await, Err(trouble("no")));
            }
            assert_eq!(opened.get(), 1);
            assert_eq!(connections.ask(open, broken).await, Err(trouble("half")));
            assert_eq!(connections.ask(open, answered).await, Err(trouble("no")));
            assert_eq!(opened.get(), 2);
        });
    }
}
