//! What is refused and where it shows, what is decided, and what the examples mean.

mod bad;
mod good;
