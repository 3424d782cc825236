//! Proof that the relay keeps its promises: a simulated world, kills amid traffic, and its limits.

pub mod crash;
pub mod limits;
mod relay;
pub mod sim;
