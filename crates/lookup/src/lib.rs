//! Lookup tables, from keys to values.
//!
//! A table is kept in this process ([`Table`]: answers at once) or on a server ([`Backend`]: answers later, or not at
//! all). Nothing here opens a file or a socket or reads a clock: bytes and time are arguments.

mod breaker;
mod cache;
mod cidr;
pub mod database;
mod desk;
mod doubt;
mod entry;
mod lines;
mod mistake;
mod pattern;
mod rules;
mod spelling;
pub mod table;
mod template;
mod text;
pub mod turns;

pub use breaker::{FAILURES_MAX, PAUSE_FIRST, PAUSE_MAX};
pub use cache::{Cache, CacheCounts, Cached, Lifetimes};
pub use cidr::CidrTable;
pub use desk::{Answered, Coalescer, DeskLimits, LookupRequest, RequestId, Ticket};
pub use doubt::{Doubt, Judgement};
pub use entry::{Entry, Field};
pub use lines::{Line, Lines, is_space};
pub use mistake::{MISTAKES_MAX, TableFileError};
pub use pattern::{PATTERN_BYTES_MAX, PATTERNS_MAX, PatternSyntax, PatternTable};
pub use rules::RULES_BYTES_MAX;
pub use spelling::{fold, plainest, prepared};
pub use table::{
    Answers, Backend, EntryText, Fetch, Flaw, Judge, LookupError, LookupErrorKind, Table,
};
pub use text::{TEXT_BYTES_MAX, TextTable, pair};
pub use turns::Requester;
