//! The catalogue of bad input, played against the real program.
//!
//! The tables in `rows` are the one place where it stands: each row says what is sent or done and
//! what must come of it, and `target/docs/bad-input.md` is rendered from them. After every row the proofs
//! of [`bench`] hold: a session that was open beside it all the time finishes, its message arrives
//! once, and nothing else arrives but what the row names.
//!
//! With the environment variable `BAD_INPUT=write` what the program answers is written into the
//! tables, for review; `BAD_INPUT=ID` plays one row alone.

mod admin;
mod arrivals;
mod bench;
mod call_ahead;
mod checks;
mod config;
mod copies;
mod dialogue;
mod directory;
mod entries;
mod login;
mod login_servers;
mod milters;
mod page;
mod spool;
mod table;
mod wire;
