//! The way of entries through one shard, step by step.

mod allowance;
mod deadlines;
mod expiry;
mod locating;
mod next_hop;
mod one;
mod operator;
mod tenant;
mod turn;
