//! Proof that the relay keeps its promises: kills amid traffic, and its limits. The simulated world is crate `simulator`.

pub mod crash;
pub mod limits;
mod relay;
