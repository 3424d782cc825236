//! The server session against dialogues, smuggling attempts, arbitrary input and its own limits.

mod limits;
mod properties;
mod smuggling;
mod transcripts;
