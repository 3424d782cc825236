//! The queue of one shard and of several, in a world of their own.

mod cost;
mod flow;
mod leases;
mod stall;
mod world;
