//! Drivers for tests and fuzz targets: they do with a session what a real one does, and check what
//! must hold of any session whoever the peer is. They panic where it does not.

pub mod client;
pub mod content;
pub mod escape;
pub mod model;
pub mod script;
pub mod server;
pub mod transcript;

mod recipients;
mod stream;
