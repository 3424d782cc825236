//! The message's way: ingress accepts, the spool makes durable, the queue schedules, egress
//! delivers, a report tells the sender. Plain async code over the seams of this floor.

pub mod acceptor;
mod alarm;
pub mod budget;
pub mod clients;
pub mod config;
pub mod console;
pub mod control;
mod egress;
pub mod event;
mod gathering;
mod ingress;
mod known_hops;
pub mod lack;
pub mod line;
mod lookup;
mod message;
pub mod metrics;
pub mod name_servers;
mod operator;
mod outcome;
mod recovery;
mod report;
mod route;
pub mod seams;
mod settle;
pub mod shard;
pub mod spool_client;
pub mod suspension;
mod unreported;
mod verdict;
