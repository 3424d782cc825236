//! A connection: two bounded pipes with what is under way in them.

use crate::executor::TaskGroup;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::task::Waker;

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client = 0,
    Server = 1,
}

impl Side {
    pub(super) fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    pub(super) arrived: VecDeque<u8>,
    pub(super) flying_bytes: usize,
    /// When the last piece arrives: none overtakes it.
    pub(super) last_at_us: u64,
    pub(super) written_bytes: u64,
    pub(super) read_bytes: u64,
    /// How far each write went, and when it was.
    pub(super) writes: Vec<(u64, u64)>,
    pub(super) reads: Vec<StreamRead>,
    /// The writer's close has arrived.
    pub(super) ended: bool,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamRead {
    /// How far it went.
    pub(super) end: u64,
    pub(super) at_us: u64,
    /// How much the reader had written itself by then: what it does in one moment has an order, too.
    pub(super) written_bytes: u64,
}

/// How ragged what is read comes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pieces {
    Whole,
    Ragged,
    /// Byte by byte for the first so many.
    Bytes(u64),
}

/// The last transaction of a connection, as its host saw it.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// When it began.
    pub(super) begun_us: u64,
    /// Of the last recipient.
    pub(super) domain: String,
    /// When the content was answered.
    pub(super) over_us: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Connection {
    /// Whose the ends are.
    pub(super) owners: [TaskGroup; 2],
    /// The client's address.
    pub(super) from: IpAddr,
    pub(super) to: SocketAddr,
    pub(super) carried: Carried,
    pub(super) open: [bool; 2],
    /// These write nothing any more, and read on.
    pub(super) shut: [bool; 2],
    /// By who writes.
    pub(super) pipes: [Pipe; 2],
    pub(super) reset: bool,
    /// Reset once so many bytes were written in both directions.
    pub(super) reset_after: Option<u64>,
    pub(super) latency_us: u64,
    pub(super) pieces: Pieces,
    /// Nothing goes wrong with it.
    pub(super) is_well: bool,
}

impl Connection {
    pub(super) fn is_open_at_client(&self) -> bool {
        self.open[Side::Client as usize]
    }

    /// For when it breaks.
    pub(super) fn wake_all(&mut self) {
        for pipe in &mut self.pipes {
            for waker in [pipe.reader.take(), pipe.writer.take()].into_iter().flatten() {
                waker.wake();
            }
        }
    }
}
