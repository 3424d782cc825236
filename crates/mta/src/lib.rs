//! The message's way: ingress accepts, the spool makes durable, the queue schedules, egress
//! delivers, a report tells the sender. Plain async code over the seams of this floor.

pub mod console;
pub mod control;
pub mod event;
pub mod metrics;
