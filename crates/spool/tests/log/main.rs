//! The log: what is written comes back, whatever the disk does and however full it is.

mod codec;
mod cost;
mod model;
mod recovery;
mod setup;
mod space;
