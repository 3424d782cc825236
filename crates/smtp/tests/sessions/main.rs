//! Sessions of both sides: dialogues, properties, and what either side may not be talked into.

mod client_delivery;
mod client_dot_stuffer;
mod client_properties;
mod client_transcripts;
mod server;
