//! The server session against dialogues, smuggling attempts, arbitrary input and its own limits.

mod driver;
mod escape;
mod limits;
mod model;
mod properties;
mod smuggling;
mod transcripts;
