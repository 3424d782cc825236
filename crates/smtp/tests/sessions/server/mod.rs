//! The server session against dialogues, smuggling attempts, arbitrary input and its own limits.

mod lenient;
mod limits;
mod properties;
mod smuggling;
mod transcripts;
