//! Disks without room, and what each request is told on them.

mod attempts;
mod blobs;
mod full;
mod log;
mod passing;
mod reads;
mod written;
