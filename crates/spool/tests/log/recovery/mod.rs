//! Starts after a start that failed, on disks that fail, are full, or hold what they should not.

mod copies;
mod foreign;
mod full;
mod golden;
mod order;
mod passing;
mod unreadable;
